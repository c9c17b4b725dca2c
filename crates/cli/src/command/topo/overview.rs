//! Every cluster of the catalogue on one line: `fabriscope topo` without a name.

use fabriscope_catalog::Kind;
use fabriscope_fabric::analysis::{Backbone, bisection, distances};
use fabriscope_fabric::routing::deadlock::{self, Verdict as Deadlock};
use fabriscope_fabric::{Coordinates, Fabric, Router, Routing};
use fabriscope_report::Table;

use super::algorithm::Algorithm;
use super::source::Source;
use crate::context::Context;
use crate::error::{Failure, Verdict};
use crate::output::Output;

/// Runs the command without a name.
pub fn run(json: bool, context: &Context, output: &mut Output) -> Result<Verdict, Failure> {
    let catalog = context.catalog()?;
    let heads = [
        "cluster",
        "topology",
        "shape",
        "endpoints",
        "switches",
        "cables",
        "diameter",
        "bisection",
        "routing",
        "deadlock",
        "also routed by",
    ];
    let mut table = Table::new(heads).words(1).words(2).words(8).words(9).words(10);
    let mut list = Vec::new();
    for name in catalog.names(Kind::Cluster) {
        let source = Source::of_cluster(name, context.cluster(name)?)?;
        let row = Row::of(&source);
        list.push(row.json(name));
        table.push(row.cells(name));
    }
    if json {
        output.json(&serde_json::Value::Array(list))?;
    } else {
        output.text(&format!(
            "{table}\n# diameter: switches on the longest shortest path; bisection: share of what half of the endpoints send, at most\n\
             # next: fabriscope topo CLUSTER\n"
        ))?;
    }
    Ok(Verdict::Good)
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

    fn cells(&self, name: &str) -> [String; 11] {
        let Row { family, shape, counts, diameter, bisection, routing, deadlock, others } = self;
        [
            name.to_owned(),
            family.clone(),
            shape.clone(),
            counts.endpoints.to_string(),
            counts.switches.to_string(),
            counts.cables.to_string(),
            diameter.to_string(),
            bisection.map_or_else(|| "-".to_owned(), |share| format!("{share:.2}")),
            routing.to_string(),
            (*deadlock).to_owned(),
            others.join(" "),
        ]
    }

    fn json(&self, name: &str) -> serde_json::Value {
        serde_json::json!({
            "name": name, "topology": self.family, "shape": self.shape, "endpoints": self.counts.endpoints, "switches": self.counts.switches,
            "cables": self.counts.cables, "diameter_switches": self.diameter, "bisection_share": self.bisection,
            "routing": self.routing.name(), "deadlock": self.deadlock, "other_routings": self.others,
        })
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
