//! What to measure next: the run in which two causes differ most, found by simulating some candidates with each.
//!
//! Not modelled: what a measurement costs; candidates beyond the list; sizes between those of the list.

use fabriscope_catalog::Catalog;
use fabriscope_lab::launch::{Launch, layout_of};
use fabriscope_lab::prediction::Setup;
use fabriscope_tools::{Suite, Tool};

use crate::causes::{ALL, Scene};
use crate::diagnosis::Suspect;

/// A run that tells two causes apart.
#[derive(Debug, Clone, PartialEq)]
pub struct Next {
    /// The command line.
    pub run: String,
    /// What it gives, with its unit, with the first cause.
    pub first: f64,
    /// With the other.
    pub second: f64,
    /// The unit of both.
    pub unit: &'static str,
}

/// What people can run without preparation, as command lines. Basis: assumed; one run for each of overheads, rates and both directions,
/// by the adapter alone and through the library.
const RUNS: [&str; 20] = [
    "ib_write_lat -s 8 -n 8",
    "ib_read_lat -s 4096 -n 8",
    "ib_write_bw -s 65536 -n 256",
    "ib_read_bw -s 65536 -n 128",
    "ib_write_bw -s 64 -n 1000",
    "ib_write_bw -s 65536 -n 256 -b",
    "osu_latency -m 8:8 -i 4 -x 1",
    "osu_latency -m 16384:16384 -i 4 -x 1",
    "osu_latency -m 1048576:1048576 -i 2 -x 1",
    "osu_bw -m 8:8 -i 2 -x 1",
    "osu_bw -m 16384:16384 -i 2 -x 1",
    "osu_bw -m 1048576:1048576 -i 1 -x 1",
    "osu_bibw -m 1048576:1048576 -i 1 -x 1",
    "osu_latency -m 8:8 -i 4 -x 1 D D",
    "osu_bw -m 1048576:1048576 -i 1 -x 1 D D",
    "osu_bw -m 1048576:1048576 -i 1 -x 1 H H",
    "all_reduce_perf -b 8 -e 8 -n 1 -w 1",
    "all_reduce_perf -b 67108864 -e 67108864 -n 1 -w 0",
    "all_gather_perf -b 1048576 -e 1048576 -n 1 -w 1",
    "sendrecv_perf -b 67108864 -e 67108864 -n 1 -w 0",
];
/// Two values have to lie this far apart, as a logarithm: five standard deviations of usual noise.
const TOLD: f64 = 0.15;

/// The run that tells two causes apart best, if one does.
#[must_use]
pub fn next(catalog: &Catalog, setup: &Setup, one: &Suspect, other: &Suspect) -> Option<Next> {
    let mut best: Option<(f64, Next)> = None;
    for run in RUNS {
        let [Some((first, unit)), Some((second, _))] = [one, other].map(|suspect| value(catalog, setup, run, suspect)) else { continue };
        let apart = libm::log(first / second).abs();
        if apart > TOLD && best.as_ref().is_none_or(|(most, _)| apart > *most * 1.001) {
            best = Some((apart, Next { run: run.to_owned(), first, second, unit }));
        }
    }
    best.map(|(_, next)| next)
}

/// The first value that a run prints on the machine of `setup` with a cause; nothing where it is refused there.
fn value(catalog: &Catalog, setup: &Setup, run: &str, suspect: &Suspect) -> Option<(f64, &'static str)> {
    let mut words = run.split(' ');
    let tool = Tool::by_name(words.next()?).ok()?;
    let mut options: Vec<String> = words.map(str::to_owned).collect();
    if tool.traits().suite == Suite::Perftest && setup.parts.sole().node.nic.name.starts_with("efa") {
        options.extend(["-c".to_owned(), "SRD".to_owned()]);
    }
    let on_gpus = tool.traits().suite == Suite::NcclTests;
    // A job on GPUs is that of the table, which may be on one node.
    if on_gpus && setup.tool.traits().suite != Suite::NcclTests {
        return None;
    }
    let layout = if on_gpus { setup.layout } else { layout_of(tool, &setup.parts, Some(2), Some(1)) };
    let mut changed = Setup { tool, options, layout, message_bytes: None, ..setup.clone() };
    let amounts_of = ALL[suspect.cause].amounts;
    let (here, there) = (amounts_of(&Scene { catalog, setup: &changed }), amounts_of(&Scene { catalog, setup }));
    // The cause in the same amount, as it is made to this run; one that this program cannot have leaves it as it should be.
    let same = here.iter().find(|amount| amount.what == suspect.what);
    let amount = same.or_else(|| there.get(suspect.amount).filter(|_| !here.is_empty()));
    if let Some(amount) = amount {
        let _ = (amount.change)(&mut changed);
    }
    let Setup { parts, options, binding, nodes, .. } = changed;
    let launch = Launch { nodes, layout: Some(layout), binding, ..Launch::new(tool, &options, &parts) };
    let (output, _) = launch.run().ok()?;
    output.points.first().filter(|point| point.value > 0.0).map(|point| (point.value, point.unit))
}
