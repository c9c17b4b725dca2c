//! What failures leave of a random permutation: every endpoint sends to another one, and a cable or a switch dies as it does.
//!
//! Modelled: packets that are lost, retransmissions, detection of the fault and new routes, all within the measured time.
//! Not modelled: fabrics in which no cable joins two switches; failures of nodes.

use fabriscope_fabric::analysis::levels;
use fabriscope_fabric::{LinkId, Node};
use fabriscope_lab::run::{LabRun, RunSettings};
use fabriscope_report::figure::{Bar, Bars, Figure, Panel, Unit};
use fabriscope_report::render::html::{Page, Part};
use fabriscope_report::{Cell, Column, Grid};
use fabriscope_units::{Bytes, Rate, Time};

use super::Work;
use super::design::Design;

/// Nodes of a permutation in a report.
const MOST_NODES: u32 = 64;
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
    let nodes = design.parts.nodes().min(MOST_NODES);
    let place = design.name.split(':').next().unwrap_or_default();
    let name = if nodes < design.parts.nodes() { format!("{place}:{nodes}") } else { design.name.clone() };
    let Ok(small) = Design::of(work.catalog, &name) else {
        page.words("The fabric cannot be made smaller for this; nothing was run.");
        return;
    };
    let faults = faults(&small);
    if faults.is_empty() {
        page.words("No cable joins two switches: a dead cable cuts off its node, and a dead switch all of its nodes.");
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
        "A random permutation of messages of {SIZE} among {nodes} nodes; the fault happens 20 µs after the begin, for good. The time holds \
         detection, new routes and what is sent again, so short runs show failures larger than long ones."
    ));
    let mut grid = Grid::new([
        Column::words("fault", "fault"),
        Column::number("payload rate of all (Gb/s)", "gbps"),
        Column::number("left (%)", "left_percent"),
        Column::number("packets lost", "lost"),
        Column::number("done after (us)", "end_us"),
    ]);
    let mut bars = Vec::new();
    let mut refused = Vec::new();
    let runs = std::iter::once(("nothing broken".to_owned(), Ok(whole)));
    let broken = faults.into_iter().map(|(what, fault)| (what, run(work, &name, Some(&fault))));
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
                bars.push(Bar { name: what, value: left, loud: left < 90.0, ..Bar::default() });
            }
            Err(reason) => refused.push(format!("{what}: {reason}")),
        }
    }
    let bars = Bars { label: "throughput that is left".to_owned(), unit: Unit::Percent, mark: None, limit: None, rows: bars };
    page.push(Part::Figure(Figure::new(format!("Failures in {name}"), [Panel::Bars(bars)])));
    page.push(Part::Table { caption: "A permutation with one fault".to_owned(), grid });
    page.notes(refused);
}

/// A cable between switches, and a switch without endpoints, as faults of a lab.
fn faults(design: &Design) -> Vec<(String, String)> {
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
        faults.push((format!("one dead cable, {ends}"), format!("kind.link_down = {{ link = \"{at}\" }}")));
    }
    let levels = levels(fabric);
    let has_endpoints = |switch: &fabriscope_fabric::SwitchId| levels.get(switch.index()).is_some_and(|level| *level <= 1);
    if let Some(switch) = graph.switches().find(|switch| !has_endpoints(switch)) {
        let name = fabric.name(Node::Switch(switch));
        faults.push((format!("one dead switch, {name}"), format!("kind.switch_death = {{ switch = \"{name}\" }}")));
    }
    faults
}

fn run(work: &Work<'_>, name: &str, fault: Option<&str>) -> Result<Ran, String> {
    let fault = fault.map_or_else(String::new, |fault| format!("[recovery]\ntimeout = 7\n\n[[fault]]\nat = \"20 us\"\n{fault}\n\n"));
    let quoted = name.replace('\\', "\\\\").replace('"', "\\\"");
    let text =
        format!("title = \"failures\"\ncluster = \"{quoted}\"\nengine = \"packet\"\n\n{fault}[workload.permutation]\nsize = \"{SIZE}\"\n");
    let lab = fabriscope_lab::parse(work.catalog, "report", &text).map_err(|error| error.to_string())?;
    let settings = RunSettings { seed: Some(work.seed), ..RunSettings::default() };
    let LabRun::One(single) = fabriscope_lab::run::run(work.catalog, &lab, &settings).map_err(|error| error.to_string())? else {
        return Err("a permutation is one run".to_owned());
    };
    let end = single.run.ranks.iter().max().copied().unwrap_or(single.run.end) - Time::ZERO;
    let gbps = Rate::of(Bytes(single.run.stats.bytes_delivered), end).as_bps() as f64 / 1e9;
    Ok(Ran { gbps, lost: single.run.stats.drops, end_us: end.as_us_f64() })
}
