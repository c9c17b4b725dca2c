//! The panel loop: what each step takes, and what of it is hidden.
//!
//! Source: HPL, "HPL Scalability Analysis", whose terms are taken step by step; arXiv 2304.10397 for the split update.
//! Modelled: see the crate. The length of a step is that of the processes that have the most; blocks are taken to be dealt evenly.
//! Not modelled: the last blocks, which are not even.

use crate::broadcast::{Broadcast, tree_next, tree_whole};
use crate::error::HplError;
use crate::machine::{Machine, Movers, Path};
use crate::problem::{Problem, WORD};

/// What a run takes, in seconds; the parts are what is on the critical path.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Times {
    /// All of it.
    pub total: f64,
    /// Updates.
    pub update: f64,
    /// Factorisations of panels that nothing hides.
    pub panel: f64,
    /// Broadcasts that nothing hides.
    pub broadcast: f64,
    /// Swaps that nothing hides.
    pub swap: f64,
    /// The substitution at the end.
    pub substitution: f64,
    /// Operations that count.
    pub operations: f64,
}

impl Times {
    /// Operations per second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.operations / self.total
    }
}

/// What the parts of one step take by themselves.
#[derive(Clone, Copy, Debug)]
struct Step {
    /// The update of all that is left.
    update: f64,
    /// Of that, the columns of the next panel.
    next: f64,
    /// The factorisation of the next panel.
    panel: f64,
    /// Until the next column of processes has it.
    broadcast: f64,
    /// What the core that updates spends on it, where it moves panels itself.
    held: Option<f64>,
    swap: f64,
    /// Whether enough columns are left to swap some behind the update of others.
    split: bool,
}

/// Runs it.
///
/// # Errors
/// What is wrong with the problem, or a grid that is larger than so many processes.
pub fn run(problem: &Problem, machine: &Machine, processes: u64) -> Result<Times, HplError> {
    problem.check()?;
    let grid = problem.grid;
    if grid.processes() > processes {
        return Err(HplError::Processes { rows: grid.rows, columns: grid.columns, processes });
    }
    let (row, column) = (machine.along_rows(grid, problem.mapping), machine.along_columns(grid, problem.mapping));
    let (block, steps) = (u64::from(problem.block), problem.unknowns / u64::from(problem.block));
    let mut times = Times { operations: problem.operations(), ..Times::default() };
    // The first panel is hidden by nothing, and its broadcast fills the pipe of the row.
    let first = step(problem, machine, (row, column), problem.unknowns as f64, problem.unknowns as f64);
    times.panel += first.panel;
    let panel_bytes = WORD * problem.unknowns as f64 / f64::from(grid.rows) * f64::from(problem.block);
    times.broadcast += match machine.movers {
        Movers::Workers { .. } => tree_whole(row, grid.columns, panel_bytes),
        Movers::Others | Movers::Own => problem.broadcast.whole(row, grid.columns, panel_bytes),
    };
    for number in 1..=steps {
        let left = (problem.unknowns - number * block) as f64;
        add(&mut times, step(problem, machine, (row, column), left, problem.unknowns as f64), f64::from(grid.columns), problem.look_ahead);
    }
    let (n, all) = (problem.unknowns as f64, grid.processes() as f64);
    // Reading the matrix once, and the vector around the grid: alpha N / NB + 2 beta N, HPL Scalability Analysis.
    times.substitution = WORD * n * n / all / machine.processor.memory
        + row.latency.max(column.latency) * n / block as f64
        + 2.0 * row.per_byte.max(column.per_byte) * WORD * n;
    times.total = times.update + times.panel + times.broadcast + times.swap + times.substitution;
    Ok(times)
}

/// The step after which `left` unknowns of `all` are left.
fn step(problem: &Problem, machine: &Machine, (row, column): (Path, Path), left: f64, all: f64) -> Step {
    let (p, q, nb) = (f64::from(problem.grid.rows), f64::from(problem.grid.columns), f64::from(problem.block));
    let processor = &machine.processor;
    let (rows, columns) = (left / p, left / q);
    // The triangular solve and the multiplication.
    let update_of = |columns: f64| (columns * nb * nb + 2.0 * rows * columns * nb) / processor.dgemm;
    let next = update_of(nb.min(columns)) + processor.start;
    let doubled = libm::log2(p).ceil();
    // Each column looks for its pivot among all rows of processes, and gets it with the row that comes up.
    let pivot = processor.start + doubled * column.seconds(WORD * (2.0 * nb + 4.0));
    let levels = libm::log2((nb / f64::from(problem.least)).max(1.0));
    let passes = f64::from(problem.least) + PASSES * levels;
    let panel = rows * nb * nb / processor.dgemm + WORD * rows * nb * passes / processor.memory + nb * pivot;
    let bytes = WORD * (rows * nb + nb * nb);
    let (broadcast, held) = match machine.movers {
        Movers::Workers { .. } => (tree_next(row, problem.grid.columns, bytes), None),
        Movers::Others => (problem.broadcast.next(row, problem.grid.columns, bytes), None),
        // It looks for the panel after as many columns as a panel has.
        Movers::Own => {
            let held = problem.broadcast.held(row, problem.grid.columns, bytes, update_of(nb.min(columns)));
            (problem.broadcast.next(row, problem.grid.columns, bytes), Some(held))
        }
    };
    let swap = problem.swap.seconds(column, problem.grid.rows, columns, WORD * nb * columns);
    let split = processor.split > 0.0 && left > processor.split * all;
    Step { update: update_of(columns) + processor.start, next, panel, broadcast, held, swap, split }
}

/// What of a step is on the critical path.
fn add(times: &mut Times, step: Step, columns: f64, look_ahead: bool) {
    let Step { update, next, panel, broadcast, held, swap, split } = step;
    if !look_ahead {
        times.swap += swap;
        times.update += update;
        times.panel += panel;
        times.broadcast += broadcast;
        return;
    }
    // Behind the update of the rest: the next panel, its broadcast, and where there are columns enough the swap of the others.
    let rest = (update - next).max(0.0);
    // A core that moves panels itself updates nothing meanwhile.
    let broadcast = if let Some(held) = held {
        times.broadcast += held;
        0.0
    } else {
        broadcast
    };
    let behind = if split { panel + broadcast + swap } else { panel + broadcast };
    times.update += update;
    // A column of processes factors one panel of `columns`; what its own processors take for that, no other work hides.
    let own = panel / columns;
    times.panel += own;
    let shown = (behind - rest - own).max(0.0);
    // What shows is the network's first: it is what comes last.
    let of_broadcast = shown.min(broadcast);
    let of_swap = if split { (shown - of_broadcast).min(swap) } else { swap };
    times.broadcast += of_broadcast;
    times.swap += of_swap;
    times.panel += if split { (shown - of_broadcast - of_swap).max(0.0) } else { shown - of_broadcast };
}

/// Reads and writes of a panel at each level of its recursion: half of it is read, the other half read and written. Basis: estimated.
const PASSES: f64 = 1.5;

/// Which variant is meant by a number of HPL.dat.
pub(crate) fn broadcast_of(number: u64) -> Option<Broadcast> {
    Broadcast::ALL.get(usize::try_from(number).ok()?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grid::Grid;
    use crate::machine::Processor;

    fn machine() -> Machine {
        Machine {
            processor: Processor { dgemm: 1e12, memory: 100e9, start: 0.0, split: 0.0 },
            per_node: 1,
            inside: Path::FREE,
            between: Path { latency: 2e-6, per_byte: 1e-10 },
            node_rate: 10e9,
            fabric: 1.0,
            movers: Movers::Others,
        }
    }

    /// One process: nothing is sent, and what is not the update is the panel, hidden but for the start, and one reading of the matrix.
    #[test]
    fn one_process_computes_at_the_rate_of_its_multiplications() {
        let problem = Problem::new(40_000, 200, Grid { rows: 1, columns: 1 });
        let times = run(&problem, &machine(), 1).unwrap();
        assert_eq!(times.broadcast + times.swap, 0.0);
        // 2/3 N^3 = 42.7 s at 1 TFLOP/s.
        let share = times.rate() / 1e12;
        assert!(share > 0.95 && share <= 1.0, "{share}");
    }

    /// Isoefficiency: the share of messages falls as 1 / N, HPL Scalability Analysis.
    #[test]
    fn twice_the_unknowns_halve_what_messages_add() {
        let grid = Grid { rows: 8, columns: 8 };
        let added = |n: u64| {
            let problem = Problem { look_ahead: false, ..Problem::new(n, 200, grid) };
            let times = run(&problem, &machine(), 64).unwrap();
            let free = run(&problem, &machine().without_network(), 64).unwrap();
            (times.total - free.total) / free.total
        };
        let ratio = added(100_000) / added(200_000);
        assert!((1.7..2.4).contains(&ratio), "{ratio}");
    }

    /// By hand: N = 400, NB = 200, 2 x 1, no look-ahead: one step with 200 left.
    #[test]
    fn one_step_by_hand() {
        let grid = Grid { rows: 2, columns: 1 };
        let problem = Problem { look_ahead: false, ..Problem::new(400, 200, grid) };
        let times = run(&problem, &machine(), 2).unwrap();
        // 200 * 200^2 + 2 * 100 * 200 * 200 = 16e6 operations at 1 TFLOP/s; the last step has none.
        assert!((times.update - 16e-6).abs() < 1e-12, "{}", times.update);
        // Long: (1 + 2 - 1) * 2 us + 3 * 0.1 ns * 8 * 200 * 200, and the latency again at the last step.
        assert!((times.swap - (4e-6 + 96e-6 + 4e-6)).abs() < 1e-12, "{}", times.swap);
    }

    #[test]
    fn look_ahead_and_split_hide_and_never_lengthen() {
        let grid = Grid { rows: 16, columns: 16 };
        let problem = Problem::new(200_000, 256, grid);
        let plain = run(&Problem { look_ahead: false, ..problem }, &machine(), 256).unwrap();
        let ahead = run(&problem, &machine(), 256).unwrap();
        let mut halves = machine();
        halves.processor.split = 0.5;
        let split = run(&problem, &halves, 256).unwrap();
        assert!(ahead.total < plain.total && split.total < ahead.total);
        assert!(split.total >= split.operations / (256.0 * 1e12));
    }

    /// Updates that are long enough hide what workers move, and nothing of what the core moves that updates: over all steps 7/8 of two hops and
    /// half a piece. What is updated, swapped and substituted is the same.
    #[test]
    fn only_others_than_the_core_hide_panels() {
        let grid = Grid { rows: 1, columns: 8 };
        let problem = Problem::new(100_000, 100, grid);
        let path = machine().between;
        let with = |movers: Movers| run(&problem, &Machine { movers, ..machine() }, 8).unwrap();
        let (own, workers) = (with(Movers::Own), with(Movers::Workers { inside: path, between: path }));
        let held: f64 = (1..=1000u32)
            .map(|number| {
                let left = 1e5 - 100.0 * f64::from(number);
                let piece = (100.0f64.min(left / 8.0) * (1e4 + 200.0 * left)) / 1e12;
                0.875 * (2.0 * path.seconds(WORD * (left * 100.0 + 1e4)) + piece / 2.0)
            })
            .sum();
        let first = Broadcast::RingModified.whole(path, 8, WORD * 1e7);
        assert!((own.broadcast - held - first).abs() < 1e-9 * own.broadcast, "{} {held}", own.broadcast);
        // The first panel, down three levels of a tree; then the end, where there is little left to update.
        let shown = workers.broadcast - tree_whole(path, 8, WORD * 1e7);
        assert!(shown < 0.05 * held, "{shown} {held}");
        assert_eq!((own.update, own.swap, own.substitution), (workers.update, workers.swap, workers.substitution));
        assert!(workers.total < own.total);
    }

    #[test]
    fn bad_runs_are_refused() {
        let grid = Grid { rows: 2, columns: 2 };
        assert!(matches!(run(&Problem::new(0, 1, grid), &machine(), 4), Err(HplError::Unknowns { .. })));
        assert!(matches!(run(&Problem::new(10, 20, grid), &machine(), 4), Err(HplError::Block { .. })));
        assert!(matches!(run(&Problem::new(1000, 20, grid), &machine(), 3), Err(HplError::Processes { .. })));
        assert!(matches!(run(&Problem::new(900_000_000, 1, grid), &machine(), 4), Err(HplError::Steps { .. })));
    }
}
