//! The messages of a pattern, each with the time that it took and the time that it takes alone.
//!
//! Modelled: a message lasts from when its sender may begin until its receiver has it, of one-sided operations until the one who asked knows
//! that they are over. Its time alone is that of one between the same hosts with the same length, in a run in which no two overlap, over
//! the same transport, routing and flow control, without congestion control and faults.
//! Not modelled: messages of rounds that are made on the way (`collective`).

use std::collections::{BTreeMap, VecDeque};

use fabriscope_engine::{Cluster, Connections, Engine, Job, OpTimes, Run, RunOptions, Watch};
use fabriscope_report::{Cell, Column, Grid};
use fabriscope_schedule::{After, Builder, OpKind, Schedule};
use fabriscope_units::{Bytes, Remedy, Span, Time};

use crate::error::LabError;
use crate::quantiles::{Completion, completion_cells, completion_columns};
use crate::traffic::refused;

/// A message of a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageTime {
    /// Who sent it, or wrote, or read.
    pub from: u32,
    /// With whom.
    pub to: u32,
    /// Its length.
    pub bytes: Bytes,
    /// When it could begin.
    pub began: Span,
    /// How long it took.
    pub took: Span,
    /// How long it takes alone.
    pub alone: Span,
}

impl Completion for MessageTime {
    fn took(&self) -> Span {
        self.took
    }
    fn alone(&self) -> Span {
        self.alone
    }
}

/// What decides how long a message takes alone: its ends, its length and its kind.
type Alike = (u32, u32, u64, u8);

fn alike(rank: u32, kind: OpKind) -> Option<Alike> {
    match kind {
        OpKind::Send { to, bytes, .. } => Some((rank, to, bytes.0, 0)),
        OpKind::Put { to, bytes } => Some((rank, to, bytes.0, 1)),
        OpKind::Get { from, bytes } => Some((rank, from, bytes.0, 2)),
        OpKind::Recv { .. } | OpKind::Compute { .. } => None,
    }
}

/// The messages of a schedule, in the order of ranks and operations: what they are, when they began and how long they took.
fn lasted(schedule: &Schedule, times: &[OpTimes]) -> Vec<(Alike, Time, Span)> {
    let mut first = 0;
    let mut receives: BTreeMap<(u32, u32, u32), VecDeque<Time>> = BTreeMap::new();
    let mut found = Vec::new();
    let by_rank: Vec<(u32, &[OpKind], &[OpTimes])> = (0..schedule.ranks())
        .map(|rank| {
            let kinds = schedule.kinds(rank);
            let times = times.get(first..first + kinds.len()).unwrap_or_default();
            first += kinds.len();
            (rank, kinds, times)
        })
        .collect();
    for (rank, kinds, times) in &by_rank {
        for (kind, times) in kinds.iter().zip(*times) {
            if let OpKind::Recv { from, tag, .. } = kind {
                receives.entry((*from, *rank, *tag)).or_default().push_back(times.ended);
            }
        }
    }
    for (rank, kinds, times) in by_rank {
        for (kind, times) in kinds.iter().zip(times) {
            let Some(alike) = alike(rank, *kind) else { continue };
            // Sends meet receives of the same ranks and tag in order.
            let ended = match kind {
                OpKind::Send { to, tag, .. } => receives.get_mut(&(rank, *to, *tag)).and_then(VecDeque::pop_front),
                _ => Some(times.ended),
            };
            found.extend(ended.map(|ended| (alike, times.started, ended.since(times.started))));
        }
    }
    found
}

/// All messages of a run; `cluster` is that of the run.
///
/// # Errors
/// What the run of messages alone refuses.
pub fn of(
    engine: &dyn Engine,
    (cluster, connections): (&Cluster, &Connections),
    (schedule, run): (&Schedule, &Run),
    seed: u64,
) -> Result<Vec<MessageTime>, LabError> {
    let messages = lasted(schedule, &run.ops);
    let mut calm = cluster.clone();
    calm.parts.congestion = None;
    let kinds: BTreeMap<Alike, OpKind> = (0..schedule.ranks())
        .flat_map(|rank| schedule.kinds(rank).iter().filter_map(move |kind| Some((alike(rank, *kind)?, *kind))))
        .collect();
    let rate = cluster.parts.groups.iter().map(|group| group.link.data_rate()).min().unwrap_or_default();
    let (mut builder, mut at) = (Builder::new(schedule.ranks()), Span::ZERO);
    for (tag, ((rank, peer, bytes, _), kind)) in (0..).zip(&kinds) {
        let wait = builder.compute(*rank, at);
        at = at + rate.time(Bytes(*bytes)) * PATIENCE + REST;
        let kind = match *kind {
            OpKind::Send { to, bytes, .. } => {
                let _ = builder.recv(*peer, *rank, bytes, tag);
                OpKind::Send { to, bytes, tag }
            }
            other => other,
        };
        let _ = builder.op_after(*rank, kind, &[After::End(wait)]);
    }
    let alone = builder.build().map_err(|error| LabError::refused(error.in_full(), "leave --flows out"))?;
    let options = RunOptions { op_times: Watch::On, ..RunOptions::default() };
    let ran = engine.run(&calm, Job::schedule(alone.clone(), connections.clone()), &options, seed).map_err(refused)?;
    let spans: BTreeMap<Alike, Span> = lasted(&alone, &ran.ops).into_iter().map(|(alike, _, span)| (alike, span)).collect();
    let one = |(alike, began, took): (Alike, Time, Span)| {
        let (from, to, bytes, _) = alike;
        let alone = spans.get(&alike).copied().unwrap_or(took);
        MessageTime { from, to, bytes: Bytes(bytes), began: began - Time::ZERO, took, alone }
    };
    Ok(messages.into_iter().map(one).collect())
}

/// A row for each message, with the columns of the flows of `[workload.flows]`.
pub(crate) fn rows(messages: &[MessageTime]) -> Grid {
    let ends = [Column::number("flow", "flow"), Column::number("from", "from"), Column::number("to", "to")];
    let columns = ends.into_iter().chain([Column::number("bytes", "bytes").unit("B")]).chain(completion_columns());
    let mut grid = Grid::new(columns);
    for (number, message) in messages.iter().enumerate() {
        let MessageTime { from, to, bytes, began, .. } = *message;
        let head = [Cell::count(number as u64), Cell::count(from), Cell::count(to), Cell::bytes(bytes)];
        grid.push(head.into_iter().chain(completion_cells(began, message)));
    }
    grid.named("flows")
}

/// Between two messages of the run in which each is alone, beside their own time, and how many times that. Basis: assumed; some twenty
/// round trips, and headers of a few percent.
const REST: Span = Span::from_us(100);
const PATIENCE: u64 = 3;
