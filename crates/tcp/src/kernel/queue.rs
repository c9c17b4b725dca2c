//! What landed for a program, and the core that handles it: the ring of an adapter with its interrupts.

use std::collections::VecDeque;

use fabriscope_units::{Span, Time};

use super::datagram::Datagram;
use super::moderation::Moderation;
use super::socket::SocketId;
use crate::segment::Segment;

/// What goes up to sockets.
#[derive(Clone, Copy, Debug)]
pub(super) enum Landed {
    /// A packet of TCP, or several that the core merged.
    Segment(FromWire),
    /// A packet of UDP.
    Datagram { from: u32, packet: Datagram },
    /// The adapter's engine has put so many bytes of a stream in order.
    Placed { socket: SocketId, bytes: u64 },
}

/// A segment, and where it comes from.
#[derive(Clone, Copy, Debug)]
pub(super) struct FromWire {
    pub from: u32,
    pub segment: Segment,
    pub marked: bool,
}

/// What lands for one program, and the core that handles it.
#[derive(Debug)]
pub(super) struct Queue {
    pub owner: u32,
    pub ring: VecDeque<(Time, Landed)>,
    pub moderation: Moderation,
    pub stage: Stage,
    /// Packets of this interrupt, and their payload.
    pub brought: (u32, u64),
    /// The program's core is busy until then, as far as it said.
    pub program: Time,
    /// What interrupts took from it since.
    pub stolen: Span,
    /// Core time that interrupts and the packets they brought have taken so far, of whatever core.
    pub handled: Span,
    /// The queue of the machine for which a core of the host brings packets up.
    pub machine: Option<usize>,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Stage {
    /// Interrupts are on.
    Idle,
    /// An interrupt is due.
    Interrupt(Time),
    /// The core handles a segment until then.
    Busy(Time, Option<Landed>),
}

impl Queue {
    pub fn of(owner: u32, moderation: Moderation) -> Queue {
        Queue {
            owner,
            ring: VecDeque::new(),
            moderation,
            stage: Stage::Idle,
            brought: (0, 0),
            program: Time::ZERO,
            stolen: Span::ZERO,
            handled: Span::ZERO,
            machine: None,
        }
    }
    /// Its program is busy until `now`; what interrupts took from its core since it last said so.
    pub fn busy_until(&mut self, now: Time) -> Span {
        let stolen = std::mem::take(&mut self.stolen);
        self.program = now + stolen;
        stolen
    }
    pub fn poll_timeout(&self) -> Option<Time> {
        match self.stage {
            Stage::Idle => None,
            Stage::Interrupt(at) | Stage::Busy(at, _) => Some(at),
        }
    }
    /// Something is in memory from `at` on.
    pub fn add(&mut self, at: Time, landed: Landed, interrupt: Span) {
        self.ring.push_back((at, landed));
        if let Stage::Idle | Stage::Interrupt(_) = self.stage {
            let first = self.ring.front().map_or(at, |(first, _)| *first);
            let due = self.moderation.due(first, at, self.ring.len() as u32) + interrupt;
            self.stage = match self.stage {
                Stage::Interrupt(earlier) => Stage::Interrupt(earlier.min(due)),
                _ => Stage::Interrupt(due),
            };
        }
    }
}
