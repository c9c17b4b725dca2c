//! `cxl_pool`: what several hosts get of expanders that they share, what back-invalidation costs, and how an accelerator reads one.
//!
//! Source: none, this is a program of this project; the ways are those of CXL 2.0 (pooling) and 3.1 (BISnp, peer-to-peer).
//! Modelled: all hosts read expander 0 with all cores of their first node, while one core of host 0 chases pointers; a load and a store of
//! a line that another host has (`BISnp`, answer, write-back); an accelerator that reads straight through the switch or through host 0.
//! Not modelled: which lines hosts share; CXL.io of the accelerator is taken to have the slots of CXL.mem.

use std::fmt::Write;

use fabriscope_platform::Loads;
use fabriscope_platform::loads::Pool;
use fabriscope_tool::arguments::Meaning::Usual;
use fabriscope_tool::arguments::{self, Opt, Parsed, Takes, opt, value};
use fabriscope_tool::{ToolOutput, UsageError};
use fabriscope_units::Span;

use super::{Hop, IDLE, System, Thread, WARM, WINDOW, chase, idle, missing, point, simulate, streams};

pub(super) const OPTIONS: &[Opt] = &[
    value('n', "hosts", "count", "hosts at most (default: all of the pool)"),
    value('k', "cores", "count", "cores of each host that read (default: all of a node)"),
    opt('h', "help", Takes::Nothing, Usual, "show this page"),
];

pub(super) const NOTES: &str = "\nSharing and the accelerator are measured where the pool has them: CXL 3.\n";

pub(super) fn run(parsed: &Parsed, loads: &Loads) -> Result<(Span, ToolOutput), UsageError> {
    let Some(pool) = loads.expander.as_ref().and_then(|expander| expander.pool) else {
        let remedy = "choose a cluster with a pool: xconn-pool, lab-cxl-3 or lab-cxl-heads".to_owned();
        return Err(missing("no hosts share expanders on this cluster".to_owned(), remedy));
    };
    let (mut hosts, mut cores) = (pool.hosts, loads.cores);
    for given in &parsed.options {
        match given.name {
            "hosts" => hosts = arguments::number(given, 1, u64::from(pool.hosts))? as u32,
            "cores" => cores = arguments::number(given, 1, u64::from(loads.cores))? as u32,
            _ => {}
        }
    }
    let mut out = ToolOutput::default();
    let between = match pool.switch {
        Some(_) => format!("{} switch{}", pool.levels, if pool.levels == 1 { "" } else { "es in a row" }),
        None => "one head of the expander for each".to_owned(),
    };
    let _ = writeln!(
        out.text,
        "# CXL pool: {} hosts, {} expander{}, {between}",
        pool.hosts,
        pool.devices,
        if pool.devices == 1 { "" } else { "s" }
    );
    let mut time = contention(loads, hosts, cores, &mut out);
    time += sharing(loads, &pool, &mut out);
    time += peers(loads, &pool, &mut out);
    Ok((time, out))
}

fn contention(loads: &Loads, hosts: u32, cores: u32, out: &mut ToolOutput) -> Span {
    let _ =
        writeln!(out.text, "\n# All read expander 0\n{:<10}{:>16}{:>16}{:>20}", "# Hosts", "All (GB/s)", "Host 0 (GB/s)", "Latency (ns)");
    let far = loads.nodes();
    let mut runs = 0;
    let mut count = 1;
    loop {
        let mut system = System::new(loads, count);
        let mut threads = vec![chase(system.access(0, 0, far, false))];
        for host in 0..count {
            threads.extend(streams(&system, loads, (host, 0, far), (1, 0), loads.prefetch_lines).into_iter().take(cores as usize));
        }
        let measured = simulate(&mut system, &threads, WARM, WINDOW);
        let rate = |threads: &[super::Measured]| threads.iter().map(|one| one.megabytes(WINDOW)).sum::<f64>() / 1000.0;
        let first = rate(&measured[1..=cores as usize]);
        let (all, latency) = (rate(&measured), measured[0].latency());
        let _ = writeln!(out.text, "{count:<10}{all:>16.2}{first:>16.2}{latency:>20.1}");
        point(out, "bandwidth", "GB/s", all);
        point(out, "latency", "ns", latency);
        runs += 1;
        if count >= hosts {
            return (WARM + WINDOW) * runs;
        }
        count = (count * 2).min(hosts);
    }
}

fn sharing(loads: &Loads, pool: &Pool, out: &mut ToolOutput) -> Span {
    if pool.sharing.is_none() || pool.hosts < 2 {
        return Span::ZERO;
    }
    let _ = writeln!(out.text, "\n# One core of host 0, lines of expander 0{:>32}", "Latency (ns)");
    let far = loads.nodes();
    let own = idle(loads, 2, |system| Some(system.access(0, 0, far, false)));
    let clean = idle(loads, 2, |system| system.shared(1, false));
    let modified = idle(loads, 2, |system| system.shared(1, true));
    let rows = [
        ("load, no other host has it", own),
        ("store, another host has read it (BISnp, answer)", clean),
        ("load, another host has written it (BISnp, write-back)", modified),
    ];
    for (what, measured) in rows {
        let latency = measured.map_or(0.0, |measured| measured.latency());
        let _ = writeln!(out.text, "{what:<56}{latency:>16.1}");
        point(out, "latency", "ns", latency);
    }
    IDLE * 3
}

fn peers(loads: &Loads, pool: &Pool, out: &mut ToolOutput) -> Span {
    let Some((outstanding, ..)) = pool.peer else { return Span::ZERO };
    let _ = writeln!(out.text, "\n# An accelerator reads expander 0{:>24}{:>16}", "Latency (ns)", "GB/s");
    for (what, straight) in [("through the switch", true), ("through host 0", false)] {
        let way = |system: &System| system.peer(straight);
        let latency = idle(loads, 1, way).map_or(0.0, |measured| measured.latency());
        let mut system = System::new(loads, 1);
        let read: Vec<Hop> = way(&system).unwrap_or_default();
        let thread = Thread { outstanding, ..chase(read) };
        let rate = simulate(&mut system, &[thread], WARM, WINDOW).iter().map(|one| one.megabytes(WINDOW)).sum::<f64>() / 1000.0;
        let _ = writeln!(out.text, "{what:<32}{latency:>24.1}{rate:>16.2}");
        point(out, "latency", "ns", latency);
        point(out, "bandwidth", "GB/s", rate);
    }
    (IDLE + WARM + WINDOW) * 2
}
