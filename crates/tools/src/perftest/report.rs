//! Tables and files of a perftest run.
//!
//! Source: perftest 6.29 (format: docs/formats.md), byte for byte. Bandwidth in units of 2²⁰ bytes, or 10⁹ bits with `--report_gbits`.

use std::fmt::Write;

use fabriscope_tool::{Point, SideFile, ToolOutput};
use fabriscope_units::{Bytes, Time};
use fabriscope_verbs::WcStatus;

use super::gpu;
use super::header::{self, Address, LINE};
use super::json;
use super::settings::{Length, Settings, Verbosity};
use super::statistics::{self, BandwidthRow, LatencyDurationRow, LatencyRow};
use super::test::Kind;

/// One finished row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Row {
    /// Of a latency test.
    Latency(LatencyRow),
    /// Of a latency test under `-D`.
    LatencyDuration(LatencyDurationRow),
    /// Of a bandwidth test.
    Bandwidth(BandwidthRow),
}

/// All that a run measured.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Measured {
    /// Queue pairs of the end that reports.
    pub local: Vec<Address>,
    /// Queue pairs of the other end.
    pub remote: Vec<Address>,
    /// Rows, each with the posts it came from (for `-U` and `-H`).
    pub rows: Vec<(Row, Vec<Time>)>,
    /// The request that failed on purpose.
    pub failure: Option<Failure>,
    /// What else is to be told.
    pub remarks: Vec<String>,
}

/// A request that ended with an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    /// How it ended.
    pub status: WcStatus,
    /// Its queue pair, as the tool numbers them.
    pub qp: u64,
    /// Requests posted, and completed.
    pub counts: [u64; 2],
}

/// Formats `measured` as the tool does.
pub fn report(s: &Settings, measured: &Measured) -> ToolOutput {
    let mut output = table(s, measured);
    output.remarks.clone_from(&measured.remarks);
    if let Some(Failure { status, qp, counts: [sent, completed] }) = measured.failure {
        // As the tool writes it to its standard error.
        let code = status as u8;
        output.text +=
            &format!(" Completion with error at client\n Failed status {code}: wr_id {qp} syndrom 0x0\nscnt={sent}, ccnt={completed}\n");
        output.remarks.push(format!("status {code} is {} ({})", status.name(), status.text()));
        return output;
    }
    if s.verbosity == Verbosity::Full {
        output.text += LINE;
    }
    if let Some(gpu) = &s.gpu {
        output.text += &gpu::closing(gpu, buffer(s, measured));
    }
    if let (Some(name), Some((row, _))) = (&s.json, measured.rows.last()) {
        output.files.push(SideFile { name: name.clone(), text: json::file(s, row) });
    }
    output
}

/// Where the buffer is: what is exchanged is the address of the receiving half.
fn buffer(s: &Settings, measured: &Measured) -> u64 {
    measured.local.first().map_or(0, |end| end.vaddr - s.half())
}

/// All down to the last row.
pub(super) fn table(s: &Settings, measured: &Measured) -> ToolOutput {
    let mut output = ToolOutput::default();
    let full = s.verbosity == Verbosity::Full;
    let buffer = buffer(s, measured);
    if let Some(gpu) = &s.gpu {
        output.text = gpu::opening(s, gpu, buffer);
    }
    if full {
        output.text += &(header::header(s) + &header::addresses(s, &measured.local, &measured.remote) + LINE + &table_head(s));
    }
    for (row, posted) in &measured.rows {
        let text = &mut output.text;
        if s.unsorted || s.histogram {
            samples(s, posted, text);
            if full {
                *text += LINE;
                *text += &table_head(s);
            }
        }
        match (row, s.verbosity) {
            (Row::Bandwidth(row), Verbosity::Bandwidth) => line(text, format_args!("{:.6}", bandwidth_value(s, row.average))),
            (Row::Bandwidth(row), Verbosity::MessageRate) => line(text, format_args!("{:.6}", row.message_rate)),
            (Row::Bandwidth(row), _) => bandwidth_row(s, row, text),
            (Row::Latency(row), Verbosity::Latency) => line(text, format_args!("{:.6}", row.average)),
            (Row::Latency(row), _) => latency_row(row, text),
            (Row::LatencyDuration(row), Verbosity::Latency) => line(text, format_args!("{:.6}", row.average)),
            (Row::LatencyDuration(row), _) => {
                line(
                    text,
                    format_args!(
                        " {:<7}       {}            {:<7.2}        {:<7.2}",
                        row.size, row.iterations, row.average, row.per_second
                    ),
                );
            }
        }
        points(s, row, &mut output.points);
    }
    output
}

/// Names of the columns.
fn table_head(s: &Settings) -> String {
    match (s.test.kind, s.length, s.gigabits) {
        (Kind::Bandwidth, _, true) => " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n".to_owned(),
        (Kind::Bandwidth, _, false) => " #bytes     #iterations    BW peak[MiB/sec]    BW average[MiB/sec]   MsgRate[Mpps]\n".to_owned(),
        (Kind::Latency, Length::Duration { .. }, _) => " #bytes        #iterations       t_avg[usec]    tps average\n".to_owned(),
        (Kind::Latency, Length::Iterations(_), _) => concat!(
            " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]",
            "   99% percentile[usec]   99.9% percentile[usec] \n"
        )
        .to_owned(),
    }
}

/// Bytes per second in the unit of the report.
pub(crate) fn bandwidth_value(s: &Settings, bytes_per_second: f64) -> f64 {
    bytes_per_second / if s.gigabits { BYTES_PER_GIGABIT } else { BYTES_PER_MEBIBYTE }
}

/// Whether a slow result gets more digits.
pub(crate) fn needs_digits(s: &Settings, average: f64) -> bool {
    bandwidth_value(s, average) < 0.1
}

fn bandwidth_row(s: &Settings, row: &BandwidthRow, text: &mut String) {
    let (peak, average) = (bandwidth_value(s, row.peak), bandwidth_value(s, row.average));
    let (size, iterations, rate) = (row.size, row.iterations, row.message_rate);
    if needs_digits(s, row.average) {
        line(text, format_args!(" {size:<7}    {iterations}           {peak:<7.6}            {average:<7.6}            {rate:<7.6}"));
    } else {
        line(text, format_args!(" {size:<7}    {iterations:<10}       {peak:<7.2}            {average:<7.2}\t\t     {rate:<7.6}"));
    }
}

fn latency_row(row: &LatencyRow, text: &mut String) {
    let LatencyRow { size, iterations, min, max, typical, average, deviation, percentile_99, percentile_99_9 } = row;
    line(
        text,
        format_args!(
            " {size:<7} {iterations}          {min:<7.2}        {max:<7.2}      {typical:<7.2}  \t       {average:<7.2}     \
             \t{deviation:<7.2}\t\t{percentile_99:<7.2} \t\t{percentile_99_9:<7.2}"
        ),
    );
}

/// `-U` lists the exchanges in order of time, `-H` in order of length without the two longest.
fn samples(s: &Settings, posted: &[Time], text: &mut String) {
    let parts = if s.test.is_one_sided_round_trip() { 1.0 } else { 2.0 };
    let mut spans = statistics::exchanges(posted);
    if s.unsorted {
        text.push_str("#, usec\n");
        for (at, span) in spans.iter().enumerate() {
            line(text, format_args!("{}, {}", at + 1, general(span.as_us_f64() / parts)));
        }
    }
    if s.histogram {
        spans.sort_unstable();
        text.push_str("#, usec\n");
        for (at, span) in spans.iter().take(spans.len().saturating_sub(2)).enumerate() {
            line(text, format_args!("{}, {}", at + 1, general(span.as_us_f64() / parts)));
        }
    }
}

/// `%g` of C for the magnitudes of latencies: six significant digits, no zeros at the end.
fn general(value: f64) -> String {
    let whole_digits = (value.abs().max(1.0) as u64).checked_ilog10().unwrap_or(0) as usize + 1;
    let small = if value != 0.0 && value.abs() < 0.1 { 1 + usize::from(value.abs() < 0.01) + usize::from(value.abs() < 0.001) } else { 0 };
    let decimals = if value.abs() < 1.0 { 6 + small } else { 6usize.saturating_sub(whole_digits) };
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

fn line(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    let _ = writeln!(text, "{arguments}");
}

fn points(s: &Settings, row: &Row, points: &mut Vec<Point>) {
    let mut push = |size: u32, metric, unit, value| points.push(Point { size: Bytes(size.into()), metric, unit, value });
    match row {
        Row::Latency(row) => {
            for (metric, value) in [
                ("latency", row.typical),
                ("latency_min", row.min),
                ("latency_max", row.max),
                ("latency_avg", row.average),
                ("latency_stdev", row.deviation),
                ("latency_p99", row.percentile_99),
                ("latency_p99.9", row.percentile_99_9),
            ] {
                push(row.size, metric, "us", value);
            }
            push(row.size, "iterations", COUNT, row.iterations as f64);
        }
        Row::LatencyDuration(row) => {
            push(row.size, "latency", "us", row.average);
            push(row.size, "exchange_rate", "1/s", row.per_second);
            push(row.size, "iterations", COUNT, row.iterations as f64);
        }
        Row::Bandwidth(row) => {
            let unit = if s.gigabits { "Gb/s" } else { "MiB/s" };
            push(row.size, "bandwidth", unit, bandwidth_value(s, row.average));
            if s.peak {
                push(row.size, "bandwidth_peak", unit, bandwidth_value(s, row.peak));
            }
            push(row.size, "message_rate", "Mpps", row.message_rate);
            push(row.size, "iterations", COUNT, row.iterations as f64);
        }
    }
}

/// The unit of what is counted.
const COUNT: &str = "1";
/// 2²⁰ bytes (the tool's `MiB`).
const BYTES_PER_MEBIBYTE: f64 = 1_048_576.0;
/// 10⁹ bits.
const BYTES_PER_GIGABIT: f64 = 125_000_000.0;
