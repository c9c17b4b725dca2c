//! Counting events and triggered operations: the adapter carries out commands by itself once enough messages have come.
//!
//! ```text
//!  message ─▶ match entry ─▶ counter + 1 ─▶ threshold reached ─▶ latency ─▶ send · count another · write the count back
//! ```
//!
//! Source: Sandia, "The Portals 4.3 Network Programming Interface", §3.13 (counting events) and §3.14 (triggered operations);
//! K. D. Underwood et al., "Enabling Flexible Collective Communication Offload with Triggered Operations", HOTI 2011.
//! Modelled: counters of messages by peers whose last byte falls into a range; commands with a counter and a threshold, which wait in the
//! adapter from when it has them; sends, increments of other counters (chains), write-backs to memory that a core spins on.
//! Not modelled: counters of bytes and of failures, `PtlTriggeredCTSet`, triggered reads and atomics; the order of triggered sends of one
//! queue pair is that in which they were posted, whichever threshold is reached first.

use std::collections::VecDeque;

use fabriscope_units::{Bytes, Span, Time, parameters};

use crate::error::{PostError, VerbsError};
use crate::ids::{CounterId, QpNum, WqeIndex};
use crate::nic::Nic;
use crate::packet::Landed;
use crate::wr::SendWr;

parameters! {
    /// Counting events of an adapter, and commands that wait for them.
    pub struct TriggeredLimits as "Triggered" {
        /// From the message that reaches a threshold to the command.
        pub latency: Span,
        /// Counters that there can be.
        pub counters: u32,
    }
}

/// A command that waits for a counter.
#[derive(Debug, Clone, PartialEq)]
pub struct TriggeredWr {
    /// What it waits for.
    pub counter: CounterId,
    /// When it has counted so many, from when it was made.
    pub threshold: u64,
    /// What the adapter does then.
    pub action: TriggeredAction,
}

/// What a triggered command does.
#[derive(Debug, Clone, PartialEq)]
pub enum TriggeredAction {
    /// `PtlTriggeredPut`: a request of a queue pair is sent. Requests posted behind it wait for it.
    Send {
        /// Which one.
        qp: QpNum,
        /// The request.
        wr: SendWr,
    },
    /// `PtlTriggeredCTInc`: another counter goes on.
    Count {
        /// Which one.
        counter: CounterId,
        /// By how much.
        by: u64,
    },
    /// The count is written to memory, where a [watch](Nic::create_watch) sees it: what `PtlCTWait` spins on.
    WriteBack {
        /// Where, 8 bytes.
        addr: u64,
    },
}

/// The counters of an adapter and what waits for them.
pub(crate) struct Triggered {
    limits: TriggeredLimits,
    counts: Vec<u64>,
    /// (first byte, last byte, counter), sorted; ranges do not overlap.
    entries: Vec<(u64, u64, u32)>,
    /// Posted commands that the adapter does not have yet, and how many came before them.
    posted: VecDeque<Armed>,
    taken: u64,
    /// Commands that wait, by counter.
    armed: Vec<Vec<Armed>>,
    /// Commands whose time has come, in order.
    due: VecDeque<(Time, Step)>,
    /// Times of these that the engine does not know yet.
    untold: VecDeque<Time>,
    /// Counts to be written back.
    written: VecDeque<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Armed {
    counter: u32,
    threshold: u64,
    step: Step,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Send { qp: QpNum, through: WqeIndex },
    Count { counter: u32, by: u64 },
    WriteBack { addr: u64 },
}

impl Triggered {
    pub(crate) fn new(limits: TriggeredLimits) -> Triggered {
        Triggered {
            limits,
            counts: Vec::new(),
            entries: Vec::new(),
            posted: VecDeque::new(),
            taken: 0,
            armed: Vec::new(),
            due: VecDeque::new(),
            untold: VecDeque::new(),
            written: VecDeque::new(),
        }
    }

    fn create(&mut self, addr: u64, length: Bytes) -> Result<CounterId, VerbsError> {
        let most = self.limits.counters;
        let number = u32::try_from(self.counts.len()).ok().filter(|number| *number < most).ok_or(VerbsError::TooManyCounters { most })?;
        let last = addr.checked_add(length.0.wrapping_sub(1)).filter(|_| length > Bytes::ZERO);
        let last = last.ok_or(VerbsError::BadRange { addr, length })?;
        let at = self.entries.partition_point(|entry| entry.0 < addr);
        let free =
            at.checked_sub(1).is_none_or(|before| self.entries[before].1 < addr) && self.entries.get(at).is_none_or(|next| next.0 > last);
        if !free {
            return Err(VerbsError::CountedAlready { addr, length });
        }
        self.entries.insert(at, (addr, last, number));
        self.counts.push(0);
        self.armed.push(Vec::new());
        Ok(CounterId(number))
    }

    fn check(&self, counter: CounterId) -> Result<(), PostError> {
        if (counter.0 as usize) < self.counts.len() { Ok(()) } else { Err(PostError::NoSuchCounter { counter }) }
    }

    /// A message that ends at this byte is in the adapter.
    pub(crate) fn landed(&mut self, now: Time, last: u64) {
        let behind = self.entries.partition_point(|entry| entry.0 <= last);
        if let Some(&(_, end, counter)) = behind.checked_sub(1).and_then(|at| self.entries.get(at))
            && last <= end
        {
            self.count(now, counter, 1);
        }
    }

    fn count(&mut self, now: Time, counter: u32, by: u64) {
        let Some(count) = self.counts.get_mut(counter as usize) else { return };
        *count += by;
        let reached = *count;
        let due: Vec<Armed> = self.armed[counter as usize].extract_if(.., |armed| armed.threshold <= reached).collect();
        due.into_iter().for_each(|armed| self.fire(now, armed.step));
    }

    fn fire(&mut self, now: Time, step: Step) {
        let at = now + self.limits.latency;
        if self.due.back().is_none_or(|(last, _)| *last != at) {
            self.untold.push_back(at);
        }
        self.due.push_back((at, step));
    }

    fn arm(&mut self, now: Time, through: WqeIndex) {
        while self.taken <= through.0
            && let Some(armed) = self.posted.pop_front()
        {
            self.taken += 1;
            match self.armed.get_mut(armed.counter as usize) {
                Some(waiting) if self.counts[armed.counter as usize] < armed.threshold => waiting.push(armed),
                _ => self.fire(now, armed.step),
            }
        }
    }
}

/// Counting events and triggered operations: called by programs.
impl Nic {
    /// Counts, from now on, the messages of peers whose last byte falls into the range: a match entry with its counting event.
    ///
    /// # Errors
    /// The adapter counts nothing, or has no counter left; the range is empty or counted already.
    pub fn create_counter(&mut self, addr: u64, length: Bytes) -> Result<CounterId, VerbsError> {
        self.triggered.as_mut().ok_or(VerbsError::NoCounters)?.create(addr, length)
    }

    /// What a counter has counted, as the adapter knows it (`PtlCTGet`).
    #[must_use]
    pub fn counter(&self, counter: CounterId) -> Option<u64> {
        self.triggered.as_ref()?.counts.get(counter.0 as usize).copied()
    }

    /// Hands over a command. The adapter has it when it saw the doorbell of [`QpNum::TRIGGERED`] through the index that this returns.
    ///
    /// # Errors
    /// The adapter counts nothing, or not that; of a send, as [`post_send`](Self::post_send).
    pub fn post_triggered(&mut self, now: Time, wr: &TriggeredWr) -> Result<WqeIndex, PostError> {
        let own = self.triggered.as_ref().ok_or(PostError::NoSuchCounter { counter: wr.counter })?;
        own.check(wr.counter)?;
        let step = match &wr.action {
            TriggeredAction::Count { counter, by } => {
                own.check(*counter)?;
                Step::Count { counter: counter.0, by: *by }
            }
            TriggeredAction::WriteBack { addr } => Step::WriteBack { addr: *addr },
            TriggeredAction::Send { qp, wr } => Step::Send { qp: *qp, through: self.post_send(now, *qp, wr)?.wqe },
        };
        let own = self.triggered.as_mut().ok_or(PostError::NoSuchCounter { counter: wr.counter })?;
        own.posted.push_back(Armed { counter: wr.counter.0, threshold: wr.threshold, step });
        Ok(WqeIndex(own.taken + own.posted.len() as u64 - 1))
    }
}

/// The same, called by the engine.
impl Nic {
    /// Whether messages that land have to be [counted](Self::count_landed).
    #[inline]
    #[must_use]
    pub fn counts_messages(&self) -> bool {
        self.triggered.as_ref().is_some_and(|triggered| !triggered.entries.is_empty())
    }
    /// All bytes of a message of a peer are in the adapter, which has begun to write the last of them.
    pub fn count_landed(&mut self, now: Time, landed: &Landed) {
        if let (Some(triggered), Some(before)) = (&mut self.triggered, landed.length.checked_sub(1)) {
            triggered.landed(now, landed.addr.wrapping_add(before.into()));
        }
    }
    /// The adapter has the commands up to and including `through`.
    pub fn arm(&mut self, now: Time, through: WqeIndex) {
        if let Some(triggered) = &mut self.triggered {
            triggered.arm(now, through);
        }
    }
    /// When [`handle_triggered`](Self::handle_triggered) is to be called; each time is said once.
    pub fn poll_triggered(&mut self) -> Option<Time> {
        self.triggered.as_mut()?.untold.pop_front()
    }
    /// Carries out the commands whose time has come; packets may be there to send then, and counts to write back.
    pub fn handle_triggered(&mut self, now: Time) {
        while let Some(triggered) = &mut self.triggered
            && triggered.due.front().is_some_and(|(at, _)| *at <= now)
            && let Some((_, step)) = triggered.due.pop_front()
        {
            match step {
                Step::Count { counter, by } => triggered.count(now, counter, by),
                Step::WriteBack { addr } => triggered.written.push_back(addr),
                Step::Send { qp, through } => self.doorbell(now, qp, through),
            }
        }
    }
    /// A count that the engine has to write to memory, then report as [landed](Self::landed).
    pub fn poll_write_back(&mut self) -> Option<Landed> {
        let addr = self.triggered.as_mut()?.written.pop_front()?;
        Some(Landed::silent(addr, WORD))
    }
}

/// A count in memory, in bytes. Basis: standard, `ptl_size_t` of Portals 4.
const WORD: u32 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    const LATENCY: Span = Span::from_ns(40);

    fn own(counters: u32) -> Triggered {
        Triggered::new(TriggeredLimits { latency: LATENCY, counters })
    }
    fn at(ns: u64) -> Time {
        Time::ZERO + Span::from_ns(ns)
    }
    fn post(own: &mut Triggered, counter: u32, threshold: u64, step: Step) {
        own.posted.push_back(Armed { counter, threshold, step });
    }

    #[test]
    fn the_last_byte_decides_which_entry_counts() {
        let mut own = own(4);
        let [low, high] = [100, 108].map(|addr| own.create(addr, Bytes(8)).unwrap());
        for last in [99, 100, 107, 108, 115, 116] {
            own.landed(at(0), last);
        }
        assert_eq!([low, high].map(|counter| own.counts[counter.0 as usize]), [2, 2]);
    }

    #[test]
    fn entries_do_not_overlap_and_counters_run_out() {
        let mut own = own(2);
        let _ = own.create(100, Bytes(8)).unwrap();
        for (addr, length) in [(100, 8), (96, 8), (107, 1), (96, 100)] {
            assert_eq!(own.create(addr, Bytes(length)), Err(VerbsError::CountedAlready { addr, length: Bytes(length) }));
        }
        assert!(matches!(own.create(200, Bytes(0)), Err(VerbsError::BadRange { .. })));
        let _ = own.create(108, Bytes(8)).unwrap();
        assert_eq!(own.create(200, Bytes(8)), Err(VerbsError::TooManyCounters { most: 2 }));
    }

    /// A command fires one latency behind what comes last: the message, or the command itself.
    #[test]
    fn message_or_command_whichever_comes_last() {
        let mut own = own(1);
        let _ = own.create(0, Bytes(8)).unwrap();
        let write = |addr| Step::WriteBack { addr };
        post(&mut own, 0, 1, write(1));
        post(&mut own, 0, 2, write(2));
        own.landed(at(10), 7);
        assert_eq!(own.untold.pop_front(), None, "the adapter has no command yet");
        own.arm(at(20), WqeIndex(1));
        assert_eq!(own.untold.pop_front(), Some(at(60)));
        own.landed(at(30), 7);
        assert_eq!(own.untold.pop_front(), Some(at(70)));
        assert_eq!(own.due, [(at(60), write(1)), (at(70), write(2))]);
    }

    /// Commands that the doorbell does not cover stay with the host.
    #[test]
    fn a_doorbell_covers_what_was_posted_before_it() {
        let mut own = own(1);
        let _ = own.create(0, Bytes(8)).unwrap();
        for addr in 0..3 {
            post(&mut own, 0, 0, Step::WriteBack { addr });
        }
        own.arm(at(0), WqeIndex(0));
        assert_eq!((own.due.len(), own.posted.len()), (1, 2));
        own.arm(at(5), WqeIndex(2));
        assert_eq!((own.due.len(), own.posted.len(), own.taken), (3, 0, 3));
    }

    #[test]
    fn an_adapter_without_counters_says_so() {
        let mut nic = Nic::new(crate::NicConfig::default());
        assert_eq!(nic.create_counter(0, Bytes(8)), Err(VerbsError::NoCounters));
        let wr = TriggeredWr { counter: CounterId(0), threshold: 1, action: TriggeredAction::WriteBack { addr: 0 } };
        assert_eq!(nic.post_triggered(Time::ZERO, &wr), Err(PostError::NoSuchCounter { counter: CounterId(0) }));
    }

    /// A chain: the second counter goes on when the first has its message, and only then is the count written back.
    #[test]
    fn counters_count_each_other() {
        let limits = TriggeredLimits { latency: LATENCY, counters: 2 };
        let mut nic = Nic::new(crate::NicConfig { triggered: Some(limits), ..crate::NicConfig::default() });
        let [first, second] = [0, 8].map(|addr| nic.create_counter(addr, Bytes(8)).unwrap());
        let chain = TriggeredWr { counter: first, threshold: 1, action: TriggeredAction::Count { counter: second, by: 1 } };
        let back = TriggeredWr { counter: second, threshold: 2, action: TriggeredAction::WriteBack { addr: 64 } };
        nic.post_triggered(at(0), &chain).unwrap();
        let through = nic.post_triggered(at(0), &back).unwrap();
        nic.arm(at(1), through);
        nic.count_landed(at(2), &Landed::silent(8, 8)); // early, of a faster peer
        assert_eq!((nic.poll_triggered(), nic.poll_write_back()), (None, None));
        nic.count_landed(at(5), &Landed::silent(0, 8));
        for expected in [45, 85] {
            assert_eq!(nic.poll_triggered(), Some(at(expected)));
            nic.handle_triggered(at(expected));
        }
        assert_eq!(nic.poll_write_back().map(|landed| (landed.addr, landed.length)), Some((64, WORD)));
        assert_eq!([first, second].map(|counter| nic.counter(counter)), [Some(1), Some(2)]);
    }
}
