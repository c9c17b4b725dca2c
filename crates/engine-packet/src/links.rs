//! The links of a part: their lanes and wires, what waits for them, and by which rules they are used.

use std::sync::Arc;

use fabriscope_fabric::{Graph, LinkId, SwitchId};
use fabriscope_prefetch::{prefetch, prefetch_lines};
use fabriscope_streams::Stream;
use fabriscope_switch::{Arbiter, Channel, Ecn, SharedBuffer};
use fabriscope_units::{Bytes, Span, Time};

use crate::arbitrated::Wire;
use crate::boundary::Guards;
use crate::layout::Slots;
use crate::link_level::LinkLevel;
use crate::per_host::PerHost;
use crate::qos::QosPlan;
use crate::queues::{FROM_HOST, PacketQueues};

/// The links that leave hosts and switches of a part. Links and lanes go by their numbers in the whole fabric.
pub(crate) struct Links<'a> {
    pub graph: &'a Graph,
    /// The vertex at the end of each lane of the whole fabric, and where the state of each lane lies.
    pub ends: Arc<[u32]>,
    pub slots: Slots,
    /// Which part this is.
    pub part: u32,
    /// Endpoints of the whole fabric: vertices from this number on are switches.
    pub endpoints: u32,
    /// Own lanes, by place.
    pub lanes: Vec<Channel>,
    /// Buffers with pause frames behind lanes that leave other parts and end here.
    pub guards: Guards,
    /// Own links, by place, where links are arbitrated.
    pub wires: Vec<Wire>,
    pub arbiters: Vec<Arbiter>,
    /// Lanes of a link: of each service level, as many as the routing uses.
    pub vls: u32,
    pub levels: u32,
    pub per_level: u32,
    /// Which service level takes which lane, and how lanes share links.
    pub qos: Arc<QosPlan>,
    /// Links that retry or sleep.
    pub link_level: Option<Box<LinkLevel>>,
    /// Packets that wait for a lane.
    pub queues: PacketQueues,
    /// Lanes whose waiting packets may go now.
    pub drains: Vec<u32>,
    pub marking: Option<Marking>,
    /// What may wait for a link of a switch, by lane.
    pub queue_limits: Vec<QueueLimit>,
    /// No queues of a switch hold more than this, by number of the switch; counted anew when the bound matters.
    pub held_at_most: Vec<Bytes>,
    pub scheduling: Scheduling,
    pub backpressure: Backpressure,
    pub overflow: Overflow,
    pub forwarding: Forwarding,
    pub telemetry: Telemetry,
    /// Port to port, by number of the switch.
    pub switch_latency: PerHost<Span>,
}

impl Links<'_> {
    /// Port to port, of the switch that lane `out` leaves.
    #[inline(always)]
    pub fn latency_before(&self, out: u32) -> Span {
        match &self.switch_latency {
            PerHost::Same(latency) => *latency,
            PerHost::Each(_) => self.own_latency(out),
        }
    }
    #[inline(never)]
    fn own_latency(&self, out: u32) -> Span {
        self.switch_before(out).map_or(Span::ZERO, |switch| self.switch_latency.of(switch))
    }
    /// The switch that lane `out` leaves; none if it leaves a host.
    pub fn switch_before(&self, out: u32) -> Option<u32> {
        self.graph.link(LinkId(out / self.vls)).from.0.checked_sub(self.endpoints)
    }
    /// The shortest of all switches.
    pub fn least_latency(&self) -> Span {
        match &self.switch_latency {
            PerHost::Same(latency) => *latency,
            PerHost::Each(each) => each.iter().copied().min().unwrap_or_default(),
        }
    }
}

/// Who decides when a packet has a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scheduling {
    /// The packet reserves it on arrival: lanes do not compete.
    Reserved,
    /// The link picks, packet by packet (`arbitrated.rs`).
    Arbitrated,
}

/// What keeps a buffer from overflowing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Backpressure {
    /// Credits: senders wait.
    Credit,
    /// Pause frames: senders wait.
    Pause,
    /// Nothing: what does not fit is dropped.
    Drop,
    /// Pause frames for some service levels, nothing for the others.
    PauseAndDrop,
}

impl Backpressure {
    /// Whether some buffers are guarded by pause frames.
    #[inline(always)]
    pub const fn pauses(self) -> bool {
        matches!(self, Backpressure::Pause | Backpressure::PauseAndDrop)
    }
    /// Whether some queues have a limit.
    #[inline(always)]
    pub const fn drops(self) -> bool {
        matches!(self, Backpressure::Drop | Backpressure::PauseAndDrop)
    }
}

/// What becomes of a packet that does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Overflow {
    /// It is dropped.
    Drop,
    /// Its payload is; the header goes on.
    Trim,
}

/// When a switch may start to send what arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Forwarding {
    /// As soon as the output is known: all wires have the same rate.
    UniformCutThrough,
    /// As soon as the output cannot overtake the tail.
    CutThrough,
    /// When all of it is there.
    StoreAndForward,
}

/// Whether links write their state into packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Telemetry {
    Off,
    Stamped,
}

/// What may wait for a link of a switch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum QueueLimit {
    /// Whatever comes: senders are held back.
    Unlimited,
    /// So much.
    Own(Bytes),
    /// A share of what the queues of the switch leave of a buffer.
    Shared(SharedBuffer),
}

/// Marking by queue length (ECN).
#[derive(Debug, Clone)]
pub(crate) struct Marking {
    /// By lane of a link.
    pub by_lane: Vec<Option<Ecn>>,
    pub stream: Stream,
}

impl Marking {
    /// Whether a packet that finds `depth` in a lane is marked.
    pub fn marks(&mut self, lane: usize, depth: Bytes) -> bool {
        let Some(ecn) = self.by_lane[lane] else { return false };
        ecn.marks(depth, self.stream.next_u32() as u16)
    }
}

/// A queue that is never dropped from: a few packets (assumed).
const SHORT: Bytes = Bytes::from_kib(32);

impl Links<'_> {
    /// An own lane.
    #[inline(always)]
    pub fn lane(&mut self, lane: u32) -> &mut Channel {
        let (_, place) = self.slots.of(lane);
        &mut self.lanes[place]
    }

    /// The wire of the lane at `place`: most links have one lane, and a division costs more than the question.
    #[inline(always)]
    pub fn wire_of(&self, place: usize) -> usize {
        if self.vls == 1 { place } else { place / self.vls as usize }
    }
    /// Which lane of its link `lane` is.
    #[inline(always)]
    pub fn of_link(&self, lane: u32) -> u32 {
        if self.vls == 1 { 0 } else { lane % self.vls }
    }

    /// Which guard keeps account of the buffer behind a lane that leaves another part and ends here, if one does.
    #[inline(always)]
    pub fn guard(&self, lane: u32) -> Option<usize> {
        if self.guards.is_empty() {
            return None;
        }
        let back = if self.vls == 1 { LinkId(lane).reverse().0 } else { LinkId(lane / self.vls).reverse().0 * self.vls + lane % self.vls };
        self.guards.of(self.slots.of(back).1)
    }

    /// The account of the buffer with pause frames behind a lane that ends here, if it has one.
    pub fn buffer(&mut self, lane: u32) -> Option<&mut Channel> {
        let (part, place) = self.slots.of(lane);
        if part == self.part {
            return Some(&mut self.lanes[place]).filter(|lane| lane.pauses());
        }
        let guard = self.guard(lane)?;
        Some(&mut self.guards.buffers[guard])
    }

    /// The link of a lane, and the lane within the service level: what routing sees of it.
    #[inline(always)]
    pub fn input(&self, lane: u32) -> (u32, u8) {
        if self.vls == 1 { (lane, 0) } else { (lane / self.vls, (lane % self.vls % self.per_level) as u8) }
    }

    /// The lane at an adapter of a packet with service level `sl`.
    #[inline(always)]
    pub fn lane_out(&self, sl: u32) -> u32 {
        if self.levels == 1 { 0 } else { self.qos.lane_out(sl) }
    }

    /// The lane of `output`, a link of `switch`, of a packet with service level `sl` that came by `lane`; the routing chose `vl`.
    #[inline(always)]
    pub fn lane_across(&self, switch: u32, lane: u32, output: u32, sl: u32, vl: u32) -> u32 {
        if self.levels == 1 {
            return vl;
        }
        self.qos.lane_across(self.graph, switch, [LinkId(lane / self.vls), LinkId(output)], sl, vl)
    }

    #[inline(always)]
    pub fn prefetch_lane(&self, lane: u32) {
        let (part, place) = self.slots.of(lane);
        if part == self.part {
            prefetch_lines::<_, 2>(&self.lanes[place]);
            if self.scheduling == Scheduling::Arbitrated {
                prefetch(&self.wires[self.wire_of(place)]);
            }
        } else if let Some(guard) = self.guard(lane) {
            prefetch_lines::<_, 2>(&self.guards.buffers[guard]);
        }
    }

    /// Fetches the packet that waits first for the first lane of `link`.
    #[inline(always)]
    pub fn prefetch_first(&self, link: Option<u32>) {
        if let Some(link) = link {
            self.queues.prefetch_first(&self.lanes[self.slots.of(link * self.vls).1]);
        }
    }
    /// Fetches the packet behind it, and the lane whose buffer the first one frees.
    #[inline(always)]
    pub fn prefetch_second(&self, link: Option<u32>) {
        let Some(link) = link else { return };
        let from = self.queues.prefetch_second(&self.lanes[self.slots.of(link * self.vls).1]);
        if let Some(from) = from.filter(|from| from & FROM_HOST == 0) {
            self.prefetch_lane(from);
        }
    }

    /// What waits for `link` and is on its wire, as adaptive routing sees it: of its first lane, where lanes do not compete.
    #[inline]
    pub fn queue(&self, now: Time, link: LinkId) -> Bytes {
        let (_, place) = self.slots.of(link.0 * self.vls);
        let lane = &self.lanes[place];
        let (free, waiting) = match self.scheduling {
            Scheduling::Reserved => (lane.free_at(), lane.waiting()),
            Scheduling::Arbitrated => {
                let wire = &self.wires[self.wire_of(place)];
                (wire.free, wire.waiting)
            }
        };
        waiting + lane.sent_in(free.since(now))
    }

    /// What waits for `out`, and what is on its wire.
    pub fn depth(&self, now: Time, out: u32) -> Bytes {
        let (_, place) = self.slots.of(out);
        let lane = &self.lanes[place];
        lane.waiting() + lane.sent_in(self.wires[self.wire_of(place)].free.since(now))
    }

    /// A packet of `amount` comes to `out` at `switch`, which it may leave `lead` later: the queues there hold so much more at most.
    #[inline(always)]
    pub fn comes(&mut self, switch: u32, out: u32, amount: Bytes, lead: Span) {
        if self.backpressure.drops() {
            let (_, place) = self.slots.of(out);
            self.held_at_most[switch as usize] += amount + self.lanes[place].sent_in(lead);
        }
    }

    /// Whether `amount` more is too much for `out` at `switch`, for which `depth` waits.
    #[inline(always)]
    pub fn is_full(&mut self, now: Time, switch: u32, out: u32, depth: Bytes, amount: Bytes) -> bool {
        self.backpressure.drops() && !self.has_room(now, switch, out, depth, amount)
    }

    /// Whether `amount` more fits into `out`, a lane of a link of `switch`, for which `depth` waits.
    fn has_room(&mut self, now: Time, switch: u32, out: u32, depth: Bytes, amount: Bytes) -> bool {
        match self.queue_limits[self.of_link(out) as usize] {
            QueueLimit::Unlimited => true,
            QueueLimit::Own(limit) => depth + amount <= limit,
            // Short queues fit whatever the others hold.
            QueueLimit::Shared(_) if depth < SHORT => true,
            QueueLimit::Shared(buffer) => {
                let known = self.link_level.is_none() && depth + amount <= buffer.limit(self.held_at_most[switch as usize]);
                known || depth + amount <= buffer.limit(self.count_held(now, switch))
            }
        }
    }

    /// A wire changed its pace: what is on it counts anew.
    pub fn forget_held(&mut self) {
        self.held_at_most.fill(Bytes(1 << 62));
    }

    /// What the queues of `switch` hold, which is kept in mind.
    #[inline(never)]
    fn count_held(&mut self, now: Time, switch: u32) -> Bytes {
        let held = self.graph.outputs(SwitchId(switch)).map(|(_, link)| self.held(now, link)).sum();
        self.held_at_most[switch as usize] = held;
        held
    }

    /// What the lanes of a link hold; its wire is counted once.
    fn held(&self, now: Time, link: LinkId) -> Bytes {
        let (_, base) = self.slots.of(link.0 * self.vls);
        let lanes = &self.lanes[base..base + self.vls as usize];
        let wire = lanes[0].sent_in(self.wires[self.wire_of(base)].free.since(now));
        lanes.iter().map(Channel::waiting).sum::<Bytes>() + wire
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_and_drops_are_told_apart() {
        use Backpressure::{Credit, Drop, Pause, PauseAndDrop};
        assert_eq!([Credit, Pause, Drop, PauseAndDrop].map(Backpressure::pauses), [false, true, false, true]);
        assert_eq!([Credit, Pause, Drop, PauseAndDrop].map(Backpressure::drops), [false, false, true, true]);
    }

    #[test]
    fn lanes_without_limits_of_their_own_are_never_marked() {
        use fabriscope_switch::EcnLimits;
        let ecn = Ecn::new(EcnLimits { kmin: Bytes(1000), kmax: Bytes(2000), pmax: 1.0 });
        let mut marking = Marking { by_lane: vec![None, Some(ecn)], stream: fabriscope_streams::Streams::new(1).stream("ecn", 0) };
        assert!(!marking.marks(0, Bytes(1 << 20)));
        assert!(marking.marks(1, Bytes(2000)) && !marking.marks(1, Bytes(1000)));
    }
}
