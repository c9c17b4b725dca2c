//! The output of the OSU benchmarks, byte for byte.
//!
//! Source: OMB 7.4 (format: docs/formats.md). MB is 10⁶ bytes.

use std::fmt::Write;

use fabriscope_tool::{Point, ToolOutput};
use fabriscope_units::{Bytes, Span};

use super::benchmark::Metric;
use super::options::Settings;

/// What one size took.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Message size in bytes.
    pub size: u32,
    /// All measured iterations together; over several pairs the mean.
    pub total: Span,
    /// Each of them.
    pub iterations: Vec<Span>,
}

/// Formats `samples` as the tool does.
#[must_use]
pub fn report(s: &Settings, samples: &[Sample]) -> ToolOutput {
    let mut output = ToolOutput { text: head(s), ..ToolOutput::default() };
    for sample in samples {
        let mut row = format!("{:<10}", sample.size);
        for (metric, unit, value) in values(s, sample, sample.total) {
            let digits = if s.benchmark.metric == Metric::BandwidthOfRoundTrip { 5 } else { 2 };
            let _ = write!(row, "{value:>WIDTH$.digits$}");
            output.points.push(Point { size: Bytes(sample.size.into()), metric, unit, value });
        }
        if s.full {
            let _ = write!(row, "{:>12}", sample.iterations.len());
            let (size, value) = (Bytes(sample.size.into()), sample.iterations.len() as f64);
            output.points.push(Point { size, metric: "iterations", unit: "1", value });
        }
        if s.validate {
            let _ = write!(row, "{:>WIDTH$}", "Pass");
        }
        for value in s.tails.iter().filter_map(|percentile| tail(s, sample, *percentile)) {
            let _ = write!(row, "{value:>WIDTH$.2}");
        }
        output.text += &row;
        output.text.push('\n');
    }
    output
}

/// Everything above the rows.
fn head(s: &Settings) -> String {
    if s.benchmark.metric == Metric::BandwidthOfRoundTrip {
        let aware = if s.buffers.staged { "disabled" } else { "enabled" };
        return format!("# {}; GPU-aware MPI {aware}\n# Size         Bandwidth (GB/s)\n", s.benchmark.title(""));
    }
    let mut text = format!("\n# {} v7.4\n", s.benchmark.title(s.buffers.suffix()));
    text += &s.buffers.head();
    if s.benchmark.metric == Metric::MessageRate {
        let _ = writeln!(text, "# [ pairs: {} ] [ window size: {} ]", s.pairs, s.window);
    }
    if s.benchmark.one_sided().is_some() {
        let _ = writeln!(text, "# Window creation: MPI_Win_allocate\n# Synchronization: {}", s.sync.title());
    }
    let _ = writeln!(text, "# Datatype: {}.", s.datatype.name());
    let columns: &[&str] = match s.benchmark.metric {
        Metric::HalfRoundTrip | Metric::Time => &["Avg Latency(us)"],
        Metric::Bandwidth | Metric::BandwidthOfBoth => &["Bandwidth (MB/s)"],
        Metric::MessageRate => &["MB/s", "Messages/s"],
        Metric::BandwidthOfRoundTrip => &[],
    };
    let mut columns: Vec<String> = columns.iter().map(|name| format!("{name:>WIDTH$}")).collect();
    if s.full {
        columns.push(format!("{:>12}", "Iterations"));
    }
    if s.validate {
        columns.push(format!("{:>WIDTH$}", "Validation"));
    }
    let unit = if s.benchmark.is_latency() { "Lat(us)" } else { "BW(MB/s)" };
    columns.extend(s.tails.iter().map(|percentile| format!("{:>WIDTH$}", format!("P{percentile} Tail {unit}"))));
    let _ = writeln!(text, "{:<10}{}", "# Size", columns.concat());
    text
}

/// The columns of a row: name, unit, value, when the measured iterations take `total`.
fn values(s: &Settings, sample: &Sample, total: Span) -> Vec<(&'static str, &'static str, f64)> {
    let iterations = sample.iterations.len().max(1) as f64;
    let messages = iterations * f64::from(s.window);
    let rate = |ways: f64| ways * messages / total.as_s_f64();
    let megabytes = f64::from(sample.size) / 1e6;
    match s.benchmark.metric {
        Metric::HalfRoundTrip => vec![("latency", "us", total.as_us_f64() / iterations / 2.0)],
        Metric::Time => vec![("latency", "us", total.as_us_f64() / iterations)],
        Metric::Bandwidth => vec![("bandwidth", "MB/s", megabytes * rate(1.0))],
        Metric::BandwidthOfBoth => vec![("bandwidth", "MB/s", megabytes * rate(2.0))],
        // Twice the bytes for a round trip.
        Metric::BandwidthOfRoundTrip => vec![("bandwidth", "GB/s", megabytes / 1e3 * 2.0 * iterations / total.as_s_f64())],
        Metric::MessageRate => {
            let rate = rate(f64::from(s.pairs));
            vec![("bandwidth", "MB/s", megabytes * rate), ("message_rate", "messages/s", rate)]
        }
    }
}

/// The first column at a percentile of the iterations; for bandwidths from the fast end.
fn tail(s: &Settings, sample: &Sample, percentile: f64) -> Option<f64> {
    let mut sorted = sample.iterations.clone();
    sorted.sort_unstable();
    let count = sorted.len();
    // The nearest rank: the smallest iteration with at least this share at or below it.
    let at = ((percentile / 100.0 * count as f64).ceil() as usize).clamp(1, count.max(1)) - 1;
    let span = *sorted.get(at)?;
    let all = span * count as u64;
    values(s, sample, all).first().map(|(_, _, value)| *value)
}

/// Characters of a column of values; that of the iterations has 12 (basis: docs/formats.md).
const WIDTH: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::omb::benchmark::tests::named;
    use crate::omb::buffers::Buffers;

    fn settings(name: &str) -> Settings {
        let benchmark = named(name);
        let (sizes, tails) = (vec![], vec![]);
        Settings {
            benchmark,
            sizes,
            repeats: crate::osu::Repeats::default(),
            window: 64,
            pairs: 1,
            full: false,
            validate: false,
            tails,
            buffers: Buffers::default(),
            sync: crate::omb::sync::Sync::of(benchmark),
            datatype: fabriscope_mpi::Datatype::Char,
            offload: None,
        }
    }
    fn sample(size: u32, each: Span, count: usize) -> Sample {
        Sample { size, total: each * count as u64, iterations: vec![each; count] }
    }

    #[test]
    fn latency_is_half_a_round_trip() {
        let text = report(&settings("osu_latency"), &[sample(0, Span::from_ns(2040), 100), sample(1, Span::from_ns(2060), 100)]).text;
        assert_eq!(
            text,
            "\n# OSU MPI Latency Test v7.4\n# Datatype: MPI_CHAR.\n# Size         Avg Latency(us)\n\
             0                         1.02\n1                         1.03\n"
        );
    }

    #[test]
    fn latency_beside_other_pairs_has_the_columns_of_latency() {
        let s = Settings { pairs: 8, ..settings("osu_multi_lat") };
        assert_eq!(
            report(&s, &[sample(1, Span::from_ns(2060), 100)]).text,
            "\n# OSU MPI Multi Latency Test v7.4\n# Datatype: MPI_CHAR.\n# Size         Avg Latency(us)\n1                         1.03\n"
        );
    }

    #[test]
    fn bandwidth_counts_the_window() {
        // 64 · 4 MiB in 5.45 ms: 49254.2 MB/s.
        let out = report(&settings("osu_bw"), &[sample(4 << 20, Span::from_us(5450), 20)]);
        assert_eq!(
            out.text,
            "\n# OSU MPI Bandwidth Test v7.4\n# Datatype: MPI_CHAR.\n# Size        Bandwidth (MB/s)\n4194304               49254.21\n"
        );
        assert_eq!((out.points[0].metric, out.points[0].unit, out.points[0].size), ("bandwidth", "MB/s", Bytes(4 << 20)));
        let both = report(&settings("osu_bibw"), &[sample(4 << 20, Span::from_us(5450), 20)]);
        assert!((both.points[0].value - 2.0 * out.points[0].value).abs() < 1e-6);
        assert!(both.text.starts_with("\n# OSU MPI Bi-Directional Bandwidth Test v7.4\n"));
    }

    #[test]
    fn message_rate_has_two_columns() {
        // 8 pairs · 64 messages of 1 byte in 64 us: 8 M messages/s.
        let s = Settings { pairs: 8, ..settings("osu_mbw_mr") };
        let text = report(&s, &[sample(1, Span::from_us(64), 10)]).text;
        assert_eq!(
            text,
            "\n# OSU MPI Multiple Bandwidth / Message Rate Test v7.4\n# [ pairs: 8 ] [ window size: 64 ]\n# Datatype: MPI_CHAR.\n\
             # Size                    MB/s          Messages/s\n1                         8.00          8000000.00\n"
        );
    }

    #[test]
    fn more_columns_stand_behind() {
        let s = Settings { full: true, validate: true, tails: vec![50.0, 99.9], ..settings("osu_latency") };
        let mut slow = sample(8, Span::from_us(2), 10);
        slow.iterations[3] = Span::from_us(8);
        slow.total += Span::from_us(6);
        let text = report(&s, &[slow]).text;
        let rows: Vec<&str> = text.lines().skip(3).collect();
        assert_eq!(rows[0], "# Size         Avg Latency(us)  Iterations          Validation    P50 Tail Lat(us)  P99.9 Tail Lat(us)");
        assert_eq!(rows[1], "8                         1.30          10                Pass                1.00                4.00");
    }
}
