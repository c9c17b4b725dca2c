//! The programs by name.

use fabriscope_catalog::Interface;
use fabriscope_node::Main;

use crate::collective;
use crate::error::UsageError;
use crate::gpu;
use crate::krylov;
use crate::nccl_tests;
use crate::omb;
use crate::output::ToolOutput;
use crate::perftest;
use crate::shmem;
use crate::sockets;
use crate::target::Target;
use crate::xccl;

/// Makes the output after the run.
pub type Finish = Box<dyn FnOnce() -> ToolOutput>;

/// Where the ranks of a job belong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placing {
    /// Rank 0 on one node, rank 1 on another.
    TwoNodes,
    /// Ranks `0..pairs` on one node, rank `i + pairs` facing rank `i` on another, one core each.
    Pairs {
        /// Number of pairs.
        pairs: u32,
    },
    /// Ranks fill the nodes of the job one after the other.
    Blocks {
        /// Ranks on each node.
        per_node: u32,
    },
}

impl Placing {
    /// Which node of the job holds `rank`, and which of its cores.
    #[must_use]
    pub fn seat(self, rank: u32) -> (u32, u32) {
        let each = match self {
            Placing::TwoNodes => 1,
            Placing::Pairs { pairs: each } | Placing::Blocks { per_node: each } => each.max(1),
        };
        (rank / each, rank % each)
    }
}

/// A job that is ready to be simulated: run `mains` (one per rank) once, then call `finish`.
pub struct Prepared {
    /// Where the ranks belong.
    pub placing: Placing,
    /// One program per rank; all message sizes of the command line run in it, one after the other.
    pub mains: Vec<Main>,
    /// The tool's output, once every program has ended.
    pub finish: Finish,
}

impl std::fmt::Debug for Prepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prepared").field("placing", &self.placing).field("ranks", &self.mains.len()).finish_non_exhaustive()
    }
}

/// A program that can be run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// One of perftest.
    Perftest(perftest::Test),
    /// One of the OSU Micro-Benchmarks.
    Omb(omb::Benchmark),
    /// One of OpenSHMEM.
    Shmem(shmem::Benchmark),
    /// One of a collective operation.
    Collective(collective::Benchmark),
    /// One of nccl-tests.
    NcclTests(nccl_tests::Operation),
    /// One of the OSU Micro-Benchmarks over NCCL.
    Xccl(xccl::Benchmark),
    /// A program on sockets.
    Sockets(sockets::SocketTool),
    /// A program on GPUs.
    Gpu(gpu::GpuTool),
    /// Iterations of a Krylov solver.
    Krylov,
}

impl Tool {
    /// Every tool, in the order of a list for people.
    pub fn all() -> impl Iterator<Item = Tool> {
        perftest::TESTS
            .into_iter()
            .map(Tool::Perftest)
            .chain(omb::BENCHMARKS.into_iter().map(Tool::Omb))
            .chain(shmem::BENCHMARKS.into_iter().map(Tool::Shmem))
            .chain(collective::BENCHMARKS.into_iter().map(Tool::Collective))
            .chain(nccl_tests::TOOLS.into_iter().map(Tool::NcclTests))
            .chain(xccl::BENCHMARKS.into_iter().map(Tool::Xccl))
            .chain(sockets::TOOLS.into_iter().map(Tool::Sockets))
            .chain(gpu::TOOLS.into_iter().map(Tool::Gpu))
            .chain([Tool::Krylov])
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
            Tool::Omb(benchmark) => benchmark.name(),
            Tool::Shmem(benchmark) => benchmark.name(),
            Tool::Collective(benchmark) => benchmark.name(),
            Tool::NcclTests(operation) => operation.tool(),
            Tool::Xccl(benchmark) => benchmark.name(),
            Tool::Sockets(tool) => tool.name(),
            Tool::Gpu(tool) => tool.name(),
            Tool::Krylov => krylov::NAME,
        }
    }
    /// One line of help.
    #[must_use]
    pub fn about(self) -> &'static str {
        match self {
            Tool::Perftest(test) => test.about(),
            Tool::Omb(benchmark) => benchmark.about(),
            Tool::Shmem(benchmark) => benchmark.about(),
            Tool::Collective(benchmark) => benchmark.about(),
            Tool::NcclTests(operation) => operation.about(),
            Tool::Xccl(benchmark) => benchmark.about(),
            Tool::Sockets(tool) => tool.about(),
            Tool::Gpu(tool) => tool.about(),
            Tool::Krylov => krylov::ABOUT,
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
            Tool::Krylov => krylov::prepare(args, target),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_are_found_by_name() {
        for tool in Tool::all() {
            assert_eq!(Tool::by_name(tool.name()), Ok(tool));
            assert!(!tool.about().is_empty());
        }
        assert_eq!(Tool::all().count(), 89);
        let message = Tool::by_name("ib_write_latency").unwrap_err().to_string();
        assert!(message.contains("`ib_write_lat`"), "{message}");
    }

    #[test]
    fn pairs_face_each_other() {
        assert_eq!([0, 1].map(|rank| Placing::TwoNodes.seat(rank)), [(0, 0), (1, 0)]);
        assert_eq!([0, 3, 4, 7].map(|rank| Placing::Pairs { pairs: 4 }.seat(rank)), [(0, 0), (0, 3), (1, 0), (1, 3)]);
        assert_eq!([0, 3, 8, 11].map(|rank| Placing::Blocks { per_node: 4 }.seat(rank)), [(0, 0), (0, 3), (2, 0), (2, 3)]);
    }
}
