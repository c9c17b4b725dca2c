//! The receiving half of an adapter: header queues, eager buffers and TID flows.
//!
//! Source: hfi1, `init.c` (`rcvhdrcnt`, `eager_buffer_size`), `exp_rcv.c`, `chip.h` (RXE_NUM_TID_FLOWS).
//! Modelled: a packet without room in the header queue or the eager buffers is dropped; packets of an expected transfer are
//! placed if they come in order, their headers suppressed but for those that ask and the last; the first one out of order is told.
//! Not modelled: job keys, the layout of the eager buffers.

use std::collections::VecDeque;

use fabriscope_units::Time;

use crate::settings::AdapterSettings;
use fabriscope_wire::psm2::{Header, Kind};

/// What the adapter does with a packet that came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Arrival {
    /// Bytes that it writes to memory.
    pub write: u32,
    /// It writes an entry into the header queue behind them.
    pub entry: bool,
    /// The memory to which it does.
    pub place: u8,
    /// It was of no use.
    pub dropped: bool,
}

#[derive(Debug, Clone, Copy, Default)]
struct TidFlow {
    open: bool,
    generation: u32,
    next: u32,
    complained: bool,
    place: u8,
}

/// The receiving half of a context.
#[derive(Debug)]
pub(crate) struct Receiving {
    /// On their way to memory, and there.
    landing: VecDeque<Header>,
    queue: VecDeque<(Time, Header)>,
    eager: u64,
    flows: Vec<TidFlow>,
    pub overflows: u64,
}

impl Receiving {
    pub fn new(settings: &AdapterSettings) -> Receiving {
        let flows = vec![TidFlow::default(); settings.parameters.tid_flows as usize];
        Receiving { landing: VecDeque::new(), queue: VecDeque::new(), eager: 0, flows, overflows: 0 }
    }
    pub fn arrive(&mut self, mut header: Header, settings: &AdapterSettings) -> Arrival {
        let nothing = Arrival { dropped: true, ..Arrival::default() };
        let full = self.landing.len() + self.queue.len() >= settings.parameters.header_queue as usize;
        let mut place = 0;
        let placed = if let Kind::Expected { window, generation, last } = header.kind {
            let Some(flow) = self.flows.get_mut(window.flow as usize) else { return nothing };
            if !flow.open || flow.generation != generation || full || header.number < flow.next {
                return nothing;
            }
            if header.number > flow.next {
                if std::mem::replace(&mut flow.complained, true) {
                    return nothing;
                }
                header.kind = Kind::Gap { window };
                header.payload = 0;
                self.landing.push_back(header);
                return Arrival { entry: true, dropped: true, ..Arrival::default() };
            }
            flow.next += 1;
            place = flow.place;
            if !last && !header.asks {
                return Arrival { write: header.payload, place, ..Arrival::default() };
            }
            header.payload
        } else {
            let eager = u64::from(header.payload);
            if full || self.eager + eager > settings.parameters.eager_buffer.0 {
                self.overflows += 1;
                return nothing;
            }
            self.eager += eager;
            header.payload
        };
        self.landing.push_back(header);
        Arrival { write: placed, place, entry: true, dropped: false }
    }
    /// The oldest entry on its way is in memory at `visible`.
    pub fn landed(&mut self, visible: Time) {
        if let Some(header) = self.landing.pop_front() {
            self.queue.push_back((visible, header));
        }
    }
    /// The next entry that the process sees at `now`; its place is free again.
    pub fn take(&mut self, now: Time) -> Option<Header> {
        self.next_visible().filter(|visible| *visible <= now)?;
        let (_, header) = self.queue.pop_front()?;
        if !matches!(header.kind, Kind::Expected { .. } | Kind::Gap { .. }) {
            self.eager -= u64::from(header.payload);
        }
        Some(header)
    }
    pub fn next_visible(&self) -> Option<Time> {
        self.queue.front().map(|(visible, _)| *visible)
    }
    /// Opens a TID flow into a memory: its number and generation.
    pub fn open_flow(&mut self, place: u8) -> Option<(u32, u32)> {
        let at = self.flows.iter().position(|flow| !flow.open)?;
        let flow = &mut self.flows[at];
        *flow = TidFlow { open: true, generation: flow.generation + 1, next: 0, complained: false, place };
        Some((at as u32, flow.generation))
    }
    /// From now on packets of a flow carry a new generation: it, and the packet that comes next.
    pub fn restart_flow(&mut self, flow: u32) -> (u32, u32) {
        let flow = &mut self.flows[flow as usize];
        flow.generation += 1;
        flow.complained = false;
        (flow.generation, flow.next)
    }
    pub fn close_flow(&mut self, flow: u32) {
        self.flows[flow as usize].open = false;
    }
}
