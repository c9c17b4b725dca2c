//! Routing as the engine asks for it, and what switches see: queues as they are, time, and flows they remember.

use fabriscope_fabric::{EndpointId, Head, Hop, Idle, LinkId, Memory, Route, Router, SwitchId, SwitchView};
use fabriscope_switch::Channel;
use fabriscope_units::{Bytes, Time};
use rustc_hash::FxHashMap;

use crate::event::Parcel;
use crate::layout::Slots;
use crate::paced::Wire;

/// The routing of the fabric, asked with plain numbers.
#[derive(Clone)]
pub(crate) struct Routes {
    router: Router,
    /// It looks at the head alone.
    pub oblivious: bool,
}

impl Routes {
    pub fn new(router: Router) -> Routes {
        Routes { oblivious: router.oblivious(), router }
    }

    /// The next hop of a packet that came in by the link and lane `input`, as the switch sees it.
    #[inline(always)]
    pub fn output(&self, switch: u32, parcel: &Parcel, input: (u32, u8), sight: &mut impl SwitchView) -> Hop {
        let (link, vl) = input;
        let head = Head { dest: EndpointId(parcel.dest()), entropy: parcel.entropy(), input: LinkId(link), vl, via: parcel.via() };
        self.router.output(SwitchId(switch), head, sight)
    }
    /// Every hop that the routing could answer with.
    pub fn options(&self, at: SwitchId, head: Head, visit: &mut dyn FnMut(Hop)) {
        self.router.options(at, head, visit);
    }
    /// The next hop where all queues are empty.
    #[inline(always)]
    pub fn idle(&self, switch: u32, parcel: &Parcel, input: (u32, u8)) -> Hop {
        self.output(switch, parcel, input, &mut Idle::new())
    }
}

/// What a switch sees now.
pub(crate) struct View<'a> {
    pub now: u64,
    pub slots: &'a Slots,
    pub lanes: &'a [Channel],
    pub wires: &'a [Wire],
    pub flows: &'a mut FxHashMap<(u32, u32), Memory>,
    pub paced: bool,
    pub vls: u32,
}

impl SwitchView for View<'_> {
    #[inline]
    fn depth(&self, link: LinkId) -> Bytes {
        let (_, place) = self.slots.of(link.0 * self.vls);
        let lane = &self.lanes[place];
        let (free, waiting) = if self.paced {
            let wire = &self.wires[place / self.vls as usize];
            (wire.free, wire.waiting)
        } else {
            (lane.free_at(), lane.waiting)
        };
        Bytes(u64::from(waiting) + lane.sent_in(free.saturating_sub(self.now)))
    }
    #[inline]
    fn now(&self) -> Time {
        Time::from_ps(self.now)
    }
    fn memory(&mut self, at: SwitchId, flow: u32) -> &mut Memory {
        self.flows.entry((at.0, flow)).or_default()
    }
}
