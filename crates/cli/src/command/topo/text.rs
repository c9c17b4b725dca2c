//! The findings as tables for people.

use std::path::Path;

use fabriscope_fabric::analysis::{CableClass, CableKind, Spread};
use fabriscope_report::{Cell, Column, Grid, Outcome, Table};

use super::examine::Examined;
use super::source::Source;

/// The whole answer.
pub fn outcome(source: &Source, examined: &Examined, drawn: Option<&Path>) -> Outcome {
    let mut outcome = Outcome::new();
    outcome.note(format!("{}: {}", source.name, source.fabric));
    if let Some(cluster) = source.cluster().filter(|cluster| !cluster.title.is_empty()) {
        outcome.note(cluster.title.clone());
    }
    outcome.text("\n").keyed_table("switch_classes", switches(source, examined));
    outcome.text("\n").keyed_table("cable_classes", cables(source, examined)).text("\n");
    if examined.distances.pairs.len() > 1 {
        outcome.keyed_table("distances", distances(examined)).text("\n");
    }
    outcome.text(figures(source, examined)).text("\n");
    outcome.note(match drawn {
        Some(path) => format!("wrote {}", path.display()),
        None => format!("next: fabriscope topo {} -o fabric.svg    draws it, links coloured by load", source.name),
    });
    outcome
}

fn switches(source: &Source, examined: &Examined) -> Grid {
    let model = source.cluster().and_then(|cluster| cluster.switch.as_ref()).map(|switch| switch.name.as_str());
    let mut table = Grid::new([
        Column::words("switches", "class"),
        Column::words("model", "model"),
        Column::number("count", "switches"),
        Column::number("ports", "ports"),
        Column::number("to endpoints", "to_endpoints"),
        Column::number("to switches", "to_switches"),
        Column::number("free", "free"),
    ]);
    let mut row = |name: &str, model: Cell, counts: [u64; 5]| {
        table.push([Cell::word(name), model].into_iter().chain(counts.map(Cell::count)));
    };
    let mut sum = [0u64; 5];
    for class in &examined.census.switches {
        let counts = [u64::from(class.switches), class.ports, class.to_endpoints, class.to_switches, class.free()];
        sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        row(&class.name, model.map_or_else(Cell::none, Cell::word), counts);
    }
    if examined.census.switches.len() != 1 {
        row("all", Cell::blank(), sum);
    }
    table
}

fn cables(source: &Source, examined: &Examined) -> Grid {
    let mut table = Grid::new([
        Column::words("cables", "kind"),
        Column::number("count", "cables"),
        Column::words("rate", "rate_bps").unit("bit/s"),
        Column::number("length, all (m)", "length_m"),
    ]);
    let metre = |mm: Option<u64>| Cell::told(metres(mm), mm.map(|mm| mm as f64 / 1000.0));
    let mut sum = (0, Some(0));
    for class in &examined.census.cables {
        let length = length_mm(source, class);
        sum = (sum.0 + class.cables, sum.1.zip(length).map(|(sum, length)| sum + length));
        let rate = Cell::told(class.rate.to_string(), class.rate.as_bps());
        table.push([Cell::word(class.kind.to_string()), Cell::count(class.cables), rate, metre(length)]);
    }
    if examined.census.cables.len() > 1 {
        table.push([Cell::word("all"), Cell::count(sum.0), Cell::blank(), metre(sum.1)]);
    }
    table
}

/// What the cables of a class are long together, in millimetres: by their own lengths, else by those of the cluster.
pub fn length_mm(source: &Source, class: &CableClass) -> Option<u64> {
    let rest = u64::from(class.cables - class.measured);
    if rest == 0 {
        return Some(class.length_mm);
    }
    let cluster = source.cluster()?;
    let each = match class.kind {
        CableKind::Host => *cluster.groups.first()?.host_length,
        CableKind::Global => *cluster.global_length,
        _ => *cluster.trunk_length,
    };
    Some(class.length_mm + rest * u64::from(each.as_mm()))
}

fn metres(mm: Option<u64>) -> String {
    match mm {
        None => "-".to_owned(),
        Some(mm) if mm % 1000 == 0 => (mm / 1000).to_string(),
        Some(mm) => format!("{:.1}", mm as f64 / 1000.0),
    }
}

fn distances(examined: &Examined) -> Grid {
    let mut table = Grid::new([
        Column::words("switches on the shortest path", "switches"),
        Column::number("pairs of endpoints", "pairs"),
        Column::number("share (%)", "share_percent"),
    ]);
    let all: u64 = examined.distances.pairs.iter().sum();
    for (switches, &pairs) in examined.distances.pairs.iter().enumerate().filter(|(_, pairs)| **pairs > 0) {
        table.push([Cell::count(switches), Cell::count(pairs), Cell::number(pairs as f64 / all as f64 * 100.0, 1)]);
    }
    table
}

/// One finding per line.
fn figures(source: &Source, examined: &Examined) -> String {
    let Examined { distances, bisection, diversity, pressure, .. } = examined;
    let mut table = Table::new(["", ""]).words(1);
    let mut row = |what: &str, found: String| table.push([what.to_owned(), found]);
    let drawn = distances.sampled.map_or_else(String::new, |switches| format!(", from {switches} switches drawn"));
    row("diameter", format!("{} switches, {:.3} in the mean{drawn}", distances.diameter(), distances.mean()));
    if distances.apart > 0 {
        row("apart", format!("{} pairs of endpoints have no path", distances.apart));
    }
    row(
        "bisection",
        bisection.as_ref().map_or_else(
            || "no switch to cut at".to_owned(),
            |found| {
                format!(
                    "{}{} cables, {}: {:.3} of what half of the endpoints send (the least of {} halves{})",
                    if found.exact { "" } else { "at most " },
                    found.cables,
                    found.rate,
                    found.share,
                    found.tried,
                    if found.exact { ", which are all" } else { " tried" }
                )
            },
        ),
    );
    row("shortest paths", spread(&diversity.shortest, "pairs of endpoints"));
    row("disjoint paths", spread(&diversity.disjoint, "pairs of switches"));
    let (routing, pattern) = (examined.routing, &examined.pattern);
    row("pattern", examined.note.as_ref().map_or_else(|| pattern.clone(), |note| format!("{pattern}: {note}")));
    let idle = if examined.adaptive { ", which chooses here as in an idle network" } else { "" };
    row("routing", format!("{routing}{idle}; {} lane{}", examined.lanes, if examined.lanes == 1 { "" } else { "s" }));
    if let Some(link) = pressure.busiest {
        let ends = source.fabric.graph.link(link);
        let (from, to) = (source.port(ends.from, ends.from_port), source.port(ends.to, ends.to_port));
        row("busiest link", format!("{from} -> {to}, load {:.3}", pressure.links[link.index()]));
        row("mean link", format!("load {:.3}; an endpoint's {:.3}", pressure.mean, pressure.endpoints));
        let factor = format!("{:.2} times the ideal: no routing loads its busiest link below {:.3}", pressure.factor(), pressure.ideal);
        row("worst load", factor);
    } else {
        row("busiest link", format!("of an endpoint, load {:.3}", pressure.endpoints));
    }
    if pressure.unreachable > 0 {
        row("lost", format!("{} packets find no path", pressure.unreachable));
    }
    let verdict = examined.deadlock.describe(&source.fabric);
    let mut lines = verdict.lines();
    row("deadlock", lines.next().unwrap_or_default().to_owned());
    lines.for_each(|line| row("", line.to_owned()));
    // The table's own head is empty.
    table.to_string().trim_start_matches('\n').to_owned()
}

fn spread(spread: &Spread, of: &str) -> String {
    if spread.of == 0 {
        return "no two switches have endpoints".to_owned();
    }
    let Spread { min, median, max, .. } = spread;
    let drawn = if spread.sampled { "drawn " } else { "" };
    let values = if min == max { format!("{min}") } else { format!("{min} to {max}, middle {median}") };
    format!("{values} ({} {drawn}{of})", spread.of)
}
