//! The loops of the bandwidth tests.
//!
//! Source: perftest 6.29: fill the send queue of every queue pair in turn, ask for a completion every `cq_mod`
//! requests, take up to 16 completions per poll; the receiver posts a new receive for each one used.
//! Modelled: one and both directions, several queue pairs, post lists, moderation, `-D`.
//! Not modelled: the credits by which the tool keeps a bidirectional send test from overrunning its receives: here the
//! receive queue's depth and the transport's own receiver-not-ready retries do that.

use fabriscope_node::ProgramError;
use fabriscope_units::{Span, Time};
use fabriscope_verbs::SendWr;

use crate::repeats;

use super::endpoint::Endpoint;
use super::header::POLL_BATCH;
use super::iterations::{Clock, Quota};
use super::lat::Outcome;
use super::statistics::Stamps;

/// The sending half of a test: what is posted and what is complete, per queue pair.
struct Sender<'a> {
    end: &'a Endpoint,
    quota: &'a Quota,
    size: u32,
    sent: Vec<u64>,
    completed: Vec<u64>,
    total: u64,
    outcome: Outcome,
    pace: Pace,
}

/// How fast messages complete, looked at about every so many bytes.
#[derive(Default)]
struct Pace {
    /// Messages and time at the last look.
    last: Option<(u64, Time)>,
    /// What a message took between two looks, times [`FINE`].
    spans: Vec<Span>,
}

impl Pace {
    /// So many messages of this size have completed by `now`; whether they keep their pace.
    fn look(&mut self, total: u64, now: Time, size: u32) -> bool {
        let Some((messages, at)) = self.last else {
            self.last = Some((total, now));
            return false;
        };
        let between = total - messages;
        if between * u64::from(size) < repeats::LONG.0 {
            return false;
        }
        self.last = Some((total, now));
        self.spans.push(now.since(at) * FINE / between);
        repeats::are_alike(&self.spans, repeats::LONG)
    }
    /// What so many more messages take.
    fn of(&self, messages: u64) -> Span {
        self.spans.last().map_or(Span::ZERO, |span| *span * messages / FINE)
    }
}

/// The time of a message is known to a part in so many of a picosecond.
const FINE: u64 = 1 << 10;

impl<'a> Sender<'a> {
    fn new(end: &'a Endpoint, quota: &'a Quota, size: u32) -> Sender<'a> {
        let zeros = vec![0; end.qps.len()];
        let stamps = Stamps::default();
        let clock = Clock::start(end.settings.length, end.process.now());
        let outcome = Outcome { stamps, clock };
        Sender { end, quota, size, sent: zeros.clone(), completed: zeros, total: 0, outcome, pace: Pace::default() }
    }

    fn is_done(&self) -> bool {
        self.total >= self.quota.total()
    }

    /// Fills the send queue of every queue pair.
    fn fill(&mut self) -> Result<(), ProgramError> {
        let s = &self.end.settings;
        let list = u64::from(s.post_list);
        for qp in 0..self.sent.len() {
            while self.sent[qp] < self.quota.of(qp) && self.sent[qp] + list - self.completed[qp] <= u64::from(s.tx_depth) {
                let now = self.end.process.now();
                if self.outcome.clock.is_over(now) {
                    self.quota.close(&self.sent);
                }
                if s.peak {
                    self.outcome.stamps.posted.extend((0..list).map(|_| now));
                } else if self.outcome.stamps.posted.is_empty() {
                    self.outcome.stamps.posted.push(now);
                }
                let wrs: Vec<SendWr> = (0..list).map(|at| self.request(qp, self.sent[qp] + at)).collect();
                if let [only] = &wrs[..] {
                    self.end.post(qp, only)?
                } else {
                    self.end.post_list(qp, &wrs)?
                }
                self.end.process.compute(s.loop_overhead);
                self.sent[qp] += list;
            }
        }
        Ok(())
    }

    /// Message number `at` of a queue pair; the number comes back with the completion.
    fn request(&self, qp: usize, at: u64) -> SendWr {
        let wr = self.end.request(qp, (qp as u64) << 40 | at, self.size);
        let signal = (at + 1).is_multiple_of(self.end.settings.cq_mod.into()) || at + 1 >= self.quota.of(qp);
        if signal { wr.signaled() } else { wr }
    }

    /// Counts what a batch of completions covers.
    fn handle(&mut self, completions: &[fabriscope_verbs::Wc]) {
        let now = self.end.process.now();
        for wc in completions {
            let (qp, at) = ((wc.wr_id >> 40) as usize, wc.wr_id & ((1 << 40) - 1));
            let covered = at + 1 - self.completed[qp];
            self.completed[qp] = at + 1;
            self.total += covered;
            self.outcome.clock.count(now, covered);
            if !self.end.settings.peak {
                self.outcome.stamps.completed.clear();
            }
            self.outcome.stamps.completed.push((self.total, now));
        }
        if self.end.settings.may_end(self.size) && self.pace.look(self.total, now, self.size) {
            self.quota.close(&self.sent);
        }
    }

    /// What was measured; messages that were left out go on at the pace of the others.
    fn outcome(mut self) -> Outcome {
        let all = self.end.settings.iterations().unwrap_or(0) * self.sent.len() as u64;
        let stamps = &mut self.outcome.stamps;
        if let Some(&(total, last)) = stamps.completed.last().filter(|(total, _)| *total < all) {
            if !self.end.settings.peak {
                stamps.completed.clear();
            }
            stamps.completed.push((all, last + self.pace.of(all - total)));
        }
        self.outcome
    }
}

/// The receiving half: reposts what was used until the quota is filled.
struct Receiver<'a> {
    end: &'a Endpoint,
    quota: &'a Quota,
    size: u32,
    posted: Vec<u64>,
    received: u64,
}

impl<'a> Receiver<'a> {
    fn new(end: &'a Endpoint, quota: &'a Quota, size: u32) -> Receiver<'a> {
        let posted = vec![u64::from(end.settings.rx_depth); end.qps.len()];
        Receiver { end, quota, size, posted, received: 0 }
    }

    fn is_done(&self) -> bool {
        self.received >= self.quota.total()
    }

    fn handle(&mut self, completions: &[fabriscope_verbs::Wc]) -> Result<(), ProgramError> {
        for wc in completions {
            let qp = wc.wr_id as usize;
            self.received += 1;
            if self.posted[qp] < self.quota.of(qp) {
                self.end.post_receive(qp, self.size)?;
                self.posted[qp] += 1;
            }
        }
        self.end.process.compute(self.end.settings.loop_overhead);
        Ok(())
    }
}

/// Fills every receive queue; to be done before the peer may send.
pub(crate) fn post_receives(end: &Endpoint, size: u32) -> Result<(), ProgramError> {
    for qp in 0..end.qps.len() {
        for _ in 0..end.settings.rx_depth {
            end.post_receive(qp, size)?;
        }
    }
    Ok(())
}

/// Sends one queue of messages per queue pair and waits for it.
pub(crate) async fn warm_up(end: &Endpoint, size: u32) -> Result<(), ProgramError> {
    for qp in 0..end.qps.len() {
        for at in 0..end.settings.tx_depth {
            let wr = end.request(qp, u64::from(at), size);
            end.post(qp, &if at + 1 == end.settings.tx_depth { wr.signaled() } else { wr })?;
        }
    }
    for _ in 0..end.qps.len() {
        end.wait(end.send_cq, 1).await?;
    }
    Ok(())
}

/// Sends the quota.
pub(crate) async fn send(end: &Endpoint, size: u32, quota: &Quota) -> Result<Outcome, ProgramError> {
    let mut sender = Sender::new(end, quota, size);
    while !sender.is_done() {
        sender.fill()?;
        // Every queue is full or has sent all, so the tool would spin here as well.
        end.counts.set([sender.sent.iter().sum(), sender.total]);
        let completions = end.wait(end.send_cq, POLL_BATCH).await?;
        sender.handle(&completions);
    }
    Ok(sender.outcome())
}

/// Receives the quota.
pub(crate) async fn receive(end: &Endpoint, size: u32, quota: &Quota) -> Result<(), ProgramError> {
    let mut receiver = Receiver::new(end, quota, size);
    while !receiver.is_done() {
        let completions = end.wait(end.recv_cq, POLL_BATCH).await?;
        receiver.handle(&completions)?;
    }
    Ok(())
}

/// Sends one quota and receives another at the same time.
pub(crate) async fn exchange(end: &Endpoint, size: u32, mine: &Quota, theirs: &Quota) -> Result<Outcome, ProgramError> {
    let (mut sender, mut receiver) = (Sender::new(end, mine, size), Receiver::new(end, theirs, size));
    let (nic, queues) = (end.settings.nic, [end.recv_cq, end.send_cq]);
    while !sender.is_done() || !receiver.is_done() {
        sender.fill()?;
        end.process.wait_any(&queues.map(|cq| (nic, cq)), &[]).await;
        let received = end.poll(end.recv_cq, POLL_BATCH).await?;
        receiver.handle(&received)?;
        let sent = end.poll(end.send_cq, POLL_BATCH).await?;
        sender.handle(&sent);
    }
    Ok(sender.outcome())
}
