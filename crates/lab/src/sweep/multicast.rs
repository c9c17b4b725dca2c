//! One host sends to a multicast group: one run for each number of receivers, and one with a datagram to each for comparison.

use crate::{ResolvedLab, ToGroup};
use fabriscope_engine::{Cluster, Job, Stats};
use fabriscope_fabric::EndpointId;
use fabriscope_report::{Cell, Column, Grid, Outcome};
use fabriscope_traffic::multicast::{Config, Sample, prepare};
use fabriscope_units::{Bytes, Rate, Remedy, Span};

use super::head;
use crate::engines::engine;
use crate::error::LabError;
use crate::traffic::options;

/// One number of receivers: to the group, and to each.
#[derive(Clone)]
struct Point {
    /// Links to the farthest receiver on a shortest way.
    links: u32,
    group: Sampled,
    each: Option<Sampled>,
}

#[derive(Clone)]
struct Sampled {
    sample: Sample,
    stats: Stats,
}

/// Runs all of them.
pub fn run(lab: &ResolvedLab, work: &ToGroup, seed: u64) -> Result<Outcome, LabError> {
    let points = super::samples(&work.receivers, |&receivers| point(lab, work, receivers, seed))?;
    Ok(outcome(lab, work, &points, seed))
}

fn point(lab: &ResolvedLab, work: &ToGroup, receivers: u32, seed: u64) -> Result<Point, String> {
    let parts = &lab.cluster;
    let cluster = Cluster::new(parts.clone()).map_err(|error| error.in_full())?;
    let mgid = work.mgid(parts.link_layer).ok_or("the group has no address")?;
    let config = Config {
        group: Some(mgid.0),
        receivers,
        size: work.size,
        mtu: parts.mtu.min(Bytes(LARGEST_DATAGRAM)),
        messages: work.messages,
        interval: work.interval,
        level: lab.level,
        pkey: (!parts.partitions.is_empty()).then_some(lab.pkey),
        rate: lab.lab.rate_limit,
        settle: work.settle,
    };
    let mut nodes = vec![work.sender];
    nodes.extend(work.candidates(parts.nodes()).into_iter().take(receivers as usize));
    let (engine, options) = (engine(lab.lab.engine), options(lab));
    let run = |config: Config| {
        let (mains, finish) = prepare(config);
        let run = engine.run(&cluster, Job::programs(nodes.clone(), mains), &options, seed).map_err(|error| error.in_full())?;
        Ok::<Sampled, String>(Sampled { sample: finish(), stats: run.stats })
    };
    let group = run(config)?;
    let each = if work.unicast { Some(run(Config { group: None, ..config })?) } else { None };
    Ok(Point { links: links(&cluster, &nodes), group, each })
}

/// Links to the farthest of `nodes` from the first of them.
fn links(cluster: &Cluster, nodes: &[u32]) -> u32 {
    let router = fabriscope_fabric::Router::new(&cluster.fabric, cluster.parts.routing);
    let Ok(router) = router else { return 0 };
    let endpoint = |node: u32| EndpointId(cluster.parts.endpoints_of(node).map_or(0, |adapters| adapters.start));
    let length = |to: &u32| fabriscope_fabric::path(&cluster.fabric, &router, endpoint(nodes[0]), endpoint(*to), 0).len() as u32;
    nodes[1..].iter().map(length).max().unwrap_or(0)
}

/// Median over messages until the last receiver has it.
fn median(sample: &Sample) -> Option<Span> {
    let mut spans = sample.broadcasts();
    spans.sort_unstable();
    spans.get(spans.len() / 2).copied()
}

/// Median over messages to the receiver that gets them first.
fn nearest(sample: &Sample) -> Option<Span> {
    let medians = (0..sample.received.len()).filter_map(|receiver| {
        let mut spans: Vec<Span> = sample.latencies(receiver).collect();
        spans.sort_unstable();
        spans.get(spans.len() / 2).copied()
    });
    medians.min()
}

fn rate(work: &ToGroup, sample: &Sample) -> Option<f64> {
    let bytes = Bytes(work.size.as_u64() * u64::from(work.messages));
    sample.span().filter(|span| *span > Span::ZERO).map(|span| Rate::of(bytes, span).as_bps() as f64 / 1e9)
}

fn outcome(lab: &ResolvedLab, work: &ToGroup, points: &[Point], seed: u64) -> Outcome {
    let (messages, size, sender) = (work.messages, work.size, work.sender);
    let group = work.mgid(lab.cluster.link_layer).map(|mgid| mgid.to_string()).unwrap_or_default();
    let paced = if work.interval > Span::ZERO { format!("one every {}", work.interval) } else { "back to back".to_owned() };
    let what = format!("multicast from node {sender} to group {group}: {messages} messages of {size}, {paced}, seed {seed}");
    let mut outcome = head(lab, &what);
    outcome.set("seed", seed).keyed_table("points", table(work, points));
    outcome.note("last: median over messages until every receiver has it; unicast: a datagram to each receiver instead");
    outcome
}

/// A row for each number of receivers.
fn table(work: &ToGroup, points: &[Point]) -> Grid {
    let mut grid = Grid::new([
        Column::number("receivers", "receivers").left(),
        Column::number("links", "links"),
        Column::number("first (us)", "first_ps").unit("ps"),
        Column::number("last (us)", "last_ps").unit("ps"),
        Column::number("rate (Gb/s)", "rate_gbps").unit("Gb/s"),
        Column::number("complete (%)", "complete_percent").unit("%"),
        Column::number("lost", "lost"),
        Column::number("copies", "copies"),
        Column::number("join (us)", "join_ps").unit("ps"),
        Column::number("unicast last (us)", "unicast_last_ps").unit("ps"),
        Column::number("unicast lost", "unicast_lost"),
        Column::number("ratio", "ratio"),
        Column::data("group"),
        Column::data("unicast"),
    ]);
    for (receivers, point) in work.receivers.iter().zip(points) {
        let sample = &point.group.sample;
        let all = u64::from(*receivers) * u64::from(work.messages);
        let each = point.each.as_ref().map(|each| &each.sample);
        let ratio = each.and_then(median).zip(median(sample)).map(|(each, group)| each.as_us_f64() / group.as_us_f64());
        let decimals = |number: Option<f64>| number.map_or_else(Cell::none, |number| Cell::number(number, 2));
        grid.push([
            Cell::count(*receivers),
            Cell::count(point.links),
            Cell::us_or_none(nearest(sample)),
            Cell::us_or_none(median(sample)),
            decimals(rate(work, sample)),
            Cell::number(100.0 * sample.complete() as f64 / all.max(1) as f64, 2),
            Cell::count(sample.lost()),
            Cell::count(point.group.stats.copies),
            Cell::us(sample.join),
            Cell::us_or_none(each.and_then(median)),
            each.map_or_else(Cell::none, |each| Cell::count(each.lost())),
            decimals(ratio),
            Cell::data(data(work, &point.group)),
            Cell::data(point.each.as_ref().map(|each| data(work, each))),
        ]);
    }
    grid
}

fn data(work: &ToGroup, outcome: &Sampled) -> serde_json::Value {
    let ps = |span: Option<Span>| span.map(Span::as_ps);
    let sample = &outcome.sample;
    serde_json::json!({
        "first_ps": ps(nearest(sample)),
        "last_ps": ps(median(sample)),
        "rate_gbps": rate(work, sample),
        "complete": sample.complete(),
        "lost": sample.lost(),
        "repeated": sample.received.iter().map(|received| received.repeated).sum::<u64>(),
        "late": sample.received.iter().map(|received| received.late).sum::<u64>(),
        "join_ps": sample.join.as_ps(),
        "counts": outcome.stats,
    })
}

/// Basis: standard, InfiniBand vol. 1 §9.8.3.
const LARGEST_DATAGRAM: u64 = 4096;
