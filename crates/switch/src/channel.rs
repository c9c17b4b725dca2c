//! One virtual lane of one directed link: the wire, and the receive buffer at its far end.
//!
//! Source: InfiniBand Architecture Specification vol. 1, §7.9 (credit-based flow control, 64-byte units);
//! IEEE 802.1Q-2022 clause 36 (priority flow control).
//! Modelled: serialisation, credits whose return is known ahead of time, pause and resume thresholds on the bytes
//! held in the buffer, overflow of the headroom.
//! Not modelled: the wire share of flow-control packets (below 0.5 % on InfiniBand), lost credits.
//!
//! Credits are not events. Whoever frees space in the far buffer says when ([`Channel::give_back`]); the sender
//! counts the returns when it looks ([`Channel::reserve`]). More returns of credits in flight than the ring holds are merged,
//! as a credit update on the wire carries the sum of several packets.

use std::collections::VecDeque;

use fabriscope_units::{Bytes, Pace, Rate, Span, Time, parameters};

/// Returned by [`Channel::give_back`] and [`Channel::hold`]: what changed for the sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PauseChange {
    /// Nothing.
    None,
    /// A pause frame was sent.
    Paused,
    /// The pause now ends at a known time; the sender may plan for it.
    Until(Time),
}

/// How the buffer behind a lane is kept from overflowing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowControl {
    /// Credits for a buffer of this size, at most [`MAX_BUFFER`].
    Credit(Bytes),
    /// Pause frames by these thresholds.
    Pause(PauseLimits),
    /// Not at all: what does not fit is dropped before it is held.
    None,
}

parameters! {
    /// Thresholds of priority flow control (IEEE 802.1Qbb), per port and priority.
    pub struct PauseThresholds as "Pfc" {
        /// A pause is sent above this filling.
        pub xoff: Bytes,
        /// The sender may go on below this filling.
        pub xon: Bytes,
        /// Room for what is still in flight when the pause is sent.
        pub headroom: Bytes,
    }
}

impl Eq for PauseThresholds {}

/// Thresholds on the bytes held in the buffer behind a lossless Ethernet link; what does not fit into the headroom is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PauseLimits {
    /// The thresholds.
    pub thresholds: PauseThresholds,
    /// From the decision until the sender obeys: the frame on the wire and its propagation.
    pub reaction: Span,
}

/// Thresholds in blocks.
#[derive(Debug, Clone, Copy)]
struct Thresholds {
    xoff: u32,
    xon: u32,
    headroom: u32,
    reaction: Span,
}

impl Thresholds {
    fn new(PauseLimits { thresholds: PauseThresholds { xoff, xon, headroom }, reaction }: PauseLimits) -> Thresholds {
        let whole = |amount: Bytes| u32::try_from(amount.0 / BLOCK.0).unwrap_or(MAX_BLOCKS).min(MAX_BLOCKS);
        let headroom = u32::try_from(headroom.div_ceil(BLOCK)).unwrap_or(MAX_BLOCKS).min(MAX_BLOCKS);
        Thresholds { xoff: whole(xoff).min(MAX_BLOCKS - headroom), xon: whole(xon), headroom, reaction }
    }
}

/// State of one lane of one link.
#[derive(Debug, Clone)]
#[repr(C, align(128))]
pub struct Channel {
    /// Credits: when the wire is free. Pauses, whose wire somebody else keeps account of: what is on it.
    wire: Wire,
    /// Blocks that the sender may still use (credits) or that are held behind the link (pause).
    level: u32,
    first: u8,
    count: u8,
    control: Control,
    /// For the engine: the part of a divided run that the far end belongs to.
    pub part: u8,
    /// First and last waiting packet; the engine owns the list.
    pub head: u32,
    /// See `head`.
    pub tail: u32,
    /// Bytes waiting in the list.
    waiting: u32,
    /// The vertex at the far end, as the engine numbers them.
    pub to: u32,
    pace: Pace,
    /// Propagation to the far end.
    delay: Span,
    /// Pause lanes only.
    pause: Option<Box<Pause>>,
    returns: [Return; RETURNS],
}

/// How the buffer is guarded, and whether that acts: the usual case looks at nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Control {
    Credits,
    /// By nothing.
    Nothing,
    /// By pause frames, and there is none in force.
    Open,
    /// A pause was asked for, or the far end sends them of its own: see [`Pause`].
    Paused,
}

/// Eight bytes: credit lanes have the time at which the wire is free, pause lanes their threshold and what is on its way.
#[derive(Debug, Clone, Copy, Default)]
struct Wire(u64);

impl Wire {
    const fn pausing(xoff: u32) -> Wire {
        Wire((xoff as u64) << 32)
    }
    const fn free(self) -> Time {
        Time::from_ps(self.0)
    }
    /// Above so many held blocks a pause is sent.
    const fn xoff(self) -> u32 {
        (self.0 >> 32) as u32
    }
    /// Blocks that left for the far buffer and have not come there.
    const fn in_flight(self) -> u32 {
        self.0 as u32
    }
    fn leaves(&mut self, blocks: u32) {
        self.0 += u64::from(blocks);
    }
    fn comes(&mut self, blocks: u32) {
        self.0 -= u64::from(blocks.min(self.in_flight()));
    }
}

/// What a pause lane keeps besides.
#[derive(Debug, Clone)]
struct Pause {
    /// When the sender obeys, and until when; never and at the start while nothing was sent.
    from: Time,
    until: Time,
    thresholds: Thresholds,
    /// Returns behind those of the lane's own ring, in the order of time: a pause ends by each of them, so none is merged where
    /// much is held.
    later: VecDeque<Return>,
    /// The buffer is accounted for elsewhere: the lane counts what left and what it is told to be free again.
    afar: bool,
    /// Pauses that the far end sends whatever its buffer holds: from when until when.
    storms: Vec<(Time, Time)>,
}

/// Room that comes back: a time (48 bits of ps: 281 s) and how many blocks (16 bits: 4 MiB).
#[derive(Debug, Clone, Copy, Default)]
struct Return(u64);

impl Return {
    #[inline]
    const fn new(time: Time, blocks: u32) -> Return {
        Return(time.as_ps() << BLOCK_BITS | blocks as u64)
    }
    #[inline]
    const fn time(self) -> Time {
        Time::from_ps(self.0 >> BLOCK_BITS)
    }
    #[inline]
    const fn blocks(self) -> u32 {
        self.0 as u32 & MAX_BLOCKS
    }
}

/// The unit of credits and thresholds (standard).
const BLOCK: Bytes = Bytes(64);
/// Returns in flight that are kept apart.
const RETURNS: usize = 9;
/// No waiting packet.
pub const NONE: u32 = u32::MAX;
/// Bits of a return that count its blocks.
const BLOCK_BITS: u32 = 16;
const MAX_BLOCKS: u32 = (1 << BLOCK_BITS) - 1;

/// The largest buffer that one lane can keep account of: 4 MiB less a block.
pub const MAX_BUFFER: Bytes = Bytes(MAX_BLOCKS as u64 * BLOCK.0);

/// Blocks that a packet takes in a buffer.
#[inline]
const fn blocks(amount: Bytes) -> u32 {
    amount.div_ceil(BLOCK) as u32
}

impl Channel {
    /// An idle lane of a wire of this pace and propagation to the vertex `to`.
    #[must_use]
    pub fn new(pace: Pace, delay: Span, to: u32, flow_control: FlowControl) -> Channel {
        let (level, wire, control, pause) = match flow_control {
            FlowControl::Credit(buffer) => {
                let blocks = u32::try_from(buffer.0 / BLOCK.0).unwrap_or(MAX_BLOCKS).min(MAX_BLOCKS);
                (blocks, Wire::default(), Control::Credits, None)
            }
            FlowControl::None => (0, Wire::default(), Control::Nothing, None),
            FlowControl::Pause(limits) => {
                let thresholds = Thresholds::new(limits);
                let pause =
                    Pause { from: Time::MAX, until: Time::ZERO, thresholds, later: VecDeque::new(), afar: false, storms: Vec::new() };
                (0, Wire::pausing(thresholds.xoff), Control::Open, Some(Box::new(pause)))
            }
        };
        Channel {
            wire,
            level,
            first: 0,
            count: 0,
            control,
            part: 0,
            head: NONE,
            tail: NONE,
            waiting: 0,
            to,
            pace,
            delay,
            pause,
            returns: [Return::default(); RETURNS],
        }
    }

    /// Time a packet of `amount` occupies the wire.
    #[inline]
    #[must_use]
    pub fn serialisation(&self, amount: Bytes) -> Span {
        self.pace.time(amount)
    }
    /// Propagation to the far end.
    #[inline]
    #[must_use]
    pub fn delay(&self) -> Span {
        self.delay
    }
    /// The wire's pace.
    #[inline]
    #[must_use]
    pub fn pace(&self) -> Pace {
        self.pace
    }
    /// Changes the pace of the wire, for packets that are not reserved yet.
    pub fn set_pace(&mut self, pace: Pace) {
        self.pace = pace;
    }
    /// The far end pauses the sender from `from` until `until` whatever its buffer holds; lanes with credits ignore it.
    pub fn add_storm(&mut self, from: Time, until: Time) {
        if let Some(pause) = &mut self.pause {
            pause.storms.push((from, until));
            self.control = Control::Paused;
        }
    }
    /// The rate of the wire, to a few parts in a million.
    #[must_use]
    pub fn rate(&self) -> Rate {
        self.pace.rate()
    }
    /// Bytes that the wire carries in `span`.
    #[inline]
    #[must_use]
    pub fn sent_in(&self, span: Span) -> Bytes {
        self.pace.bytes_in(span)
    }
    /// When the wire is free; of lanes with credits.
    #[inline]
    #[must_use]
    pub fn free_at(&self) -> Time {
        self.wire.free()
    }
    /// Whether the far buffer is guarded by pause frames.
    #[inline]
    #[must_use]
    pub fn pauses(&self) -> bool {
        matches!(self.control, Control::Open | Control::Paused)
    }
    /// Whether no pause is in force or asked for; of lanes with pause frames.
    #[inline]
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.control == Control::Open
    }
    /// What the packets of the list make together.
    #[inline]
    #[must_use]
    pub fn waiting(&self) -> Bytes {
        Bytes(self.waiting as u64)
    }
    /// A packet of `amount` joined the list.
    #[inline]
    pub fn add_waiting(&mut self, amount: Bytes) {
        self.waiting += amount.0 as u32;
    }
    /// A packet of `amount` left the list.
    #[inline]
    pub fn take_waiting(&mut self, amount: Bytes) {
        self.waiting -= amount.0 as u32;
    }

    /// Reserves the wire, and the far buffer, for a packet that could start at `earliest`; returns its start.
    ///
    /// `None` when the credits for it are not even known to come: the packet has to wait in the queue.
    #[inline]
    pub fn reserve(&mut self, amount: Bytes, earliest: Time) -> Option<Time> {
        let need = blocks(amount);
        let mut start = earliest.max(self.wire.free());
        while self.level < need {
            let (time, blocks) = self.pop_return()?;
            self.level += blocks;
            if time > start {
                start = time;
                self.wire = Wire(time.as_ps());
            }
        }
        self.level -= need;
        self.wire = Wire((start + self.serialisation(amount)).as_ps());
        Some(start)
    }

    /// Uses credits for a packet on a wire that the caller keeps account of; [`Channel::open_at`] said that there are enough.
    #[inline]
    pub fn take(&mut self, amount: Bytes) {
        match self.control {
            Control::Credits => self.level -= blocks(amount),
            Control::Nothing => {}
            Control::Open | Control::Paused => self.wire.leaves(blocks(amount)),
        }
    }

    /// Whether no pause can hold back a packet of `amount` that leaves behind those that left already.
    ///
    /// Pauses come of what is held behind this lane alone. If all that is there and all that is on its way stay below the threshold
    /// with this packet, nobody asks for one before it has left.
    #[inline]
    #[must_use]
    pub fn cannot_pause(&mut self, amount: Bytes, now: Time) -> bool {
        match self.control {
            Control::Credits | Control::Nothing => true,
            Control::Open => self.fits(amount) || self.fits_now(amount, now),
            Control::Paused => self.fits_now(amount, now),
        }
    }
    #[inline]
    fn fits(&self, amount: Bytes) -> bool {
        self.level + self.wire.in_flight() + blocks(amount) <= self.wire.xoff()
    }
    /// The same without what is free again by `now`.
    #[inline(never)]
    fn fits_now(&mut self, amount: Bytes, now: Time) -> bool {
        let Some(pause) = &self.pause else { return false };
        let afar = pause.afar;
        if afar && self.control == Control::Paused && pause.until <= now && pause.storms.is_empty() {
            self.control = Control::Open;
        }
        while let Some((_, blocks)) = self.peek_return().filter(|(time, _)| *time <= now) {
            if afar {
                self.wire.comes(blocks)
            } else {
                self.level -= blocks
            }
            self.pop_return();
        }
        self.control == Control::Open && self.fits(amount)
    }

    /// Pause lanes: a packet of `amount` that left is lost on the way.
    pub fn lost_in_flight(&mut self, amount: Bytes) {
        if self.pauses() {
            self.wire.comes(blocks(amount));
        }
    }

    /// The earliest time from `now` on at which credits or the end of a pause let a packet of `amount` start.
    ///
    /// `None` when that is not known yet. Does not look at the wire.
    #[inline]
    #[must_use]
    pub fn open_at(&mut self, amount: Bytes, now: Time) -> Option<Time> {
        match self.control {
            Control::Open | Control::Nothing => Some(now),
            Control::Paused => self.obeyed_at(now),
            Control::Credits => self.credit_at(amount, now),
        }
    }

    /// When a pause that is in force, or will be, lets go.
    fn obeyed_at(&self, now: Time) -> Option<Time> {
        let pause = self.pause.as_ref()?;
        let mut open = now;
        if open >= pause.from && open < pause.until {
            open = pause.until;
        }
        for &(from, until) in &pause.storms {
            if open >= from && open < until {
                open = until;
            }
        }
        open.is_known().then_some(open)
    }

    fn credit_at(&mut self, amount: Bytes, now: Time) -> Option<Time> {
        let need = blocks(amount);
        while let Some((time, blocks)) = self.peek_return() {
            if time > now {
                break;
            }
            self.level += blocks;
            self.pop_return();
        }
        if self.level >= need {
            return Some(now);
        }
        let mut level = self.level;
        for entry in self.returns() {
            level += entry.blocks();
            if level >= need {
                return Some(entry.time());
            }
        }
        None
    }

    /// Credit lanes: space for a packet of `amount` will be free again, as known at the sender, at `time`.
    #[inline(always)]
    pub fn give_back(&mut self, amount: Bytes, time: Time) -> PauseChange {
        if self.control == Control::Nothing {
            return PauseChange::None;
        }
        self.push_return(time, blocks(amount));
        if self.control == Control::Paused { self.review() } else { PauseChange::None }
    }

    /// Pause lanes: a packet of `amount` arrived in the buffer. `Err` when the headroom is exceeded and it is lost.
    ///
    /// # Errors
    /// `Err(())` stands for the loss.
    #[allow(clippy::result_unit_err)]
    pub fn hold(&mut self, amount: Bytes, now: Time) -> Result<PauseChange, ()> {
        if !self.pauses() {
            return Ok(PauseChange::None);
        }
        while let Some((time, blocks)) = self.peek_return() {
            if time > now {
                break;
            }
            self.level -= blocks;
            self.pop_return();
        }
        let need = blocks(amount);
        self.wire.comes(need);
        if self.control == Control::Open && self.level + need <= self.wire.xoff() {
            self.level += need;
            return Ok(PauseChange::None);
        }
        self.hold_above(need, now)
    }

    /// The same where a pause is in force or due.
    #[inline(never)]
    fn hold_above(&mut self, need: u32, now: Time) -> Result<PauseChange, ()> {
        let Some(pause) = &mut self.pause else { return Ok(PauseChange::None) };
        if pause.until <= now {
            pause.from = Time::MAX;
            if pause.storms.is_empty() {
                self.control = Control::Open;
            }
        }
        if self.level + need > pause.thresholds.xoff + pause.thresholds.headroom {
            return Err(());
        }
        self.level += need;
        if pause.from.is_known() {
            return Ok(self.review());
        }
        if self.level > pause.thresholds.xoff {
            pause.from = now + pause.thresholds.reaction;
            pause.until = Time::MAX;
            self.control = Control::Paused;
            return Ok(match self.review() {
                PauseChange::None => PauseChange::Paused,
                known => known,
            });
        }
        Ok(PauseChange::None)
    }

    /// Pause lanes: first and last moment at which the sender obeys the pause that was requested last, the latter
    /// [`Time::MAX`] while it is not known; and the time from the request to its effect. Where the buffer is accounted for elsewhere, it is told
    /// there, and nothing is here.
    #[must_use]
    pub fn pause_span(&self) -> (Option<(Time, Time)>, Span) {
        let Some(pause) = self.pause.as_ref().filter(|pause| !pause.afar) else { return (None, Span::ZERO) };
        ((pause.from.is_known()).then_some((pause.from, pause.until)), pause.thresholds.reaction)
    }

    /// Pause lanes: from now on the buffer is accounted for elsewhere.
    pub fn guard_afar(&mut self) {
        if let Some(pause) = &mut self.pause {
            pause.afar = true;
        }
    }
    /// The same: the sender obeys the last pause from `from` until `until`.
    pub fn obey(&mut self, from: Time, until: Time) {
        if let Some(pause) = &mut self.pause {
            (pause.from, pause.until) = (from, until);
            self.control = Control::Paused;
        }
    }

    /// Blocks that the sender would have (credits), or that would be held (pause), if everything in flight had returned.
    #[must_use]
    pub fn settled(&self) -> i64 {
        let returning: i64 = self.returns().map(|entry| i64::from(entry.blocks())).sum();
        match &self.pause {
            None => i64::from(self.level) + returning,
            Some(pause) if pause.afar => i64::from(self.wire.in_flight()) - returning,
            Some(_) => i64::from(self.level) - returning,
        }
    }

    /// The returns in flight, in the order of time.
    fn returns(&self) -> impl Iterator<Item = Return> + '_ {
        let own = (0..usize::from(self.count)).map(|i| self.returns[(usize::from(self.first) + i) % RETURNS]);
        own.chain(self.pause.iter().flat_map(|pause| pause.later.iter().copied()))
    }

    /// Recomputes the end of a pause from the departures that are known.
    fn review(&mut self) -> PauseChange {
        let Some(pause) = self.pause.as_mut().filter(|pause| pause.from.is_known() && !pause.afar) else { return PauseChange::None };
        let mut level = self.level;
        let (first, count) = (usize::from(self.first), usize::from(self.count));
        let own = (0..count).map(|i| self.returns[(first + i) % RETURNS]);
        for entry in own.chain(pause.later.iter().copied()) {
            level = level.saturating_sub(entry.blocks());
            if level <= pause.thresholds.xon {
                let until = entry.time() + pause.thresholds.reaction;
                pause.until = until.max(pause.from);
                return PauseChange::Until(pause.until);
            }
        }
        pause.until = Time::MAX;
        PauseChange::None
    }

    #[inline]
    fn peek_return(&self) -> Option<(Time, u32)> {
        (self.count > 0).then(|| {
            let entry = self.returns[usize::from(self.first)];
            (entry.time(), entry.blocks())
        })
    }

    #[inline]
    fn pop_return(&mut self) -> Option<(Time, u32)> {
        let entry = self.peek_return()?;
        self.first = if usize::from(self.first) + 1 == RETURNS { 0 } else { self.first + 1 };
        self.count -= 1;
        if usize::from(self.count) + 1 == RETURNS
            && let Some(next) = self.pause.as_mut().and_then(|pause| pause.later.pop_front())
        {
            self.insert_return(next);
        }
        Some(entry)
    }

    #[inline(always)]
    fn push_return(&mut self, time: Time, blocks: u32) {
        let mut at = usize::from(self.first) + usize::from(self.count);
        if at >= RETURNS {
            at -= RETURNS;
        }
        if usize::from(self.count) == RETURNS {
            let last = &mut self.returns[if at == 0 { RETURNS - 1 } else { at - 1 }];
            match &mut self.pause {
                // The ring is full: join the last update, which then comes with the later of the two times.
                None => *last = Return::new(time.max(last.time()), last.blocks() + blocks),
                // The same where little is held: that some of it seems to stay longer decides nothing.
                Some(pause) if self.control == Control::Open && self.level <= pause.thresholds.xoff / 2 && pause.later.is_empty() => {
                    *last = Return::new(time.max(last.time()), last.blocks() + blocks);
                }
                Some(pause) => {
                    let mut entry = Return::new(time, blocks);
                    if time < last.time() {
                        entry = *last;
                        self.count -= 1;
                    }
                    let place = pause.later.partition_point(|other| other.time() <= entry.time());
                    pause.later.insert(place, entry);
                    if usize::from(self.count) < RETURNS {
                        self.insert_return(Return::new(time, blocks));
                    }
                }
            }
            return;
        }
        self.insert_return(Return::new(time, blocks));
    }

    /// Puts a return in its place in the ring, which has room.
    #[inline]
    fn insert_return(&mut self, entry: Return) {
        let time = entry.time();
        let mut at = usize::from(self.first) + usize::from(self.count);
        if at >= RETURNS {
            at -= RETURNS;
        }
        let mut left = self.count;
        while left > 0 {
            let before = if at == 0 { RETURNS - 1 } else { at - 1 };
            if self.returns[before].time() <= time {
                break;
            }
            self.returns[at] = self.returns[before];
            at = before;
            left -= 1;
        }
        self.returns[at] = entry;
        self.count += 1;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GBPS_400: Pace = Pace::of(Rate::from_gbps(400));

    fn credits(blocks: u64) -> Channel {
        Channel::new(GBPS_400, Span::ZERO, 0, FlowControl::Credit(BLOCK * blocks))
    }

    fn at(ps: u64) -> Time {
        Time::from_ps(ps)
    }

    #[test]
    fn a_lane_is_two_cache_lines() {
        assert_eq!(size_of::<Channel>(), 128);
    }

    #[test]
    fn the_wire_serialises() {
        // 4178 B at 400 Gb/s are 83.56 ns.
        let mut lane = credits(1000);
        assert_eq!(lane.reserve(Bytes(4178), at(1_000)), Some(at(1_000)));
        assert_eq!(lane.reserve(Bytes(4178), at(0)), Some(at(1_000 + 83_560)));
    }

    #[test]
    fn a_packet_waits_for_credits_that_are_known_to_come() {
        let mut lane = credits(2);
        assert_eq!(lane.reserve(Bytes(128), at(0)), Some(at(0)));
        assert_eq!(lane.reserve(Bytes(64), at(0)), None);
        lane.give_back(Bytes(64), at(9_000));
        lane.give_back(Bytes(64), at(5_000));
        assert_eq!(lane.reserve(Bytes(64), at(0)), Some(at(5_000)));
        assert_eq!(lane.reserve(Bytes(64), at(0)), Some(at(9_000)));
        assert_eq!(lane.reserve(Bytes(64), at(0)), None);
    }

    #[test]
    fn a_pause_ends_when_the_known_departures_reach_xon() {
        let thresholds = PauseThresholds { xoff: Bytes(1024), xon: Bytes(512), headroom: Bytes(2048) };
        let limits = PauseLimits { thresholds, reaction: Span::from_ps(100) };
        let mut lane = Channel::new(GBPS_400, Span::ZERO, 0, FlowControl::Pause(limits));
        assert_eq!(lane.hold(Bytes(900), at(0)), Ok(PauseChange::None));
        assert_eq!(lane.hold(Bytes(600), at(10)), Ok(PauseChange::Paused));
        assert_eq!(lane.open_at(Bytes(64), at(50)), Some(at(50)), "the frame has not reached the sender");
        assert_eq!(lane.open_at(Bytes(64), at(110)), None);
        assert_eq!(lane.give_back(Bytes(900), at(300)), PauseChange::None);
        assert_eq!(lane.give_back(Bytes(600), at(700)), PauseChange::Until(at(800)));
        assert_eq!(lane.open_at(Bytes(64), at(200)), Some(at(800)));
        assert_eq!(lane.hold(Bytes(600), at(250)), Ok(PauseChange::None), "still above xon with all known departures");
        assert_eq!(lane.open_at(Bytes(64), at(260)), None);
        assert_eq!(lane.hold(Bytes(5_000), at(270)), Err(()));
    }

    /// Departures that are planned far ahead come back one by one, in the order of time, however many there are.
    #[test]
    fn a_pause_lane_forgets_no_return() {
        let thresholds = PauseThresholds { xoff: Bytes(64 * 30), xon: Bytes(64 * 10), headroom: Bytes(64 * 100) };
        let limits = PauseLimits { thresholds, reaction: Span::from_ps(1) };
        let mut lane = Channel::new(GBPS_400, Span::ZERO, 0, FlowControl::Pause(limits));
        for _ in 0..40 {
            lane.take(Bytes(64));
        }
        assert!(!lane.cannot_pause(Bytes(64), at(5)), "40 blocks on the way are above xoff");
        for _ in 0..40 {
            assert!(lane.hold(Bytes(64), at(10)).is_ok());
        }
        // Block n leaves at 1000 + n, told in another order; 10 are left when the thirtieth has gone.
        for n in 0..40 {
            lane.give_back(Bytes(64), at(1_000 + n * 7 % 40));
        }
        assert_eq!(lane.settled(), 0);
        assert_eq!(lane.open_at(Bytes(64), at(20)), Some(at(1_000 + 29 + 1)));
        assert!(lane.hold(Bytes(64), at(1_035)).is_ok());
        assert_eq!((lane.level, lane.settled()), (40 - 36 + 1, 1));
    }

    proptest! {
        /// Credits are conserved: whatever the order of returns, the sum of what was reserved and not yet given back,
        /// and what is available or in flight, is the size of the buffer.
        #[test]
        fn credits_are_conserved(steps in prop::collection::vec((1u64..5000, 0u64..1_000_000), 1..300)) {
            let total = 4096u64;
            let mut lane = credits(total);
            let mut out: Vec<(Bytes, Time)> = Vec::new();
            let mut used = 0u32;
            for (bytes, jitter) in steps {
                let amount = Bytes(bytes);
                while lane.reserve(amount, Time::ZERO).is_none() {
                    let (b, t) = out.remove(out.len() / 2);
                    used -= blocks(b);
                    lane.give_back(b, t);
                }
                used += blocks(amount);
                out.push((amount, lane.free_at() + Span::from_ps(jitter)));
                prop_assert_eq!(lane.settled() + i64::from(used), total as i64);
            }
        }
    }
}
