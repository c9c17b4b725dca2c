//! `pplx_alltoall`: the benchmark of pplx-kernels.
//!
//! Source: pplx-kernels, tests/bench_all_to_all.py: configurations, what is timed, columns. `Torch` is `all_to_all_single` of NCCL and `NVSHMEM`
//! its own all-to-all, both of room for all tokens of all at every expert, whatever they are.
//! Modelled: one configuration, that of the command line; dispatch and combine, or one of the others (`--kernels`); of long all-to-alls two
//! shorter ones, which give the rest.
//! Not modelled: groups of GPUs that share tokens (`--dp-size`).

use std::fmt::Write;
use std::sync::Arc;

use fabriscope_experts::whole::{self, WholeJob};
use fabriscope_experts::{Exchange, Kernel, Phase, Shape};
use fabriscope_nccl_runtime::{Communicator, Exchange as Message, World, pairs};
use fabriscope_node::{Main, Process, ProgramError, Record, Ties};
use fabriscope_platform::Target;
use fabriscope_tool::arguments::Meaning::Usual;
use fabriscope_tool::arguments::{Opt, Parsed, Takes, opt};
use fabriscope_tool::{Placing, Point, Prepared, Rows, ToolOutput, UsageError};
use fabriscope_units::{Bytes, Span};

use super::deepep::fp8;
use super::{HELP, LIBRARY, SEED, gigabytes, library, mean, prepared, refused, shape};
use crate::xccl;

pub(super) const OPTIONS: &[Opt] = &[
    opt('\0', "num-tokens", Takes::Value("tokens"), Usual, "tokens of each GPU (default 128)"),
    opt('\0', "hidden", Takes::Value("elements"), Usual, "elements of a token (default 7168)"),
    opt('\0', "num-topk", Takes::Value("experts"), Usual, "experts of a token (default 8)"),
    opt('\0', "num-experts", Takes::Value("experts"), Usual, "experts of all GPUs (default 256)"),
    opt('\0', "kernels", Takes::Value("which"), Usual, "pplx, torch or nvshmem (default pplx)"),
    LIBRARY,
    SEED,
    HELP,
];

/// The library with posts of the GPU.
const USUAL: &str = "pplx-ibgda";

pub(super) fn prepare(parsed: &Parsed, target: &Target) -> Result<Prepared, UsageError> {
    let of = library(parsed, target, USUAL)?;
    let usual = Shape { nodes: 1, per_node: 1, tokens: 128, topk: 8, groups: u32::MAX, experts: 256, hidden: 7168, seed: 0 };
    let shape = shape(parsed, target, usual)?;
    let kernels = parsed.options.iter().rev().find(|given| given.name == "kernels");
    let (short, long) = (fp8(shape.hidden), u64::from(shape.hidden) * 2);
    // Room for all tokens at each expert of a GPU.
    let room = Bytes(u64::from(shape.local_experts()) * u64::from(shape.tokens) * short);
    match kernels.and_then(|given| given.value.as_deref()).unwrap_or("pplx") {
        "pplx" => {
            // A number goes with each token, and all is rounded up to 16 bytes.
            let there = Bytes((short + 4).next_multiple_of(16));
            let kernel = |way, bytes| Kernel { way, exchange: Exchange::Scattered, bytes };
            let kernels = vec![kernel(Phase::Dispatch, there), kernel(Phase::Combine, Bytes(long))];
            let count = u64::from(shape.tokens) * u64::from(shape.topk);
            prepared(of, target, (shape, kernels), move |job| {
                let spans = [mean(&job.times(0)), mean(&job.times(1))];
                report(
                    &shape,
                    &[("Dispatch", "dispatch latency", count * short, spans[0]), ("Combine", "combine latency", count * long, spans[1])],
                )
            })
        }
        "nvshmem" => {
            if shape.nodes > 1 {
                of.drives(target).map_err(|error| refused(&error))?;
            }
            let lengths = lengths(room, shape.ranks());
            let job = Arc::new(WholeJob::new(target, of.library, lengths.clone()));
            let main = |_| -> Main {
                let job = job.clone();
                Box::new(move |process| Box::pin(whole::run(process, job)))
            };
            let mains = (0..shape.ranks()).map(main).collect();
            let finish = move || {
                let span = of_length(room, &lengths, &job.spans());
                report(&shape, &[("NVSHMEM", "NVSHMEM latency", room.0 * u64::from(shape.ranks()), span)])
            };
            let placing = Placing::Blocks { per_node: shape.per_node };
            Ok(Prepared { placing, mains, ties: Ties::Fences, finish: Box::new(finish), rows: Rows::default() })
        }
        "torch" => torch(target, shape, room),
        other => Err(UsageError::NotOneOf { option: "--kernels".to_owned(), value: other.to_owned(), known: "pplx, torch and nvshmem" }),
    }
}

/// `all_to_all_single` of NCCL.
fn torch(target: &Target, shape: Shape, room: Bytes) -> Result<Prepared, UsageError> {
    let library = xccl::library("pplx_alltoall", target)?;
    let settings = library.first().settings.clone();
    let world =
        World::new(library, target, (shape.nodes, shape.per_node), &settings).map_err(|error| xccl::refused("pplx_alltoall", &error))?;
    let lengths = lengths(room, shape.ranks());
    let spans: Record<Vec<Span>> = Record::new(vec![Span::ZERO; lengths.len()]);
    let ties = world.ties(None);
    let main = |_| -> Main {
        let (world, lengths, spans) = (world.clone(), lengths.clone(), spans.clone());
        Box::new(move |process| Box::pin(all_to_all(process, world, lengths, spans)))
    };
    let mains = (0..shape.ranks()).map(main).collect();
    let finish = move || {
        let span = of_length(room, &lengths, &spans.lock());
        report(&shape, &[("Torch", "Torch latency", room.0 * u64::from(shape.ranks()), span)])
    };
    Ok(Prepared { placing: Placing::Blocks { per_node: shape.per_node }, mains, ties, finish: Box::new(finish), rows: Rows::default() })
}

async fn all_to_all(process: Process, world: World, lengths: Vec<Bytes>, spans: Record<Vec<Span>>) -> Result<(), ProgramError> {
    let ranks = process.ranks();
    let all: Vec<(u32, u32)> = (0..ranks).flat_map(|from| (0..ranks).map(move |to| (from, to))).collect();
    let wires = pairs(&world, &all, &lengths);
    let c = Communicator::init(process, world, &wires).await?;
    for (number, bytes) in lengths.iter().enumerate() {
        c.barrier().await?;
        let begun = c.now();
        let group: Vec<Message> = (0..ranks).flat_map(|peer| [Message::send(peer, *bytes), Message::receive(peer, *bytes)]).collect();
        let turn = c.group(&group)?;
        let end = c.synchronise(turn).await?;
        {
            let longest = &mut spans.lock()[number];
            *longest = end.since(begun).max(*longest);
        }
        c.barrier().await?;
    }
    Ok(())
}

/// What is simulated of a message to each peer: itself, or two shorter ones.
fn lengths(room: Bytes, ranks: u32) -> Vec<Bytes> {
    let long = LONG / u64::from(ranks);
    if room.0 > long { vec![Bytes(long / 2), Bytes(long)] } else { vec![room] }
}

fn of_length(room: Bytes, lengths: &[Bytes], spans: &[Span]) -> Span {
    match (lengths, spans) {
        ([less, more], [short, long]) => {
            let slope = long.saturating_sub(*short).as_ps() as f64 / (more.0 - less.0) as f64;
            *long + Span::from_ps((slope * (room.0 - more.0) as f64) as u64)
        }
        _ => spans.first().copied().unwrap_or_default(),
    }
}

/// The table, as the benchmark prints it.
fn report(shape: &Shape, columns: &[(&str, &'static str, u64, Span)]) -> ToolOutput {
    let ranks = shape.ranks();
    let mut out = ToolOutput { text: format!("EP={ranks} DP={ranks}\nE\tE/tok\ttok\tdim"), ..ToolOutput::default() };
    for (name, ..) in columns {
        let _ = write!(out.text, "\t{name}_lat\t{name}_bw\t{name}_bytes");
    }
    let _ = write!(out.text, "\n{}\t{}\t{}\t{}", shape.experts, shape.topk, shape.tokens, shape.hidden);
    for (_, metric, bytes, span) in columns {
        let _ = write!(out.text, "\t{:4.1}μs\t{:2.3}GB/s\t{bytes}", span.as_us_f64(), gigabytes(*bytes as f64, *span));
        out.points.push(Point { size: Bytes(*bytes), metric, unit: "us", value: span.as_us_f64() });
    }
    out.text.push('\n');
    out
}

/// Bytes of a GPU that are simulated in an all-to-all. Basis: assumed; several slices of each connection.
const LONG: u64 = 1 << 26;
