//! The links of a run as pictures: how busy each was, on the drawing of the topology and, where that was counted, over time.
//!
//! Modelled: bytes on the wire over what the link carries in that time, in the busier direction of each cable.
//! Not modelled: fabrics with more switches than a drawing shows, which have the table of the busiest links alone.

use fabriscope_engine::{Cluster, Counter, CounterPlace, Counters, Run};
use fabriscope_fabric::LinkId;
use fabriscope_fabric::picture::{PictureError, drawing};
use fabriscope_report::figure::{Axis, Figure, Heat, Panel, Sheet, Sheets, Unit};
use fabriscope_units::{Bytes, Rate, Span, Time};

use crate::ResolvedLab;

/// The length of an interval for pictures over time; nothing where there is nothing to see, or too much to run it again.
pub(crate) fn interval(run: &Run) -> Option<Span> {
    let end = (run.end - Time::ZERO).as_ps();
    (end >= BINS && run.stats.packet_hops <= MOST_HOPS).then(|| Span::from_ps(end.div_ceil(BINS)))
}

/// Loads of links over the whole run, or over time.
pub(crate) fn links(lab: &ResolvedLab, cluster: &Cluster, run: &Run, counted: Option<&Counters>) -> Vec<Figure> {
    let whole = (run.end - Time::ZERO).max(Span::from_ps(1));
    let title = format!("{}: how busy the links are", lab.name());
    match counted.and_then(|counters| Some((counters, counters.every?))) {
        Some((counters, every)) => over_time(cluster, counters, every, whole, title).into_iter().collect(),
        None => {
            let mut loads = vec![0.0; cluster.fabric.graph.link_count() as usize];
            for load in &run.links {
                if let Some(place) = loads.get_mut(load.link as usize) {
                    *place = share(cluster, load.link, load.bytes, whole);
                }
            }
            let sheets = sheets(cluster, &[(String::new(), loads)]).map(Panel::Sheets);
            sheets
                .map(|panel| Figure::new(title, [panel]).told("mean over the whole run, the busier direction of each cable"))
                .into_iter()
                .collect()
        }
    }
}

fn over_time(cluster: &Cluster, counters: &Counters, every: Span, whole: Span, title: String) -> Option<Figure> {
    let graph = &cluster.fabric.graph;
    let bins = (counters.bins() as usize).min(BINS as usize + 1);
    let mut bytes = vec![vec![0u64; bins]; graph.link_count() as usize];
    for series in counters.series().filter(|series| series.counter == Counter::XmitBytes) {
        let CounterPlace::Port(link) = series.place else { continue };
        for (bin, amount) in series.amounts() {
            if let Some(place) = bytes.get_mut(link as usize).and_then(|bins| bins.get_mut(bin as usize)) {
                *place += amount;
            }
        }
    }
    let of = |link: usize, bins: std::ops::Range<usize>| {
        let sum: u64 = bytes[link][bins.clone()].iter().sum();
        share(cluster, link as u32, Bytes(sum), every * bins.len() as u64)
    };
    let count = SHEETS.min(bins);
    let edges: Vec<usize> = (0..=count).map(|number| number * bins / count.max(1)).collect();
    let name = |bin: usize| Unit::Seconds.exact((every * bin as u64).min(whole).as_us_f64() * 1e-6);
    let times = edges.windows(2).map(|edge| {
        let loads = (0..bytes.len()).map(|link| of(link, edge[0]..edge[1])).collect();
        (format!("{} to {}", name(edge[0]), name(edge[1])), loads)
    });
    let sheets = sheets(cluster, &times.collect::<Vec<_>>());
    let mut busiest: Vec<usize> = (0..bytes.len()).filter(|link| bytes[*link].iter().any(|amount| *amount > 0)).collect();
    busiest.sort_by_key(|link| (std::cmp::Reverse(bytes[*link].iter().sum::<u64>()), *link));
    busiest.truncate(ROWS);
    busiest.sort_unstable();
    let row = |link: &usize| (ends(cluster, *link as u32), (0..bins).map(|bin| of(*link, bin..bin + 1)).collect());
    let heat = Heat {
        label: format!("load of the {} busiest links", busiest.len()),
        unit: Unit::Share,
        x: Axis::linear("time", Unit::Seconds),
        extent: (0.0, (every * bins as u64).as_us_f64() * 1e-6),
        rows: busiest.iter().map(row).collect(),
        most: 1.0,
    };
    let figure = Figure::new(title, sheets.map(Panel::Sheets).into_iter().chain([Panel::Heat(heat)]));
    Some(figure.told("bytes on the wire over what the link carries; of a cable on the drawing, the busier direction"))
        .filter(|figure| !figure.is_empty())
}

/// The drawing of the topology once for each set of loads; nothing where it has more switches than a drawing shows.
fn sheets(cluster: &Cluster, times: &[(String, Vec<f64>)]) -> Option<Sheets> {
    let sheet = |(name, loads): &(String, Vec<f64>)| -> Result<Sheet, PictureError> {
        let drawn = drawing(&cluster.fabric, Some(loads), 1.0)?;
        Ok(Sheet { name: name.clone(), size: drawn.size, elements: drawn.elements })
    };
    let sheets: Vec<Sheet> = times.iter().map(sheet).collect::<Result<_, _>>().ok()?;
    Some(Sheets { label: format!("load of the links, on {}", cluster.fabric), unit: Unit::Share, most: Some(1.0), sheets })
}

/// What bytes are of what a link carries.
fn share(cluster: &Cluster, link: u32, bytes: Bytes, span: Span) -> f64 {
    let rate = cluster.fabric.graph.link(LinkId(link)).rate;
    if rate == Rate::default() || span == Span::ZERO { 0.0 } else { rate.time(bytes).as_ps() as f64 / span.as_ps() as f64 }
}

/// `leaf 0 to spine 1`.
fn ends(cluster: &Cluster, link: u32) -> String {
    let graph = &cluster.fabric.graph;
    let link = graph.link(LinkId(link));
    let name = |vertex| cluster.fabric.name(graph.node(vertex));
    format!("{} to {}", name(link.from), name(link.to))
}

/// Intervals of a picture over time. Basis: assumed; each is some ten pixels wide.
const BINS: u64 = 60;
/// Drawings of the topology side by side.
const SHEETS: usize = 6;
/// Links that have a row.
const ROWS: usize = 30;
/// Packet hops of a run that is run again for a picture. Basis: measured; about a minute.
const MOST_HOPS: u64 = 100_000_000;
