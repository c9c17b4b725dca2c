//! The table that the program prints, in SPDK's form, and what each end's cores did.

use std::fmt::Write;

use fabriscope_tool::{Point, ToolOutput, nearest_rank};
use fabriscope_units::Span;

use crate::command::Shared;
use crate::settings::{Server, Settings};

/// What is printed in the end.
pub(crate) fn output(s: &Settings, shared: &Shared) -> ToolOutput {
    let hosts = shared.hosts.lock();
    let name = if s.local {
        "PCIE (0000:01:00.0) NSID 1".to_owned()
    } else {
        "RDMA (addr:192.168.0.2 subnqn:nqn.2016-06.io.spdk:cnode1) NSID 1".to_owned()
    };
    let mut text = String::from("Initializing NVMe Controllers\n");
    let _ = match s.local {
        true => writeln!(text, "Attached to NVMe Controller at 0000:01:00.0"),
        false => writeln!(text, "Attached to NVMe over Fabrics controller at 192.168.0.2:4420: nqn.2016-06.io.spdk:cnode1"),
    };
    for core in 0..hosts.len() {
        let _ = writeln!(text, "Associating {name} with lcore {core}");
    }
    text.push_str("Initialization complete. Launching workers.\n");
    let rule = "=".repeat(8);
    let width = name.len() + " from core  0:".len();
    let _ = writeln!(text, "{rule}\n{:width$} {:>10} {:>10} {:>32}", "", "", "", "Latency(us)");
    let _ = writeln!(
        text,
        "{:width$} {:>10} {:>10} {:>10} {:>10} {:>10}",
        format!("{:<1$}:", "Device Information", width - 1),
        "IOPS",
        "MiB/s",
        "Average",
        "min",
        "max"
    );
    let row = |latencies: &[Span], rate: f64| {
        let sum: f64 = latencies.iter().map(|span| span.as_us_f64()).sum();
        let us = |span: Option<&Span>| span.map_or(0.0, |span| span.as_us_f64());
        let mean = sum / latencies.len().max(1) as f64;
        let mib = rate * s.bytes.0 as f64 / 1_048_576.0;
        let (least, most) = (us(latencies.iter().min()), us(latencies.iter().max()));
        (mean, mib, format!(" {rate:10.2} {mib:10.2} {mean:10.2} {least:10.2} {most:10.2}\n"))
    };
    let mut all: Vec<Span> = Vec::new();
    let mut total = 0.0;
    for (core, host) in hosts.iter().enumerate() {
        let rate = host.latencies.len() as f64 / host.elapsed.as_s_f64().max(f64::MIN_POSITIVE);
        total += rate;
        all.extend(&host.latencies);
        let _ = write!(text, "{name} from core {core:>2}:{}", row(&host.latencies, rate).2);
    }
    let (mean, mib, line) = row(&all, total);
    let _ = write!(text, "{rule}\n{:<1$}:{line}", "Total", width - 1);
    all.sort_unstable();
    let quantile = |parts: u64| nearest_rank(&all, parts, 100_000).as_us_f64();
    if s.percentiles {
        let _ = write!(text, "\nSummary latency data for {name}:\n{rule}\n");
        for parts in [1_000, 10_000, 25_000, 50_000, 75_000, 90_000, 95_000, 98_000, 99_000, 99_500, 99_900, 99_990, 99_999] {
            let _ = writeln!(text, "{:>9.5}% : {:10.3}us", parts as f64 / 1000.0, quantile(parts));
        }
    }
    let point = |metric, unit, value| Point { size: s.bytes, metric, unit, value };
    let points = vec![
        point("operation_rate", "ops/s", total),
        point("bandwidth", "MiB/s", mib),
        point("latency", "us", mean),
        point("p99_latency", "us", quantile(99_000)),
    ];
    ToolOutput { text, points, remarks: remarks(s, shared, &hosts), ..ToolOutput::default() }
}

/// Who worked, by command.
fn remarks(s: &Settings, shared: &Shared, hosts: &[crate::command::Core]) -> Vec<String> {
    let commands: usize = hosts.iter().map(|host| host.latencies.len()).sum();
    let each = |busy: Span| busy.as_us_f64() / commands.max(1) as f64;
    let busy: Span = hosts.iter().map(|host| host.busy).sum();
    let mut remarks =
        vec![format!("{} of `{}`: {} commands, {:.2} us of the host's cores for each", s.drives, s.drive.name, commands, each(busy))];
    if !s.local {
        let served: Span = shared.served.lock().iter().copied().sum();
        let who = match s.server {
            Server::Host => "the target's cores for each",
            Server::Dpu => "the cores on the target's adapter for each",
            Server::Offload => "the target's cores for each: its adapter serves by itself",
        };
        remarks.push(format!("{:.2} us of {who}", each(served)));
    }
    remarks
}
