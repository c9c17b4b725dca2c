//! `mlc`: latency and bandwidth of loads between the cores and the memories of a node.
//!
//! Source: Intel Memory Latency Checker 3.11, its options and its output.
//! Modelled: idle latency by a chase of pointers on one core; bandwidth with all cores of a node, each with as many lines outstanding as
//! its prefetchers ask for; lines written back beside those read (`-W`); loads under load: one core chases, the others read with a pause.
//! Nodes without cores are memories behind CXL.
//! Not modelled: what it says of caches (`--c2c_latency`), hyper-threads, patterns of addresses; a pause is counted in cycles of the core
//! from line to line.

use std::fmt::Write;

use fabriscope_platform::Loads;
use fabriscope_tool::arguments::Meaning::{Harmless, Refused, Usual};
use fabriscope_tool::arguments::{self, Opt, Parsed, Takes, opt, value};
use fabriscope_tool::{ToolOutput, UsageError};
use fabriscope_units::Span;

use super::{IDLE, System, Thread, WARM, WINDOW, chase, idle, missing, point, simulate, streams};

pub(super) const OPTIONS: &[Opt] = &[
    opt('\0', "latency_matrix", Takes::Nothing, Usual, "idle latency from each node with cores to each node"),
    opt('\0', "idle_latency", Takes::Nothing, Usual, "idle latency from node 0 to the node of -j"),
    opt('\0', "bandwidth_matrix", Takes::Nothing, Usual, "bandwidth from each node with cores to each node"),
    opt(
        '\0',
        "peak_injection_bandwidth",
        Takes::Nothing,
        Usual,
        "bandwidth of mixes of reads and writes, every core to its own node or to that of -j",
    ),
    opt(
        '\0',
        "loaded_latency",
        Takes::Nothing,
        Usual,
        "latency and bandwidth from node 0 to the node of -j while other cores read with pauses",
    ),
    value('j', "memory_node", "node", "the node whose memory is read (default 0)"),
    value('d', "delay", "cycles", "one pause in place of the usual series, for --loaded_latency"),
    value('W', "mix", "type", "lines read to lines written: 2 is 2:1, 3 is 3:1, 5 is 1:1 (default: reads alone)"),
    value('k', "cores", "count", "cores of the node that read (default: all)"),
    opt('B', "no_prefetch", Takes::Nothing, Usual, "cores have their own loads outstanding alone: their fill buffers"),
    opt('e', "keep_prefetchers", Takes::Nothing, Harmless("a chase of pointers is never fetched ahead"), "leave prefetchers as they are"),
    opt('X', "one_thread", Takes::Nothing, Harmless("cores have one thread"), "one thread of each core"),
    opt('\0', "c2c_latency", Takes::Nothing, Refused("caches are not modelled"), "latency between caches"),
    opt('h', "help", Takes::Nothing, Usual, "show this page"),
];

pub(super) const NOTES: &str =
    "\nWithout a test: --latency_matrix, then --bandwidth_matrix. Nodes without cores are memories behind CXL.\n";

#[derive(Debug, Clone, Copy)]
struct Settings {
    to: u32,
    delay: Option<u64>,
    mix: (u32, u32),
    cores: u32,
    outstanding: u32,
}

pub(super) fn run(parsed: &Parsed, loads: &Loads) -> Result<(Span, ToolOutput), UsageError> {
    let mut s = Settings { to: 0, delay: None, mix: (1, 0), cores: loads.cores, outstanding: loads.prefetch_lines };
    let mut tests = Vec::new();
    for given in &parsed.options {
        match given.name {
            "memory_node" => s.to = arguments::number(given, 0, u64::from(u32::MAX))? as u32,
            "delay" => s.delay = Some(arguments::number(given, 0, 1_000_000)?),
            "cores" => s.cores = arguments::number(given, 1, u64::from(loads.cores))? as u32,
            "no_prefetch" => s.outstanding = loads.fill_buffers,
            "mix" => {
                s.mix = match arguments::number(given, 2, 5)? {
                    2 => (2, 1),
                    3 => (3, 1),
                    5 => (1, 1),
                    other => return Err(missing(format!("-W{other} is no mix that is modelled"), "use -W2, -W3 or -W5".to_owned())),
                }
            }
            name => tests.push(name),
        }
    }
    let nodes = loads.nodes() + loads.far();
    if s.to >= nodes {
        return Err(missing(format!("there is no node {} here", s.to), format!("use 0 to {}", nodes - 1)));
    }
    tests.retain(|name| TESTS.contains(name));
    if tests.is_empty() {
        tests = vec!["latency_matrix", "bandwidth_matrix"];
    }
    let mut out = ToolOutput { text: "Intel(R) Memory Latency Checker - v3.11 (simulated)\n".to_owned(), ..ToolOutput::default() };
    let mut time = Span::ZERO;
    for test in tests {
        out.text.push('\n');
        time += match test {
            "latency_matrix" => latency_matrix(loads, &mut out),
            "idle_latency" => idle_latency(loads, s, &mut out),
            "bandwidth_matrix" => bandwidth_matrix(loads, s, &mut out),
            "peak_injection_bandwidth" => peak(loads, s, parsed.options.iter().any(|given| given.name == "memory_node"), &mut out),
            _ => loaded(loads, s, &mut out),
        };
    }
    Ok((time, out))
}

const TESTS: [&str; 5] = ["latency_matrix", "idle_latency", "bandwidth_matrix", "peak_injection_bandwidth", "loaded_latency"];

fn one_idle(loads: &Loads, from: u32, to: u32) -> f64 {
    idle(loads, 1, |system| Some(system.access(0, from, to, false))).map_or(0.0, |measured| measured.latency())
}

fn idle_latency(loads: &Loads, s: Settings, out: &mut ToolOutput) -> Span {
    let latency = one_idle(loads, 0, s.to);
    let cycles = latency * loads.clock.as_hz() as f64 / 1e9;
    let _ = writeln!(out.text, "Each iteration took {cycles:.1} base frequency clocks (\t{latency:.1}\tns)");
    point(out, "latency", "ns", latency);
    IDLE
}

fn matrix(loads: &Loads, out: &mut ToolOutput, mut cell: impl FnMut(&mut ToolOutput, u32, u32) -> f64) -> u64 {
    let all = loads.nodes() + loads.far();
    out.text += "\t\tNuma node\nNuma node\t";
    for to in 0..all {
        let _ = write!(out.text, "{to:>6}\t");
    }
    out.text.push('\n');
    for from in 0..loads.nodes() {
        let _ = write!(out.text, "{from:>8}\t");
        for to in 0..all {
            let value = cell(out, from, to);
            let _ = write!(out.text, "{value:>6.1}\t");
        }
        out.text.push('\n');
    }
    u64::from(loads.nodes() * all)
}

fn latency_matrix(loads: &Loads, out: &mut ToolOutput) -> Span {
    out.text += "Measuring idle latencies for random access (in ns)...\n";
    let cells = matrix(loads, out, |out, from, to| {
        let latency = one_idle(loads, from, to);
        point(out, "latency", "ns", latency);
        latency
    });
    IDLE * cells
}

/// MB/s of all cores of a node from another.
fn bandwidth(loads: &Loads, s: Settings, from: u32, to: u32, mix: (u32, u32)) -> f64 {
    let mut system = System::new(loads, 1);
    let mut threads = streams(&system, loads, (0, from, to), mix, s.outstanding);
    threads.truncate(s.cores as usize);
    simulate(&mut system, &threads, WARM, WINDOW).iter().map(|measured| measured.megabytes(WINDOW)).sum()
}

const UNITS: &str = "Bandwidths are in MB/sec (1 MB/sec = 1,000,000 Bytes/sec)\n\
                     Using all the threads from each core if Hyper-threading is enabled\n";

fn traffic(mix: (u32, u32)) -> String {
    match mix {
        (1, 0) => "Using Read-only traffic type\n".to_owned(),
        (reads, writes) => format!("Using {reads}:{writes} Reads-Writes traffic type\n"),
    }
}

fn bandwidth_matrix(loads: &Loads, s: Settings, out: &mut ToolOutput) -> Span {
    let _ = write!(out.text, "Measuring Memory Bandwidths between nodes within system\n{UNITS}{}", traffic(s.mix));
    let cells = matrix(loads, out, |out, from, to| {
        let rate = bandwidth(loads, s, from, to, s.mix);
        point(out, "bandwidth", "MB/s", rate);
        rate
    });
    (WARM + WINDOW) * cells
}

fn peak(loads: &Loads, s: Settings, one: bool, out: &mut ToolOutput) -> Span {
    let _ = write!(
        out.text,
        "Measuring Peak Injection Memory Bandwidths for the system\n{UNITS}Using traffic with the following read-write ratios\n"
    );
    for (name, mix) in [("ALL Reads", (1, 0)), ("3:1 Reads-Writes", (3, 1)), ("2:1 Reads-Writes", (2, 1)), ("1:1 Reads-Writes", (1, 1))] {
        let rate = if one {
            bandwidth(loads, s, 0, s.to, mix)
        } else {
            // Nodes share nothing where each reads its own memory.
            bandwidth(loads, s, 0, 0, mix) * f64::from(loads.nodes())
        };
        let _ = writeln!(out.text, "{name:<17}:\t{rate:.1}");
        point(out, "bandwidth", "MB/s", rate);
    }
    (WARM + WINDOW) * 4
}

fn loaded(loads: &Loads, s: Settings, out: &mut ToolOutput) -> Span {
    let _ = write!(
        out.text,
        "Measuring Loaded Latencies for the system\nUsing all the threads from each core if Hyper-threading is enabled\n{}",
        traffic(s.mix)
    );
    out.text += "Inject\tLatency\tBandwidth\nDelay\t(ns)\tMB/sec\n==========================\n";
    let delays = s.delay.map_or_else(|| DELAYS.to_vec(), |delay| vec![delay]);
    for delay in &delays {
        let mut system = System::new(loads, 1);
        let mut threads = vec![chase(system.access(0, 0, s.to, false))];
        let pause = Span::from_ps((*delay as u128 * 1_000_000_000_000 / u128::from(loads.clock.as_hz().max(1))) as u64);
        let others = streams(&system, loads, (0, 0, s.to), s.mix, s.outstanding).into_iter().skip(1);
        threads.extend(others.map(|thread| Thread { pause, ..thread }));
        threads.truncate(s.cores as usize);
        let measured = simulate(&mut system, &threads, WARM, WINDOW);
        let latency = measured.first().map_or(0.0, |first| first.latency());
        let rate: f64 = measured.iter().map(|one| one.megabytes(WINDOW)).sum();
        let _ = writeln!(out.text, " {delay:05}\t{latency:.2}\t{rate:>9.1}");
        point(out, "latency", "ns", latency);
        point(out, "bandwidth", "MB/s", rate);
    }
    (WARM + WINDOW) * delays.len() as u64
}

/// The usual series of the tool.
const DELAYS: [u64; 19] = [0, 2, 8, 15, 50, 100, 200, 300, 400, 500, 700, 1000, 1300, 1700, 2500, 3500, 5000, 9000, 20000];
