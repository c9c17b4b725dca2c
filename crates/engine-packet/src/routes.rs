//! Routing as the engine asks for it, and what switches see: queues as they are, time, and flows they remember.

use fabriscope_fabric::{EndpointId, Head, Hop, Idle, LinkId, Memory, Route, Router, SwitchId, SwitchView};
use fabriscope_units::{Bytes, Time};
use rustc_hash::FxHashMap;

use crate::links::Links;
use crate::packed_packet::PackedPacket;

/// How packets find their way in a part: the routing of the fabric, and what switches remember of flows.
pub(crate) struct Routes {
    pub table: RouteTable,
    /// Looked up, never iterated.
    pub flows: FxHashMap<(u32, u32), Memory>,
}

/// The routing of the fabric, asked with plain numbers.
#[derive(Clone)]
pub(crate) struct RouteTable {
    router: Router,
    /// It looks at the head alone.
    pub oblivious: bool,
}

impl RouteTable {
    pub fn new(router: Router) -> RouteTable {
        RouteTable { oblivious: router.oblivious(), router }
    }

    /// The next hop of a packet that came in by the link and lane `input`, as the switch sees it.
    #[inline(always)]
    pub fn output(&self, switch: u32, packed: &PackedPacket, input: (u32, u8), view: &mut impl SwitchView) -> Hop {
        let (link, vl) = input;
        let head = Head { dest: EndpointId(packed.dest()), entropy: packed.entropy(), input: LinkId(link), vl, via: packed.via() };
        self.router.output(SwitchId(switch), head, view)
    }
    /// Every hop that the routing could answer with.
    pub fn options(&self, at: SwitchId, head: Head, visit: &mut dyn FnMut(Hop)) {
        self.router.options(at, head, visit);
    }
    /// The next hop where all queues are empty.
    #[inline(always)]
    pub fn idle(&self, switch: u32, packed: &PackedPacket, input: (u32, u8)) -> Hop {
        self.output(switch, packed, input, &mut Idle::new())
    }
}

/// What a switch sees now.
pub(crate) struct QueueView<'a> {
    pub now: Time,
    pub links: &'a Links<'a>,
    pub flows: &'a mut FxHashMap<(u32, u32), Memory>,
}

impl SwitchView for QueueView<'_> {
    #[inline]
    fn depth(&self, link: LinkId) -> Bytes {
        self.links.queue(self.now, link)
    }
    #[inline]
    fn now(&self) -> Time {
        self.now
    }
    fn memory(&mut self, at: SwitchId, flow: u32) -> &mut Memory {
        self.flows.entry((at.0, flow)).or_default()
    }
}
