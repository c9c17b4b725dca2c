//! Collective operations and traffic of one's own: rounds of each rank, carried out on symbols first, then on a cluster.
//!
//! Proved is what `fabriscope_collectives::proof` shows for an algorithm of the library: that every rank ends with what the operation says,
//! whatever the network does. That is done byte by byte, for small buffers and up to 64 ranks; of a larger call a smaller one is proved.
//! Not modelled: what a library and the cores do besides (matching, copies, arithmetic).

use fabriscope_catalog::ResolvedCluster;
use fabriscope_collectives::proof::{Flaw, Proof, prove};
use fabriscope_collectives::{Call, Kind, Round, Rounds};
use fabriscope_engine::{Cluster, Folding, Job, RunOptions};
use fabriscope_lab::collective::bandwidths;
use fabriscope_lab::{EngineChoice, LabError, engines};
use fabriscope_report::{Cell, Column, Grid, Outcome};
use fabriscope_units::{Bytes, Remedy, Time};

use crate::error::Error;

/// Rounds of all ranks, in their order.
pub type Program = Vec<Vec<Round>>;

/// A program of rounds, and the call that it carries out.
#[derive(Debug, Clone)]
pub struct Own {
    /// What it is called.
    pub name: String,
    /// The call; without an operation, traffic that nothing is promised of.
    pub call: Call,
    /// Whether the call is proved.
    pub proved: Option<(Call, Proof)>,
    /// The rounds of each rank.
    pub rounds: Program,
}

/// The call that is proved in the place of `call`: the same where it is small, else one with fewer ranks and shorter blocks that divide alike.
#[must_use]
pub fn provable(call: &Call) -> Call {
    let ranks = call.ranks.min(MOST_RANKS);
    let blocks = match call.operation.family() {
        Kind::Allgather | Kind::Alltoall | Kind::Gather | Kind::Scatter => u64::from(call.ranks),
        _ => 1,
    };
    if ranks == call.ranks && call.size.0.saturating_mul(blocks) <= MOST_BYTES {
        return *call;
    }
    let (width, count) = (call.width.0.max(1), u64::from(ranks));
    let divides = call.size.0.is_multiple_of(width * u64::from(call.ranks));
    let elements = if blocks > 1 {
        3
    } else if divides {
        2 * count
    } else {
        2 * count + 1
    };
    Call { ranks, size: Bytes(elements * width), root: call.root.min(ranks - 1), ..*call }
}

/// Carries out rounds on symbols.
///
/// # Errors
/// The first flaw that shows.
pub fn proved(call: &Call, rounds: &Program) -> Result<Proof, Flaw> {
    prove(&call.goal(), call.ranks, |rank| rounds.get(rank as usize).cloned().unwrap_or_default().into_iter())
}

impl Own {
    /// Runs the rounds on a cluster.
    ///
    /// # Errors
    /// More ranks than fit, what the engine does not do, ranks that wait for each other without end.
    pub fn outcome(self, parts: &ResolvedCluster, engine: EngineChoice, seed: u64) -> Result<Outcome, Error> {
        let Own { name, call, proved, rounds } = self;
        let room = u64::from(parts.nodes()) * u64::from(call.per_node.max(1));
        if u64::from(call.ranks) > room || call.ranks == 0 {
            let help = format!("use 1 to {room} ranks, more on each node, or a larger cluster");
            let what = format!("{} ranks, {} on each of {} nodes of {}", call.ranks, call.per_node, parts.nodes(), parts.name);
            return Err(LabError::refused(what, help).into());
        }
        let messages: u64 = rounds.iter().flatten().map(|round| round.sends.len() as u64).sum();
        let program = move |rank: u32| -> Rounds { Box::new(rounds.get(rank as usize).cloned().unwrap_or_default().into_iter()) };
        let job = Job::rounds((call.ranks, program), call.per_node.max(1), Folding::Never);
        let cluster = Cluster::new(parts.clone()).map_err(|error| LabError::refused(error.in_full(), "correct the topology"))?;
        let told = |error: fabriscope_engine::EngineError| LabError::refused(error.in_full(), "see the rounds and the cluster");
        let run = engines::engine(engine).run(&cluster, job, &RunOptions::default(), seed).map_err(told)?;
        let took = run.end - Time::ZERO;
        let mut outcome = Outcome::new();
        outcome.note(format!("{name}: {} ranks, {} on each node of {}, {messages} messages", call.ranks, call.per_node, parts.name));
        match &proved {
            Some((small, proof)) => {
                let ordered = if proof.ordered { ", in the order of ranks" } else { "" };
                outcome.note(format!("proved: {} of {} among {} ranks{ordered}", small.operation, small.size, small.ranks));
            }
            None => {
                outcome.note("traffic: nothing is promised of what arrives");
            }
        }
        let mut grid = Grid::new([
            Column::number("ranks", "ranks"),
            Column::number("bytes", "bytes").unit("B"),
            Column::number("time (us)", "time_ps"),
            Column::number("algbw (GB/s)", "algbw").unit("GB/s"),
            Column::number("busbw (GB/s)", "busbw").unit("GB/s"),
        ]);
        let rates = proved.and_then(|_| bandwidths(&call, run.end));
        let rate = |rate: Option<f64>| rate.map_or_else(Cell::none, |rate| Cell::number(rate, 3));
        let (algorithm, bus) = (rate(rates.map(|both| both.0)), rate(rates.map(|both| both.1)));
        grid.push([Cell::count(call.ranks), Cell::bytes(call.size), Cell::us(took), algorithm, bus]);
        let mut ends = Grid::new([Column::number("rank", "rank"), Column::number("done (us)", "done_ps")]);
        for (rank, end) in run.ranks.iter().enumerate() {
            ends.push([Cell::count(rank as u64), Cell::us(*end - Time::ZERO)]);
        }
        outcome.set("messages", messages).set("seed", seed).keyed_table("collective", grid).data_table("ranks", ends);
        Ok(outcome)
    }
}

/// Ranks that the proof takes.
const MOST_RANKS: u32 = 64;
/// Bytes of a rank that are followed one by one. Basis: assumed; some ten megabytes for all ranks.
const MOST_BYTES: u64 = 16 << 10;
