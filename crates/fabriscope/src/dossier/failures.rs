//! What failures leave: of an exchange of all with all once there are new routes, and of a random permutation while it happens.
//!
//! Modelled: the routes of what is left; then packets that are lost, retransmissions, detection of the fault and new routes, all within the
//! measured time of a run. A dead rail: the adapter of that number of every node is gone for good, and jobs do without it.
//! Not modelled: fabrics in which no cable joins two switches, but for dead rails; failures of nodes; what a library does at the moment at
//! which a rail dies.

use std::collections::BTreeSet;

use fabriscope_catalog::NodeGroup;
use fabriscope_fabric::analysis::levels;
use fabriscope_fabric::{EndpointId, LinkId, Node};
use fabriscope_lab::bench::BenchEngine;
use fabriscope_lab::run::{LabRun, RunSettings};
use fabriscope_report::figure::{Bar, Bars, Figure, Panel, Unit};
use fabriscope_report::render::html::{Page, Part};
use fabriscope_report::{Cell, Column, Grid};
use fabriscope_units::{Bytes, Rate, Time};

use super::design::Design;
use super::repaired::{self, Dead};
use super::work::Work;

/// Nodes of a permutation in a report, the fewest that have several switches.
const NODES: [u32; 4] = [64, 72, 128, 256];
/// The largest cluster that is run whole.
const MOST_NODES: u32 = 300;
/// Bytes of each message. Basis: assumed; long beside the moments of detection.
const SIZE: &str = "4 MiB";

/// What came of a run.
struct Ran {
    gbps: f64,
    lost: u64,
    end_us: f64,
}

/// The section.
pub(super) fn section(work: &Work<'_>, design: &Design, page: &mut Page) {
    page.head(2, "What failures leave");
    let Some((name, small)) = smaller(work, design) else {
        page.words("The fabric is too large for a run of packets, and cannot be made smaller; nothing was run.");
        return;
    };
    let nodes = small.parts.nodes();
    let mut faults = faults(&small);
    let in_runs = faults.len();
    faults.extend(dead_rail(&small));
    if faults.is_empty() {
        page.words("No cable joins two switches: a dead cable cuts off its node, and a dead switch all of its nodes.");
        return;
    }
    lasting(&name, &small, &faults, page);
    without_an_adapter(work, design, page);
    if in_runs == 0 {
        page.words("No cable joins two switches: a dead cable cuts off its adapter.");
        return;
    }
    let whole = match run(work, &name, None) {
        Ok(whole) => whole,
        Err(reason) => {
            page.words(format!("A permutation cannot be run here: {reason}"));
            return;
        }
    };
    page.words(format!(
        "While it happens: a random permutation of messages of {SIZE} among {nodes} nodes; the fault happens 20 µs after the begin, for good. The time holds \
         detection, new routes and what is sent again, so that short runs lose more of their throughput than long ones."
    ));
    let mut grid = Grid::new([
        Column::words("fault", "fault"),
        Column::number("payload rate of all (Gb/s)", "gbps"),
        Column::number("left (%)", "left_percent"),
        Column::number("packets lost", "lost"),
        Column::number("done after (us)", "end_us"),
    ]);
    let mut refused = Vec::new();
    let runs = std::iter::once(("nothing broken".to_owned(), Ok(whole)));
    let broken = faults.into_iter().filter_map(|fault| Some((fault.what, run(work, &name, Some(&fault.kind?)))));
    let mut healthy = 0.0;
    for (what, ran) in runs.chain(broken) {
        match ran {
            Ok(Ran { gbps, lost, end_us }) => {
                healthy = if healthy == 0.0 { gbps } else { healthy };
                let left = 100.0 * gbps / f64::max(healthy, f64::MIN_POSITIVE);
                grid.push([
                    Cell::word(what.as_str()),
                    Cell::number(gbps, 1),
                    Cell::number(left, 1),
                    Cell::count(lost),
                    Cell::number(end_us, 1),
                ]);
            }
            Err(reason) => refused.push(format!("{what}: {reason}")),
        }
    }
    page.push(Part::Table { caption: "A permutation with one fault".to_owned(), grid });
    page.notes(refused);
}

/// What is left for good of an exchange of all with all.
fn lasting(name: &str, design: &Design, faults: &[Fault], page: &mut Page) {
    let fabric = &design.cluster.fabric;
    let all: u32 = design.parts.groups.iter().map(|group| group.endpoints().len() as u32).sum();
    // Endpoints that are gone send nothing of what all of them could.
    let of = |dead: &Dead| {
        let each = repaired::all_to_all(fabric, design.parts.routing, dead)?;
        Some(each * f64::from(all - dead.endpoints.len() as u32) / f64::from(all))
    };
    let Some(whole) = of(&Dead::default()) else { return };
    page.words(format!(
        "For good: an exchange of all with all among {} nodes, once there are routes around what is dead. It goes as fast as the busiest link \
         lets it: {:.0} % of the links of the nodes where nothing is broken.",
        design.parts.nodes(),
        100.0 * whole
    ));
    let mut rows = vec![Bar { name: "nothing broken".to_owned(), value: 100.0, ..Bar::default() }];
    let mut grid = Grid::new([
        Column::words("fault", "fault"),
        Column::number("of the links of nodes (%)", "share_percent"),
        Column::number("left (%)", "left_percent"),
    ]);
    grid.push([Cell::word("nothing broken"), Cell::number(100.0 * whole, 1), Cell::number(100.0, 1)]);
    for fault in faults {
        let Some(left) = of(&fault.dead) else {
            grid.push([Cell::word(fault.what.as_str()), Cell::word("nodes are cut off"), Cell::none()]);
            continue;
        };
        let share = 100.0 * left / whole;
        grid.push([Cell::word(fault.what.as_str()), Cell::number(100.0 * left, 1), Cell::number(share, 1)]);
        rows.push(Bar { name: fault.what.clone(), value: share, loud: share < 90.0, ..Bar::default() });
    }
    let bars = Bars {
        label: "throughput of an exchange of all with all that is left".to_owned(),
        unit: Unit::Percent,
        mark: None,
        limit: None,
        rows,
    };
    page.push(Part::Figure(Figure::new(format!("Failures in {name}"), [Panel::Bars(bars)])));
    page.push(Part::Table { caption: "An exchange of all with all after a fault".to_owned(), grid });
}

/// What NCCL does without the last adapter of each node, where nodes have GPUs and several adapters.
fn without_an_adapter(work: &Work<'_>, design: &Design, page: &mut Page) {
    let parts = &design.parts;
    let suits = |group: &&NodeGroup| group.node.gpus > 0 && group.node.nics > 1 && group.nccl.is_some();
    let Some(group) = parts.uniform().filter(|_| parts.nodes() > 1).filter(suits) else { return };
    let nics = group.node.nics;
    let line = "all_reduce_perf -b 256M -e 256M -n 2 -w 1";
    let busbw = |nics: u32| {
        let mut fewer = parts.clone();
        fewer.sole_mut().node.nics = nics;
        let done = work.bench(&fewer, line, Some(2), None, BenchEngine::Auto).ok()?;
        done.printed.points.iter().find(|point| point.metric == "busbw").map(|point| point.value)
    };
    let Some((whole, left)) = busbw(nics).zip(busbw(nics - 1)) else { return };
    page.words(format!(
        "A job of NCCL that does without one of its {nics} adapters: {line} on two nodes has a bus bandwidth of {left:.1} GB/s instead of {whole:.1} GB/s, \
         {:.0} %.",
        100.0 * left / whole
    ));
}

/// The cluster, or a part of it that is small enough; fabrics of fixed shapes have few sizes.
fn smaller(work: &Work<'_>, design: &Design) -> Option<(String, Design)> {
    let place = design.name.split(':').next().unwrap_or_default();
    let all = design.parts.nodes();
    let own = || Some((design.name.clone(), Design::resolved(design.parts.clone()).ok()?));
    if all <= NODES[0] {
        return own();
    }
    let found = NODES.into_iter().filter(|nodes| *nodes < all).find_map(|nodes| {
        let name = format!("{place}:{nodes}");
        let small = Design::of(work.catalog, &name).ok()?;
        (!faults(&small).is_empty()).then_some((name, small))
    });
    found.or_else(|| own().filter(|_| all <= MOST_NODES))
}

/// A fault: in words, as a lab has it, where it has it, and what is dead.
struct Fault {
    what: String,
    kind: Option<String>,
    dead: Dead,
}

/// The last rail, where nodes have several: the adapters of that number, and their cables.
fn dead_rail(design: &Design) -> Option<Fault> {
    let group = design.parts.uniform().filter(|group| group.node.nics > 1)?;
    let last = group.node.nics - 1;
    let own = group.endpoints().filter(|endpoint| (endpoint - group.first_endpoint) % group.node.nics == last);
    let endpoints: BTreeSet<EndpointId> = own.map(EndpointId).collect();
    let cables = endpoints.iter().map(|endpoint| design.cluster.fabric.graph.uplink(*endpoint).0 / 2).collect();
    let what = format!("one dead rail, adapter {last} of every node");
    Some(Fault { what, kind: None, dead: Dead { cables, endpoints } })
}

/// A cable between switches, and a switch without endpoints, as faults of a lab.
fn faults(design: &Design) -> Vec<Fault> {
    let fabric = &design.cluster.fabric;
    let graph = &fabric.graph;
    let mut faults = Vec::new();
    let between = |cable: &u32| {
        let link = graph.link(LinkId(2 * cable));
        matches!((graph.node(link.from), graph.node(link.to)), (Node::Switch(_), Node::Switch(_)))
    };
    if let Some(cable) = (0..graph.cable_count()).find(between) {
        let link = graph.link(LinkId(2 * cable));
        let port = |name: String, port: u32| format!("{name}:{port}");
        let at = port(fabric.name(graph.node(link.from)), link.from_port.0.into());
        let ends = format!("{} to {}", fabric.name(graph.node(link.from)), fabric.name(graph.node(link.to)));
        let kind = format!("kind.link_down = {{ link = \"{at}\" }}");
        let dead = Dead { cables: BTreeSet::from([cable]), ..Dead::default() };
        faults.push(Fault { what: format!("one dead cable, {ends}"), kind: Some(kind), dead });
    }
    let levels = levels(fabric);
    let has_endpoints = |switch: &fabriscope_fabric::SwitchId| levels.get(switch.index()).is_some_and(|level| *level <= 1);
    if let Some(switch) = graph.switches().find(|switch| !has_endpoints(switch)) {
        let name = fabric.name(Node::Switch(switch));
        let ends = |cable: &u32| {
            let link = graph.link(LinkId(2 * cable));
            [link.from, link.to].into_iter().any(|end| graph.node(end) == Node::Switch(switch))
        };
        let kind = format!("kind.switch_death = {{ switch = \"{name}\" }}");
        let dead = Dead { cables: (0..graph.cable_count()).filter(ends).collect(), ..Dead::default() };
        faults.push(Fault { what: format!("one dead switch, {name}"), kind: Some(kind), dead });
    }
    faults
}

/// Over connections that want packets in order, or, where the routing does not keep it, over such that take any.
fn run(work: &Work<'_>, name: &str, fault: Option<&str>) -> Result<Ran, String> {
    run_over(work, name, fault, "").or_else(|reason| run_over(work, name, fault, "any_order = true\n").map_err(|_| reason))
}

fn run_over(work: &Work<'_>, name: &str, fault: Option<&str>, order: &str) -> Result<Ran, String> {
    let fault = fault.map_or_else(String::new, |fault| format!("[recovery]\ntimeout = 7\n\n[[fault]]\nat = \"20 us\"\n{fault}\n\n"));
    let quoted = name.replace('\\', "\\\\").replace('"', "\\\"");
    let text = format!(
        "title = \"failures\"\ncluster = \"{quoted}\"\nengine = \"packet\"\n\n{fault}[workload.permutation]\nsize = \"{SIZE}\"\n{order}"
    );
    let lab = fabriscope_lab::parse(work.catalog, "report", &text).map_err(|error| error.to_string())?;
    let settings = RunSettings { seed: Some(work.seed), ..RunSettings::default() };
    let LabRun::One(single) = fabriscope_lab::run::run(work.catalog, &lab, &settings).map_err(|error| error.to_string())? else {
        return Err("a permutation is one run".to_owned());
    };
    let end = single.run.ranks.iter().max().copied().unwrap_or(single.run.end) - Time::ZERO;
    let gbps = Rate::of(Bytes(single.run.stats.bytes_delivered), end).as_bps() as f64 / 1e9;
    Ok(Ran { gbps, lost: single.run.stats.drops, end_us: end.as_us_f64() })
}
