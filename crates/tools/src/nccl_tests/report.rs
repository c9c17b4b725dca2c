//! The output of nccl-tests, byte for byte.
//!
//! Source: nccl-tests 2.19.6 (format: docs/formats.md). GB is 10⁹ bytes.

use std::fmt::Write;

use fabriscope_platform::{GpuTarget, PciAddress};
use fabriscope_tool::{Point, ToolOutput};
use fabriscope_units::{Bytes, Span};

use super::{Job, Measured, Row};

/// The report of the first `done` rows; what stands below the table comes with the last.
pub(super) fn report(job: &Job, results: &Measured, done: usize) -> ToolOutput {
    let ranks = job.world.plan().ranks();
    let mut output = ToolOutput { text: head(job), ..ToolOutput::default() };
    let mut bandwidths = Vec::new();
    let rows = job.rows.iter().zip(&results.times).zip(&results.wrong).zip(&results.remarks);
    for (((row, spans), wrong), remarks) in rows.take(done) {
        let s = &job.settings;
        let operator = if job.operation.reduces() { s.operator } else { "none" };
        let root = if job.operation.rooted() { i64::from(s.root) } else { -1 };
        let _ = write!(output.text, "{:>12}  {:>12}  {:>8}  {operator:>6}  {root:>6}", row.bytes, row.count, s.type_name);
        for (place, spans) in spans.iter().enumerate() {
            let time = time(job, row, place, spans);
            let (counted, factor) = job.operation.counted(ranks, row.bytes);
            let algorithm = if time > 0.0 { counted / time / 1e3 } else { 0.0 };
            let bus = algorithm * factor;
            bandwidths.push(bus);
            let wrong_values = wrong[place];
            let wrong = if s.check { format!("  {wrong_values:>6}") } else { "    N/A".to_owned() };
            let _ = write!(output.text, "  {}  {}  {}{wrong}", float(time, 7), float(algorithm, 6), float(bus, 6));
            let names: [&'static str; 3] =
                if place == 0 { ["time", "algbw", "busbw"] } else { ["time_in_place", "algbw_in_place", "busbw_in_place"] };
            let plan = job.world.plan();
            if plan.settings().collnet && plan.nodes() > 1 && !plan.has_collnet() {
                output.remarks.push(
                    "NCCL_COLLNET_ENABLE=1 finds no switches that reduce, too few nodes or too many GPUs in them; the GPUs do it"
                        .to_owned(),
                );
            }
            for (metric, unit, value) in [(names[0], "us", time), (names[1], "GB/s", algorithm), (names[2], "GB/s", bus)] {
                output.points.push(Point { size: Bytes(row.bytes), metric, unit, value });
            }
            if s.check {
                let metric = if place == 0 { "wrong" } else { "wrong_in_place" };
                output.points.push(Point { size: Bytes(row.bytes), metric, unit: "1", value: wrong_values as f64 });
            }
        }
        output.text.push('\n');
        output.remarks.extend(row.choice.clone());
        if let (Some(estimate), Some(taken)) = (row.estimate, spans.first()) {
            expected(&mut output, row.bytes, estimate, time(job, row, 0, taken));
        }
        output.remarks.extend(remarks.iter().cloned());
    }
    if done < job.rows.len() {
        return output;
    }
    let mean = bandwidths.iter().sum::<f64>() / bandwidths.len().max(1) as f64;
    let wrong: u64 = if job.settings.check { results.wrong.iter().flatten().sum() } else { 0 };
    let verdict = if wrong == 0 { "OK" } else { "FAILED" };
    let _ = write!(output.text, "# Out of bounds values : {wrong} {verdict}\n# Avg bus bandwidth    : {mean:.6} \n#\n");
    let _ = write!(output.text, "# Collective test concluded: {}\n#\n", job.operation.tool());
    output
}

/// What the library itself expects of a size, beside what it took.
fn expected(output: &mut ToolOutput, bytes: u64, estimate: Span, taken: f64) {
    let us = estimate.as_us_f64();
    let ratio = if taken > 0.0 { format!("{:.2}", us / taken) } else { "-".to_owned() };
    output.remarks.push(format!("{bytes} bytes: the library expects {us:.2} us, {ratio} of the time out of place"));
    output.points.push(Point { size: Bytes(bytes), metric: "estimate", unit: "us", value: us });
}

/// Time of an operation in µs, over the ranks as asked; messages that were run at two lengths are continued as they grew.
fn time(job: &Job, row: &Row, place: usize, spans: &[Vec<Span>]) -> f64 {
    let of = |ranks: &Vec<Span>| over_ranks(job.settings.average, ranks);
    match spans {
        [short, long] => {
            let (short, long) = (of(short), of(long));
            let count = |number: usize| row.cases[place][number].count as f64;
            long + (row.count as f64 - count(1)) * (long - short) / (count(1) - count(0)).max(1.0)
        }
        [whole] => of(whole),
        _ => 0.0,
    }
}

/// µs over the ranks as `-a` asks: of rank 0, the mean, the least, the most.
pub(super) fn over_ranks(average: u64, ranks: &[Span]) -> f64 {
    let all = ranks.iter().map(|span| span.as_us_f64());
    match average {
        0 => ranks.first().map_or(0.0, |span| span.as_us_f64()),
        1 => all.sum::<f64>() / ranks.len().max(1) as f64,
        2 => all.fold(f64::INFINITY, f64::min),
        _ => all.fold(0.0, f64::max),
    }
}

fn head(job: &Job) -> String {
    let (library, per_node) = (&job.library, job.per_node);
    let (s, tool) = (&job.settings, job.operation.tool());
    let suite = if library.first().name == "NCCL" { "nccl-tests" } else { "rccl-tests" };
    let (least, most) = (s.sizes.first().copied().unwrap_or(0), s.sizes.last().copied().unwrap_or(0));
    let mut text = format!("# {suite} version 2.19.6 nccl-headers={VERSION} nccl-library={VERSION}\n# Collective test starting: {tool}\n");
    let _ = writeln!(
        text,
        "# nThread {} nGpus {} minBytes {least} maxBytes {most} step: {} warmup iters: {} iters: {} agg iters: 1 validation: {} graph: 0 unalign: 0",
        s.threads,
        s.gpus,
        s.step,
        s.warm_up,
        s.iterations,
        u32::from(s.check),
    );
    text += "#\n# Using devices\n";
    for rank in 0..job.world.plan().ranks() {
        let (node, device) = (rank / per_node, rank % per_node);
        let process = PROCESS + device / (s.threads * s.gpus);
        let own = library.on(node);
        let addresses = job.gpu.as_ref().map_or_else(|| own.addresses(), GpuTarget::addresses);
        let bus = addresses.get(device as usize).map(PciAddress::to_string).unwrap_or_default();
        let host = format!("node{node}");
        let _ = writeln!(text, "#  Rank {rank:>2} Group {:>2} Pid {process:>6} on {host:>10} device {device:>2} [{bus}] {}", 0, own.gpu);
    }
    text += "#\n";
    text += "#                                                              out-of-place                       in-place          \n";
    text += "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong \n";
    text += "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)         \n";
    text
}

/// As many digits behind the point as fit, two at the most.
fn float(value: f64, width: usize) -> String {
    let texts = (0..3).rev().map(|digits| format!("{value:.digits$}"));
    let fitting = texts.into_iter().find(|text| text.len() <= width);
    format!("{:>width$}", fitting.unwrap_or_else(|| format!("{value:.1e}")))
}

/// The release whose algorithms are modelled.
const VERSION: u32 = 22203;
/// A process number. Basis: assumed; it only shows in the report.
const PROCESS: u32 = 4242;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_take_the_room_there_is() {
        assert_eq!(float(12.345, 7), "  12.35");
        assert_eq!(
            [float(26217.04, 7), float(123_456.7, 7), float(1_234_567.8, 7)],
            ["26217.0", "123457".to_owned().as_str(), "1234568"].map(|t| format!("{t:>7}"))
        );
        assert_eq!(float(478.871, 6), "478.87");
        let address = |bus: &str| PciAddress::parse(bus).unwrap().to_string();
        assert_eq!((address("18:00.0"), address("0000:18:00.0")), ("0000:18:00".to_owned(), "0000:18:00".to_owned()));
    }
}
