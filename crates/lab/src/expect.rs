//! What the usual tools should show on a cluster, with bounds, and with intervals from how far predictions of the nearest published tables were off.
//!
//! Every size of every tool is predicted; what links and slots carry bounds it. The nearest tables are those of the same tool, or else of the same
//! kind of benchmark, on machines that are most alike: the same adapter first, then its vendor's, the framing of the links, the library's family, their
//! rate. Of these, rows of sizes on the same side of `SHORT` are predicted as well, and the ratios of measured to predicted values make the interval.
//!
//! Not modelled: how far two machines with the same parts differ; what is between the sizes of the list.

use std::collections::BTreeSet;

use fabriscope_catalog::{Catalog, ResolvedCluster};
use fabriscope_report::question::{Requested, ask};
use fabriscope_report::validate::answer_all;
use fabriscope_report::{Answer, Kind, Measured, Quantity, Question, Refusal};
use fabriscope_tools::{Measures, Ranks, Tool};

use crate::error::LabError;
use crate::launch::layout_of;
use crate::prediction::Predictor;

/// What to expect, and where.
#[derive(Debug, Clone)]
pub struct ExpectRequest<'a> {
    /// The cluster, as a target.
    pub on: &'a str,
    /// Nodes of operations of many ranks.
    pub nodes: Option<u32>,
    /// Ranks of these on each node.
    pub ranks_per_node: Option<u32>,
    /// Only these tools; all of the list, where that is empty.
    pub tools: Vec<String>,
    /// Seed of everything random.
    pub seed: u64,
}

/// A row of the table.
#[derive(Debug, Clone, PartialEq)]
pub struct Expected {
    /// The tool.
    pub tool: &'static str,
    /// Its job: nodes and ranks.
    pub shape: (u32, u32),
    /// Size of a message or of a buffer; none of a barrier.
    pub bytes: Option<u64>,
    /// What it shows.
    pub metric: &'static str,
    /// The unit of all values.
    pub unit: &'static str,
    /// What is expected.
    pub value: f64,
    /// What nothing can exceed, and because of what: a bandwidth from above, a time from below.
    pub bound: Option<(f64, &'static str)>,
    /// Where four of five measurements should lie; nothing without a table of the kind.
    pub interval: Option<(f64, f64)>,
    /// The tables that the interval comes from.
    pub tables: Vec<String>,
    /// Their points.
    pub points: usize,
}

impl Expected {
    /// What passes: the end of the interval on the bad side.
    #[must_use]
    pub fn limit(&self) -> Option<f64> {
        let (low, high) = self.interval?;
        Some(if self.metric == "latency" { high } else { low })
    }
}

/// What there is to expect, and tools that the cluster refuses, with the reason.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Expectations {
    /// The rows, in the order of the list.
    pub rows: Vec<Expected>,
    /// Tools that cannot be run there.
    pub refused: Vec<(String, String)>,
}

/// Tools and sizes. Basis: assumed; what acceptance tests of machines run, at sizes where overheads, the change of protocol and rates decide.
const LIST: [(&str, &[Option<u64>]); 10] = [
    ("osu_latency", &[Some(8), Some(8192), Some(1 << 20)]),
    ("osu_bw", &[Some(8), Some(8192), Some(4 << 20)]),
    ("osu_bibw", &[Some(8192), Some(4 << 20)]),
    ("ib_write_lat", &[Some(8)]),
    ("ib_write_bw", &[Some(65_536), Some(1 << 20)]),
    ("osu_barrier", &[None]),
    ("osu_allreduce", &[Some(8), Some(65_536)]),
    ("osu_alltoall", &[Some(1024)]),
    ("osu_bcast", &[Some(65_536)]),
    ("all_reduce_perf", &[Some(1 << 20), Some(64 << 20)]),
];

/// Sizes up to here are short: overheads decide, in bytes. Basis: assumed.
const SHORT: u64 = 8192;
/// Nodes of operations where nothing is said. Basis: assumed; few, as every packet is simulated.
const NODES: u32 = 4;
/// Ranks of these on each node, likewise.
const RANKS: u32 = 4;
/// Rows of a table and class of sizes that are predicted, at most.
const ROWS: usize = 8;
/// Tables for a row, at most.
const TABLES: usize = 3;
/// With fewer points an interval is as wide as the worst of them. Basis: assumed.
const FEW: usize = 8;

/// Predicts it; `progress` hears how many runs of all are done.
///
/// # Errors
/// No such cluster, or one of unlike nodes; a tool that is not of the list.
pub fn expect(
    catalog: &Catalog,
    tables: &[Measured],
    asked: &ExpectRequest<'_>,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<Expectations, LabError> {
    let parts = catalog.target_alike(asked.on)?;
    if let Some(unknown) = asked.tools.iter().find(|tool| LIST.iter().all(|(name, _)| name != tool)) {
        let names = LIST.map(|(name, _)| name).join(", ");
        return Err(LabError::refused(format!("`{unknown}` is not one of the tools of acceptance tables"), format!("those are {names}")));
    }
    let mut wanted = Vec::new();
    for (name, sizes) in LIST.iter().filter(|(name, _)| asked.tools.is_empty() || asked.tools.iter().any(|tool| tool == name)) {
        let tool = Tool::by_name(name).map_err(|error| LabError::refused(error.to_string(), "this is a fault of the list"))?;
        wanted.extend(sizes.iter().map(|size| question(tool, &parts, *size, asked)));
    }
    let near: Vec<Vec<Near>> = wanted.iter().map(|question| nearest(catalog, &parts, tables, question)).collect();
    let samples: BTreeSet<&Question> = near.iter().flatten().flat_map(|near| near.rows.iter().map(|row| &row.0)).collect();
    let all = wanted.len() + samples.len();
    let own = Predictor::new(catalog, Some(parts.clone()), asked.seed, false, |done, _| progress(done, all));
    let others = Predictor::new(catalog, None, asked.seed, false, |done, _| progress(wanted.len() + done, all));
    let answers = answer_all(&wanted.iter().collect::<Vec<_>>(), &own);
    let sampled = answer_all(&samples.into_iter().collect::<Vec<_>>(), &others);
    let of = |question: &Question| sampled.get(question).and_then(|answer| answer.as_ref().ok().copied());
    let mut found = Expectations::default();
    for (question, near) in wanted.iter().zip(&near) {
        let Some(answer) = answers.get(question) else { continue };
        match answer {
            Ok(answer) => found.rows.extend(row(question, &parts, answer, near, &of)),
            Err(Refusal::Skip(reason) | Refusal::Fail(reason)) => {
                let refused = (question.tool.to_owned(), reason.clone());
                if !found.refused.contains(&refused) {
                    found.refused.push(refused);
                }
            }
        }
    }
    Ok(found)
}

/// The run of a row.
fn question(tool: Tool, parts: &ResolvedCluster, bytes: Option<u64>, asked: &ExpectRequest<'_>) -> Question {
    let traits = tool.traits();
    let gpus = tool.name().ends_with("_perf");
    let job = matches!(traits.ranks, Ranks::Job(_));
    let nodes = if job { Some(asked.nodes.unwrap_or(NODES).min(parts.nodes())) } else { None };
    let few = if gpus { None } else { Some(RANKS) };
    let layout = layout_of(tool, parts, nodes, if job { asked.ranks_per_node.or(few) } else { None });
    let ranks = if job { layout.nodes * layout.per_node } else { 2 };
    let column = gpus.then_some("busbw");
    let nodes = if job { layout.nodes } else { 2 };
    Question { tool: tool.name(), nodes, ranks, message_bytes: bytes, column, ..Question::default() }
}

/// A published table near to what is asked.
struct Near {
    table: String,
    rows: Vec<(Question, Quantity, f64)>,
}

/// The tables that are nearest, with some of their rows of the same class of sizes.
fn nearest(catalog: &Catalog, parts: &ResolvedCluster, files: &[Measured], wanted: &Question) -> Vec<Near> {
    let Ok(tool) = Tool::by_name(wanted.tool) else { return Vec::new() };
    let kind = kind_of(&tool);
    let short = |bytes: Option<u64>| bytes.is_none_or(|bytes| bytes <= SHORT);
    let mut found: Vec<(i64, Near)> = Vec::new();
    for file in files {
        let mut near: Vec<(i64, Near)> = Vec::new();
        for row in file.rows() {
            let Ok(Requested::Run(question, quantity)) = ask(file, row) else { continue };
            let same_kind = Kind::of(&Requested::Run(question.clone(), quantity), &row.benchmark) == kind;
            let measures = Tool::by_name(question.tool).is_ok_and(|other| other.traits().measures == tool.traits().measures);
            if !same_kind || !measures || short(question.message_bytes) != short(wanted.message_bytes) || question.message_bytes == Some(0)
            {
                continue;
            }
            // Few ranks are predicted in moments, and off by the same.
            if question.ranks > 128 || matches!(quantity, Quantity::MessageRate { .. } | Quantity::Share { .. } | Quantity::OfLine { .. }) {
                continue;
            }
            match near.iter_mut().find(|(_, near)| near.table == row.table) {
                Some((_, near)) => near.rows.push((question, quantity, row.value)),
                None => {
                    let likeness = likeness(catalog, parts, &question) + if question.tool == wanted.tool { 100 } else { 0 };
                    near.push((likeness, Near { table: row.table.clone(), rows: vec![(question, quantity, row.value)] }));
                }
            }
        }
        found.extend(near);
    }
    // The sort is stable: of equally near tables the first by name.
    found.sort_by_key(|(likeness, _)| -likeness);
    found.truncate(TABLES);
    for (_, near) in &mut found {
        let every = near.rows.len().div_ceil(ROWS).max(1);
        near.rows = std::mem::take(&mut near.rows).into_iter().step_by(every).collect();
    }
    found.into_iter().map(|(_, near)| near).collect()
}

fn kind_of(tool: &Tool) -> Kind {
    let traits = tool.traits();
    let question = Question { tool: tool.name(), ..Question::default() };
    let quantity =
        if traits.measures == Measures::Latency { Quantity::Latency { us: 1.0 } } else { Quantity::Bandwidth { bytes_per_s: 1.0 } };
    Kind::of(&Requested::Run(question, quantity), tool.name())
}

/// How much a machine of the tables is like this one.
fn likeness(catalog: &Catalog, parts: &ResolvedCluster, question: &Question) -> i64 {
    let Ok(other) = catalog.target_alike(&question.cluster) else { return 0 };
    let (Some(own), Some(its)) = (parts.uniform(), other.uniform()) else { return 0 };
    let family = |name: &str| name.split('-').next().unwrap_or_default().to_owned();
    let mut likeness = 0;
    likeness += if other.name == parts.name { 40 } else { 0 };
    likeness += if own.node.nic.name == its.node.nic.name { 30 } else { 0 };
    likeness += if family(&own.node.nic.name) == family(&its.node.nic.name) { 15 } else { 0 };
    likeness += if parts.link_layer == other.link_layer { 8 } else { 0 };
    likeness += if family(&own.software.name) == family(&its.software.name) { 6 } else { 0 };
    likeness += match (&own.node.gpu, &its.node.gpu) {
        (Some(own), Some(its)) if own.name == its.name => 25,
        (None, None) => 2,
        _ => 0,
    };
    let rate = |parts: &ResolvedCluster| parts.links().host.rate.as_bps().max(1);
    let (low, high) = (rate(parts).min(rate(&other)), rate(parts).max(rate(&other)));
    likeness - i64::from((high / low).ilog2().min(6))
}

fn row(
    question: &Question,
    parts: &ResolvedCluster,
    answer: &Answer,
    near: &[Near],
    of: &dyn Fn(&Question) -> Option<Answer>,
) -> Option<Expected> {
    let (metric, unit, factor, base) = match (question.column, answer.latency_us, answer.bytes_per_s) {
        (Some(_), _, Some(bytes_per_s)) => ("busbw", "GB/s", 1e-9, bytes_per_s),
        (None, Some(us), _) => ("latency", "us", 1.0, us),
        (None, None, Some(bytes_per_s)) => ("bandwidth", "MB/s", 1e-6, bytes_per_s),
        _ => return None,
    };
    let value = base * factor;
    let mut ratios = Vec::new();
    let mut tables = Vec::new();
    for near in near {
        let own: Vec<f64> = near
            .rows
            .iter()
            .filter_map(|(question, quantity, measured)| Some(measured / quantity.value_of(&of(question)?)?))
            .filter(|ratio| ratio.is_finite() && *ratio > 0.0)
            .collect();
        if !own.is_empty() {
            tables.push(near.table.clone());
            ratios.extend(own);
        }
    }
    ratios.sort_by(f64::total_cmp);
    let at = |share: f64| ratios[((share * (ratios.len() - 1) as f64).round() as usize).min(ratios.len() - 1)];
    let bound = bound(question, parts, answer, metric).map(|(base, because)| (base * factor, because));
    let within = |value: f64| match bound {
        Some((bound, _)) if metric == "latency" => value.max(bound),
        Some((bound, _)) => value.min(bound),
        None => value,
    };
    let interval = (!ratios.is_empty()).then(|| {
        let (low, high) = if ratios.len() < FEW { (at(0.0), at(1.0)) } else { (at(0.1), at(0.9)) };
        (within(value * low.min(1.0)), within(value * high.max(1.0)))
    });
    Some(Expected {
        tool: question.tool,
        shape: (question.nodes, question.ranks),
        bytes: question.message_bytes,
        metric,
        unit,
        value,
        bound,
        interval,
        tables,
        points: ratios.len(),
    })
}

/// What links and slots allow, in base units: between two nodes, or among all of a job.
fn bound(question: &Question, parts: &ResolvedCluster, answer: &Answer, metric: &str) -> Option<(f64, &'static str)> {
    let tool = Tool::by_name(question.tool).ok()?;
    let group = parts.uniform()?;
    let line = answer.line_bytes_per_s?;
    let slot = &group.node.pcie;
    let bus = slot.part.tlp_rate(slot.lanes).as_bps() as f64 / 8.0;
    let (rate, because) = if line <= bus { (line, "line rate") } else { (bus, "PCI Express") };
    if matches!(tool.traits().ranks, Ranks::Job(_)) {
        let least = carried(question, parts)? / (rate * f64::from(group.node.nics.max(1)));
        let because = if because == "line rate" && group.node.nics > 1 { "line rates" } else { because };
        return match metric {
            "latency" => Some((least * 1e6, because)),
            // Of bus bandwidth: 2 (n - 1) / n of the buffer in that time.
            "busbw" => {
                let (bytes, ranks) = (question.message_bytes? as f64, f64::from(question.ranks));
                Some((2.0 * (ranks - 1.0) / ranks * bytes / least, because))
            }
            _ => None,
        };
    }
    if metric == "latency" {
        let bytes = question.message_bytes.filter(|bytes| *bytes > SHORT)?;
        return Some((bytes as f64 / rate * 1e6, because));
    }
    Some((if question.tool == "osu_bibw" { 2.0 * rate } else { rate }, because))
}

/// What a node of a collective operation has to send, or to receive, in bytes: of the node that has least to do.
///
/// Of an all-reduce among N nodes that is 2 (N - 1) / N of the buffer (P. Patarasuk and X. Yuan, "Bandwidth optimal all-reduce algorithms for
/// clusters of workstations", J. Parallel Distrib. Comput. 69(2), 2009), or the buffer once where switches reduce.
fn carried(question: &Question, parts: &ResolvedCluster) -> Option<f64> {
    let bytes = question.message_bytes.filter(|bytes| *bytes > SHORT || question.tool == "osu_alltoall")? as f64;
    let (nodes, ranks) = (f64::from(question.nodes), f64::from(question.ranks));
    if question.nodes < 2 {
        return None;
    }
    let switches_reduce = parts.switch_parts().any(|switch| switch.aggregation.is_some());
    match question.tool {
        "osu_allreduce" | "all_reduce_perf" if switches_reduce => Some(bytes),
        "osu_allreduce" | "all_reduce_perf" => Some(2.0 * (nodes - 1.0) / nodes * bytes),
        "osu_bcast" => Some(bytes),
        // Each of its ranks sends to each rank of another node.
        "osu_alltoall" => Some(ranks / nodes * (ranks - ranks / nodes) * bytes),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::published;

    /// 4 nodes of 4 ranks: an all-to-all of 1 KiB sends 4 · 12 KiB from each node; an all-reduce of 64 KiB 1.5 times that, a broadcast once.
    #[test]
    fn what_a_node_has_to_carry() {
        let catalog = Catalog::embedded().unwrap();
        let of = |on: &str, tool: &'static str, bytes| {
            let question = Question { tool, nodes: 4, ranks: 16, message_bytes: bytes, ..Question::default() };
            carried(&question, &catalog.target_alike(on).unwrap())
        };
        assert_eq!(of("alaska-roce25", "osu_alltoall", Some(1024)), Some(49_152.0));
        assert_eq!(of("alaska-roce25", "osu_allreduce", Some(65_536)), Some(98_304.0));
        assert_eq!(of("azure-ndh100v5", "all_reduce_perf", Some(65_536)), Some(65_536.0));
        assert_eq!(of("alaska-roce25", "osu_bcast", Some(65_536)), Some(65_536.0));
        assert_eq!(of("alaska-roce25", "osu_allreduce", Some(8)), None);
        assert_eq!(of("alaska-roce25", "osu_barrier", None), None);
    }

    #[test]
    fn the_nearest_tables_are_those_of_the_machine_itself_or_of_its_adapter() {
        let catalog = Catalog::embedded().unwrap();
        let tables = published::tables().unwrap();
        let near = |on: &str, tool: &str, bytes| {
            let parts = catalog.target_alike(on).unwrap();
            let asked = ExpectRequest { on, nodes: None, ranks_per_node: None, tools: Vec::new(), seed: 1 };
            let question = question(Tool::by_name(tool).unwrap(), &parts, bytes, &asked);
            nearest(&catalog, &parts, &tables, &question).into_iter().map(|near| (near.table, near.rows.len())).collect::<Vec<_>>()
        };
        let own = near("ri2", "osu_latency", Some(8));
        assert_eq!(own[0].0, "ri2-osu_latency");
        assert!(own.len() <= TABLES && own.iter().all(|(_, rows)| *rows <= ROWS), "{own:?}");
        assert!(near("azure-ndh100v5", "all_reduce_perf", Some(64 << 20))[0].0.starts_with("azure-nd"));
    }
}
