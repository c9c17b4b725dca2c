//! Classes with a guaranteed rate, a largest rate and a priority, as Slingshot has them.
//!
//! Source: D. De Sensi et al., "An In-Depth Analysis of the Slingshot Interconnect", SC 2020 (arXiv 2008.08886), §II-E: a
//! traffic class has a priority, a minimum and a maximum of bandwidth; the minimums add up to at most the link; what nobody has
//! claimed goes to the class with the lowest share (their figure 14: minimums of 80 and 10 % become 80 and 20 %).
//! Algorithm, which HPE has not published: rates are kept by virtual scheduling (ITU-T I.371 annex A, the generic cell rate
//! algorithm): a class below its minimum goes first, the higher priority before the lower and then the one that is due longest;
//! then the highest priority, and within it the class that was served least. A class may not send before the theoretical
//! arrival time of its maximum; it may catch up with one packet that it was kept from.
//! Modelled: the above, per port. Not modelled: ordering, routing bias and lossy classes, which are set elsewhere.

use std::sync::Arc;

use fabriscope_units::{Bytes, Rate, Span, Time};

use super::LANES;

/// One class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Class {
    /// The higher goes first with what no minimum claims.
    pub priority: u8,
    /// Share of the wire that it can rely on, in percent.
    pub minimum: u8,
    /// Share of the wire that it never exceeds, in percent; 100 for no limit.
    pub maximum: u8,
    /// Its lanes.
    pub lanes: u16,
}

/// The classes of a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Classes {
    classes: Vec<Class>,
    class_of: [u8; LANES],
}

impl Classes {
    /// These classes.
    #[must_use]
    pub fn new(classes: &[Class]) -> Classes {
        let mut class_of = [0; LANES];
        for (number, class) in classes.iter().enumerate() {
            (0..LANES).filter(|lane| class.lanes & (1 << lane) != 0).for_each(|lane| class_of[lane] = number as u8);
        }
        Classes { classes: classes.to_vec(), class_of }
    }
}

/// How long a class may have been kept from its minimum and still catch up, in bytes at its minimum. Basis: assumed; a few
/// packets, so that the packets of others that are on the wire when it is due take nothing from it.
const CATCH_UP: Bytes = Bytes::from_kib(32);

#[derive(Debug, Clone, Copy, Default)]
struct Account {
    /// When the class is due by its minimum, and how far behind that may lie.
    due: Time,
    slack: Span,
    /// When it may send by its maximum.
    opens: Time,
    /// What was sent, as far as it counts against that of others.
    served: Bytes,
    /// The lane served last.
    lane: u8,
}

/// Where a port stands.
#[derive(Debug, Clone)]
pub struct State {
    classes: Arc<Classes>,
    rate: Rate,
    accounts: Vec<Account>,
    /// What the class served last beyond the minimums had been served.
    level: Bytes,
}

impl State {
    pub(super) fn new(classes: Arc<Classes>, rate: Rate) -> State {
        let account = |class: &Class| Account { slack: span(CATCH_UP, rate, class.minimum), lane: LANES as u8 - 1, ..Account::default() };
        State { accounts: classes.classes.iter().map(account).collect(), rate, classes, level: Bytes::ZERO }
    }

    pub(super) fn pick(&mut self, ready: u16, now: Time) -> Option<u8> {
        let classes = &self.classes.classes;
        let waits = |&number: &usize| ready & classes[number].lanes != 0 && self.accounts[number].opens <= now;
        let due = |number: &usize| classes[*number].minimum > 0 && self.accounts[*number].due <= now;
        let owed = (0..classes.len())
            .filter(waits)
            .filter(due)
            .min_by_key(|&number| (u8::MAX - classes[number].priority, self.accounts[number].due));
        let number = match owed {
            Some(number) => number,
            None => {
                // Who was idle has no claim on the past.
                let served = |number: usize| self.accounts[number].served.max(self.level);
                let least = (0..classes.len()).filter(waits).min_by_key(|&number| (u8::MAX - classes[number].priority, served(number)))?;
                self.level = served(least);
                self.accounts[least].served = self.level;
                least
            }
        };
        let (lanes, account) = (ready & classes[number].lanes, &mut self.accounts[number]);
        let after = u16::MAX.checked_shl(u32::from(account.lane) + 1).unwrap_or(0);
        let rest = if lanes & after != 0 { lanes & after } else { lanes };
        account.lane = rest.trailing_zeros() as u8;
        Some(account.lane)
    }

    pub(super) fn opens(&self, lane: u8) -> Time {
        self.accounts.get(self.class(lane)).map_or(Time::ZERO, |account| account.opens)
    }

    pub(super) fn sent(&mut self, lane: u8, amount: Bytes, now: Time) {
        let number = self.class(lane);
        let (Some(class), Some(account)) = (self.classes.classes.get(number), self.accounts.get_mut(number)) else { return };
        account.served += amount;
        if class.minimum > 0 {
            account.due = account.due.max(now.saturating_sub(account.slack)) + span(amount, self.rate, class.minimum);
        }
        if class.maximum < 100 {
            let length = span(amount, self.rate, class.maximum);
            account.opens = account.opens.max(now.saturating_sub(length)) + length;
        }
    }

    fn class(&self, lane: u8) -> usize {
        usize::from(self.classes.class_of[usize::from(lane)])
    }
}

/// Time of `amount` at a share of the rate; nothing for no share.
fn span(amount: Bytes, rate: Rate, percent: u8) -> Span {
    let share = u128::from(rate.as_bps().max(1)) * u128::from(percent);
    Span::from_ps((u128::from(amount.0) * 8 * 1_000_000_000_000 * 100).checked_div(share).map_or(0, |ps| ps as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: Bytes = Bytes(4000);

    fn class(priority: u8, minimum: u8, maximum: u8, lane: u8) -> Class {
        Class { priority, minimum, maximum, lanes: 1 << lane }
    }

    /// Percent of the wire that each lane of `ready` has in a millisecond of 200 Gb/s, all of them always full.
    fn shares(classes: &[Class], ready: u16) -> Vec<f64> {
        let rate = Rate::from_gbps(200);
        let mut state = State::new(Arc::new(Classes::new(classes)), rate);
        let slot = rate.time(PACKET);
        let mut packets = vec![0u32; classes.len()];
        let slots = 6250;
        for at in 0..slots {
            let now = Time::ZERO + slot * at;
            if let Some(lane) = state.pick(ready, now) {
                state.sent(lane, PACKET, now);
                packets[usize::from(lane)] += 1;
            }
        }
        packets.iter().map(|&count| 100.0 * f64::from(count) / slots as f64).collect()
    }

    fn close(found: &[f64], expected: &[f64]) {
        // A packet of 6250 and what may be caught up: eight packets.
        assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 0.15), "{found:?}, expected {expected:?}");
    }

    #[test]
    fn minimums_hold_and_the_rest_goes_to_the_lowest_share() {
        // Figure 14 of the paper: 80 and 10 % guaranteed; the class with the lowest share has the rest.
        close(&shares(&[class(0, 80, 100, 0), class(0, 10, 100, 1)], 0b11), &[80.0, 20.0]);
        // Alone each has all of the wire.
        close(&shares(&[class(0, 80, 100, 0), class(0, 10, 100, 1)], 0b10), &[0.0, 100.0]);
        // Without minimums they share evenly.
        close(&shares(&[class(0, 0, 100, 0), class(0, 0, 100, 1), class(0, 0, 100, 2)], 0b111), &[33.3, 33.3, 33.3]);
    }

    #[test]
    fn a_maximum_holds_also_where_nobody_else_sends() {
        close(&shares(&[class(0, 0, 25, 0)], 0b1), &[25.0]);
        close(&shares(&[class(3, 0, 40, 0), class(0, 10, 100, 1)], 0b11), &[40.0, 60.0]);
    }

    #[test]
    fn priority_takes_what_no_minimum_claims() {
        close(&shares(&[class(1, 0, 100, 0), class(0, 15, 100, 1)], 0b11), &[85.0, 15.0]);
        // A scavenger without a minimum has what is left: nothing.
        close(&shares(&[class(1, 0, 100, 0), class(0, 0, 100, 1)], 0b11), &[100.0, 0.0]);
    }
}
