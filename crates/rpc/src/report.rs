//! What `rpc` prints: a row for each transport and load.

use std::fmt::Write;

use fabriscope_tool::{DataTable, Datum, Point, ToolOutput, nearest_rank};
use fabriscope_units::Span;

use crate::job::{Job, Measured};
use crate::options::{Load, Service};
use crate::stages::Stage;

/// Shares of calls whose time is printed, in thousandths.
const QUANTILES: [(&str, &str, u64); 4] =
    [("p50", "p50_us", 500), ("p90", "p90_us", 900), ("p99", "p99_us", 990), ("p99.9", "p99_9_us", 999)];

/// The output of the job, whose programs are done.
#[must_use]
pub fn report(job: &Job) -> ToolOutput {
    let s = &job.settings;
    let clients = Job::clients(s, job.nodes);
    let mut text = String::new();
    let service = if s.service.0 == Service::Constant { "constant" } else { "exponential" };
    let _ = writeln!(
        text,
        "\n# RPC: {clients} client threads, {} servers of {} I/O threads and {} workers",
        s.servers, s.io_threads, s.workers
    );
    let asks = if s.fan_out == 1 { String::new() } else { format!("; each asks {} servers and waits for {}", s.fan_out, s.first) };
    let (request, reply, mean) = (s.request.0, s.reply.0, s.service.1.as_us_f64());
    let _ = writeln!(text, "# request {request} B, reply {reply} B, service {service} {mean} us; {} calls a thread{asks}", s.calls);
    let _ = write!(text, "{:<10} {:>8} {:>7} {:>7}", "# Over", "Load", "Calls/s", "Mean");
    QUANTILES.iter().for_each(|(name, ..)| text += &format!(" {name:>7}"));
    text += " |";
    Stage::ALL.iter().for_each(|stage| text += &format!(" {:>6}", stage.name()));
    text += "\n";
    let mut columns = vec!["transport", "outstanding", "rate_per_s", "calls", "calls_per_s", "mean_us"];
    columns.extend(QUANTILES.iter().map(|(_, key, _)| *key));
    columns.extend(STAGE_KEYS);
    let mut table = DataTable { name: "calls", columns, rows: Vec::new() };
    let mut points = Vec::new();
    for (row, (stack, load)) in job.stacks.iter().flat_map(|stack| s.loads.iter().map(move |load| (stack, load))).enumerate() {
        let of_clients: Vec<Measured> = job.measured.iter().filter_map(|measured| measured.lock().get(row).cloned()).collect();
        let mut spans: Vec<Span> = of_clients.iter().flat_map(|measured| measured.calls.iter().copied()).collect();
        spans.sort_unstable();
        let count = spans.len().max(1) as f64;
        let begin = of_clients.iter().filter_map(|measured| measured.begin).min().unwrap_or_default();
        let end = of_clients.iter().map(|measured| measured.end).max().unwrap_or_default();
        let rate = spans.len() as f64 / end.since(begin).as_s_f64().max(1e-12);
        let sum = |spans: &mut dyn Iterator<Item = Span>| spans.map(Span::as_us_f64).sum::<f64>() / count;
        let mean = sum(&mut spans.iter().copied());
        let quantiles = QUANTILES.map(|(_, _, share)| nearest_rank(&spans, share, 1000).as_us_f64());
        let stages = Stage::ALL.map(|stage| sum(&mut of_clients.iter().map(|measured| measured.stages[stage as usize])));
        let (shown, outstanding, asked) = match load {
            Load::Closed(outstanding) => (format!("{outstanding}"), *outstanding, 0.0),
            Load::Open(rate) => (format!("{rate}/s"), 0, *rate),
        };
        let _ = write!(text, "{:<10} {shown:>8} {rate:>7.0} {mean:>7.2}", stack.over.name());
        quantiles.iter().for_each(|us| text += &format!(" {us:>7.2}"));
        text += " |";
        stages.iter().for_each(|us| text += &format!(" {us:>6.2}"));
        text += "\n";
        let mut cells = vec![
            Datum::Word(stack.over.name().to_owned()),
            Datum::Count(outstanding.into()),
            Datum::Number(asked),
            Datum::Count(spans.len() as u64),
            Datum::Number(rate),
            Datum::Number(mean),
        ];
        cells.extend(quantiles.into_iter().chain(stages).map(Datum::Number));
        table.rows.push(cells);
        let mut point = |metric, unit, value| points.push(Point { size: s.request, metric, unit, value });
        point("call_rate", "1/s", rate);
        point("round_trip", "us", mean);
        point("round_trip_p99", "us", quantiles[2]);
    }
    text += "# Times in us; behind the bar the mean by where it went.\n";
    ToolOutput { text, points, tables: vec![table], ..ToolOutput::default() }
}

/// Keys of the columns of stages, in the order of [`Stage::ALL`].
const STAGE_KEYS: [&str; 7] = ["client_us", "serialise_us", "transport_us", "network_us", "loop_us", "queue_us", "service_us"];
