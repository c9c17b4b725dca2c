//! A study on the cores of one machine.

use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use fabriscope_catalog::Stop;
use fabriscope_report::{Cell, Column, Grid, Outcome};
use rayon::prelude::*;

use crate::error::StudyError;
use crate::plan::Plan;
use crate::store::Store;

/// How far a study is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Points that are known, those that were there before among them.
    pub done: usize,
    /// Points of the study.
    pub all: usize,
    /// Points that were there before.
    pub before: usize,
}

/// Runs what is missing on `jobs` cores, 0 for all; hears of every point. When `stop` is set, points that run are finished and kept, and no
/// other begins.
///
/// # Errors
/// A file that cannot be written.
pub fn run(plan: &Plan, store: &mut Store, jobs: usize, stop: &Stop, progress: &mut dyn FnMut(Progress)) -> Result<Outcome, StudyError> {
    let missing = store.missing(plan);
    let all = plan.len();
    let before = store.count();
    progress(Progress { done: before, all, before });
    store.finish(plan)?;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(jobs).build();
    let (told, hears) = channel();
    let kept = store.kept().to_owned();
    let work = || -> Result<(), StudyError> {
        missing.par_iter().with_max_len(1).try_for_each_with(told, |told, point| {
            if stop.is_set() {
                return Ok(());
            }
            let result = plan.run(*point);
            Store::keep(&kept, &plan.keys()[*point], &result)?;
            // Whoever hears is gone only after an error, which ends this as well.
            _ = told.send(*point);
            Ok(())
        })
    };
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| match pool {
            Ok(pool) => pool.install(work),
            // Without threads of its own, on those that there are.
            Err(_) => work(),
        });
        loop {
            match hears.recv_timeout(LISTENS) {
                Ok(point) => {
                    store.note(plan, point)?;
                    progress(Progress { done: store.count(), all, before });
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })?;
    store.finish(plan)?;
    Ok(outcome(plan, store, before))
}

/// What a study came to: for each tool on each cluster the points, what could not be run, and why; where the data are.
#[must_use]
pub fn outcome(plan: &Plan, store: &Store, before: usize) -> Outcome {
    let mut grid = Grid::new([
        Column::words("what", "what"),
        Column::number("points", "points"),
        Column::number("done", "done"),
        Column::number("refused", "refused"),
        Column::words("first reason", "reason"),
    ]);
    let mut sums: Vec<(String, [usize; 3], Option<String>)> = Vec::new();
    for point in 0..plan.len() {
        let what = plan.group(point);
        if sums.last().is_none_or(|(last, ..)| *last != what) && !sums.iter().any(|(known, ..)| *known == what) {
            sums.push((what.clone(), [0; 3], None));
        }
        let Some((_, counts, reason)) = sums.iter_mut().find(|(known, ..)| *known == what) else { continue };
        counts[0] += 1;
        counts[1] += usize::from(store.knows(point));
        if let Some(error) = store.get(plan, point).and_then(|result| result.error) {
            counts[2] += 1;
            reason.get_or_insert(error);
        }
    }
    let total = |at: usize| sums.iter().map(|(_, counts, _)| counts[at]).sum::<usize>();
    let (points, done, refused) = (total(0), total(1), total(2));
    for (what, [points, done, refused], reason) in sums {
        let reason = reason.map_or_else(Cell::blank, Cell::word);
        grid.push([Cell::word(what), Cell::count(points), Cell::count(done), Cell::count(refused), reason]);
    }
    let folder = store.folder().display().to_string();
    let mut outcome = Outcome::new();
    if !plan.title.is_empty() {
        outcome.note(plan.title.clone());
    }
    outcome.set("points", points).set("done", done).set("refused", refused).set("before", before).set("folder", folder.clone());
    outcome.keyed_table("groups", grid).text("\n");
    outcome.note(format!("{done} of {points} points are done, {before} of them before; {refused} cannot be run and say why"));
    if done < points {
        outcome.note("the same command goes on from here");
    }
    outcome.note(format!("data set: {folder}, for pandas.read_parquet, polars.scan_parquet, DuckDB"));
    outcome
}

/// How long nothing may be heard before it is looked whether all is over.
const LISTENS: Duration = Duration::from_millis(100);

/// Where results are kept for a study whose data are in `folder`, if nobody says.
#[must_use]
pub fn kept_beside(folder: &Path) -> std::path::PathBuf {
    folder.join(".points")
}
