//! The programs by name.

use fabriscope_apps::App;
use fabriscope_catalog::Interface;
use fabriscope_krylov as krylov;
use fabriscope_nvme as nvme;
use fabriscope_platform::Target;
use fabriscope_rpc as rpc;
use fabriscope_spark as spark;
use fabriscope_tool::arguments::Opt;
use fabriscope_tool::{Prepared, Traits, UsageError};
use fabriscope_units::Bytes;

use crate::collective;
use crate::compress;
use crate::experts;
use crate::gpu;
use crate::hccl;
use crate::memory;
use crate::nccl_tests;
use crate::omb;
use crate::perftest;
use crate::scattered;
use crate::shmem;
use crate::sockets;
use crate::wafer;
use crate::xccl;

/// A program that can be run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// One of perftest.
    Perftest(perftest::Test),
    /// One of the OSU Micro-Benchmarks.
    Omb(&'static omb::Benchmark),
    /// One of OpenSHMEM.
    Shmem(&'static shmem::Benchmark),
    /// One of a collective operation.
    Collective(collective::Benchmark),
    /// One of nccl-tests.
    NcclTests(nccl_tests::Operation),
    /// One of the OSU Micro-Benchmarks over NCCL.
    Xccl(&'static xccl::Benchmark),
    /// A program on sockets.
    Sockets(sockets::SocketTool),
    /// A program on GPUs.
    Gpu(gpu::GpuTool),
    /// Round trips of MPI with partners that change.
    Scattered,
    /// Iterations of a Krylov solver.
    Krylov,
    /// Reads and writes of NVMe drives.
    Nvme,
    /// An application.
    App(App),
    /// Calls of procedures on other nodes.
    Rpc,
    /// A shuffle of Spark.
    SparkShuffle,
    /// An exchange of tokens among experts.
    Experts(experts::ExpertTool),
    /// `hccl_demo`.
    Hccl,
    /// An operation on a wafer.
    Wafer(wafer::WaferTool),
    /// A program on the memories of a node.
    Memory(memory::MemoryTool),
    /// `dpdk-test-compress-perf`.
    Compress,
}

impl Tool {
    /// Every tool, in the order of a list for people.
    pub fn all() -> impl Iterator<Item = Tool> {
        perftest::TESTS
            .into_iter()
            .map(Tool::Perftest)
            .chain(omb::BENCHMARKS.iter().map(Tool::Omb))
            .chain(shmem::BENCHMARKS.iter().map(Tool::Shmem))
            .chain(collective::Benchmark::all().map(Tool::Collective))
            .chain(nccl_tests::TOOLS.into_iter().map(Tool::NcclTests))
            .chain([Tool::Scattered])
            .chain(xccl::BENCHMARKS.iter().map(Tool::Xccl))
            .chain(sockets::TOOLS.into_iter().map(Tool::Sockets))
            .chain(gpu::TOOLS.into_iter().map(Tool::Gpu))
            .chain([Tool::Krylov, Tool::Nvme, Tool::Rpc, Tool::SparkShuffle])
            .chain(App::ALL.iter().copied().map(Tool::App))
            .chain(experts::TOOLS.into_iter().map(Tool::Experts))
            .chain([Tool::Hccl])
            .chain(wafer::TOOLS.into_iter().map(Tool::Wafer))
            .chain(memory::TOOLS.into_iter().map(Tool::Memory))
            .chain([Tool::Compress])
    }
    /// The tool of this name.
    ///
    /// # Errors
    /// There is none; the error names the nearest.
    pub fn by_name(name: &str) -> Result<Tool, UsageError> {
        if let Some(tool) = Tool::all().find(|tool| tool.name() == name) {
            return Ok(tool);
        }
        let score = |tool: &Tool| strsim::jaro_winkler(tool.name(), name);
        let nearest = Tool::all().max_by(|a, b| score(a).total_cmp(&score(b))).map_or("ib_write_lat", |tool| tool.name());
        Err(UsageError::UnknownTool { name: name.to_owned(), nearest })
    }
    /// The name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Tool::Perftest(test) => test.name(),
            Tool::Omb(benchmark) => benchmark.name,
            Tool::Shmem(benchmark) => benchmark.name,
            Tool::Collective(benchmark) => benchmark.name(),
            Tool::NcclTests(operation) => operation.tool(),
            Tool::Xccl(benchmark) => benchmark.name,
            Tool::Sockets(tool) => tool.name(),
            Tool::Gpu(tool) => tool.name(),
            Tool::Scattered => scattered::NAME,
            Tool::Krylov => krylov::NAME,
            Tool::Nvme => nvme::NAME,
            Tool::Rpc => rpc::NAME,
            Tool::SparkShuffle => spark::NAME,
            Tool::App(app) => app.name(),
            Tool::Experts(tool) => tool.name(),
            Tool::Hccl => hccl::NAME,
            Tool::Wafer(tool) => tool.name(),
            Tool::Memory(tool) => tool.name(),
            Tool::Compress => compress::NAME,
        }
    }
    /// One line of help.
    #[must_use]
    pub fn about(self) -> &'static str {
        match self {
            Tool::Perftest(test) => test.about(),
            Tool::Omb(benchmark) => benchmark.about,
            Tool::Shmem(benchmark) => benchmark.about,
            Tool::Collective(benchmark) => benchmark.about(),
            Tool::NcclTests(operation) => operation.about(),
            Tool::Xccl(benchmark) => benchmark.about,
            Tool::Sockets(tool) => tool.about(),
            Tool::Gpu(tool) => tool.about(),
            Tool::Scattered => scattered::ABOUT,
            Tool::Krylov => krylov::ABOUT,
            Tool::Nvme => nvme::ABOUT,
            Tool::Rpc => rpc::ABOUT,
            Tool::SparkShuffle => spark::ABOUT,
            Tool::App(app) => app.about(),
            Tool::Experts(tool) => tool.about(),
            Tool::Hccl => hccl::ABOUT,
            Tool::Wafer(tool) => tool.about(),
            Tool::Memory(tool) => tool.about(),
            Tool::Compress => compress::ABOUT,
        }
    }
    /// What the program is and does.
    #[must_use]
    pub fn traits(self) -> Traits {
        match self {
            Tool::Perftest(test) => test.traits(),
            Tool::Omb(benchmark) => benchmark.traits(),
            Tool::Shmem(benchmark) => benchmark.traits(),
            Tool::Collective(benchmark) => benchmark.traits(),
            Tool::NcclTests(operation) => operation.traits(),
            Tool::Xccl(benchmark) => benchmark.traits(),
            Tool::Sockets(tool) => tool.traits(),
            Tool::Gpu(tool) => tool.traits(),
            Tool::Scattered => scattered::traits(),
            Tool::Krylov => krylov::traits(),
            Tool::Nvme => nvme::traits(),
            Tool::Rpc => rpc::traits(),
            Tool::SparkShuffle => spark::traits(),
            Tool::App(app) => app.traits(),
            Tool::Experts(tool) => tool.traits(),
            Tool::Hccl => hccl::traits(),
            Tool::Wafer(tool) => tool.traits(),
            Tool::Memory(tool) => tool.traits(),
            Tool::Compress => compress::traits(),
        }
    }
    /// The options of its own command line, where it has a table of them: all but `IMB-MPI1`, whose words are not those of others.
    #[must_use]
    pub fn options(self) -> &'static [Opt] {
        match self {
            Tool::Perftest(_) => perftest::OPTIONS,
            Tool::Omb(_) => omb::OPTIONS,
            Tool::Shmem(_) => shmem::OPTIONS,
            Tool::Collective(benchmark) => benchmark.options(),
            Tool::NcclTests(_) => nccl_tests::OPTIONS,
            Tool::Xccl(_) => xccl::OPTIONS,
            Tool::Sockets(tool) => tool.options(),
            Tool::Gpu(tool) => tool.options(),
            Tool::Scattered => scattered::OPTIONS,
            Tool::Krylov => krylov::OPTIONS,
            Tool::Nvme => nvme::OPTIONS,
            Tool::Rpc => rpc::OPTIONS,
            Tool::SparkShuffle => spark::OPTIONS,
            Tool::App(app) => app.options(),
            Tool::Experts(tool) => tool.options(),
            Tool::Hccl => hccl::OPTIONS,
            Tool::Wafer(_) => wafer::OPTIONS,
            Tool::Memory(tool) => tool.options(),
            Tool::Compress => compress::OPTIONS,
        }
    }
    /// Whether a `--` among its options is its own: what follows is for one of its tests.
    #[must_use]
    pub fn splits_options(self) -> bool {
        matches!(self, Tool::Sockets(sockets::SocketTool::Netperf))
    }
    /// Whether its command line names files that it reads.
    #[must_use]
    pub fn reads_files(self) -> bool {
        matches!(self, Tool::Compress)
    }
    /// GPUs of a node that the command line asks for, where it does: those of a process of nccl-tests, of which a node has one then.
    #[must_use]
    pub fn gpus_of_process(self, args: &[String]) -> Option<u32> {
        match self {
            Tool::NcclTests(operation) => nccl_tests::gpus_of_process(operation, args),
            _ => None,
        }
    }
    /// What its job takes of memory where every packet is simulated, about; nothing where that is little.
    #[must_use]
    pub fn memory(self, args: &[String], target: &Target) -> Option<Bytes> {
        match self {
            Tool::Collective(benchmark) => collective::memory(benchmark, args, target),
            _ => None,
        }
    }
    /// Reads the tool's own command line and makes its programs for a machine like `target`.
    ///
    /// # Errors
    /// What is wrong with the command line, and what to type instead; [`UsageError::Help`] when `--help` was asked for.
    pub fn prepare(self, args: &[String], target: &Target) -> Result<Prepared, UsageError> {
        match self {
            Tool::Perftest(test) if !matches!(target.interface, Interface::Verbs | Interface::Iwarp | Interface::Efa) => {
                let what = format!(
                    "{} needs connected queue pairs of verbs; the adapters here are driven through {}",
                    test.name(),
                    target.interface
                );
                Err(UsageError::Conflict { what, remedy: "run one of the OSU benchmarks".to_owned() })
            }
            Tool::Perftest(test) => perftest::prepare(test, args, target),
            Tool::Omb(benchmark) => omb::prepare(benchmark, args, target),
            Tool::Shmem(benchmark) => shmem::prepare(benchmark, args, target),
            Tool::Collective(benchmark) => collective::prepare(benchmark, args, target),
            Tool::NcclTests(operation) => nccl_tests::prepare(operation, args, target),
            Tool::Xccl(benchmark) => xccl::prepare(benchmark, args, target),
            Tool::Sockets(tool) => tool.prepare(args, target),
            Tool::Gpu(tool) => tool.prepare(args, target),
            Tool::Scattered => scattered::prepare(args, target),
            Tool::Krylov => krylov::prepare(args, target),
            Tool::Nvme => nvme::prepare(args, target),
            Tool::Rpc => rpc::prepare(args, target),
            Tool::SparkShuffle => spark::prepare(args, target),
            Tool::App(app) => app.prepare(args, target),
            Tool::Experts(tool) => tool.prepare(args, target),
            Tool::Hccl => hccl::prepare(args, target),
            Tool::Wafer(tool) => tool.prepare(args, target),
            Tool::Memory(tool) => tool.prepare(args, target),
            Tool::Compress => compress::prepare(args, target),
        }
    }
}

#[cfg(test)]
mod tests {
    use fabriscope_units::Remedy;

    use super::*;

    #[test]
    fn tools_are_found_by_name() {
        for tool in Tool::all() {
            assert_eq!(Tool::by_name(tool.name()), Ok(tool));
            assert!(!tool.about().is_empty());
        }
        let message = Tool::by_name("ib_write_latency").unwrap_err().in_full();
        assert!(message.contains("`ib_write_lat`"), "{message}");
    }
}
