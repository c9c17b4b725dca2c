//! Static rate control: a queue pair that keeps to a rate below that of its link.
//!
//! Source: IBA vol. 1 §9.11 (static rate control: the inter-packet delay after each packet), libibverbs
//! `ibv_modify_qp_rate_limit` (rate and largest burst of a queue pair).
//! Modelled: packets of requests and READ responses of the queue pair are spaced as if the wire had the limit for its rate, after a
//! burst that may go at once. Not modelled: one limit for all queue pairs to a destination, limits of acknowledgements.

use fabriscope_units::{Bytes, Rate, Time};

use crate::error::VerbsError;
use crate::ids::QpNum;
use crate::nic::Nic;
use crate::port::Port;
use crate::qp::Qp;

/// The limit of a queue pair.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RateLimit {
    rate: Rate,
    burst: Bytes,
    /// When the next packet may leave.
    next: Time,
}

impl RateLimit {
    fn sent(&mut self, now: Time, bytes: u16) {
        let credit = self.rate.time(self.burst);
        let from = if now.as_ps() > credit.as_ps() { now - credit } else { Time::ZERO };
        self.next = self.next.max(from) + self.rate.time(Bytes(u64::from(bytes)));
    }
}

impl Qp {
    /// Whether its limit holds a packet back; then the port looks at it when it does not.
    #[inline]
    pub(crate) fn is_held_back(&mut self, now: Time, port: &mut Port) -> bool {
        let Some(next) = self.limit.as_ref().map(|limit| limit.next).filter(|next| *next > now) else { return false };
        self.look_at(next, port);
        true
    }
    /// A packet of `bytes` leaves.
    #[inline]
    pub(crate) fn count_against_limit(&mut self, now: Time, bytes: u16) {
        if let Some(limit) = &mut self.limit {
            limit.sent(now, bytes);
        }
    }
    /// The time of its next packet has come.
    pub(crate) fn resume(&mut self, port: &mut Port) {
        if self.limit.is_none() {
            return;
        }
        self.want_responses(port);
        if self.requester.cursor < self.requester.ready || !self.requester.again.is_empty() {
            self.want_requests(port);
        }
    }
}

impl Nic {
    /// Has a queue pair keep to a rate, with bursts of at most so many bytes beyond a packet; `None` lifts the limit.
    ///
    /// # Errors
    /// No such queue pair, a rate of 0.
    pub fn set_rate_limit(&mut self, qp: QpNum, rate: Option<Rate>, burst: Bytes) -> Result<(), VerbsError> {
        let slot = self.slot_of(qp).ok_or(VerbsError::NoSuchQp { qp })?;
        if rate.is_some_and(|rate| rate.as_bps() == 0) {
            return Err(VerbsError::OutOfRange { what: "rate_limit", value: 0, min: 1, max: u64::MAX });
        }
        self.qps[slot].limit = rate.map(|rate| Box::new(RateLimit { rate, burst, next: Time::ZERO }));
        Ok(())
    }

    /// Whether a queue pair waits for the time of its next packet.
    #[inline]
    #[must_use]
    pub fn paces(&self) -> bool {
        !self.port.paced.is_empty()
    }
}
