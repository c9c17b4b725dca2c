//! `fabriscope infer`: a served language model on a cluster.

use std::path::PathBuf;

use clap::ValueEnum;
use fabriscope::Load;
use fabriscope::inference::{Admission, Arrivals, Lengths, Serving, Transfer};
use fabriscope::training::Precision;
use fabriscope_units::Span;

use crate::context::Context;
use crate::error::{Failure, Verdict};
use crate::output::{Output, OutputArgs};
use crate::progress::Progress;

/// Says what a served language model gives on a cluster by load: times to the first token and between tokens, tokens a second, and what of
/// it is the network.
///
/// Requests come at rates (`--rate`), so many at a time (`--concurrency`), or as a trace has them. Copies of the model batch them iteration
/// by iteration within the memory for keys and values. With `--prefill-nodes` and `--decode-nodes` prompts are read in one pool and tokens
/// generated in another; keys and values go over the adapters. The parts of an iteration add up to it.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The model: a name of `fabriscope parts --kind models`
    #[arg(long)]
    model: String,
    /// The cluster: a name, a TOML file, either with :NODES
    #[arg(long, value_name = "CLUSTER")]
    on: String,
    /// GPUs that share the matrices of a layer
    #[arg(long, default_value_t = 1)]
    tp: u32,
    /// Stages of the pipeline
    #[arg(long, default_value_t = 1)]
    pp: u32,
    /// Copies of the model
    #[arg(long, default_value_t = 1, conflicts_with = "prefill_nodes")]
    dp: u32,
    /// GPUs that share the experts of a layer: all of some copies
    #[arg(long, default_value_t = 1)]
    ep: u32,
    /// Nodes that only read prompts
    #[arg(long, value_name = "NODES", requires = "decode_nodes")]
    prefill_nodes: Option<u32>,
    /// Nodes that only generate
    #[arg(long, value_name = "NODES", requires = "prefill_nodes")]
    decode_nodes: Option<u32>,
    /// --tp of those that generate [default: that of the others]
    #[arg(long, value_name = "GPUS", requires = "decode_nodes")]
    decode_tp: Option<u32>,
    /// --pp of those that generate [default: that of the others]
    #[arg(long, value_name = "STAGES", requires = "decode_nodes")]
    decode_pp: Option<u32>,
    /// --ep of those that generate [default: that of the others]
    #[arg(long, value_name = "GPUS", requires = "decode_nodes")]
    decode_ep: Option<u32>,
    /// When keys and values leave for those that generate
    #[arg(long, value_enum, default_value_t = Leaves::Layers)]
    transfer: Leaves,
    /// On which rail keys and values arrive, and tokens at their experts
    #[arg(long, value_enum, default_value_t = Rails::Aligned)]
    rails: Rails,
    /// Requests a second, at independent times; `inf` for all at once. A row for each [default: 1]
    #[arg(long, value_delimiter = ',', value_name = "RATE,…", value_parser = rate, conflicts_with = "concurrency")]
    rate: Vec<f64>,
    /// Requests outstanding at any time. A row for each
    #[arg(long, value_delimiter = ',', value_name = "COUNT,…", value_parser = clap::value_parser!(u32).range(1..))]
    concurrency: Vec<u32>,
    /// Requests of a trace (Azure, BurstGPT, Mooncake); with --rate or --concurrency only their lengths
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// The trace so many times as fast as it came. A row for each
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "FACTOR,…",
        value_parser = positive,
        requires = "trace",
        conflicts_with_all = ["rate", "concurrency"]
    )]
    speed: Vec<f64>,
    /// Requests; of a trace the first ones
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    requests: u32,
    /// Tokens of a prompt
    #[arg(long, default_value_t = 1024, value_name = "TOKENS", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    input_tokens: u64,
    /// Tokens to generate
    #[arg(long, default_value_t = 128, value_name = "TOKENS", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    output_tokens: u64,
    /// Lengths are up to this share shorter or longer
    #[arg(long, default_value_t = 0.0, value_name = "SHARE", value_parser = share)]
    range_ratio: f64,
    /// Weights and linear layers of 8 bits
    #[arg(long)]
    fp8: bool,
    /// Keys and values of 8 bits
    #[arg(long)]
    fp8_cache: bool,
    /// Tokens of an iteration at most
    #[arg(long, default_value_t = Serving::default().batched_tokens, value_name = "TOKENS")]
    batched_tokens: u32,
    /// Sequences of an iteration at most
    #[arg(long, default_value_t = Serving::default().sequences, value_name = "COUNT")]
    sequences: u32,
    /// Prompts are read whole, in iterations of their own
    #[arg(long)]
    whole_prompts: bool,
    /// How requests get room for keys and values
    #[arg(long, value_enum, default_value_t = Room::Preempt)]
    admission: Room,
    /// Tokens of a block of keys and values
    #[arg(long, default_value_t = Serving::default().block, value_name = "TOKENS")]
    block: u32,
    /// Share of a GPU's memory that the server takes
    #[arg(long, default_value_t = Serving::default().memory_share, value_name = "SHARE")]
    memory_share: f64,
    /// Who sums within a node
    #[arg(long, value_enum, default_value_t = Sums::Direct)]
    all_reduce: Sums,
    /// One half of a batch computes while the other is exchanged among experts
    #[arg(long)]
    two_batches: bool,
    /// Experts of a layer that are there twice
    #[arg(long, default_value_t = 0, value_name = "COUNT")]
    redundant_experts: u32,
    /// Nodes whose experts a token takes at most
    #[arg(long, value_name = "NODES")]
    expert_nodes: Option<u32>,
    /// Between iterations, while GPUs wait for the host
    #[arg(long, default_value_t = Serving::default().host, value_name = "TIME", value_parser = Span::parse)]
    host: Span,
    #[command(flatten)]
    output: OutputArgs,
}

/// When keys and values leave.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Leaves {
    /// Layer by layer, while later ones are computed
    Layers,
    /// When the prompt is read
    End,
}

/// On which rail messages arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Rails {
    /// On that on which they leave, where both pools are laid out alike; tokens go to each node once, and on to experts within it
    Aligned,
    /// Keys and values half a node further, tokens straight to the GPU of each expert
    Crossed,
}

/// How requests get room.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Room {
    /// As they grow; who came last gives it up and is computed again
    Preempt,
    /// For all of their tokens, before they start
    Reserve,
}

/// Who sums within a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Sums {
    /// Kernels that read each other's memory, up to 8 MiB
    Direct,
    /// The library of collectives
    Library,
}

const EXAMPLES: &str = "\
Examples:
  fabriscope infer --model llama3-70b --on azure-ndh100v5:1 --tp 8 --rate 1,4,16 --requests 200
  fabriscope infer --model llama3-8b --on dgx-h100-ndr:4 --prefill-nodes 2 --decode-nodes 2 --rate 8";

/// Runs the command.
pub fn run(args: &Args, context: &Context, output: &mut Output) -> Result<Verdict, Failure> {
    let progress = Progress::new("loads");
    let serving = args.serving();
    let lengths = Lengths { input: args.input_tokens, output: args.output_tokens, spread: args.range_ratio };
    let mut question = fabriscope::infer(&args.model, &args.on)
        .catalog(context.catalog()?)
        .transfer(match args.transfer {
            Leaves::Layers => Transfer::Layers,
            Leaves::End => Transfer::End,
        })
        .loads(args.loads())
        .requests(lengths, args.requests)
        .seed(context.seed())
        .progress(|done, all| progress.at(done, all));
    if let (Some(reading), Some(generating)) = (args.prefill_nodes, args.decode_nodes) {
        let second = Serving {
            tensor: args.decode_tp.unwrap_or(args.tp),
            pipeline: args.decode_pp.unwrap_or(args.pp),
            expert: args.decode_ep.unwrap_or(args.ep),
            ..serving.clone()
        };
        question = question.pools(reading, generating, second);
    }
    question = question.serving(serving);
    if args.rails == Rails::Crossed {
        question = question.across_rails();
    }
    if args.all_reduce == Sums::Library {
        question = question.by_library();
    }
    if let Some(file) = &args.trace {
        let text = std::fs::read_to_string(file)
            .map_err(|cause| Failure::told(format!("{}: {cause}", file.display()), "name a file that can be read"))?;
        question = question.trace(file.display().to_string(), text);
    }
    let outcome = question.outcome().map_err(Failure::of)?;
    drop(progress);
    args.output.write(&outcome, output)
}

impl Args {
    fn serving(&self) -> Serving {
        let precision = |eight| if eight { Precision::Bits8 } else { Precision::Bits16 };
        Serving {
            tensor: self.tp,
            pipeline: self.pp,
            copies: self.dp,
            expert: self.ep,
            redundant_experts: self.redundant_experts,
            expert_nodes: self.expert_nodes,
            two_batches: self.two_batches,
            precision: precision(self.fp8),
            cache: precision(self.fp8_cache),
            batched_tokens: self.batched_tokens,
            sequences: self.sequences,
            chunked: !self.whole_prompts,
            admission: match self.admission {
                Room::Preempt => Admission::Preempt,
                Room::Reserve => Admission::Reserve,
            },
            block: self.block,
            memory_share: self.memory_share,
            host: self.host,
            ..Serving::default()
        }
    }
    fn loads(&self) -> Vec<Load> {
        let rates = self.rate.iter().map(|rate| Load::Made(if rate.is_finite() { Arrivals::Poisson(*rate) } else { Arrivals::AtOnce }));
        let counts = self.concurrency.iter().map(|most| Load::Made(Arrivals::Concurrent(*most)));
        rates.chain(counts).chain(self.speed.iter().map(|faster| Load::Traced(*faster))).collect()
    }
}

fn rate(text: &str) -> Result<f64, String> {
    if text == "inf" { Ok(f64::INFINITY) } else { positive(text) }
}

fn positive(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| (1e-6..=1e6).contains(number));
    number.ok_or_else(|| "use a number from 0.000001 to 1000000".to_owned())
}

fn share(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| (0.0..1.0).contains(number));
    number.ok_or_else(|| "use a number from 0 to below 1".to_owned())
}
