//! Kernels of NCCL programs as the PyTorch profiler (Kineto) writes them: Chrome's trace events in JSON.
//!
//! Source: Kineto, libkineto/src/output_json.cpp (names of the arguments); PyTorch, c10d (names of collectives and types).
//! Modelled: one event for each kernel, on the stream of its GPU, with the arguments from which tools work out volumes and bandwidths.
//! Not modelled: operators of the framework above, launches on the host, other kernels.

use std::io::{self, Write};

use serde_json::{Value, json};

use crate::kernel_log::KernelRun;
use crate::places::Places;

/// Writes the kernels of one rank, or of all.
///
/// # Errors
/// What cannot be written.
pub fn write(runs: &[KernelRun], places: &Places, out: &mut dyn Write) -> io::Result<()> {
    let ranks: std::collections::BTreeMap<u32, &KernelRun> = runs.iter().map(|run| (run.rank, run)).collect();
    let world = runs.first().map_or(0, |run| run.kernel.ranks);
    let first = ranks.keys().next().copied().unwrap_or(0);
    let all: Vec<u32> = (0..world).collect();
    let distributed = json!({
        "backend": "nccl", "rank": first, "world_size": world, "pg_count": 1,
        "pg_config": [{ "pg_name": GROUP, "pg_desc": "default_pg", "backend_config": "cuda:nccl", "pg_size": world, "ranks": all }],
    });
    write!(out, "{{\"schemaVersion\":1,\"displayTimeUnit\":\"ns\",\"baseTimeNanoseconds\":0,\"distributedInfo\":{distributed},")?;
    write!(out, "\"traceName\":{},\n\"traceEvents\":[", Value::from(format!("fabriscope on {}", places.cluster)))?;
    let mut comma = "\n";
    let mut event = |out: &mut dyn Write, event: Value| {
        let written = write!(out, "{comma}{event}");
        comma = ",\n";
        written
    };
    for (rank, run) in &ranks {
        let name = format!("{} rank {rank}", places.node(run.node));
        let meta = |what: &str, args: Value| json!({ "ph": "M", "name": what, "pid": rank, "tid": STREAM, "ts": 0, "args": args });
        event(out, meta("process_name", json!({ "name": name })))?;
        event(out, meta("process_labels", json!({ "labels": format!("GPU {}", run.kernel.gpu) })))?;
        event(out, meta("process_sort_index", json!({ "sort_index": rank })))?;
        event(out, meta("thread_name", json!({ "name": format!("stream {STREAM}") })))?;
    }
    for (number, run) in runs.iter().enumerate() {
        event(out, kernel(number, run))?;
    }
    writeln!(out, "\n]}}")
}

fn kernel(number: usize, run: &KernelRun) -> Value {
    let kernel = &run.kernel;
    let us = |ps: u64| ps as f64 / 1e6;
    let ranks: Vec<String> = (0..kernel.ranks).take(MOST_RANKS).map(|rank| rank.to_string()).collect();
    let ranks = match kernel.ranks as usize > MOST_RANKS {
        true => format!("[{}, ..., {}]", ranks[..MOST_RANKS - 1].join(", "), kernel.ranks - 1),
        false => format!("[{}]", ranks.join(", ")),
    };
    json!({
        "ph": "X", "cat": "kernel", "name": name(run), "pid": run.rank, "tid": STREAM,
        "ts": us(run.begun.as_ps()), "dur": us(run.span().as_ps()),
        "args": {
            "External id": number + 1, "correlation": number + 1, "device": kernel.gpu, "context": 1, "stream": STREAM,
            "Collective name": collective(kernel.operation), "dtype": datatype(kernel.datatype),
            "In msg nelems": kernel.elements.0, "Out msg nelems": kernel.elements.1,
            "In split size": "[]", "Out split size": "[]",
            "Group size": kernel.ranks, "Process Group Name": GROUP, "Process Group Description": "default_pg",
            "Process Group Ranks": ranks, "Rank": run.rank, "Seq": kernel.sequence,
            "dur_ps": run.span().as_ps(),
        },
    })
}

/// The name of the function that runs on the GPU.
fn name(run: &KernelRun) -> String {
    let kernel = &run.kernel;
    match kernel.choice {
        None => "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)".to_owned(),
        Some((algorithm, protocol)) => {
            let reduces = matches!(kernel.operation, "AllReduce" | "ReduceScatter" | "Reduce");
            let typed = if reduces { format!("_Sum_{}", short(kernel.datatype)) } else { String::new() };
            format!("ncclDevKernel_{}{typed}_{algorithm}_{protocol}(ncclDevKernelArgsStorage<4096ul>)", kernel.operation)
        }
    }
}

/// What c10d calls a collective.
fn collective(operation: &str) -> &'static str {
    match operation {
        "AllReduce" => "allreduce",
        "AllGather" => "_allgather_base",
        "ReduceScatter" => "_reduce_scatter_base",
        "Broadcast" => "broadcast",
        "Reduce" => "reduce",
        "AlltoAll" => "all_to_all",
        "Gather" => "gather",
        "Scatter" => "scatter",
        _ => "sendrecv",
    }
}

/// What PyTorch calls a type.
fn datatype(name: &str) -> &'static str {
    match name {
        "int8" => "Char",
        "uint8" => "Byte",
        "int32" => "Int",
        "uint32" => "UInt32",
        "int64" => "Long",
        "uint64" => "UInt64",
        "half" => "Half",
        "double" => "Double",
        "bfloat16" => "BFloat16",
        "f8e4m3" => "Float8_e4m3fn",
        "f8e5m2" => "Float8_e5m2",
        _ => "Float",
    }
}

/// What NCCL calls a type in the names of its kernels.
fn short(name: &str) -> &'static str {
    match name {
        "int8" => "i8",
        "uint8" => "u8",
        "int32" => "i32",
        "uint32" => "u32",
        "int64" => "i64",
        "uint64" => "u64",
        "half" => "f16",
        "double" => "f64",
        "bfloat16" => "bf16",
        "f8e4m3" => "f8e4m3",
        "f8e5m2" => "f8e5m2",
        _ => "f32",
    }
}

/// The stream of the kernels. Basis: assumed; the number only shows.
const STREAM: u32 = 7;
/// The process group of all ranks, as `init_process_group` names it.
const GROUP: &str = "0";
/// Ranks that are listed, as Kineto cuts lists.
const MOST_RANKS: usize = 30;
