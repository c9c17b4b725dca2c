//! How much predictions move when a number of the catalogue is another: which of the numbers that nobody measured matter.
//!
//! Each number is made smaller and larger by a share, one at a time, and a set of short runs is made again on every cluster that the number reaches:
//! latencies and bandwidths between two nodes, collective operations, GPUs. What is told is the largest move of any of them, and which it was.
//!
//! Not modelled: numbers that only matter together; choices; numbers that stand in lists; sizes and tools beyond the set.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use fabriscope_catalog::{Alteration, Basis, Catalog, Kind, ResolvedCluster, Row};
use fabriscope_tools::{Tool, ToolOutput};

use crate::error::LabError;
use crate::launch::{Launch, layout_of};

/// What to vary, and where.
#[derive(Debug, Clone)]
pub struct Variation {
    /// The clusters to run on.
    pub clusters: Vec<String>,
    /// Which numbers: those of these bases.
    pub bases: Vec<Basis>,
    /// By how much a number is made smaller and larger [%].
    pub percent: u32,
    /// Seed of everything random.
    pub seed: u64,
}

/// A number with the farthest that it moves anything.
#[derive(Debug, Clone, PartialEq)]
pub struct Moved {
    /// The number, as its own file writes it.
    pub number: Row,
    /// Clusters that the number reaches.
    pub clusters: usize,
    /// The largest move of a prediction \[%\]; nothing where none moves.
    pub most: Option<Move>,
}

/// How far one prediction moved.
#[derive(Debug, Clone, PartialEq)]
pub struct Move {
    /// The change of the prediction \[%\].
    pub percent: f64,
    /// What stood in the place of the number.
    pub value: String,
    /// The cluster.
    pub cluster: String,
    /// The command line of the run.
    pub run: String,
}

/// What came of varying numbers.
#[derive(Debug, Clone, Default)]
pub struct Sensitivity {
    /// Numbers that reach one of the clusters, those that move most first.
    pub moved: Vec<Moved>,
    /// Numbers that reach none of them.
    pub unreached: usize,
    /// Numbers that are words or truths, or that nothing else can stand for.
    pub fixed: usize,
    /// Runs of each cluster.
    pub runs: BTreeMap<String, usize>,
}

/// The runs, as command lines: those that a cluster refuses are left out there. Basis: assumed; what people measure, at a size where overheads and
/// at one where rates decide.
const RUNS: [&str; 14] = [
    "osu_latency -m 8:8 -i 4 -x 1",
    "osu_latency -m 8192:8192 -i 4 -x 1",
    "osu_latency -m 1048576:1048576 -i 2 -x 1",
    "osu_bw -m 8:8 -i 2 -x 1",
    "osu_bibw -m 65536:65536 -i 2 -x 1",
    "osu_allreduce -m 8:8 -i 2 -x 1",
    "osu_allreduce -m 65536:65536 -i 2 -x 1",
    "osu_alltoall -m 1024:1024 -i 2 -x 1",
    "ib_write_lat -s 8 -n 8",
    "ib_read_bw -s 4096 -n 128",
    "osu_latency -m 8:8 -i 4 -x 1 D D",
    "osu_bw -m 1048576:1048576 -i 1 -x 1 D D",
    "all_reduce_perf -b 8K -e 8K -n 2",
    "all_reduce_perf -b 64M -e 64M -n 2",
];
/// Ranks on each node in collective operations of MPI. Basis: assumed; few, as each number costs some hundred runs.
const RANKS: u32 = 4;

/// Varies every number of the wanted bases; `progress` hears how many of all are done.
///
/// # Errors
/// A cluster that there is not, or of unlike nodes.
pub fn vary(catalog: &Catalog, variation: &Variation, progress: &(dyn Fn(usize, usize) + Sync)) -> Result<Sensitivity, LabError> {
    let mut places = Vec::new();
    for name in &variation.clusters {
        let parts = catalog.target_alike(name)?;
        let before: Vec<(&str, f64)> = RUNS.into_iter().filter_map(|run| Some((run, value(&parts, run, variation.seed)?))).collect();
        places.push(Baseline { name, parts, before });
    }
    let numbers: Vec<Row> = catalog.own_numbers().into_iter().filter(|row| variation.bases.contains(&row.basis)).collect();
    let (next, done, found) = (AtomicUsize::new(0), AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let work = || {
        while let Some((at, number)) = Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|at| Some((at, numbers.get(at)?))) {
            let came = varied(catalog, &places, number, variation);
            found.lock().unwrap_or_else(std::sync::PoisonError::into_inner).insert(at, came);
            progress(done.fetch_add(1, Ordering::Relaxed) + 1, numbers.len());
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
    let mut result =
        Sensitivity { runs: places.iter().map(|place| (place.name.clone(), place.before.len())).collect(), ..Sensitivity::default() };
    for came in found.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner).into_values() {
        match came {
            Came::Fixed => result.fixed += 1,
            Came::Unreached => result.unreached += 1,
            Came::Varied(moved) => result.moved.push(*moved),
        }
    }
    let size = |moved: &Moved| moved.most.as_ref().map_or(0.0, |most| most.percent.abs());
    // The sort is stable: numbers that move alike stay in the order of the catalogue.
    result.moved.sort_by(|a, b| size(b).total_cmp(&size(a)));
    Ok(result)
}

/// A cluster with what its runs give.
struct Baseline<'a> {
    name: &'a String,
    parts: ResolvedCluster,
    before: Vec<(&'static str, f64)>,
}

/// What came of one number.
enum Came {
    Fixed,
    Unreached,
    Varied(Box<Moved>),
}

fn varied(catalog: &Catalog, places: &[Baseline<'_>], number: &Row, variation: &Variation) -> Came {
    let Some(kind) = Kind::ALL.into_iter().find(|kind| kind.folder() == number.kind) else { return Came::Fixed };
    let by = |percent: u32| {
        let because = "varied".to_owned();
        let (part, field) = (number.part.clone(), number.field.clone());
        let alter = |value: String| {
            let alteration = Alteration {
                kind,
                part: part.clone(),
                field: field.clone(),
                value: value.clone(),
                basis: number.basis,
                because: because.clone(),
            };
            catalog.altered(&[alteration]).ok().map(|catalog| (value, catalog))
        };
        // Some counts have to be whole, or powers of two: then nothing stands for them.
        scaled(&number.value, percent).into_iter().find_map(alter)
    };
    let altered: Vec<(String, Catalog)> = [100 - variation.percent.min(99), 100 + variation.percent].into_iter().filter_map(by).collect();
    if altered.is_empty() {
        return Came::Fixed;
    }
    let (mut reached, mut most) = (Vec::new(), None::<Move>);
    for (value_now, catalog) in &altered {
        for place in places {
            let Ok(parts) = catalog.target_alike(place.name) else { continue };
            if parts == place.parts {
                continue;
            }
            if !reached.contains(&place.name) {
                reached.push(place.name);
            }
            for (run, before) in &place.before {
                let Some(now) = value(&parts, run, variation.seed) else { continue };
                let percent = 100.0 * (now / before - 1.0);
                if percent != 0.0 && most.as_ref().is_none_or(|most| percent.abs() > most.percent.abs()) {
                    most = Some(Move { percent, value: value_now.clone(), cluster: place.name.clone(), run: (*run).to_owned() });
                }
            }
        }
    }
    if reached.is_empty() {
        return Came::Unreached;
    }
    Came::Varied(Box::new(Moved { number: number.clone(), clusters: reached.len(), most }))
}

/// The first value that a run prints; nothing where the cluster refuses it.
fn value(parts: &ResolvedCluster, run: &str, seed: u64) -> Option<f64> {
    let mut words = run.split(' ');
    let tool = Tool::by_name(words.next()?).ok()?;
    let options: Vec<String> = words.map(str::to_owned).collect();
    let per_node = tool.traits().is_collective().then_some(RANKS);
    let nodes = if tool.name().ends_with("_perf") { Some(parts.nodes().min(2)) } else { None };
    let per_node = if tool.name().ends_with("_perf") { None } else { per_node };
    let layout = layout_of(tool, parts, nodes, per_node);
    let launch = Launch { layout: Some(layout), seed, ..Launch::new(tool, &options, parts) };
    let (ToolOutput { points, .. }, _) = launch.run().ok()?;
    points.first().map(|point| point.value).filter(|value| *value > 0.0)
}

/// What stands for a number that is so many percent of itself: exactly, and in whole units where that is not read. Nothing for words.
fn scaled(value: &str, percent: u32) -> Vec<String> {
    let end = value.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(value.len());
    let (digits, unit) = value.split_at(end);
    let Ok(number) = digits.parse::<f64>() else { return Vec::new() };
    if number == 0.0 {
        return Vec::new();
    }
    if let Some(whole) = unit.strip_prefix('/') {
        // Ratios are of whole numbers.
        let (Ok(part), Ok(whole)) = (digits.parse::<u64>(), whole.parse::<u64>()) else { return Vec::new() };
        return vec![format!("{}/{}", part * u64::from(percent), whole * 100)];
    }
    let exact = number * f64::from(percent) / 100.0;
    let plain = |number: f64| {
        let text = format!("{number:.6}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    let mut found = vec![format!("{}{unit}", plain(exact))];
    let whole = exact.round();
    // Counts and bytes are whole.
    if matches!(unit, "" | " B") && whole != exact && whole != number && whole > 0.0 {
        found.push(format!("{}{unit}", plain(whole)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_units() {
        assert_eq!(scaled("60 ns", 75), ["45 ns"]);
        assert_eq!(scaled("64 KiB", 125), ["80 KiB"]);
        assert_eq!(scaled("77/100", 75), ["5775/10000"]);
        assert_eq!(scaled("25", 75), ["18.75", "19"]);
        assert_eq!(scaled("2.2 us", 125), ["2.75 us"]);
        assert!(scaled("0 ns", 75).is_empty() && scaled("openmpi-4.0", 75).is_empty() && scaled("true", 75).is_empty());
        // A count of one has nothing near it.
        assert_eq!(scaled("1", 75), ["0.75"]);
    }

    #[test]
    fn a_number_that_decides_moves_and_one_that_is_not_there_does_not() {
        let catalog = Catalog::embedded().unwrap();
        let parts = catalog.target_alike("ri2").unwrap();
        let name = "ri2".to_owned();
        let run = RUNS[8];
        let before = vec![(run, value(&parts, run, 1).unwrap())];
        let places = [Baseline { name: &name, parts, before }];
        let variation = Variation { clusters: vec![name.clone()], bases: Basis::ALL.to_vec(), percent: 25, seed: 1 };
        let of = |kind, part: &str, field: &str| varied(&catalog, &places, &catalog.number(kind, part, field).unwrap(), &variation);
        // A write of 8 B passes both engines: 52.5 ns of each of them in some 0.9 us are 4 to 8 %.
        let Came::Varied(moved) = of(Kind::Nic, "connectx-5", "tx_latency") else { panic!() };
        let most = moved.most.unwrap();
        assert!((3.0..9.0).contains(&most.percent.abs()), "{most:?}");
        assert!(matches!(of(Kind::Switch, "ethernet-25g-leaf", "latency"), Came::Unreached));
    }
}
