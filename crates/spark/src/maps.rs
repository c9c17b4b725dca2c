//! The first stage: map tasks on the cores of executors, which need no network.
//!
//! Modelled: a task on the first core that is free, what starting it takes, its input from the drive, its work at a rate, its shuffle file on
//! the drive, which all cores of a node share.
//! Not modelled: input from other nodes, spills.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use fabriscope_units::{Bytes, Rate, Span, Time};

use crate::drive::DriveQueue;
use crate::task::TaskRecord;

/// What every map task does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MapWork {
    /// Bytes of its shuffle file, and of its input.
    pub output: Bytes,
    /// How fast a core makes it.
    pub rate: Rate,
    /// Until it runs.
    pub start: Span,
    /// It reads its input from the drive.
    pub reads_input: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Launch,
    Read,
    Write,
}

/// The tasks of one executor: `tasks` are their numbers in the stage.
#[must_use]
pub fn run(tasks: &[u32], executor: u32, cores: u32, work: MapWork, mut drive: Option<DriveQueue>) -> Vec<TaskRecord> {
    let mut left = tasks.iter().copied();
    let mut running: Vec<TaskRecord> = vec![TaskRecord::default(); cores as usize];
    let mut done = Vec::new();
    let mut events: BinaryHeap<Reverse<(Time, Step, usize)>> = BinaryHeap::new();
    (0..cores as usize).for_each(|core| events.push(Reverse((Time::ZERO, Step::Launch, core))));
    while let Some(Reverse((now, step, core))) = events.pop() {
        let task = &mut running[core];
        match step {
            Step::Launch => {
                let Some(index) = left.next() else { continue };
                *task = TaskRecord { index, executor, launch: now, shuffle_written: work.output, ..TaskRecord::default() };
                events.push(Reverse((now + work.start, Step::Read, core)));
            }
            Step::Read => {
                let input = drive.as_mut().filter(|_| work.reads_input).map_or(now, |drive| drive.read(now, work.output));
                events.push(Reverse((input + work.rate.time(work.output), Step::Write, core)));
            }
            Step::Write => {
                task.finish = drive.as_mut().map_or(now, |drive| drive.write(now, work.output));
                done.push(*task);
                events.push(Reverse((task.finish, Step::Launch, core)));
            }
        }
    }
    done.sort_unstable_by_key(|task| task.index);
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_run_in_waves() {
        let (output, rate) = (Bytes(1_000_000), Rate::from_bps(800_000_000));
        let work = MapWork { output, rate, start: Span::from_us(1000), reads_input: false };
        let tasks: Vec<u32> = (0..5).collect();
        let done = run(&tasks, 7, 2, work, None);
        // 1 ms and 10 ms for each: three waves on two cores.
        let ends: Vec<f64> = done.iter().map(|task| task.finish.since(Time::ZERO).as_us_f64()).collect();
        assert_eq!(ends, [11_000.0, 11_000.0, 22_000.0, 22_000.0, 33_000.0]);
        assert!(done.iter().all(|task| task.executor == 7));
    }
}
