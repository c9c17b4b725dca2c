//! What a switch sees and remembers when it routes a packet.

use fabriscope_units::{Bytes, Time};

use crate::graph::{LinkId, SwitchId};

/// What a switch sees and remembers when it routes a packet.
pub trait SwitchView {
    /// Bytes that wait for a link, on all its lanes together, those being sent included.
    ///
    /// A switch knows its own outputs; algorithms that ask for links of other switches are bounds, not proposals.
    fn depth(&self, link: LinkId) -> Bytes;
    /// The time of asking.
    fn now(&self) -> Time;
    /// What the switch remembers of a flow; to be changed in place.
    fn memory(&mut self, at: SwitchId, flow: u32) -> &mut Memory;
}

/// What a switch remembers of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// When its last packet passed.
    pub last: Time,
    /// The way that it took, counted from 1; 0 before the first packet.
    pub choice: u32,
}

/// All queues are empty and nothing is remembered: for algorithms that do not look, and for drawing paths.
#[derive(Clone, Copy, Debug, Default)]
pub struct Idle {
    scratch: Memory,
}

impl Idle {
    /// An idle switch.
    pub const fn new() -> Idle {
        Idle { scratch: Memory { last: Time::ZERO, choice: 0 } }
    }
}

impl SwitchView for Idle {
    #[inline]
    fn depth(&self, _: LinkId) -> Bytes {
        Bytes::ZERO
    }
    #[inline]
    fn now(&self) -> Time {
        Time::ZERO
    }
    fn memory(&mut self, _: SwitchId, _: u32) -> &mut Memory {
        self.scratch = Memory::default();
        &mut self.scratch
    }
}
