//! One virtual lane of one directed link: the wire, and the receive buffer at its far end.
//!
//! Source: InfiniBand Architecture Specification vol. 1, §7.9 (credit-based flow control, 64-byte units);
//! IEEE 802.1Q-2022 clause 36 (priority flow control).
//! Modelled: serialisation, credits whose return is known ahead of time, pause and resume thresholds on the bytes
//! held in the buffer, overflow of the headroom.
//! Not modelled: the wire share of flow-control packets (below 0.5 % on InfiniBand), lost credits.
//!
//! Credits are not events. Whoever frees space in the far buffer says when ([`Channel::give_back`]); the sender
//! counts the returns when it looks ([`Channel::reserve`]). More returns under way than the ring holds are merged,
//! as a credit update on the wire carries the sum of several packets.

use fabriscope_units::Rate;

/// Returned by [`Channel::give_back`] and [`Channel::hold`]: what changed for the sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PauseChange {
    /// Nothing.
    None,
    /// A pause frame was sent.
    Paused,
    /// The pause now ends at a known time (ps); the sender may plan for it.
    Until(u64),
}

/// Flow control of the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// Credits for this many 64-byte blocks of buffer.
    Credit(u32),
    /// Pause frames by these thresholds.
    Pause(PauseLimits),
}

/// Thresholds on the bytes held in the buffer behind a lossless Ethernet link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PauseLimits {
    /// Above this a pause frame is sent.
    pub xoff: u32,
    /// At or below this the pause is lifted.
    pub xon: u32,
    /// Room above `xoff` for what is already under way; beyond it packets are lost.
    pub headroom: u32,
    /// From the decision until the sender obeys: the frame on the wire and its propagation (ps).
    pub reaction: u32,
}

impl PauseLimits {
    fn in_blocks(self) -> PauseLimits {
        let headroom = self.headroom.div_ceil(64).min(MAX_BLOCKS);
        PauseLimits { xoff: (self.xoff / 64).min(MAX_BLOCKS - headroom), xon: self.xon / 64, headroom, reaction: self.reaction }
    }
}

/// State of one lane of one link. Times are picoseconds since the start.
#[derive(Debug, Clone)]
#[repr(C, align(128))]
pub struct Channel {
    /// When the wire is free.
    free: u64,
    /// 64-byte blocks that the sender may still use (credits) or that are held behind the link (pause).
    level: u32,
    first: u8,
    count: u8,
    pauses: bool,
    /// For the engine: the part of a divided run that the far end belongs to.
    pub part: u8,
    /// First and last waiting packet; the engine owns the list.
    pub head: u32,
    /// See `head`.
    pub tail: u32,
    /// Bytes waiting in the list.
    pub waiting: u32,
    /// 2⁻¹⁶ ps per byte of the wire.
    pace: u32,
    /// Propagation to the far end (ps).
    pub delay: u32,
    /// The vertex at the far end, as the engine numbers them.
    pub to: u32,
    /// Pause lanes only.
    pause: Option<Box<Pause>>,
    returns: [u64; RETURNS],
}

/// What a pause lane keeps besides.
#[derive(Debug, Clone)]
struct Pause {
    from: u64,
    until: u64,
    limits: PauseLimits,
    /// Pauses that the far end sends whatever its buffer holds: from when until when (ps).
    storms: Vec<(u64, u64)>,
}

/// Returns under way that are kept apart.
const RETURNS: usize = 9;
/// No waiting packet.
pub const NONE: u32 = u32::MAX;
/// A return is packed as time (48 bits of ps: 281 s) and 64-byte blocks (16 bits: 4 MiB).
const BLOCK_BITS: u32 = 16;

/// The largest buffer, in 64-byte blocks, that one lane can keep account of.
pub const MAX_BLOCKS: u32 = (1 << BLOCK_BITS) - 1;

impl Channel {
    /// An idle lane. `ps_per_byte` is the wire's pace in 2⁻¹⁶ ps per byte.
    #[must_use]
    pub fn new(pace: u32, delay: u32, to: u32, flow: Flow) -> Channel {
        let (level, pause) = match flow {
            Flow::Credit(blocks) => (blocks.min(MAX_BLOCKS), None),
            Flow::Pause(limits) => (0, Some(Box::new(Pause { from: u64::MAX, until: 0, limits: limits.in_blocks(), storms: Vec::new() }))),
        };
        Channel {
            free: 0,
            level,
            first: 0,
            count: 0,
            pauses: pause.is_some(),
            part: 0,
            head: NONE,
            tail: NONE,
            waiting: 0,
            pace,
            delay,
            to,
            pause,
            returns: [0; RETURNS],
        }
    }

    /// Time a packet of `bytes` occupies the wire (ps).
    #[inline]
    #[must_use]
    pub fn serialisation(&self, bytes: u32) -> u64 {
        (u64::from(bytes) * u64::from(self.pace)) >> 16
    }
    /// The wire's pace in 2⁻¹⁶ ps per byte.
    #[must_use]
    pub fn pace(&self) -> u32 {
        self.pace
    }
    /// Changes the pace of the wire, for packets that are not reserved yet.
    pub fn set_pace(&mut self, pace: u32) {
        self.pace = pace;
    }
    /// The far end pauses the sender from `from` until `until` (ps) whatever its buffer holds; lanes with credits ignore it.
    pub fn add_storm(&mut self, from: u64, until: u64) {
        if let Some(pause) = &mut self.pause {
            pause.storms.push((from, until));
        }
    }
    /// The rate of the wire, to a few parts in a million.
    #[must_use]
    pub fn rate(&self) -> Rate {
        Rate::from_bps((8_000_000_000_000 << 16) / u64::from(self.pace.max(1)))
    }
    /// Bytes that the wire carries in `time` ps.
    #[inline]
    #[must_use]
    pub fn sent_in(&self, time: u64) -> u64 {
        (time << 16) / u64::from(self.pace.max(1))
    }
    /// When the wire is free (ps).
    #[inline]
    #[must_use]
    pub fn free_at(&self) -> u64 {
        self.free
    }
    /// Whether the far buffer is guarded by pause frames.
    #[inline]
    #[must_use]
    pub fn pauses(&self) -> bool {
        self.pauses
    }

    /// Reserves the wire, and the far buffer, for a packet that could start at `earliest`; returns its start.
    ///
    /// `None` when the credits for it are not even known to come: the packet has to wait in the queue.
    #[inline]
    pub fn reserve(&mut self, bytes: u32, earliest: u64) -> Option<u64> {
        let need = bytes.div_ceil(64);
        let mut start = earliest.max(self.free);
        while self.level < need {
            let (time, blocks) = self.pop_return()?;
            self.level += blocks;
            if time > start {
                start = time;
                self.free = time;
            }
        }
        self.level -= need;
        self.free = start + self.serialisation(bytes);
        Some(start)
    }

    /// Uses credits for a packet on a wire that the caller keeps account of; [`Channel::open_at`] said that there are enough.
    #[inline]
    pub fn take(&mut self, bytes: u32) {
        if !self.pauses {
            self.level -= bytes.div_ceil(64);
        }
    }

    /// The earliest time from `now` on at which credits or the end of a pause let a packet of `bytes` start.
    ///
    /// `None` when that is not known yet. Does not look at the wire.
    #[must_use]
    pub fn open_at(&mut self, bytes: u32, now: u64) -> Option<u64> {
        if let Some(pause) = &self.pause {
            let mut open = now;
            if open >= pause.from && open < pause.until {
                open = pause.until;
            }
            for &(from, until) in &pause.storms {
                if open >= from && open < until {
                    open = until;
                }
            }
            return (open != u64::MAX).then_some(open);
        }
        let need = bytes.div_ceil(64);
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
        for i in 0..usize::from(self.count) {
            let entry = self.returns[(usize::from(self.first) + i) % RETURNS];
            level += (entry & ((1 << BLOCK_BITS) - 1)) as u32;
            if level >= need {
                return Some(entry >> BLOCK_BITS);
            }
        }
        None
    }

    /// Credit lanes: space for a packet of `bytes` will be free again, as known at the sender, at `time`.
    #[inline]
    pub fn give_back(&mut self, bytes: u32, time: u64) -> PauseChange {
        self.push_return(time, bytes.div_ceil(64));
        if self.pauses { self.review() } else { PauseChange::None }
    }

    /// Pause lanes: a packet of `bytes` arrived in the buffer. `Err` when the headroom is exceeded and it is lost.
    ///
    /// # Errors
    /// `Err(())` stands for the loss.
    #[allow(clippy::result_unit_err)]
    pub fn hold(&mut self, bytes: u32, now: u64) -> Result<PauseChange, ()> {
        if !self.pauses {
            return Ok(PauseChange::None);
        }
        while let Some((time, amount)) = self.peek_return() {
            if time > now {
                break;
            }
            self.level -= amount;
            self.pop_return();
        }
        let Some(pause) = &mut self.pause else { return Ok(PauseChange::None) };
        if pause.until <= now {
            pause.from = u64::MAX;
        }
        let need = bytes.div_ceil(64);
        if self.level + need > pause.limits.xoff + pause.limits.headroom {
            return Err(());
        }
        self.level += need;
        if pause.from != u64::MAX {
            return Ok(self.review());
        }
        if self.level > pause.limits.xoff {
            pause.from = now + u64::from(pause.limits.reaction);
            pause.until = u64::MAX;
            return Ok(match self.review() {
                PauseChange::None => PauseChange::Paused,
                known => known,
            });
        }
        Ok(PauseChange::None)
    }

    /// Pause lanes: first and last moment (ps) at which the sender obeys the pause that was asked for last, the latter
    /// `u64::MAX` while it is not known; and the time from asking to obeying (ps).
    #[must_use]
    pub fn pause_span(&self) -> (Option<(u64, u64)>, u64) {
        let Some(pause) = &self.pause else { return (None, 0) };
        ((pause.from != u64::MAX).then_some((pause.from, pause.until)), u64::from(pause.limits.reaction))
    }

    /// Blocks that the sender would have (credits), or that would be held (pause), if everything under way had returned.
    #[must_use]
    pub fn settled(&self) -> i64 {
        let under_way: u64 =
            (0..usize::from(self.count)).map(|i| self.returns[(usize::from(self.first) + i) % RETURNS] & ((1 << BLOCK_BITS) - 1)).sum();
        if self.pauses { i64::from(self.level) - under_way as i64 } else { i64::from(self.level) + under_way as i64 }
    }

    /// Recomputes the end of a pause from the departures that are known.
    fn review(&mut self) -> PauseChange {
        let Some(pause) = self.pause.as_mut().filter(|pause| pause.from != u64::MAX) else { return PauseChange::None };
        let mut level = self.level;
        for i in 0..usize::from(self.count) {
            let entry = self.returns[(usize::from(self.first) + i) % RETURNS];
            level = level.saturating_sub((entry & ((1 << BLOCK_BITS) - 1)) as u32);
            if level <= pause.limits.xon {
                let until = (entry >> BLOCK_BITS) + u64::from(pause.limits.reaction);
                pause.until = until.max(pause.from);
                return PauseChange::Until(pause.until);
            }
        }
        pause.until = u64::MAX;
        PauseChange::None
    }

    #[inline]
    fn peek_return(&self) -> Option<(u64, u32)> {
        (self.count > 0).then(|| {
            let entry = self.returns[usize::from(self.first)];
            (entry >> BLOCK_BITS, (entry & ((1 << BLOCK_BITS) - 1)) as u32)
        })
    }

    #[inline]
    fn pop_return(&mut self) -> Option<(u64, u32)> {
        let entry = self.peek_return()?;
        self.first = if usize::from(self.first) + 1 == RETURNS { 0 } else { self.first + 1 };
        self.count -= 1;
        Some(entry)
    }

    #[inline]
    fn push_return(&mut self, time: u64, amount: u32) {
        let mut at = usize::from(self.first) + usize::from(self.count);
        if at >= RETURNS {
            at -= RETURNS;
        }
        if usize::from(self.count) == RETURNS {
            // The ring is full: join the last update, which then comes with the later of the two times.
            let last = if at == 0 { RETURNS - 1 } else { at - 1 };
            let (old_time, old) = (self.returns[last] >> BLOCK_BITS, self.returns[last] & ((1 << BLOCK_BITS) - 1));
            self.returns[last] = (time.max(old_time) << BLOCK_BITS) | (old + u64::from(amount));
            return;
        }
        let entry = (time << BLOCK_BITS) | u64::from(amount);
        let mut left = self.count;
        while left > 0 {
            let before = if at == 0 { RETURNS - 1 } else { at - 1 };
            if self.returns[before] >> BLOCK_BITS <= time {
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

    const GBPS_400: u32 = 20 << 16;

    #[test]
    fn a_lane_is_two_cache_lines() {
        assert_eq!(size_of::<Channel>(), 128);
    }

    #[test]
    fn the_wire_serialises() {
        // 4178 B at 400 Gb/s are 83.56 ns.
        let mut lane = Channel::new(GBPS_400, 0, 0, Flow::Credit(1000));
        assert_eq!(lane.reserve(4178, 1_000), Some(1_000));
        assert_eq!(lane.reserve(4178, 0), Some(1_000 + 83_560));
    }

    #[test]
    fn a_packet_waits_for_credits_that_are_known_to_come() {
        let mut lane = Channel::new(GBPS_400, 0, 0, Flow::Credit(2));
        assert_eq!(lane.reserve(128, 0), Some(0));
        assert_eq!(lane.reserve(64, 0), None);
        lane.give_back(64, 9_000);
        lane.give_back(64, 5_000);
        assert_eq!(lane.reserve(64, 0), Some(5_000));
        assert_eq!(lane.reserve(64, 0), Some(9_000));
        assert_eq!(lane.reserve(64, 0), None);
    }

    #[test]
    fn a_pause_ends_when_the_known_departures_reach_xon() {
        let limits = PauseLimits { xoff: 1024, xon: 512, headroom: 2048, reaction: 100 };
        let mut lane = Channel::new(GBPS_400, 0, 0, Flow::Pause(limits));
        assert_eq!(lane.hold(900, 0), Ok(PauseChange::None));
        assert_eq!(lane.hold(600, 10), Ok(PauseChange::Paused));
        assert_eq!(lane.open_at(64, 50), Some(50), "the frame has not reached the sender");
        assert_eq!(lane.open_at(64, 110), None);
        assert_eq!(lane.give_back(900, 300), PauseChange::None);
        assert_eq!(lane.give_back(600, 700), PauseChange::Until(800));
        assert_eq!(lane.open_at(64, 200), Some(800));
        assert_eq!(lane.hold(600, 250), Ok(PauseChange::None), "still above xon with all known departures");
        assert_eq!(lane.open_at(64, 260), None);
        assert_eq!(lane.hold(5_000, 270), Err(()));
    }

    proptest! {
        /// Credits are conserved: whatever the order of returns, the sum of what was reserved and not yet given back,
        /// and what is available or under way, is the size of the buffer.
        #[test]
        fn credits_are_conserved(steps in prop::collection::vec((1u32..5000, 0u64..1_000_000), 1..300)) {
            let total = 4096u32;
            let mut lane = Channel::new(GBPS_400, 0, 0, Flow::Credit(total));
            let mut out: Vec<(u32, u64)> = Vec::new();
            let mut used = 0u32;
            for (bytes, jitter) in steps {
                while lane.reserve(bytes, 0).is_none() {
                    let (b, t) = out.remove(out.len() / 2);
                    used -= b.div_ceil(64);
                    lane.give_back(b, t);
                }
                used += bytes.div_ceil(64);
                out.push((bytes, lane.free_at() + jitter));
                prop_assert_eq!(lane.settled() + i64::from(used), i64::from(total));
            }
        }
    }
}
