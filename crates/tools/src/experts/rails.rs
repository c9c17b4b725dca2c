//! `efa_alltoall`: UCCL-EP's all-to-all over several adapters of each GPU, along rails or across them.
//!
//! Source: UCCL-EP, ep/bench/alltoall/test_alltoall.cpp, test_alltoall_rail.cpp: the loop, its constants, output. The programs print GB/s and
//! count 2³⁰ bytes; so does this.
//! Modelled: all messages of a size up to so many bytes of each GPU; of more, two shorter runs of the same loop give the rest.
//! Not modelled: their compiled sizes; `--msg-size` says it here.

use std::fmt::Write;
use std::sync::Arc;

use fabriscope_experts::rails::{self, RailsJob, Settings};
use fabriscope_node::{Main, Ties};
use fabriscope_platform::Target;
use fabriscope_tool::arguments::Meaning::Usual;
use fabriscope_tool::arguments::{self, Opt, Parsed, Takes, opt};
use fabriscope_tool::{Placing, Point, Prepared, Rows, ToolOutput, UsageError};
use fabriscope_units::{Bytes, Span};

use super::{HELP, SEED, mean};

pub(super) const OPTIONS: &[Opt] = &[
    opt('\0', "msg-size", Takes::Value("bytes"), Usual, "a message (MSG_SIZE, default 8192)"),
    opt('\0', "msgs", Takes::Value("count"), Usual, "messages to each GPU of other nodes (MSGS_PER_REMOTE_GPU, default 1000)"),
    opt('\0', "rail", Takes::Nothing, Usual, "only to GPUs of the same number (test_alltoall_rail)"),
    opt('\0', "random", Takes::Nothing, Usual, "peers at random instead of in turn"),
    opt('\0', "window", Takes::Value("count"), Usual, "messages outstanding on an adapter (WINDOW_PER_NIC, default 256)"),
    opt('\0', "stripe", Takes::Value("count"), Usual, "messages to a peer before the next adapter (default 64)"),
    SEED,
    HELP,
];

pub(super) fn prepare(parsed: &Parsed, target: &Target) -> Result<Prepared, UsageError> {
    let layout = target.layout;
    let mut settings = Settings {
        nodes: layout.nodes,
        per_node: layout.per_node,
        bytes: Bytes(8192),
        messages: 1000,
        aligned: false,
        random: false,
        window: 256,
        stripe: 64,
        seed: 0,
    };
    for given in &parsed.options {
        let text = given.value.as_deref().unwrap_or_default();
        match given.name {
            "msg-size" => settings.bytes = Bytes(arguments::size(&given.typed, text, 1, 1 << 30)?),
            "msgs" => settings.messages = arguments::number(given, 1, 1 << 20)?,
            "rail" => settings.aligned = true,
            "random" => settings.random = true,
            "window" => settings.window = arguments::number(given, 1, 1 << 14)? as u32,
            "stripe" => settings.stripe = arguments::number(given, 1, 1 << 20)?,
            "seed" => settings.seed = arguments::number(given, 0, u64::MAX)?,
            _ => {}
        }
    }
    if layout.nodes < 2 {
        let (what, remedy) = ("efa_alltoall on one node has nobody to write to".to_owned(), "give --nodes 2 or more".to_owned());
        return Err(UsageError::Conflict { what, remedy });
    }
    if target.rdma != fabriscope_catalog::Rdma::ReadWrite {
        let what = "the adapters do not write remote memory, which efa_alltoall needs".to_owned();
        return Err(UsageError::Conflict { what, remedy: "use a cluster with others, for example aws-p5".to_owned() });
    }
    let whole = Arc::new(RailsJob::new(target, settings));
    let per_message = whole.messages();
    // Long messages: the same number of shorter ones, of two lengths.
    let lengths: Vec<Bytes> = if settings.bytes.0 * per_message > MOST {
        vec![Bytes(MOST / per_message / 2), Bytes(MOST / per_message)]
    } else {
        vec![settings.bytes]
    };
    let jobs: Vec<Arc<RailsJob>> =
        lengths.iter().map(|bytes| Arc::new(RailsJob::new(target, Settings { bytes: *bytes, ..settings }))).collect();
    let main = |_| -> Main {
        let jobs = jobs.clone();
        Box::new(move |process| {
            Box::pin(async move {
                for job in jobs {
                    rails::run(process.clone(), job).await?;
                    process.barrier().await;
                }
                Ok(())
            })
        })
    };
    let mains = (0..layout.ranks()).map(main).collect();
    let finish = move || report(&settings, (&lengths, &jobs), per_message);
    Ok(Prepared {
        placing: Placing::Blocks { per_node: layout.per_node },
        mains,
        ties: Ties::Fences,
        finish: Box::new(finish),
        rows: Rows::default(),
    })
}

fn report(settings: &Settings, (lengths, jobs): (&[Bytes], &[Arc<RailsJob>]), messages: u64) -> ToolOutput {
    let Settings { nodes, per_node, bytes, aligned, .. } = *settings;
    let spans: Vec<Vec<Span>> = jobs.iter().map(|job| job.spans()).collect();
    // A byte more of each message takes as long in longer ones.
    let of = |rank: usize| match (&spans[..], lengths) {
        ([short, long], [less, more]) => {
            let slope = long[rank].saturating_sub(short[rank]).as_ps() as f64 / (more.0 - less.0) as f64;
            long[rank] + Span::from_ps((slope * (bytes.0 - more.0) as f64) as u64)
        }
        _ => spans[0][rank],
    };
    let all: Vec<Span> = (0..(nodes * per_node) as usize).map(of).collect();
    let total = (messages * bytes.0) as f64;
    let gib = |span: Span| total / span.as_s_f64().max(1e-12) / (1u64 << 30) as f64;
    let mut out = ToolOutput::default();
    let title = if aligned { " Rail-Optimized" } else { "" };
    for (rank, span) in all.iter().enumerate() {
        let (node, gpu) = (rank as u32 / per_node, rank as u32 % per_node);
        let _ = write!(
            out.text,
            "=== [Node {node} GPU {gpu}]{title} Results ===\n  Elapsed: {:.3} s\n  Total msgs: {messages}\n  Total bytes: {:.2} MB\n  \
             Bandwidth: {:.3} GB/s\n",
            span.as_s_f64(),
            total / f64::from(1 << 20),
            gib(*span)
        );
    }
    out.points.push(Point { size: bytes, metric: "bandwidth", unit: "GiB/s", value: gib(mean(&all)) });
    out
}

/// Bytes of a GPU that are simulated. Basis: assumed; several turns over all adapters at any size.
const MOST: u64 = 1 << 29;
