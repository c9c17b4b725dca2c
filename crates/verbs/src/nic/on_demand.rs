//! Queue pairs on demand: connections that are there all along, and in memory while they are in use.
//!
//! A rank of a large job has a connection to every other rank and a few messages outstanding. Its queue pairs are alike but for their
//! peers, so that one that rests is a few numbers: those of the next packet each way. It is awake from its first request or packet on,
//! until another one needs its place and nothing is outstanding on it.
//!
//! Modelled: nothing. To programs and peers such a queue pair has been in RTS since the start, with its number, its path and its packet
//! numbers, and always has a receive posted (or a shared queue).
//! Not modelled: the set-up of connections when ranks first talk; partitions, congestion control, rates, alternate paths and TCP: what
//! these know of a connection is more than a few numbers, so that such queue pairs stay awake, or are made by `create_qp`.

use std::fmt;
use std::sync::Arc;

use fabriscope_wire::Psn;
use rustc_hash::FxHashMap;

use crate::attr::{AhAttr, QpAttr, QpInit, QpState};
use crate::error::VerbsError;
use crate::ids::{FIRST_QP, Lid, QpNum, SLOT_MASK};
use crate::nic::Nic;
use crate::packet::PacketFlags;
use crate::port::Port;
use crate::qp::modify::entropy;
use crate::qp::responder::{Kind, Silence};
use crate::qp::{Qp, Waiting};
use crate::wr::RecvWr;

/// Queue pairs that are alike but for their peers.
#[derive(Clone)]
pub struct OnDemand {
    /// What each is made with.
    pub init: QpInit,
    /// What brings each to RTS; the peer's address and number are put in.
    pub steps: [QpAttr; 3],
    /// The peer of each.
    pub peers: Arc<dyn Peers>,
    /// The receive of which each always has one posted; those with a shared queue have none.
    pub receive: Option<RecvWr>,
}

/// Who is at the other end.
pub trait Peers: Send + Sync {
    /// How many queue pairs the NIC at `lid` has.
    fn count(&self, lid: Lid) -> u32;
    /// The peer of queue pair `place` of the NIC at `lid`: its address, and the place of its queue pair there.
    fn peer(&self, lid: Lid, place: u32) -> Option<(Lid, u32)>;
}

impl fmt::Debug for OnDemand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnDemand").field("init", &self.init).finish_non_exhaustive()
    }
}

/// The queue pairs of a NIC that are awake when they are needed.
pub(crate) struct Reserved {
    what: OnDemand,
    count: u32,
    /// The slots of those that are awake, by place.
    awake: FxHashMap<u32, u32>,
    /// What is left of those that were awake, by place; empty as long as all of these are.
    asleep: Vec<Asleep>,
    /// The slot that is looked at first for a place.
    hand: usize,
    /// Packets sent more than once by queue pairs that sleep.
    pub(crate) retransmissions: u64,
}

/// A queue pair that rests: packet numbers of 24 bits, and what switches hash for its next packet in the bits above two of them.
#[derive(Clone, Copy, Default)]
struct Asleep {
    next: u32,
    expected: u32,
    msn: u32,
}

impl Asleep {
    fn of(qp: &Qp) -> Asleep {
        let [low, high] = qp.entropy.to_le_bytes().map(u32::from);
        Asleep {
            next: qp.requester.next_psn.as_u32() | low << PSN_BITS,
            expected: qp.responder.expected.as_u32() | high << PSN_BITS,
            msn: qp.responder.msn | USED,
        }
    }
    fn entropy(self) -> u16 {
        u16::from_le_bytes([self.next, self.expected].map(|word| (word >> PSN_BITS) as u8))
    }
    fn next(self) -> Psn {
        Psn::new(self.next & PSN_MASK)
    }
    fn expected(self) -> Psn {
        Psn::new(self.expected & PSN_MASK)
    }
}

impl Nic {
    /// Makes all queue pairs of `what` in a NIC that has none, and gets no others. Place *p* has the number that the (*p* + 1)-th queue
    /// pair of a NIC gets.
    ///
    /// # Errors
    /// As `create_qp` and `modify_qp`; a NIC that has queue pairs.
    pub fn reserve_qps(&mut self, what: OnDemand) -> Result<(), VerbsError> {
        let count = what.peers.count(self.lid());
        let most = SLOT_MASK - FIRST_QP;
        let taken = self.qps.len() as u64;
        if count > most || taken > 0 {
            return Err(VerbsError::OutOfRange {
                what: "number of queue pairs",
                value: taken + u64::from(count),
                min: 0,
                max: most.into(),
            });
        }
        if count == 0 {
            return Ok(());
        }
        // What is wrong with one is wrong with all; the trial is the first that is awake.
        let trial = self.create_qp(&what.init)?;
        let mut reserved = Reserved { what, count, awake: FxHashMap::default(), asleep: Vec::new(), hand: 0, retransmissions: 0 };
        let slot = trial.slot() - FIRST_QP;
        let peer = reserved.what.peers.peer(self.port.lid, 0).ok_or(VerbsError::NoSuchQp { qp: trial })?;
        reserved.connect(&mut self.qps[slot as usize], peer, &mut self.port)?;
        reserved.awake.insert(0, slot);
        self.reserved = Some(Box::new(reserved));
        Ok(())
    }

    /// The number of the queue pair at `place` of those on demand.
    #[must_use]
    pub const fn on_demand(place: u32) -> QpNum {
        QpNum(place + FIRST_QP)
    }

    /// How many queue pairs there are in memory.
    #[must_use]
    pub fn queue_pairs_awake(&self) -> u32 {
        (self.qps.len() - self.free_qps.len()) as u32
    }

    /// The slot of a queue pair, which is awake from now on.
    #[inline]
    pub(crate) fn awaken(&mut self, qp: QpNum) -> Option<usize> {
        self.slot_of(qp).or_else(|| self.wake(qp))
    }

    #[cold]
    fn wake(&mut self, qp: QpNum) -> Option<usize> {
        let place = qp.0.checked_sub(FIRST_QP)?;
        let reserved = self.reserved.as_mut().filter(|reserved| place < reserved.count)?;
        let peer = reserved.what.peers.peer(self.port.lid, place)?;
        let slot = match reserved.find_idle(&self.qps, &self.port) {
            Some(slot) => {
                let sleeper = &mut self.qps[slot];
                reserved.put_to_sleep(sleeper);
                reserved.bind(sleeper, qp, peer, &self.port);
                slot
            }
            None => {
                let slot = self.qps.len();
                let mut new = Qp::new(qp, slot as u32, &reserved.what.init);
                reserved.connect(&mut new, peer, &mut self.port).ok()?;
                self.qps.push(new);
                reserved.users(&mut self.cqs, &mut self.pds, &mut self.port);
                slot
            }
        };
        reserved.remember(&mut self.qps[slot], place);
        reserved.awake.insert(place, slot as u32);
        Some(slot)
    }
}

impl Reserved {
    /// Where a queue pair is, if it is awake.
    #[inline]
    pub(crate) fn slot(&self, qp: QpNum) -> Option<usize> {
        self.awake.get(&qp.0.wrapping_sub(FIRST_QP)).map(|slot| *slot as usize)
    }
    /// How many rest.
    pub(crate) fn asleep(&self) -> u32 {
        self.count - self.awake.len() as u32
    }

    /// Brings a new queue pair to RTS.
    fn connect(&self, qp: &mut Qp, (lid, place): (Lid, u32), port: &mut Port) -> Result<(), VerbsError> {
        let own = port.lid;
        for step in &self.what.steps {
            let av = step.av.map(|av| AhAttr { dlid: lid, ..av });
            let dest_qp_num = step.dest_qp_num.map(|_| Nic::on_demand(place));
            qp.modify(&QpAttr { av, dest_qp_num, ..*step }, own, port)?;
        }
        if let Some(receive) = &self.what.receive {
            qp.recv_queue.supply(receive);
        }
        Ok(())
    }

    /// Counts a queue pair with what it uses.
    fn users(&self, cqs: &mut [Option<crate::cq::Cq>], pds: &mut [Option<u32>], port: &mut Port) {
        let init = &self.what.init;
        for cq in [init.send_cq, init.recv_cq] {
            if let Some(Some(cq)) = cqs.get_mut(cq.0 as usize) {
                cq.users += 1;
            }
        }
        if let Some(Some(users)) = pds.get_mut(init.pd.0 as usize) {
            *users += 1;
        }
        if let Some(Some(srq)) = init.srq.and_then(|srq| port.srqs.get_mut(srq.0 as usize)) {
            srq.users += 1;
        }
    }

    /// The slot of a queue pair on which nothing is outstanding, if enough are awake for one to have to make room.
    fn find_idle(&mut self, qps: &[Qp], port: &Port) -> Option<usize> {
        if self.awake.len() < AWAKE || port.congestion.controls() {
            return None;
        }
        for _ in 0..LOOKS {
            self.hand = if self.hand + 1 < qps.len() { self.hand + 1 } else { 0 };
            let qp = &qps[self.hand];
            if self.slot(qp.num) == Some(self.hand) && is_idle(qp) {
                return Some(self.hand);
            }
        }
        None
    }

    fn put_to_sleep(&mut self, qp: &mut Qp) {
        let place = qp.num.0 - FIRST_QP;
        self.awake.remove(&place);
        if self.asleep.is_empty() {
            self.asleep = vec![Asleep::default(); self.count as usize];
        }
        self.asleep[place as usize] = Asleep::of(qp);
        self.retransmissions += std::mem::take(&mut qp.retransmissions);
    }

    /// Makes a queue pair on which nothing is outstanding another one, which was never used.
    fn bind(&self, qp: &mut Qp, num: QpNum, (lid, place): (Lid, u32), port: &Port) {
        let dest = Nic::on_demand(place);
        (qp.num, qp.home, qp.dest, qp.dest_qp) = (num, num, lid, dest.0);
        qp.attr.av = qp.attr.av.map(|av| AhAttr { dlid: lid, ..av });
        qp.attr.dest_qp_num = Some(dest);
        qp.entropy = entropy(port.lid, lid, num.0);
        let first = |psn: Option<u32>| Psn::new(psn.unwrap_or(0));
        qp.requester.start(first(qp.attr.sq_psn));
        qp.requester.freed = qp.requester.posted();
        qp.requester.renew_retries();
        qp.responder.expected = first(qp.attr.rq_psn);
        qp.responder.msn = 0;
    }

    /// Gives a queue pair what it had when it fell asleep, if it ever did.
    fn remember(&self, qp: &mut Qp, place: u32) {
        let Some(known) = self.asleep.get(place as usize).filter(|known| known.msn & USED != 0) else { return };
        qp.entropy = known.entropy();
        qp.requester.start(known.next());
        qp.responder.expected = known.expected();
        qp.responder.msn = known.msn & PSN_MASK;
    }
}

/// Whether nothing is outstanding on a queue pair, so that it is as it was made but for its packet numbers.
fn is_idle(qp: &Qp) -> bool {
    let (requester, responder) = (&qp.requester, &qp.responder);
    let plain = qp.live && qp.state == QpState::Rts && qp.congestion.is_none() && qp.limit.is_none() && qp.stream.is_none();
    let sends = !requester.queue.is_empty() || requester.queued || requester.reads > 0 || !requester.again.is_empty();
    let owes = responder.queued || responder.ack_queued || responder.ack.is_some() || !responder.responses.is_empty();
    let receives = responder.inbound.kind != Kind::None || responder.inbound.recv.is_some() || !responder.early.is_empty();
    let disturbed = responder.silence != Silence::Not || responder.seen.is_something() || qp.path_flag != PacketFlags::NONE;
    let single = qp.dynamic.is_none() && qp.migration.is_plain() && responder.done.is_empty() && qp.timer.waiting == Waiting::Nothing;
    let early = || qp.any_order && !(requester.arrived.is_empty() && responder.arrived.is_empty());
    plain && single && !sends && !owes && !receives && !disturbed && requester.since_asked == 0 && !early()
}

/// Queue pairs of a NIC that stay awake although they rest. Basis: assumed; partners of a round and of those around it.
const AWAKE: usize = 16;
/// Queue pairs that are looked at for one that rests. Basis: assumed; where none of so many does, most are busy.
const LOOKS: usize = 16;
/// Bits of a packet number. Basis: standard.
const PSN_BITS: u32 = 24;
const PSN_MASK: u32 = (1 << PSN_BITS) - 1;
/// Marks a place that was awake.
const USED: u32 = 1 << PSN_BITS;
