//! Tools on the GPUs of one node: the ways of their copies, stages, and what other memories would change.

use fabriscope_catalog::ResolvedCluster;
use fabriscope_lab::LabError;
use fabriscope_lab::launch::Launch;
use fabriscope_report::Outcome;
use fabriscope_report::explain::{Change, Stages, nanoseconds, show_changes};
use fabriscope_tools::gpu::GpuTool;
use fabriscope_tools::{Point, Tool, ToolOutput};
use fabriscope_units::{Bytes, Span};

use crate::data_path::copies::{Bench, Copying};
use crate::message::best;
use crate::request::{Changes, ExplainRequest};

/// A copy and where its time goes.
struct ExplainedCopy {
    copying: Copying,
    stages: Stages,
}

/// Explains the copies of `tool`.
pub(crate) fn explain_copies(tool: GpuTool, args: &ExplainRequest, original: &ResolvedCluster) -> Result<Outcome, LabError> {
    let mut parts = original.clone();
    let binding = args.devices.apply(&mut parts, 2)?;
    let (options, tests) = options(tool, args);
    let launch = Launch { seed: args.seed, binding, ..Launch::new(Tool::Gpu(tool), &options, &parts) };
    let (printed, _) = launch.run()?;
    let bench = Bench::new(&parts, args.bytes());
    let bench =
        bench.ok_or_else(|| LabError::refused(format!("the nodes of {} have no GPUs", parts.name), "choose a cluster with GPUs"))?;
    let told = bench.copies(tool, &tests).into_iter().filter_map(|copying| {
        let rows = if tool == GpuTool::BabelStream { kernel(&parts, args.bytes(), &printed) } else { bench.stages(&copying) }?;
        let total = rows.iter().map(|(_, span)| *span).sum();
        Some((copying, rows, total))
    });
    let told: Result<Vec<ExplainedCopy>, LabError> = told
        .map(|(copying, rows, total)| {
            let stages =
                Stages::new(rows, total).map_err(|e| LabError::refused(e.to_string(), "the stages of this copy are incomplete"))?;
            Ok(ExplainedCopy { copying, stages })
        })
        .collect();
    let told = told?;
    let Some(first) = told.first() else {
        return Err(LabError::refused(format!("{} makes no copy here that can be followed", args.tool), "choose another test"));
    };
    let none = args.changes == Changes::Left || tool == GpuTool::BabelStream;
    let changes: Vec<Change> = if none { Vec::new() } else { bench.variations(&first.copying) }
        .into_iter()
        .map(|(what, total)| Change { what, total: Ok(total) })
        .collect();
    let title = parts.sole().node.gpu.as_ref().map_or("", |gpu| gpu.title.as_str());
    let mut text =
        format!("# {} of {} on {}: {}\n# {} x {title}\n", args.tool, Bytes(args.bytes()), parts.name, parts.title, parts.sole().node.gpus);
    for point in printed.points.iter().filter(|point| point.size == Bytes(args.bytes())) {
        text += &format!("# {} prints a {} of {:.2} {}\n", args.tool, point.metric.replace('_', " "), point.value, point.unit);
    }
    let mut outcome = Outcome::new();
    outcome.extend(json(args, &parts.name, &bench, &told, &changes)).text(text);
    for ExplainedCopy { copying, stages } in &told {
        let way = bench.leg(copying).map_or_else(String::new, |leg| leg.text(bench.machine()));
        outcome.text(format!("\n{}: {way}\n", copying.name)).table(stages.grid());
    }
    if !changes.is_empty() {
        let total = first.stages.total();
        outcome.text(format!("\n{}:\n", first.copying.name));
        show_changes(&mut outcome, total, &changes);
        if let Some((change, saved)) = best(total, &changes) {
            outcome.text(format!("best change: {}, saves {} ns\n", change.what, nanoseconds(saved)));
        }
    }
    Ok(outcome)
}

/// The tool's options with the size in its own words; the tests of `nvbandwidth` that they name.
fn options(tool: GpuTool, args: &ExplainRequest) -> (Vec<String>, Vec<String>) {
    let mut tests = Vec::new();
    let mut value = false;
    for word in &args.options {
        if value || !word.starts_with('-') {
            tests.push(word.clone());
        }
        value = word == "-t" || word == "--testcase";
    }
    let (option, size) = match tool {
        GpuTool::NvBandwidth => ("-b", args.bytes().div_ceil(1 << 20).max(1)),
        GpuTool::BabelStream => ("-s", (args.bytes() / 8).max(1024)),
        GpuTool::CopyLat | GpuTool::CopyBw => ("-s", args.bytes()),
        GpuTool::P2p | GpuTool::ScaleUp => ("", 0),
    };
    let mut options = if option.is_empty() { Vec::new() } else { vec![option.to_owned(), size.to_string()] };
    if tool == GpuTool::CopyLat && !args.options.iter().any(|word| word == "-c") {
        options.push("-c".to_owned());
    }
    if tool == GpuTool::NvBandwidth && tests.is_empty() {
        options.extend(["-t".to_owned(), "host_to_device_memcpy_ce".to_owned()]);
    }
    options.extend_from_slice(&args.options);
    (options, tests)
}

/// A kernel of STREAM: its start and end, and the memory.
fn kernel(parts: &ResolvedCluster, size: u64, printed: &ToolOutput) -> Option<Vec<(String, Span)>> {
    let calls = &parts.sole().node.gpu.as_ref()?.calls;
    let copy: &Point = printed.points.iter().find(|point| point.metric == "Copy" && point.unit == "MB/s")?;
    let moved = 2.0 * copy.size.as_u64().max(size.min(1)) as f64;
    let total = Span::from_ps((moved * 1e6 / copy.value).round() as u64);
    let around = (*calls.kernel_launch + *calls.kernel_start + *calls.stream_synchronize).min(total);
    Some(vec![("start and end of the kernel".to_owned(), around), ("memory".to_owned(), total - around)])
}

fn json(args: &ExplainRequest, cluster: &str, bench: &Bench, told: &[ExplainedCopy], changes: &[Change]) -> serde_json::Value {
    let stage = |(name, span): (&str, Span)| serde_json::json!({ "stage": name, "ps": span.as_ps() });
    let copy = |ExplainedCopy { copying, stages }: &ExplainedCopy| {
        serde_json::json!({
            "copy": copying.name,
            "way": bench.leg(copying).map(|leg| leg.json(bench.machine())),
            "total_ps": stages.total().as_ps(),
            "stages": stages.rows().map(stage).collect::<Vec<_>>(),
        })
    };
    let change = |c: &Change| serde_json::json!({ "change": c.what, "ps": c.total.as_ref().ok().map(|total| total.as_ps()) });
    serde_json::json!({
        "tool": args.tool,
        "cluster": cluster,
        "bytes": args.bytes(),
        "copies": told.iter().map(copy).collect::<Vec<_>>(),
        "changes": changes.iter().map(change).collect::<Vec<_>>(),
    })
}
