//! `deepep_normal` and `deepep_low_latency`: the test programs of DeepEP, which UCCL-EP has as well.
//!
//! Source: DeepEP, tests/test_internode.py, tests/test_intranode.py, tests/test_low_latency.py: defaults, what bandwidths count, output.
//! Modelled: the draw of experts; dispatch in FP8 (and BF16) and combine in BF16, once each; chunks as the library's, or the best of a list.
//! Not modelled: checks of contents; notify kernels, which the programs do not count either; the dispatch's own search over NVLink chunks.
//!
//! RDMA bandwidth is that of rank 0's tokens times the nodes that they go to, its own among them; NVLink bandwidth that of the tokens it gets.

use std::fmt::Write;

use fabriscope_experts::{Exchange, Job, Kernel, Phase, Shape};
use fabriscope_platform::Target;
use fabriscope_tool::arguments::Meaning::{Harmless, Usual};
use fabriscope_tool::arguments::{self, Opt, Parsed, Takes, opt};
use fabriscope_tool::{Point, Prepared, ToolOutput, UsageError};
use fabriscope_units::{Bytes, Span};

use super::{HELP, LIBRARY, SEED, gigabytes, library, list, mean, prepared, shape};

pub(super) const NORMAL: &[Opt] = &[
    opt('\0', "num-tokens", Takes::Value("tokens"), Usual, "tokens of each GPU (default 4096)"),
    opt('\0', "hidden", Takes::Value("elements"), Usual, "elements of a token (default 7168)"),
    opt('\0', "num-topk-groups", Takes::Value("nodes"), Usual, "nodes that a token goes to at most (default 4)"),
    opt('\0', "num-topk", Takes::Value("experts"), Usual, "experts of a token (default 8)"),
    opt('\0', "num-experts", Takes::Value("experts"), Usual, "experts of all GPUs (default 256)"),
    opt('\0', "num-sms", Takes::Value("processors"), Usual, "processors of each GPU (default: the library's)"),
    opt('\0', "rdma-chunks", Takes::Value("list"), Usual, "tokens of a message between nodes, the best of a list (default: the library's)"),
    opt('\0', "bf16", Takes::Nothing, Usual, "dispatch in BF16 as well"),
    opt('\0', "num-processes", Takes::Value("count"), Harmless("--ppn says it"), "processes of a node"),
    opt('\0', "test-ll-compatibility", Takes::Nothing, Harmless("contents are not checked"), "check the other kernels"),
    LIBRARY,
    SEED,
    HELP,
];

pub(super) const LOW_LATENCY: &[Opt] = &[
    opt('\0', "num-tokens", Takes::Value("tokens"), Usual, "tokens of each GPU (default 128)"),
    opt('\0', "hidden", Takes::Value("elements"), Usual, "elements of a token (default 7168)"),
    opt('\0', "num-topk", Takes::Value("experts"), Usual, "experts of a token (default 8)"),
    opt('\0', "num-experts", Takes::Value("experts"), Usual, "experts of all GPUs (default 288)"),
    opt('\0', "num-processes", Takes::Value("count"), Harmless("--ppn says it"), "processes of a node"),
    LIBRARY,
    SEED,
    HELP,
];

/// DeepEP's release that tables call V1.
const USUAL: &str = "deepep-v1";

/// A token in 8 bits: elements, and a scale of 4 bytes for each 128.
pub(super) fn fp8(hidden: u32) -> u64 {
    u64::from(hidden) + u64::from(hidden.div_ceil(128)) * 4
}

pub(super) fn normal(parsed: &Parsed, target: &Target) -> Result<Prepared, UsageError> {
    let of = library(parsed, target, USUAL)?;
    let usual = Shape { nodes: 1, per_node: 1, tokens: 4096, topk: 8, groups: 4, experts: 256, hidden: 7168, seed: 0 };
    let shape = shape(parsed, target, usual)?;
    let forwarding = of.library.forwarding.as_ref();
    let mut processors = forwarding.map_or(2, |of| *of.processors);
    let mut chunks = vec![forwarding.map_or(1, |of| u64::from(*of.chunk))];
    let mut both = false;
    for given in &parsed.options {
        match given.name {
            "num-sms" => processors = arguments::number(given, 1, 1024)? as u32,
            "rdma-chunks" => chunks = list(given, 1, 128)?,
            "bf16" => both = true,
            _ => {}
        }
    }
    // Where a token comes from, its experts and their weights go with it.
    let beside = 8 + u64::from(shape.topk) * 8;
    let (short, long) = (fp8(shape.hidden), u64::from(shape.hidden) * 2);
    let mut kernels = Vec::new();
    let mut add = |way, bytes: u64| {
        let of = |chunk: &u64| Kernel { way, exchange: Exchange::Forwarded { processors, chunk: *chunk as u32 }, bytes: Bytes(bytes) };
        kernels.extend(chunks.iter().map(of));
    };
    add(Phase::Dispatch, short + beside);
    if both {
        add(Phase::Dispatch, long + beside);
    }
    add(Phase::Combine, long + u64::from(shape.topk) * 4);
    let tries = chunks.len();
    prepared(of, target, (shape, kernels), move |job| {
        let mut out = ToolOutput::default();
        let Shape { tokens, hidden, groups, topk, .. } = shape;
        let _ = writeln!(out.text, "[config] num_tokens={tokens}, hidden={hidden}, num_topk_groups={groups}, num_topk={topk}\n");
        let named = if both { vec![("dispatch (FP8)", short), ("dispatch (BF16)", long)] } else { vec![("dispatch (FP8)", short)] };
        for (place, (name, bytes)) in named.into_iter().chain([("combine", long)]).enumerate() {
            best(&mut out, job, (place * tries, tries), (name, bytes));
        }
        out
    })
}

/// The best of the tries of a kernel, as the program prints it.
fn best(out: &mut ToolOutput, job: &Job, (first, tries): (usize, usize), (name, bytes): (&str, u64)) {
    let routing = job.routing();
    let one_node = routing.shape().nodes == 1;
    let (sent, got) = ((routing.nodes_of(0) * bytes) as f64, (routing.received(0) * bytes) as f64);
    let mut best: Option<(Span, u32, u32)> = None;
    for number in first..first + tries {
        let Exchange::Forwarded { processors, chunk } = job.kernels()[number].exchange else { continue };
        let span = job.longest(number);
        if tries > 1 {
            let _ = writeln!(out.text, "[tuning] {}", line(processors, chunk, span, (one_node, sent, got)));
        }
        if best.is_none_or(|(known, ..)| span < known) {
            best = Some((span, processors, chunk));
        }
    }
    let Some((span, processors, chunk)) = best else { return };
    let _ = writeln!(out.text, "[tuning] Best {name}: {}\n", line(processors, chunk, span, (one_node, sent, got)));
    let (bandwidth, latency) = metrics(name);
    let counted = if one_node { got } else { sent };
    out.points.push(Point { size: Bytes(bytes), metric: bandwidth, unit: "GB/s", value: gigabytes(counted, span) });
    out.points.push(Point { size: Bytes(bytes), metric: latency, unit: "us", value: span.as_us_f64() });
}

fn line(processors: u32, chunk: u32, span: Span, (one_node, sent, got): (bool, f64, f64)) -> String {
    let (rdma, nvl, us) = (gigabytes(sent, span), gigabytes(got, span), span.as_us_f64());
    if one_node {
        format!("SMs {processors}, NVL chunk {chunk}, {nvl:.2} GB/s (NVL), t: {us:.2} us")
    } else {
        format!("SMs {processors}, RDMA chunk {chunk}, transmit: {us:.2} us, BW: {rdma:.2} GB/s (RDMA), {nvl:.2} GB/s (NVL)")
    }
}

const fn metrics(name: &str) -> (&'static str, &'static str) {
    match name.as_bytes() {
        b"combine" => ("combine bandwidth", "combine latency"),
        b"dispatch (BF16)" => ("dispatch BF16 bandwidth", "dispatch BF16 latency"),
        _ => ("dispatch bandwidth", "dispatch latency"),
    }
}

pub(super) fn low_latency(parsed: &Parsed, target: &Target) -> Result<Prepared, UsageError> {
    let of = library(parsed, target, USUAL)?;
    let usual = Shape { nodes: 1, per_node: 1, tokens: 128, topk: 8, groups: u32::MAX, experts: 288, hidden: 7168, seed: 0 };
    let shape = shape(parsed, target, usual)?;
    let (short, long) = (fp8(shape.hidden) + 16, u64::from(shape.hidden) * 2);
    let kernel = |way, bytes| Kernel { way, exchange: Exchange::Scattered, bytes: Bytes(bytes) };
    let kernels = vec![kernel(Phase::Dispatch, short), kernel(Phase::Combine, long)];
    prepared(of, target, (shape, kernels), move |job| {
        let mut out = ToolOutput::default();
        let count = f64::from(shape.tokens) * f64::from(shape.topk);
        let of = |number: usize, bytes: u64, span: Span| (gigabytes(count * bytes as f64, span), job.kernels()[number].bytes, span);
        for (rank, (dispatch, combine)) in job.times(0).into_iter().zip(job.times(1)).enumerate() {
            let ((to, _, there), (from, _, back)) = (of(0, short, dispatch), of(1, long, combine));
            let _ = writeln!(
                out.text,
                "[rank {rank}] Dispatch bandwidth: {to:.2} GB/s, avg_t={:.2} us | Combine bandwidth: {from:.2} GB/s, avg_t={:.2} us",
                there.as_us_f64(),
                back.as_us_f64()
            );
        }
        for (number, bytes, bandwidth, latency) in
            [(0, short, "dispatch bandwidth", "dispatch latency"), (1, long, "combine bandwidth", "combine latency")]
        {
            let (rate, size, span) = of(number, bytes, mean(&job.times(number)));
            out.points.push(Point { size, metric: latency, unit: "us", value: span.as_us_f64() });
            out.points.push(Point { size, metric: bandwidth, unit: "GB/s", value: rate });
        }
        out
    })
}
