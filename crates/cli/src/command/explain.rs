//! `fabriscope explain`: where the time of one message or of a whole operation goes, the bottleneck, and what a change would save.

use fabriscope_tools::amount;

use crate::context::Context;
use crate::devices::DeviceArgs;
use crate::error::{Failure, Verdict};
use crate::output::{Output, OutputArgs};
use crate::progress::Progress;
use crate::storage::{self, Mounted};

/// Shows where the time of one message, or of a whole operation, goes.
///
/// The stages are those on the path of the message and add up exactly. Then follow the bottleneck, and what one change
/// would save: each is a run of its own with everything else as it was. Collective operations and programs on sockets
/// are run as a whole with one thing twice as fast, and by other algorithms.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true, disable_help_subcommand = true)]
pub struct Args {
    #[command(subcommand)]
    job: Option<Job>,
    /// The tool
    #[arg(required = true)]
    tool: Option<String>,
    /// Cluster to run on: a name of `fabriscope clusters` or a TOML file; `:N` takes N nodes of it
    #[arg(long, value_name = "CLUSTER", required = true)]
    on: Option<String>,
    /// Message size in bytes, or as 64K or 64KiB (default: 8; of collective operations, some sizes)
    #[arg(short, long, value_name = "BYTES", value_parser = size)]
    size: Option<u64>,
    /// Nodes of the job (default: 2; of nccl-tests 1); ranks of an OSU benchmark between two are on one node or on two
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    nodes: Option<u32>,
    /// Ranks on each node, of collective operations of MPI and applications (default: one on each core)
    #[arg(long, value_name = "RANKS", value_parser = clap::value_parser!(u32).range(1..))]
    ppn: Option<u32>,
    /// The file system, of ior (default: the first that the cluster mounts)
    #[arg(long, value_name = "FILE-SYSTEM")]
    fs: Option<String>,
    #[command(flatten)]
    devices: DeviceArgs,
    /// The MPI library to set an application beside: `library=cray-mpich-ucx`
    #[arg(long, value_name = "LIBRARY")]
    against: Option<String>,
    /// What runs an application: `packet`, `flow`, or what `bench` would take (`auto`)
    #[arg(long, value_name = "ENGINE")]
    engine: Option<String>,
    /// Skip the what-if analysis
    #[arg(long)]
    no_changes: bool,
    #[command(flatten)]
    output: OutputArgs,
    /// The tool's own options, behind `--`
    #[arg(last = true, value_name = "OPTIONS")]
    options: Vec<String>,
}

/// What is no benchmark.
#[derive(Debug, clap::Subcommand)]
enum Job {
    /// What a step of training is made of, what binds it, and what single changes and other layouts would give
    ///
    /// The rows are those of the stage of the pipeline that ends last, and add up to the step: kernels with what tiles, waves and starts
    /// cost beside their rate, operations with their latency, what of them hides and what decides, waits for other stages. Each change is a
    /// run of its own with everything else as it was.
    Train(Box<TrainArgs>),
}

#[derive(Debug, clap::Args)]
#[command(after_help = TRAIN_EXAMPLES)]
struct TrainArgs {
    #[command(flatten)]
    job: super::train::JobArgs,
    /// Set the best layouts of as many GPUs beside it
    #[arg(long)]
    search: bool,
    /// Skip the what-if analysis
    #[arg(long)]
    no_changes: bool,
    #[command(flatten)]
    output: OutputArgs,
}

const TRAIN_EXAMPLES: &str = "\
Examples:
  fabriscope explain train --model llama3-8b --on azure-ndh100v5:2 --tp 4 --dp 4 --sequence-parallel --sharding optimizer
  fabriscope explain train --model llama3-8b --on azure-ndh100v5:1 --tp 8 --no-changes";

const EXAMPLES: &str = "\
Examples:
  fabriscope explain ib_write_lat --on ri2 -s 64
  fabriscope explain ib_write_lat --on ri2 -s 64 -- -I 0     options of the tool behind two dashes
  fabriscope explain osu_latency --on ri2 -s 65536           a rendezvous: several messages in a chain
  fabriscope explain ib_send_bw --on alaska-roce25 -s 4096   one message out of a full queue
  fabriscope explain osu_latency --on opa100-a40 -s 8 -- D D  buffers on GPUs: the ways inside the nodes as well
  fabriscope explain osu_bw --on olivia-gh200-ss11 --nodes 1 --bind 0,2 -s 4194304 -- D D
  fabriscope explain osu_allreduce --on betzy-hdr --nodes 4 --ppn 8   whole operations, run again with each change
  fabriscope explain iperf3 --on thor-roce-100g
  fabriscope explain all_reduce_perf --on azure-ndh100v5 --nodes 2    the bottleneck of each size, what other algorithms give
  fabriscope explain all_reduce_perf --on azure-ndh100v5 --nodes 2 -s 16MiB
  fabriscope explain hpcg --on betzy-hdr --nodes 4 --ppn 8   an application: by call and by cause
  fabriscope explain vasp --on archer2 --nodes 64 --against library=cray-mpich-ucx -- --ncore 16
  fabriscope explain ior --on lumi-c --fs lumi-p --nodes 64 -- -w -t 2m -b 1g    what binds, which striping is best
  fabriscope explain train --model llama3-8b --on azure-ndh100v5:1 --tp 8 --no-changes    a step of training";

/// A size in bytes as the tools take it: `65536`, `64K` or `64KiB`.
fn size(text: &str) -> Result<u64, String> {
    amount(text).ok_or_else(|| "write bytes as 65536, 64K (K, M, G: powers of 1024), 64KiB or 64kB".to_owned())
}

/// Runs the command.
pub fn run(args: &Args, context: &Context, output: &mut Output) -> Result<Verdict, Failure> {
    let progress = Progress::new("changing one thing at a time");
    if let Some(Job::Train(job)) = &args.job {
        let mut question = job.job.question().catalog(context.catalog()?).progress(|done, all| progress.at(done, all));
        if job.search {
            question = question.searched();
        }
        let outcome = question.explained(!job.no_changes).map_err(Failure::of)?;
        drop(progress);
        return job.output.write(&outcome, output);
    }
    // The parser asks for both where there is no job.
    let (tool, on) = (args.tool.clone().unwrap_or_default(), args.on.clone().unwrap_or_default());
    if let Some(tool) = fabriscope::StorageTool::by_name(&tool) {
        let mounted = Mounted { file_system: args.fs.as_deref(), nodes: args.nodes, per_node: args.ppn };
        let question = storage::question(tool, &on, (mounted, args.options.clone()), context)?;
        let outcome = question.explained().map_err(Failure::of)?;
        drop(progress);
        return args.output.write(&outcome, output);
    }
    let mut question = fabriscope::explain(&tool, &on)
        .catalog(context.catalog()?)
        .args(args.options.clone())
        .devices(args.devices.options())
        .seed(context.seed())
        .progress(|done, all| progress.at(done, all));
    if let Some(size) = args.size {
        question = question.size(size);
    }
    if let Some(nodes) = args.nodes {
        question = question.nodes(nodes);
    }
    if let Some(ranks) = args.ppn {
        question = question.ranks_per_node(ranks);
    }
    if let Some(library) = &args.against {
        question = question.against(library);
    }
    if let Some(engine) = &args.engine {
        question = question.engine(engine).map_err(Failure::of)?;
    }
    if args.no_changes {
        question = question.without_changes();
    }
    let outcome = question.outcome().map_err(Failure::of)?;
    drop(progress);
    args.output.write(&outcome, output)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_has_a_unit_or_is_in_bytes() {
        assert_eq!(["65536", "64KiB", "64K", "64k"].map(size), [const { Ok(65_536) }; 4]);
        // As everywhere: a unit that means two things is refused.
        assert!(size("64KB").is_err() && size("-1").is_err() && size("many").is_err());
    }
}
