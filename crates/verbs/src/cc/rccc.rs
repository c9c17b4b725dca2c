//! RCCC, the receiver-credit congestion control of Ultra Ethernet: the receiver shares its own port out among its senders.
//!
//! Source: Ultra Ethernet specification 1.0, §3.6 (RCCC: credit targets in requests, credit in ACK_CC and credit packets, both
//! cumulative in units of 256 bytes; it may run with NSCC, which then looks after the rest of the network); V. Olteanu et al.,
//! "An edge-queued datagram service for all datacenter traffic" (EQDS), NSDI 2022, §3 (pull pacer, unsolicited first window).
//! Modelled: a sender begins with unsolicited credit, says with every packet how much it wants in all, and sends no byte, new or
//! repeated, without credit; the receiver gives a packet's worth at a time to the senders that want some, in turn, at a share of
//! its port's rate; when nobody wants any, those that have less than the unsolicited credit get it back.
//! Not modelled: weights among senders, credit taken back, a limit on credit that is given and not used.
//!
//! ```text
//!   sender   Rccc      spent ≤ granted        ── wanted ──>      Granter   receiver
//!                                             <── granted ─     one pacer for all senders
//! ```

use std::collections::VecDeque;

use fabriscope_units::{Bytes, Rate, Span, Time, parameters};

use super::{Allowance, Control, Credit, Echo, Feedback, Line, Loss, Nscc, OutOfRange, Scheme, Signals, nscc, share};

parameters! {
    /// RCCC of Ultra Ethernet: receiver credits.
    pub struct Parameters as "Rccc" {
        /// Credit that a sender begins with, in bandwidth–delay products.
        pub initial: f64,
        /// Share of its port's rate that a receiver gives out.
        pub share: f64,
        /// How long to wait for an answer, or for credit, before sending again.
        pub timeout: Span,
        /// NSCC beside it, for queues that are not the receiver's; its `timeout` is not used.
        optional table pub nscc: nscc::Parameters,
    }
}

impl Scheme for Parameters {
    type Control = Rccc;

    fn control(&self, line: Line) -> Rccc {
        Rccc::new(*self, line)
    }
    fn signals(&self) -> Signals {
        let echo = if self.nscc.is_some() { Echo::Acknowledge } else { Echo::Silent };
        Signals { echo, ack_interval: Some(1), timeout: Some(self.timeout), credit: Credit::OfReceivers, ..Signals::default() }
    }
    fn check(&self) -> Result<(), OutOfRange> {
        share("share", self.share)
    }
    fn granter(&self, line: Line) -> Option<Granter> {
        Some(Granter::new(*self, line))
    }
}

impl Parameters {
    /// Bytes that a sender begins with: whole units, two packets at least.
    fn initial(&self, line: Line) -> u64 {
        let bytes = (self.initial * line.product().0 as f64) as u64;
        bytes.max(2 * (line.mtu.0 + HEADERS)) / UNIT * UNIT
    }
}

/// The credit of one sender.
#[derive(Clone, Debug)]
pub struct Rccc {
    line: Line,
    granted: u64,
    spent: u64,
    network: Option<Nscc>,
}

impl Rccc {
    /// With the unsolicited credit.
    pub fn new(p: Parameters, line: Line) -> Rccc {
        Rccc { line, granted: p.initial(line), spent: 0, network: p.nscc.map(|network| Nscc::new(network, line)) }
    }
}

impl Control for Rccc {
    fn allowance(&self) -> Allowance {
        let credit = Bytes(self.granted.saturating_sub(self.spent));
        match &self.network {
            Some(network) => Allowance { credit, ..network.allowance() },
            None => Allowance { credit, ..Allowance::rate(self.line.rate) },
        }
    }
    fn sent(&mut self, now: Time, bytes: Bytes) {
        self.spent += bytes.0;
        if let Some(network) = &mut self.network {
            network.sent(now, bytes);
        }
    }
    fn acknowledged(&mut self, feedback: &Feedback<'_>) {
        if let Some(network) = &mut self.network {
            network.acknowledged(feedback);
        }
    }
    fn lost(&mut self, now: Time, loss: Loss) {
        // What the receiver said may be lost too: a packet goes without credit and asks again.
        if loss == Loss::Timeout {
            self.granted = self.granted.max(self.spent + self.line.mtu.0 + HEADERS);
        }
        if let Some(network) = &mut self.network {
            network.lost(now, loss);
        }
    }
    fn wants(&self, pending: Bytes) -> u32 {
        (self.spent + pending.0).div_ceil(UNIT) as u32
    }
    fn granted(&mut self, credit: u32) -> bool {
        let more = unwrap(self.granted, credit).filter(|more| *more > self.granted);
        self.granted = more.unwrap_or(self.granted);
        more.is_some()
    }
}

/// The receiver's side: who wants credit, who gets the next.
#[derive(Clone, Debug)]
pub struct Granter {
    rate: Rate,
    initial: u64,
    quantum: u64,
    /// By sender.
    demands: Vec<Demand>,
    /// Senders that want more than they were given, in turn; then those that may have their first credit back.
    active: VecDeque<u32>,
    idle: VecDeque<u32>,
    next: Time,
    /// Somebody will come at `next`.
    awaited: bool,
}

/// What a sender asked for and was given, in bytes since it began.
#[derive(Clone, Copy, Debug)]
struct Demand {
    wanted: u64,
    granted: u64,
    listed: bool,
}

impl Granter {
    /// The pacer of a receiver behind `line`.
    #[must_use]
    pub fn new(p: Parameters, line: Line) -> Granter {
        Granter {
            rate: Rate::from_bps((line.rate.as_bps() as f64 * p.share) as u64),
            initial: p.initial(line),
            quantum: (line.mtu.0 + HEADERS).next_multiple_of(UNIT),
            demands: Vec::new(),
            active: VecDeque::new(),
            idle: VecDeque::new(),
            next: Time::ZERO,
            awaited: false,
        }
    }

    fn demand(&mut self, sender: u32) -> &mut Demand {
        let fresh = Demand { wanted: 0, granted: self.initial, listed: false };
        let place = sender as usize;
        if self.demands.len() <= place {
            self.demands.resize(place + 1, fresh);
        }
        &mut self.demands[place]
    }

    /// A sender began anew.
    pub fn restart(&mut self, sender: u32) {
        let initial = self.initial;
        let demand = self.demand(sender);
        (demand.wanted, demand.granted) = (0, initial);
    }

    /// A packet says that its sender wants so many units in all. Gives when to call [`grant`](Self::grant), if nobody does yet.
    pub fn heard(&mut self, now: Time, sender: u32, wanted: u32) -> Option<Time> {
        let initial = self.initial;
        let demand = self.demand(sender);
        demand.wanted = unwrap(demand.wanted, wanted).unwrap_or(0).max(demand.wanted);
        if demand.listed || demand.granted >= demand.wanted + initial {
            return None;
        }
        demand.listed = true;
        let list = if demand.granted < demand.wanted { &mut self.active } else { &mut self.idle };
        list.push_back(sender);
        if std::mem::replace(&mut self.awaited, true) {
            return None;
        }
        self.next = self.next.max(now);
        Some(self.next)
    }

    /// Gives the next credit: to whom, and when to come again.
    pub fn grant(&mut self, now: Time) -> (Option<u32>, Option<Time>) {
        self.awaited = false;
        let (initial, most) = (self.initial, self.quantum);
        // One that is idle may have become active since it lined up, and the other way round.
        let Some(sender) = self.active.pop_front().or_else(|| self.idle.pop_front()) else { return (None, None) };
        let demand = self.demand(sender);
        let given = most.min((demand.wanted + initial).saturating_sub(demand.granted));
        demand.granted += given;
        let list = if demand.granted < demand.wanted {
            Some(&mut self.active)
        } else if demand.granted < demand.wanted + initial {
            Some(&mut self.idle)
        } else {
            demand.listed = false;
            None
        };
        if let Some(list) = list {
            list.push_back(sender);
        }
        self.next = now + self.rate.time(Bytes(given));
        self.awaited = !self.active.is_empty() || !self.idle.is_empty();
        (Some(sender), self.awaited.then_some(self.next))
    }

    /// What a sender was given since it began, in units.
    pub fn granted(&mut self, sender: u32) -> u32 {
        (self.demand(sender).granted / UNIT) as u32
    }
}

/// The count that ends in the 32 bits `told` and is next to `known`; `None` where there is none.
fn unwrap(known: u64, told: u32) -> Option<u64> {
    let units = known / UNIT;
    let ahead = told.wrapping_sub(units as u32) as i32;
    Some(units.checked_add_signed(i64::from(ahead))? * UNIT)
}

/// Bytes in which credit is counted. Basis: standard, Ultra Ethernet 1.0, §3.6.
const UNIT: u64 = 256;
/// Bytes of headers with which a full packet is counted. Basis: estimated, from those of Ultra Ethernet on Ethernet and IPv4.
pub(crate) const HEADERS: u64 = 128;

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: Line = Line { rate: Rate::from_gbps(100), base_rtt: Span::from_us(8), mtu: Bytes(4096) };
    const P: Parameters = Parameters { initial: 1.0, share: 0.5, timeout: Span::from_us(100), nscc: None };
    /// 100 Gb/s · 8 us, in whole units.
    const INITIAL: u64 = 100_000 / UNIT * UNIT;

    fn units(bytes: u64) -> u32 {
        bytes.div_ceil(UNIT) as u32
    }

    #[test]
    fn no_byte_leaves_without_credit() {
        let mut sender = Rccc::new(P, LINE);
        assert_eq!(sender.allowance().credit, Bytes(INITIAL));
        sender.sent(Time::ZERO, Bytes(INITIAL));
        assert_eq!(sender.allowance().credit, Bytes::ZERO);
        assert!(sender.granted(units(INITIAL + 4096)) && !sender.granted(units(INITIAL)), "an older one takes nothing back");
        assert_eq!(sender.allowance().credit, Bytes(4096));
        assert_eq!(sender.wants(Bytes(1000)), units(INITIAL + 1000));
        sender.sent(Time::ZERO, Bytes(4096));
        sender.lost(Time::ZERO, Loss::Timeout);
        assert_eq!(sender.allowance().credit, Bytes(4096 + HEADERS), "one packet asks again");
    }

    #[test]
    fn senders_share_the_rate_of_the_receiver() {
        let mut granter = Granter::new(P, LINE);
        let first = granter.heard(Time::ZERO, 0, units(INITIAL + 1_000_000));
        assert_eq!(first, Some(Time::ZERO));
        assert_eq!(granter.heard(Time::ZERO, 2, units(INITIAL + 1_000_000)), None, "one pacer");
        let mut now = Time::ZERO;
        for _ in 0..40 {
            now = granter.grant(now).1.unwrap();
        }
        // 40 packets of 17 units at half of 100 Gb/s, the half of them to each.
        assert_eq!(now, Time::ZERO + Rate::from_gbps(50).time(Bytes(17 * UNIT)) * 40);
        assert_eq!([granter.granted(0), granter.granted(2)], [units(INITIAL) + 20 * 17; 2]);
    }

    #[test]
    fn the_first_credit_comes_back_when_nobody_wants_any() {
        let mut granter = Granter::new(P, LINE);
        granter.heard(Time::ZERO, 0, units(INITIAL / 2));
        granter.heard(Time::ZERO, 1, units(2 * INITIAL));
        let (mut now, mut order) = (Time::ZERO, Vec::new());
        while let (Some(sender), next) = granter.grant(now) {
            order.push(sender);
            let Some(next) = next else { break };
            now = next;
        }
        let due = INITIAL.div_ceil(17 * UNIT) as usize;
        assert!(order[..due].iter().filter(|sender| **sender == 1).count() >= due - 1, "who wants some comes first: {order:?}");
        assert_eq!([granter.granted(0), granter.granted(1)], [units(INITIAL / 2) + units(INITIAL), 3 * units(INITIAL)]);
    }

    #[test]
    fn counts_wrap_around() {
        let known = (1u64 << 32) * UNIT - UNIT;
        assert_eq!(unwrap(known, 3), Some(known + 4 * UNIT));
        assert_eq!(unwrap(known + 4 * UNIT, u32::MAX), Some(known));
        assert_eq!(unwrap(0, u32::MAX), None);
    }
}
