//! Commands on their way, and what host and target know of each other out of band.

use std::collections::VecDeque;

use fabriscope_node::Record;
use fabriscope_units::{Bytes, Span, Time};
use fabriscope_verbs::{Lid, QpNum, Rkey};

use crate::drive::{Access, Drives};
use crate::settings::Settings;

/// A command's capsule without data. Basis: standard (NVM Express: a submission queue entry).
pub(crate) const SUBMISSION: Bytes = Bytes(64);
/// The answer's. Basis: standard (a completion queue entry).
pub(crate) const COMPLETION: Bytes = Bytes(16);

/// A command: its place in the host's queue, and what it does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Command {
    /// Of the connection: 0 to depth less one.
    pub slot: u32,
    /// What it does.
    pub access: Access,
}

/// What one core of the host has seen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Core {
    /// From a command's submission until its completion, in the order in which these came.
    pub latencies: Vec<Span>,
    /// From the first submission until the last completion.
    pub elapsed: Span,
    /// Core time of the host.
    pub busy: Span,
}

/// One end of a connection, as the other sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueuePairEnd {
    pub lid: Lid,
    pub qp: QpNum,
    /// Where data of a slot lie: `base + slot * bytes`.
    pub base: u64,
    pub rkey: Rkey,
}

/// A connection: what is in its capsules. They come in the order in which they were sent.
#[derive(Debug, Default)]
pub(crate) struct Connection {
    pub host: Option<QueuePairEnd>,
    pub target: Option<QueuePairEnd>,
    pub commands: VecDeque<Command>,
    pub answers: VecDeque<u32>,
}

/// What all cores share.
#[derive(Debug)]
pub(crate) struct Shared {
    /// By core of the host.
    pub connections: Record<Vec<Connection>>,
    pub drives: Record<Drives>,
    pub hosts: Record<Vec<Core>>,
    /// Time in which each core of the target did not wait.
    pub served: Record<Vec<Span>>,
}

impl Shared {
    pub fn new(settings: &Settings) -> Shared {
        let cores = settings.cores as usize;
        Shared {
            connections: Record::new((0..cores).map(|_| Connection::default()).collect()),
            drives: Record::new(Drives::new(&settings.drive, settings.drives)),
            hosts: Record::new(vec![Core::default(); cores]),
            served: Record::new(vec![Span::ZERO; settings.target_cores as usize]),
        }
    }
}

/// The accesses of one core: reads and writes mixed as evenly as `reads_of_100` lets them be.
#[derive(Clone, Debug)]
pub(crate) struct Mix {
    reads_of_100: u32,
    rest: u32,
    bytes: Bytes,
    random: bool,
    left: u64,
    end: Time,
}

impl Mix {
    pub fn new(settings: &Settings, begin: Time) -> Mix {
        let end = if settings.count.is_some() { Time::MAX } else { begin.saturating_add(settings.time) };
        Mix {
            reads_of_100: settings.reads_of_100,
            rest: 0,
            bytes: settings.bytes,
            random: settings.random,
            left: settings.count.unwrap_or(u64::MAX),
            end,
        }
    }
    /// The next access, if there is one that begins now.
    pub fn next(&mut self, now: Time) -> Option<Access> {
        if self.left == 0 || now >= self.end {
            return None;
        }
        self.left -= 1;
        self.rest += self.reads_of_100;
        let write = self.rest < 100;
        if !write {
            self.rest -= 100;
        }
        Some(Access { write, bytes: self.bytes, random: self.random })
    }
}
