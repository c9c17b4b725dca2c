//! `fabriscope train`: a step of training on a cluster.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use fabriscope::training::checkpoint::Checkpoint;
use fabriscope::training::stragglers::Unevenness;
use fabriscope::{Beside, ByMessages, Placement, StepFormat, Train};
use fabriscope_engine::Service;
use fabriscope_lab::{GradientExchange, Graphed, Order, Overlap, Recomputed, Scores, Shared, Strategy, TokenDispatcher, Training};
use fabriscope_report::Outcome;
use fabriscope_units::{Bytes, Rate};

use crate::context::Context;
use crate::error::{Failure, Verdict};
use crate::output::{Output, OutputArgs, write_with};
use crate::progress::Progress;
use crate::words::words;

/// Says what a step of training takes on a cluster, part by part, and what of it is the network.
///
/// The parts are those of one GPU of the stage that ends last, and add up to the step: multiplications, attention, kernels that stream
/// through memory, and communication as far as nothing hides it. Groups within a node are run by NCCL step by step, those between nodes
/// as fluids that share the fabric. `--search` ranks the layouts that fit the memory; `--jitter` and `--straggler` make ranks uneven, and
/// `--trace` writes what every stage does when.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    job: JobArgs,
    /// Rank the layouts of all GPUs of the cluster
    #[arg(long)]
    search: bool,
    /// Each pass of each rank computes longer by a random part, this share of its length at the mean
    #[arg(long, value_name = "SHARE")]
    jitter: Option<f64>,
    /// A rank that takes so many times as long: 5:1.2; may be repeated
    #[arg(long, value_name = "RANK:FACTOR", value_parser = straggler)]
    straggler: Vec<(u64, f64)>,
    /// Steps of uneven ranks (default: 100 with --jitter, else 1)
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    steps: Option<u32>,
    /// Write a checkpoint after so many steps
    #[arg(long, value_name = "STEPS", value_parser = clap::value_parser!(u32).range(1..))]
    checkpoint_every: Option<u32>,
    /// What a node writes of a checkpoint: "10 GB/s"
    #[arg(long, value_name = "RATE", value_parser = rate, requires = "checkpoint_every")]
    node_rate: Option<Rate>,
    /// What the storage takes of a checkpoint from all nodes: "500 GB/s"
    #[arg(long, value_name = "RATE", value_parser = rate, requires = "checkpoint_every")]
    storage_rate: Option<Rate>,
    /// Write what every stage does when: for Perfetto (.pftrace), or as Chrome's trace events (.json)
    #[arg(long, value_name = "FILE", conflicts_with = "search")]
    trace: Option<PathBuf>,
    /// Run the step message by message as well: by flows, or by packets and by flows
    #[arg(long, value_enum, conflicts_with = "search")]
    engine: Option<Runs>,
    /// Run so many such jobs beside each other, each on nodes of its own, and say what each loses
    #[arg(long, value_name = "JOBS", conflicts_with = "search")]
    jobs: Option<u32>,
    /// Which nodes the jobs get
    #[arg(long, value_parser = words::<Placement>(), default_value = "packed", requires = "jobs")]
    placement: Placement,
    /// What each adapter of the jobs writes to the nodes behind them meanwhile
    #[arg(long, value_name = "BYTES", requires = "jobs")]
    storage: Option<Bytes>,
    /// Write the step for another simulator, to a file, or to a folder with --format chakra
    #[arg(long, value_name = "PATH", conflicts_with_all = ["search", "engine", "jobs"])]
    write_trace: Option<PathBuf>,
    /// What is written
    #[arg(long, value_enum, default_value_t = As::Goal, requires = "write_trace")]
    format: As,
    #[command(flatten)]
    output: OutputArgs,
}

/// A job and how it is laid over its GPUs.
#[derive(Debug, clap::Args)]
pub struct JobArgs {
    /// The model: a name of `fabriscope parts --kind models`
    #[arg(long)]
    model: String,
    /// The cluster: a name, a TOML file, either with :NODES
    #[arg(long = "on", value_name = "CLUSTER")]
    cluster: String,
    /// GPUs that share the matrices of a layer
    #[arg(long, default_value_t = 1)]
    tp: u32,
    /// Stages of the pipeline
    #[arg(long, default_value_t = 1)]
    pp: u32,
    /// Copies of the model
    #[arg(long, default_value_t = 1)]
    dp: u32,
    /// GPUs that share a sequence
    #[arg(long, default_value_t = 1)]
    cp: u32,
    /// GPUs that share the experts of a layer
    #[arg(long, default_value_t = 1)]
    ep: u32,
    /// GPUs that share the matrices of an expert [default: those of --tp]
    #[arg(long, value_name = "GPUS")]
    etp: Option<u32>,
    /// How tokens get to their experts
    #[arg(long, value_parser = words::<TokenDispatcher>(), default_value = "alltoall")]
    token_dispatcher: TokenDispatcher,
    /// Parts of the model at each stage, interleaved
    #[arg(long, default_value_t = 1, value_name = "PARTS")]
    interleave: u32,
    /// Sequences of a step, of all copies [default: 4 micro-batches for each stage of each copy]
    #[arg(long, value_name = "SEQUENCES")]
    global_batch: Option<u32>,
    /// Sequences of a micro-batch
    #[arg(long, default_value_t = 1, value_name = "SEQUENCES")]
    micro_batch: u32,
    /// Tokens of a sequence [default: those of the model]
    #[arg(long, value_name = "TOKENS")]
    sequence: Option<u32>,
    /// Norms and dropout are shared by the tensor group, too
    #[arg(long)]
    sequence_parallel: bool,
    /// What is computed again in the backward pass
    #[arg(long, value_parser = words::<Recomputed>(), default_value = "none")]
    recompute: Recomputed,
    /// What copies share instead of having it each
    #[arg(long, value_parser = words::<Shared>(), default_value = "none")]
    sharding: Shared,
    /// Among how many ranks each, which others have copies of (default: all copies)
    #[arg(long, value_name = "RANKS")]
    shard: Option<u32>,
    /// Layers ahead of computing that shared parameters are gathered
    #[arg(long, default_value_t = 1, value_name = "LAYERS")]
    prefetch: u32,
    /// The order of micro-batches
    #[arg(long, value_parser = words::<Order>(), default_value = "1f1b")]
    schedule: Order,
    /// How attention is computed
    #[arg(long, value_parser = words::<Scores>(), default_value = "fused")]
    attention: Scores,
    /// Linear layers multiply in 8 bits
    #[arg(long)]
    fp8: bool,
    /// What the host launches as graphs, instead of kernel by kernel
    #[arg(long, value_parser = words::<Graphed>(), value_delimiter = ',', value_name = "MODULE,…")]
    cuda_graphs: Vec<Graphed>,
    /// Only low-rank adapters of so many dimensions beside the projections of attention are trained (LoRA)
    #[arg(long, value_name = "DIMENSIONS")]
    lora: Option<u32>,
    /// Gradients are summed in 16 bits
    #[arg(long)]
    narrow_gradients: bool,
    /// What goes on while GPUs compute
    #[arg(long, value_parser = words::<Overlap>(), value_delimiter = ',', default_value = "gradients", value_name = "WHAT,…")]
    overlap: Vec<Overlap>,
    /// How copies of a convolutional net exchange gradients
    #[arg(long, value_parser = words::<GradientExchange>(), default_value = "all-reduce")]
    exchange: GradientExchange,
    /// Multiply in 16 bits in nets that are not transformers, instead of 32
    #[arg(long)]
    mixed: bool,
    /// Where the weights are
    #[arg(long, value_parser = words::<Strategy>(), default_value = "resident")]
    strategy: Strategy,
    #[command(flatten)]
    library: LibraryArgs,
    /// Go on where a GPU has too little memory
    #[arg(long)]
    oversize: bool,
}

/// What is asked of the library of collective operations.
#[derive(Debug, clap::Args)]
struct LibraryArgs {
    /// The library chooses by this file of NCCL's example tuner (NCCL_TUNER_CONFIG_FILE)
    #[arg(long, value_name = "FILE")]
    tuner: Option<String>,
    /// Say what the library itself expects of each collective operation, beside what it takes
    #[arg(long)]
    estimates: bool,
}

/// What a step is written as.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum As {
    /// Messages between nodes, for LogGOPSim and ATLAHS
    Goal,
    /// The same, binary
    GoalBin,
    /// Kernels, collectives and messages of every rank, for ASTRA-sim
    Chakra,
    /// Computation and collectives of one rank, for SimAI
    Simai,
    /// Collectives and messages of one rank, for AICB
    Aicb,
}

/// By what the step runs message by message.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Runs {
    /// Packets, and flows beside them
    Packet,
    /// Flows
    Flow,
}

const EXAMPLES: &str = "\
Examples:
  fabriscope train --model llama3-8b --on azure-ndh100v5:2 --tp 4 --dp 4 --sharding optimizer
  fabriscope train --model mpt-1b --on azure-ndh100v5:2 --dp 16 --sharding parameters --shard 8
  fabriscope train --model llama3-8b --on azure-ndh100v5:1 --tp 8 --jitter 0.02 --straggler 3:1.2
  fabriscope train --model mpt-1b --on dgx-h100-ndr:1 --tp 8 --checkpoint-every 9 --node-rate 9GB/s
  fabriscope train --model llama3-8b --on azure-ndh100v5:4 --global-batch 64 --search
  fabriscope train --model gpt3-13b --on azure-ndh100v5:16 --tp 8 --pp 2 --dp 8 --engine flow
  fabriscope train --model llama3-8b --on azure-ndh100v5:2 --tp 8 --dp 2 --write-trace step.goal
  fabriscope train --model llama3-8b --on azure-ndh100v5:8 --tp 8 --dp 2 --jobs 2 --storage 1GiB
  fabriscope train --model alexnet --on ri2-gpu:4 --dp 4 --global-batch 64 --exchange broadcast
  fabriscope train --model dlrm-mlperf --on azure-nda100v4:1 --dp 8 --global-batch 65536 --mixed
  fabriscope train --model gpt3-xl --on cs-2-16 --dp 16 --strategy weight-streaming
`fabriscope explain train` takes the same job, and says what its step is made of.";

/// `5:1.2`.
fn straggler(text: &str) -> Result<(u64, f64), String> {
    let told = || "write a rank and how many times as long it takes: 5:1.2".to_owned();
    let (rank, factor) = text.split_once(':').ok_or_else(told)?;
    Ok((rank.parse().map_err(|_| told())?, factor.parse().map_err(|_| told())?))
}

fn rate(text: &str) -> Result<Rate, String> {
    Rate::parse(text).map_err(|error| error.to_string())
}

/// Runs the command.
pub fn run(args: &Args, context: &Context, output: &mut Output) -> Result<Verdict, Failure> {
    let progress = Progress::new("layouts");
    let mut question = args.job.question().catalog(context.catalog()?).progress(|done, all| progress.at(done, all));
    if let Some(by) = args.engine {
        question = question.by_messages(match by {
            Runs::Packet => ByMessages::Packets,
            Runs::Flow => ByMessages::Flows,
        });
    }
    if args.search {
        question = question.searched();
    }
    if args.jitter.is_some() || !args.straggler.is_empty() || args.steps.is_some() {
        let steps = args.steps.unwrap_or(if args.jitter.is_some() { USUAL_STEPS } else { 1 });
        let slow = args.straggler.iter().copied().collect();
        question = question.uneven(Unevenness { share: args.jitter.unwrap_or(0.0), slow, steps, seed: context.seed() });
    }
    if let Some(every) = args.checkpoint_every {
        question = question.checkpoint(Checkpoint { every, node: args.node_rate, storage: args.storage_rate });
    }
    if let Some(jobs) = args.jobs {
        question = question.beside(Beside { jobs, placement: args.placement, storage: args.storage, seed: context.seed() });
    }
    if let Some(path) = &args.write_trace {
        return write_trace(question, path, args.format, (args, output));
    }
    let Some(path) = &args.trace else {
        let outcome = question.outcome().map_err(Failure::of)?;
        drop(progress);
        return args.output.write(&outcome, output);
    };
    let kind = path.extension().and_then(std::ffi::OsStr::to_str);
    let write = match kind {
        Some("pftrace") => fabriscope::sheet::perfetto,
        Some("json") => fabriscope::sheet::chrome,
        _ => return Err(Failure::told(format!("{}: no format of a timeline", path.display()), "name it .pftrace or .json")),
    };
    let (outcome, processes) = question.planned().map_err(Failure::of)?;
    drop(progress);
    write_with(path, |writer| write(&processes, writer))?;
    args.output.write(&outcome, output)
}

/// Writes the step, and says what is in the files.
fn write_trace(question: Train<'_>, path: &Path, format: As, (args, output): (&Args, &mut Output)) -> Result<Verdict, Failure> {
    let format = match format {
        As::Goal => StepFormat::Goal,
        As::GoalBin => StepFormat::GoalBinary,
        As::Chakra => StepFormat::Chakra,
        As::Simai => StepFormat::SimAi,
        As::Aicb => StepFormat::Aicb,
    };
    let files = question.files(format).map_err(Failure::of)?;
    if format.is_folder() {
        let refused = |error: std::io::Error| {
            Failure::told(format!("{}: cannot be made: {error}", path.display()), "choose a folder that you may write to")
        };
        std::fs::create_dir_all(path).map_err(refused)?;
    }
    let mut bytes = 0;
    for (name, content) in &files {
        let file = if format.is_folder() { path.join(name) } else { path.to_owned() };
        write_with(&file, |writer| writer.write_all(content))?;
        bytes += content.len();
    }
    let mut outcome = Outcome::new();
    outcome.note(format!("{} files of {bytes} bytes in all at {}; read them: fabriscope trace PATH", files.len(), path.display()));
    outcome.set("files", files.len()).set("bytes", bytes);
    args.output.write(&outcome, output)
}

/// Steps where ranks jitter and nothing is said.
const USUAL_STEPS: u32 = 100;

impl JobArgs {
    /// The job as a question.
    pub fn question(&self) -> Train<'static> {
        let mut question = Train::of(self.step().request(), self.cluster.as_str());
        if let Some(file) = &self.library.tuner {
            question = question.tuner(file);
        }
        if self.library.estimates {
            question = question.expected();
        }
        question
    }

    /// The step as a lab says it.
    fn step(&self) -> Training {
        Training {
            model: self.model.clone(),
            tp: self.tp,
            pp: self.pp,
            dp: self.dp,
            cp: self.cp,
            ep: self.ep,
            etp: self.etp,
            token_dispatcher: self.token_dispatcher,
            interleave: self.interleave,
            global_batch: self.global_batch,
            micro_batch: self.micro_batch,
            sequence: self.sequence,
            sequence_parallel: self.sequence_parallel,
            recompute: self.recompute,
            sharding: self.sharding,
            shard: self.shard,
            prefetch: self.prefetch,
            schedule: self.schedule,
            attention: self.attention,
            fp8: self.fp8,
            cuda_graphs: self.cuda_graphs.clone(),
            lora: self.lora,
            narrow_gradients: self.narrow_gradients,
            overlap: self.overlap.clone(),
            exchange: self.exchange,
            mixed: self.mixed,
            strategy: self.strategy,
            oversize: self.oversize,
            transport: Service::default(),
            any_order: false,
        }
    }
}
