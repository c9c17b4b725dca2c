//! The output of the OSU benchmarks of OpenSHMEM, byte for byte.
//!
//! Source: OMB 7.4, `c/openshmem`, `osu_util_pgas.c`.

use std::fmt::Write;

use fabriscope_tool::{Point, ToolOutput};
use fabriscope_units::{Bytes, Span};

use super::benchmark::{Benchmark, Family};
use super::options::Settings;
use super::pairs::OPERATIONS;

/// The first line.
pub(super) fn title(benchmark: &Benchmark) -> String {
    format!("# OSU OpenSHMEM {} v7.4\n", benchmark.title)
}

/// Of benchmarks between pairs.
pub(super) fn pairs(s: &Settings, rows: &[Vec<[Span; 4]>]) -> ToolOutput {
    let mut output = ToolOutput { text: title(s.benchmark), ..ToolOutput::default() };
    match s.benchmark.family {
        Family::Atomics => atomics(s, rows, &mut output),
        Family::Overlap => overlap(s, rows, &mut output),
        Family::Rate => {
            let _ = writeln!(output.text, "{:<10}{:>WIDTH$}", "# Size", "Messages/s");
            for (size, spans) in s.sizes.iter().zip(rows) {
                let count = f64::from(s.iterations(*size));
                let rate: f64 = spans.iter().map(|[span, ..]| count / span.as_s_f64()).sum();
                row(&mut output, *size, ("message_rate", "messages/s"), rate);
            }
        }
        _ => {
            let _ = writeln!(output.text, "{:<10}{:>WIDTH$}", "# Size", "Latency (us)");
            for (size, spans) in s.sizes.iter().zip(rows) {
                let total = spans.first().map_or(Span::ZERO, |[span, ..]| *span);
                row(&mut output, *size, ("latency", "us"), total.as_us_f64() / f64::from(s.iterations(*size)));
            }
        }
    }
    output
}

fn row(output: &mut ToolOutput, size: u32, (metric, unit): (&'static str, &'static str), value: f64) {
    let _ = writeln!(output.text, "{size:<10}{value:>WIDTH$.2}");
    output.points.push(Point { size: Bytes(size.into()), metric, unit, value });
}

fn atomics(s: &Settings, rows: &[Vec<[Span; 4]>], output: &mut ToolOutput) {
    let _ = writeln!(output.text, "{:<20}{:>WIDTH$}{:>WIDTH$}", "# Operation", "Million ops/s", "Latency (us)");
    let count = f64::from(s.iterations(0));
    for (at, spans) in rows.iter().enumerate() {
        let kind = if at < OPERATIONS.len() { "int" } else { "longlong" };
        let rate: f64 = spans.iter().map(|[span, ..]| count / span.as_us_f64()).sum();
        let latency = spans.iter().map(|[span, ..]| span.as_us_f64() / count).sum::<f64>() / f64::from(s.pairs);
        let name = format!("shmem_{kind}_{}", OPERATIONS[at % OPERATIONS.len()]);
        let _ = writeln!(output.text, "{name:<20}{rate:>WIDTH$.2}{latency:>WIDTH$.2}");
        let size = Bytes(if kind == "int" { 4 } else { 8 });
        output.points.push(Point { size, metric: "atomic_rate", unit: "Mops/s", value: rate });
        output.points.push(Point { size, metric: "latency", unit: "us", value: latency });
    }
}

fn overlap(s: &Settings, rows: &[Vec<[Span; 4]>], output: &mut ToolOutput) {
    output.text += "# Overall = Coll. Init + Compute + MPI_Test + MPI_Wait\n\n";
    let names = ["Compute(us)", "Coll. Init(us)", "MPI_Wait(us)", "Pure Comm.(us)", "Overlap(%)"];
    let _ = writeln!(output.text, "{:<10}{}", "# Size", names.map(|name| format!("{name:>WIDTH$}")).concat());
    for (size, spans) in s.sizes.iter().zip(rows) {
        let count = f64::from(s.iterations(*size));
        let [alone, computing, posting, waiting] = spans.first().copied().unwrap_or_default().map(|span| span.as_us_f64() / count);
        // What the iteration takes beyond the computation, as a share of the put alone.
        let hidden = (100.0 - (posting + waiting) / alone * 100.0).max(0.0);
        let values = [computing, posting, waiting, alone, hidden];
        let _ = writeln!(output.text, "{size:<10}{}", values.map(|value| format!("{value:>17.2}")).concat());
        let size = Bytes(u64::from(*size));
        output.points.push(Point { size, metric: "latency", unit: "us", value: alone });
        output.points.push(Point { size, metric: "overlap", unit: "%", value: hidden });
    }
}

/// Of collective operations: the mean of each PE, by size.
pub(super) fn collective(s: &Settings, rows: &[Vec<Span>]) -> ToolOutput {
    let mut output = ToolOutput { text: title(s.benchmark), ..ToolOutput::default() };
    let sized = s.sizes != [0];
    output.text += &if sized { format!("{:<10}{:>WIDTH$}", "# Size", "Avg Latency(us)") } else { "# Avg Latency(us)".to_owned() };
    if s.full {
        let _ = write!(output.text, "{:>WIDTH$}{:>WIDTH$}{:>12}", "Min Latency(us)", "Max Latency(us)", "Iterations");
    }
    output.text.push('\n');
    for (size, means) in s.sizes.iter().zip(rows) {
        let of = |span: Option<&Span>| span.map_or(0.0, |span| span.as_us_f64());
        let average = means.iter().copied().sum::<Span>().as_us_f64() / means.len().max(1) as f64;
        output.text += &if sized { format!("{size:<10}{average:>WIDTH$.2}") } else { format!("{average:>17.2}") };
        if s.full {
            let (least, most) = (of(means.iter().min()), of(means.iter().max()));
            let _ = write!(output.text, "{least:>WIDTH$.2}{most:>WIDTH$.2}{:>12}", s.iterations(*size));
        }
        output.text.push('\n');
        output.points.push(Point { size: Bytes(u64::from(*size)), metric: "latency", unit: "us", value: average });
    }
    output
}

/// Characters of a column (basis: the tools).
const WIDTH: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shmem::benchmark::tests::named;

    fn settings(name: &str, sizes: &[u32]) -> Settings {
        Settings {
            benchmark: named(name),
            sizes: sizes.to_vec(),
            repeats: crate::osu::Repeats { iterations: Some(10), warm_up: None },
            pairs: 2,
            full: false,
            heap: true,
            symmetric_size: None,
            algorithm: None,
            offload: None,
        }
    }

    #[test]
    fn columns_of_pairs() {
        // 10 puts in 15 us; 10 messages of each of two pairs in 2 us and in 4 us: 5 M/s and 2.5 M/s.
        let one = |us: u64| [Span::from_us(us), Span::ZERO, Span::ZERO, Span::ZERO];
        assert_eq!(
            pairs(&settings("osu_oshm_put", &[1]), &[vec![one(15)]]).text,
            "# OSU OpenSHMEM Put Test v7.4\n# Size            Latency (us)\n1                         1.50\n"
        );
        let both = pairs(&settings("osu_oshm_put_mr_nb", &[8]), &[vec![one(2), one(4)]]).text;
        assert_eq!(both, "# OSU OpenSHMEM Put_nb Message Rate Test v7.4\n# Size              Messages/s\n8                   7500000.00\n");
        let rows = vec![vec![one(10), one(20)]; 16];
        let text = pairs(&settings("osu_oshm_atomics", &[]), &rows).text;
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "# Operation                Million ops/s        Latency (us)");
        assert_eq!(lines[2], "shmem_int_fadd                      1.50                1.50");
        assert_eq!((lines[10], lines.len()), ("shmem_longlong_fadd                 1.50                1.50", 18));
    }

    #[test]
    fn columns_of_overlap() {
        // A put takes 2.0 us; beside as much computation it is posted in 0.1 us and waited for in 0.3 us: 80 % is hidden.
        let us = |tenths: u64| Span::from_ns(1000 * tenths);
        let text = pairs(&settings("osu_oshm_put_overlap", &[64]), &[vec![[us(20), us(20), us(1), us(3)]]]).text;
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "# Overall = Coll. Init + Compute + MPI_Test + MPI_Wait");
        assert_eq!(lines[3].len(), 110);
        assert_eq!(lines[4], "64                     2.00             0.10             0.30             2.00            80.00");
    }

    #[test]
    fn columns_of_collective_operations() {
        let means = vec![vec![Span::from_us(2), Span::from_us(4)]];
        let barrier = "osu_oshm_barrier";
        assert_eq!(
            collective(&settings(barrier, &[0]), &means).text,
            "# OSU OpenSHMEM Barrier Latency Test v7.4\n# Avg Latency(us)\n             3.00\n"
        );
        let full = Settings { full: true, ..settings("osu_oshm_reduce", &[4]) };
        assert_eq!(
            collective(&full, &means).text,
            "# OSU OpenSHMEM Reduce Latency Test v7.4\n\
             # Size         Avg Latency(us)     Min Latency(us)     Max Latency(us)  Iterations\n\
             4                         3.00                2.00                4.00          10\n"
        );
    }
}
