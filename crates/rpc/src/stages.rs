//! Where the time of a call went: moments on the way of one request and its reply, as contiguous stages.

use fabriscope_units::{Span, Time};

/// Moments of one request and its reply, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Moments {
    /// The call was due.
    pub due: Time,
    /// The client turned to it.
    pub begun: Time,
    /// The request was written.
    pub serialised: Time,
    /// The transport has it.
    pub sent: Time,
    /// The server could see it, turned to it, and had it in memory.
    pub there: [Time; 3],
    /// The event loop turned to the message.
    pub taken: Time,
    /// It was handed to the workers.
    pub handed: Time,
    /// A worker was there, began, and was done; what was asked for took so long.
    pub worker: [Time; 3],
    /// What was asked for.
    pub service: Span,
    /// The event loop turned to the reply, had it in frames, and the transport had it.
    pub reply: [Time; 3],
    /// The client could see it, turned to it, and had it in memory.
    pub back: [Time; 3],
    /// The client turned to the message, and had read it.
    pub read: [Time; 2],
}

/// A part of the time of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The client's thread did other things, or the connection had as many calls as it may have.
    Client,
    /// Fields and frames are written and read, calls begun and ended, at both ends.
    Serialise,
    /// System calls, work requests, copies.
    Transport,
    /// Kernel, adapters and wires, until the message can be seen.
    Network,
    /// Threads that read messages wake up, and do other things.
    Loop,
    /// All workers are busy.
    Queue,
    /// What was asked for.
    Service,
}

impl Stage {
    /// All of them, in the order of the table.
    pub const ALL: [Stage; 7] =
        [Stage::Client, Stage::Serialise, Stage::Transport, Stage::Network, Stage::Loop, Stage::Queue, Stage::Service];
    /// The head of its column.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Stage::Client => "client",
            Stage::Serialise => "fields",
            Stage::Transport => "calls",
            Stage::Network => "net",
            Stage::Loop => "loop",
            Stage::Queue => "queue",
            Stage::Service => "work",
        }
    }
}

impl Moments {
    /// Spans by stage, whose sum is the time from `due` until the reply was read.
    #[must_use]
    pub fn stages(&self) -> [Span; 7] {
        use Stage::{Client, Loop, Network, Queue, Serialise, Service, Transport};
        let [free, begun, done] = self.worker;
        let served = (begun + self.service).min(done);
        let way = [
            (Client, self.begun),
            (Serialise, self.serialised),
            (Transport, self.sent),
            (Network, self.there[0]),
            (Loop, self.there[1]),
            (Transport, self.there[2]),
            (Loop, self.taken),
            (Serialise, self.handed),
            (Queue, free),
            (Loop, begun),
            (Service, served),
            (Serialise, done),
            (Loop, self.reply[0]),
            (Serialise, self.reply[1]),
            (Transport, self.reply[2]),
            (Network, self.back[0]),
            (Loop, self.back[1]),
            (Transport, self.back[2]),
            (Loop, self.read[0]),
            (Serialise, self.read[1]),
        ];
        let (mut spans, mut at) = ([Span::ZERO; 7], self.due);
        for (stage, until) in way {
            // A moment that another core saw earlier adds nothing.
            spans[stage as usize] += until.since(at);
            at = at.max(until);
        }
        spans
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_add_up_to_the_whole() {
        let t = |us| Time::ZERO + Span::from_us(us);
        let moments = Moments {
            due: t(1),
            begun: t(2),
            serialised: t(4),
            sent: t(7),
            there: [t(12), t(13), t(14)],
            taken: t(14),
            handed: t(15),
            worker: [t(20), t(21), t(33)],
            service: Span::from_us(10),
            reply: [t(34), t(35), t(37)],
            back: [t(40), t(41), t(42)],
            read: [t(43), t(45)],
        };
        let us = |us: [u64; 7]| us.map(Span::from_us);
        assert_eq!(moments.stages(), us([1, 2 + 1 + 2 + 1 + 2, 3 + 1 + 2 + 1, 5 + 3, 1 + 1 + 1 + 1 + 1, 5, 10]));
        assert_eq!(moments.stages().into_iter().sum::<Span>(), Span::from_us(44));
    }
}
