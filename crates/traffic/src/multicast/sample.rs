//! What the programs note, and what follows from it.

use fabriscope_units::{Span, Time};
use fabriscope_verbs::{Lid, QpNum};

use super::Config;

/// What all ranks write into.
pub(super) struct Board {
    config: Config,
    /// Where each rank is reached.
    pub ends: Vec<Option<(Lid, QpNum)>>,
    /// How long each rank waited for the answer to its join.
    pub joins: Vec<Span>,
    /// When each message began.
    pub begun: Vec<Time>,
    /// When the sender was done.
    pub ended: Option<Time>,
    /// Of each receiver.
    pub received: Vec<Received>,
}

/// What one receiver got.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Received {
    /// When the last part of each message was there; nothing where parts are missing.
    pub complete: Vec<Option<Time>>,
    /// Datagrams that never came.
    pub lost: u64,
    /// Datagrams that came again.
    pub repeated: u64,
    /// Datagrams that came after one with a higher number.
    pub late: u64,
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// When each message began.
    pub begun: Vec<Time>,
    /// What each receiver got.
    pub received: Vec<Received>,
    /// The longest wait for the answer to a join.
    pub join: Span,
}

impl Board {
    pub fn new(config: Config) -> Board {
        let ranks = config.receivers as usize + 1;
        Board {
            config,
            ends: vec![None; ranks],
            joins: vec![Span::ZERO; ranks],
            begun: Vec::new(),
            ended: None,
            received: vec![Received::default(); ranks - 1],
        }
    }
    pub fn sample(&self) -> Sample {
        let join = if self.config.group.is_some() { self.joins.iter().copied().max().unwrap_or_default() } else { Span::ZERO };
        Sample { begun: self.begun.clone(), received: self.received.clone(), join }
    }
}

impl Sample {
    /// How long each message took to one receiver, where it is complete.
    pub fn latencies(&self, receiver: usize) -> impl Iterator<Item = Span> + '_ {
        let complete = &self.received[receiver].complete;
        self.begun.iter().zip(complete).filter_map(|(begun, complete)| complete.map(|complete| complete - *begun))
    }
    /// How long each message took until every receiver had it; only messages that all of them have.
    #[must_use]
    pub fn broadcasts(&self) -> Vec<Span> {
        let all = |message: usize| -> Option<Span> {
            let last =
                self.received.iter().map(|received| received.complete.get(message).copied().flatten()).collect::<Option<Vec<Time>>>()?;
            Some(last.into_iter().max()? - self.begun[message])
        };
        (0..self.begun.len()).filter_map(all).collect()
    }
    /// Messages that arrived whole, over all receivers.
    #[must_use]
    pub fn complete(&self) -> u64 {
        self.received.iter().flat_map(|received| &received.complete).flatten().count() as u64
    }
    /// Datagrams that never came, over all receivers.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.received.iter().map(|received| received.lost).sum()
    }
    /// From the start of the first message until the last receiver had the last one.
    #[must_use]
    pub fn span(&self) -> Option<Span> {
        let last = self.received.iter().flat_map(|received| &received.complete).flatten().max()?;
        Some(*last - *self.begun.first()?)
    }
}
