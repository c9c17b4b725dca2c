//! Every cluster of the catalogue on one line: `fabriscope topo` without a name.

use fabriscope_catalog::Kind;
use fabriscope_fabric::analysis::{Backbone, bisection, distances};
use fabriscope_fabric::routing::deadlock::{self, Verdict as Deadlock};
use fabriscope_fabric::{Coordinates, Fabric, Router, Routing};
use fabriscope_report::{Cell, Column, Grid, Outcome};

use super::algorithm::Algorithm;
use super::source::Source;
use crate::context::Context;
use crate::error::Failure;

/// What there is to say without a name.
pub fn outcome(context: &Context) -> Result<Outcome, Failure> {
    let catalog = context.catalog()?;
    let mut table = Grid::new([
        Column::words("cluster", "name"),
        Column::words("topology", "topology"),
        Column::words("shape", "shape"),
        Column::number("endpoints", "endpoints"),
        Column::number("switches", "switches"),
        Column::number("cables", "cables"),
        Column::number("diameter", "diameter_switches"),
        Column::number("bisection", "bisection_share"),
        Column::words("routing", "routing"),
        Column::words("deadlock", "deadlock"),
        Column::words("also routed by", "other_routings"),
    ]);
    for name in catalog.names(Kind::Cluster) {
        let source = Source::of_cluster(name, context.cluster(name)?)?;
        table.push(Row::of(&source).cells(name));
    }
    let mut outcome = Outcome::new();
    outcome.list(table).text("\n");
    outcome.note("diameter: switches on the longest shortest path; bisection: share of what half of the endpoints send, at most");
    outcome.note("next: fabriscope topo CLUSTER");
    Ok(outcome)
}

struct Row {
    /// As files name it.
    family: String,
    shape: String,
    counts: fabriscope_fabric::Counts,
    diameter: u32,
    bisection: Option<f64>,
    routing: Routing,
    deadlock: &'static str,
    others: Vec<&'static str>,
}

impl Row {
    fn of(source: &Source) -> Row {
        let fabric = &source.fabric;
        let backbone = Backbone::new(fabric);
        let routing = source.algorithm().0;
        Row {
            family: source.cluster().map_or("", |cluster| cluster.topology.name()).to_owned(),
            shape: fabric.to_string().split(':').next().unwrap_or_default().to_owned(),
            counts: fabric.counts(),
            diameter: distances(&backbone).diameter(),
            bisection: bisection(fabric, &backbone).map(|found| found.share),
            routing,
            deadlock: verdict(fabric, routing),
            others: others(fabric, routing),
        }
    }

    fn cells(&self, name: &str) -> [Cell; 11] {
        let Row { family, shape, counts, diameter, bisection, routing, deadlock, others } = self;
        [
            Cell::word(name),
            Cell::word(family.clone()),
            Cell::word(shape.clone()),
            Cell::count(counts.endpoints),
            Cell::count(counts.switches),
            Cell::count(counts.cables),
            Cell::count(*diameter),
            bisection.map_or_else(Cell::none, |share| Cell::told(format!("{share:.2}"), share)),
            Cell::told(routing.to_string(), routing.name()),
            Cell::word(*deadlock),
            Cell::told(others.join(" "), others.clone()),
        ]
    }
}

/// The other routings that know the topology; those by tables only where tables are small enough to be made in a moment.
fn others(fabric: &Fabric, routing: Routing) -> Vec<&'static str> {
    let counts = fabric.counts();
    let small = u64::from(counts.endpoints) * u64::from(counts.cables) <= MOST_STEPS;
    // Flowlets walk a tree by arithmetic; elsewhere they look up the shortest paths between all switches.
    let looks_up =
        |other| Algorithm::by_tables(other) || matches!(other, Routing::Flowlet(_)) && !matches!(fabric.coordinates, Coordinates::Tree(_));
    let tried = Algorithm::all().filter(|other| small || !looks_up(*other));
    let mut names: Vec<&str> = tried.filter(|&other| other != routing && Router::new(fabric, other).is_ok()).map(Routing::name).collect();
    if !small {
        names.push("(tables not tried)");
    }
    names
}

/// Cables looked at for all destinations together when tables are made to see whether a routing knows a topology.
const MOST_STEPS: u64 = 1 << 22;

/// One word on freedom from deadlock.
fn verdict(fabric: &Fabric, routing: Routing) -> &'static str {
    match Router::new(fabric, routing).map(|router| deadlock::verdict(fabric, &router)) {
        Ok(Deadlock::Free { .. }) => "free",
        Ok(Deadlock::ByConstruction(_)) => "free (by construction)",
        Ok(Deadlock::Cycle(_)) => "can deadlock",
        Ok(_) => "not known",
        Err(_) => "not routed",
    }
}
