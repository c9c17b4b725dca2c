//! A rank and the cores on its adapter at the same operations: what each does, and what they wait for.
//!
//! ```text
//!  host   command ──┬── own rows ───────────┬── all-reduce ──        hybrid: each operation
//!  cores            └── their rows ── back ─┘
//!
//!  host   border ⇄ rows ─── rows ─── sum ◄─┬── all-reduce ─┬──       hybrid-onload: they know the program
//!  cores  border ⇄ rows ─── rows ──────────┘               └► next
//! ```
//!
//! Modelled: [`super::offload`]; results of hybrid mode come back in chunks while the next rows are worked on, and take of the host's memory
//! bandwidth; naive mode has one thing after the other.
//! Not modelled: what the adapter takes of the bandwidth of its own cores' memory.

use fabriscope_node::ProgramError;
use fabriscope_platform::processor::Pace;
use fabriscope_units::{Bytes, Rate, Span};

use super::adapter::ConnectionEnd;
use super::job::{Division, Helper, Job, Phase, Watch, all_reduce, halo, of_rows};
use super::matrix::Part;
use super::offload::{Costs, Offload, balanced};
use super::solver::{ELEMENT, Operation, Solver};

impl Helper {
    /// Measures what it takes to hand over, and shares the rows.
    pub async fn begin(&self, end: &ConnectionEnd, job: &Job, part: &Part) -> Result<(), ProgramError> {
        let process = end.process();
        let mut took = [Span::ZERO; 2];
        for probe in 0..2 * PROBES {
            let begun = process.now();
            end.tell(COMMAND).await?;
            end.wait().await;
            took[(probe / PROBES) as usize] = process.now().since(begun);
        }
        let [hand_over, with_bytes] = took;
        let costs = Costs {
            host: job.paces[process.rank() as usize].rate,
            dpu: self.pace.rate,
            link: Rate::of(CHUNK, with_bytes.saturating_sub(hand_over).max(Span::from_ps(1))),
            hand_over,
        };
        // Iterations are alike, but for those of GMRES until it begins again.
        let (solver, preconditioner) = (job.settings.solver, job.settings.preconditioner);
        let period = if let Solver::Gmres { restart } = solver { restart } else { 1 };
        let numbers = 0..job.settings.iterations.min(period);
        let all: Vec<Operation> = numbers.flat_map(|number| solver.iteration(preconditioner, number)).collect();
        let best = || balanced(self.mode, &all, (part.rows, part.nonzeros), costs);
        let wanted = self.asked.map_or_else(best, |percent| part.rows * u64::from(percent) / 100);
        // Rows that need elements of other ranks stay with the host.
        let theirs = match self.mode {
            Offload::Naive => part.rows,
            _ => wanted.min(self.room).min(part.rows.saturating_sub(part.outer.max(1))),
        };
        let sides = if part.neighbours.len() > 1 { 2 } else { 1 };
        let border = (sides * part.reach).min(theirs).min(part.rows - theirs);
        *self.division.lock() = Division { own: part.rows - theirs, theirs, border, hand_over };
        Ok(())
    }
    /// The other end of that.
    pub async fn answer(&self, end: &ConnectionEnd) -> Result<(), ProgramError> {
        for probe in 0..2 * PROBES {
            end.wait().await;
            end.tell(if probe < PROBES { Bytes(ELEMENT) } else { CHUNK }).await?;
        }
        Ok(())
    }
    /// Whether there is something to share.
    pub fn helps(&self) -> bool {
        self.division.lock().theirs > 0
    }
}

/// The host's part of an operation.
pub(super) async fn host(
    job: &Job,
    (helper, end): (&Helper, &ConnectionEnd),
    watch: &mut Watch<'_>,
    (part, pace): (&Part, Pace),
    operation: Operation,
) -> Result<(), ProgramError> {
    let (rank, division) = (watch.rank, *helper.division.lock());
    let phase = Phase::of(operation);
    let of = |rows: u64| of_rows(operation.bytes(part.rows, part.nonzeros), rows, part.rows);
    match (helper.mode, operation) {
        (Offload::Naive, _) => {
            let mut moved = u64::from(operation.read()) * part.rows;
            if operation == Operation::MatVec {
                let requests = halo(rank, part, pace).await?;
                rank.wait_all(requests).await?;
                moved += part.neighbours.iter().map(|(_, elements)| elements).sum::<u64>();
                watch.lap(Phase::Halo);
            }
            end.tell(Bytes(moved * ELEMENT)).await?;
            end.wait().await;
            watch.lap(phase);
        }
        (mode, Operation::MatVec) => {
            let onload = mode == Offload::Onload;
            let requests = halo(rank, part, pace).await?;
            watch.lap(Phase::Halo);
            if !onload {
                end.tell(COMMAND).await?;
            }
            end.tell(Bytes(division.border * ELEMENT)).await?;
            let outer = (part.outer + if onload { division.border } else { 0 }).min(division.own);
            let back = if onload { Bytes::ZERO } else { written(operation, division.theirs) };
            rank.work(pace.rate.time(of(division.own - outer) + back)).await;
            watch.lap(phase);
            rank.wait_all(requests).await?;
            watch.lap(Phase::Halo);
            if onload {
                end.wait().await;
                watch.lap(Phase::Cores);
            }
            rank.work(pace.rate.time(of(outer))).await;
            watch.lap(phase);
            if !onload {
                end.wait().await;
                watch.lap(Phase::Cores);
            }
        }
        (Offload::Onload, Operation::Vma { .. }) => {
            rank.work(pace.rate.time(of(division.own))).await;
            watch.lap(phase);
        }
        (mode, _) => {
            let onload = mode == Offload::Onload;
            if !onload {
                end.tell(COMMAND).await?;
            }
            let back = if onload { Bytes::ZERO } else { written(operation, division.theirs) };
            rank.work(pace.rate.time(of(division.own) + back)).await;
            watch.lap(phase);
            end.wait().await;
            watch.lap(Phase::Cores);
        }
    }
    if let Operation::Dot { sums, .. } = operation {
        all_reduce(rank, job, sums).await?;
        watch.lap(Phase::Allreduce);
        if helper.mode == Offload::Onload {
            end.tell(Bytes(u64::from(sums) * ELEMENT)).await?;
        }
    }
    Ok(())
}

/// The part of the cores on the adapter.
pub(super) async fn cores(helper: &Helper, end: &ConnectionEnd, part: &Part, operation: Operation) -> Result<(), ProgramError> {
    let (division, rate) = (*helper.division.lock(), helper.pace.rate);
    let of = |rows: u64| of_rows(operation.bytes(part.rows, part.nonzeros), rows, part.rows);
    let sums = if let Operation::Dot { sums, .. } = operation { Bytes(u64::from(sums) * ELEMENT) } else { Bytes::ZERO };
    if helper.mode != Offload::Onload {
        end.wait().await;
    }
    match helper.mode {
        Offload::None => {}
        Offload::Naive => {
            end.work(rate.time(of(part.rows))).await;
            end.tell(written(operation, part.rows) + sums).await?;
        }
        Offload::Hybrid => {
            let back = written(operation, division.theirs);
            if operation == Operation::MatVec {
                // The border comes behind the command; the rows that need it are the last.
                end.wait().await;
            }
            let chunks = back.0.div_ceil(CHUNK.0).max(1);
            for chunk in 0..chunks {
                let rows = |upto: u64| (u128::from(division.theirs) * u128::from(upto) / u128::from(chunks)) as u64;
                let here = rows(chunk + 1) - rows(chunk);
                end.work(rate.time(of(here))).await;
                let bytes = written(operation, here) + sums;
                if chunk + 1 == chunks { end.tell(bytes).await? } else { end.put(bytes).await? }
            }
        }
        Offload::Onload => {
            let outer = if operation == Operation::MatVec { division.border } else { 0 };
            if operation == Operation::MatVec {
                end.tell(Bytes(division.border * ELEMENT)).await?;
            }
            end.work(rate.time(of(division.theirs - outer))).await;
            if operation == Operation::MatVec {
                end.wait().await;
                end.work(rate.time(of(outer))).await;
            }
            if sums > Bytes::ZERO {
                end.tell(sums).await?;
                end.wait().await;
            }
        }
    }
    Ok(())
}

/// What an operation writes of so many rows.
fn written(operation: Operation, rows: u64) -> Bytes {
    Bytes(u64::from(operation.written()) * ELEMENT * rows)
}

/// Hand-overs to measure; the last one counts. Basis: assumed.
const PROBES: u32 = 3;
/// What an operation is told by: what it is, its vectors and its scalars. Basis: assumed, a cache line.
const COMMAND: Bytes = Bytes(64);
/// Results come back in pieces of so much. Basis: assumed.
const CHUNK: Bytes = Bytes::from_mib(1);
