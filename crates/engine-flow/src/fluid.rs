//! Messages outstanding as fluids: when each has left its sender, at the rates that the network gives them.
//!
//! Rates are solved once for all that happens at an instant. A flow that gets slower keeps its event and is asked again when it comes;
//! only a faster one gets a new event.

use fabriscope_kernel::EventQueue;
use fabriscope_units::{Span, Time};

use crate::network::{FlowId, Network};

/// What happens, to an operation of a rank or to a flow.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Event {
    pub kind: Kind,
    pub rank: u32,
    /// Operation, message or flow.
    pub what: u32,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The first byte of a message is on the wire.
    #[default]
    Inject,
    /// The flow has nothing left; `rank` is the version of its rate.
    Drain,
    /// An operation, or a round, has ended.
    Done,
}

/// A message as a flow; `T` is whose it is.
#[derive(Debug, Clone, Copy)]
struct Flow<T> {
    of: T,
    /// Wire bytes that are left, as of `settled`.
    left: f64,
    settled: u64,
    /// When it ends at the rate it has (ps); never while it has none.
    end: u64,
    /// When the event comes that looks at it (ps), not after its end.
    due: u64,
    /// Changes with every event that comes before the one there was: older events do not count.
    version: u32,
    /// When its payload has been fetched.
    floor: Time,
}

/// Flows, and the events of a run.
pub(crate) struct Fluid<T> {
    pub queue: EventQueue<Event>,
    network: Network,
    flows: Vec<Flow<T>>,
    /// Flows came or went at this instant.
    changed: bool,
}

impl<T: Copy> Fluid<T> {
    pub fn new(network: Network) -> Fluid<T> {
        Fluid { queue: EventQueue::new(Span::from_ps(1 << 18), 8192), network, flows: Vec::new(), changed: false }
    }

    /// `wire` bytes go over `path` from `now` on; the last of them can leave at `floor` at the earliest.
    pub fn start(&mut self, now: Time, path: &[(u32, f64)], wire: u64, floor: Time, of: T) {
        let flow = Flow { of, left: wire as f64, settled: now.as_ps(), end: u64::MAX, due: u64::MAX, version: 0, floor };
        let number = self.network.add(path).0 as usize;
        match self.flows.get_mut(number) {
            None => self.flows.push(flow),
            Some(place) => *place = Flow { version: place.version.wrapping_add(1), ..flow },
        }
        self.changed = true;
    }

    /// Whose flow an event of [`Kind::Drain`] ends, and when its last byte leaves; nothing where it goes on.
    pub fn drained(&mut self, now: Time, event: Event) -> Option<(T, Time)> {
        let flow = &mut self.flows[event.what as usize];
        if flow.version != event.rank {
            return None;
        }
        // It got slower in the meantime: look again when it really ends.
        if flow.end > now.as_ps() {
            flow.due = flow.end;
            if flow.end < u64::MAX {
                self.queue.push(Time::from_ps(flow.end), event);
            }
            return None;
        }
        flow.version = flow.version.wrapping_add(1);
        let (of, floor) = (flow.of, flow.floor);
        self.network.remove(FlowId(event.what));
        self.changed = true;
        Some((of, now.max(floor)))
    }

    /// Rates after all that happened at `now`.
    pub fn settle(&mut self, now: Time) {
        if !std::mem::replace(&mut self.changed, false) {
            return;
        }
        let (flows, queue) = (&mut self.flows, &mut self.queue);
        self.network.solve(|FlowId(number), before, rate| {
            let flow = &mut flows[number as usize];
            flow.left -= before * (now.as_ps() - flow.settled) as f64;
            flow.settled = now.as_ps();
            flow.end = u64::MAX;
            if rate > 0.0 {
                // Rounded up to the next picosecond: nothing ends before its last byte.
                let rest = (flow.left.max(0.0) / rate).min(MOST_PS);
                flow.end = now.as_ps() + rest as u64 + u64::from(rest.fract() > 0.0);
                if flow.end < flow.due {
                    flow.due = flow.end;
                    flow.version = flow.version.wrapping_add(1);
                    queue.push(Time::from_ps(flow.end), Event { kind: Kind::Drain, rank: flow.version, what: number });
                }
            }
        });
    }
}

/// Flows that would take longer (two and a half hours) are taken to take this long. Basis: assumed.
const MOST_PS: f64 = 1e16;
