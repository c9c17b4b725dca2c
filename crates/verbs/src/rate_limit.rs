//! Static rate control: a queue pair that keeps to a rate below that of its link.
//!
//! Source: IBA vol. 1 §9.11 (static rate control: the inter-packet delay after each packet), libibverbs
//! `ibv_modify_qp_rate_limit` (rate and largest burst of a queue pair).
//! Modelled: packets of requests and READ responses of the queue pair are spaced as if the wire had the limit for its rate, after a
//! burst that may go at once. Not modelled: one limit for all queue pairs to a destination, limits of acknowledgements.

use fabriscope_units::{Bytes, Rate, Time};

/// The limit of a queue pair.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RateLimit {
    rate: Rate,
    burst: Bytes,
    /// When the next packet may leave.
    next: Time,
}

impl RateLimit {
    /// A limit of which nothing is used yet.
    pub(crate) fn new(rate: Rate, burst: Bytes) -> RateLimit {
        RateLimit { rate, burst, next: Time::ZERO }
    }
    /// When the next packet may leave.
    #[inline]
    pub(crate) fn next(&self) -> Time {
        self.next
    }
    /// A packet leaves.
    pub(crate) fn sent(&mut self, now: Time, bytes: u16) {
        let credit = self.rate.time(self.burst);
        let from = if now.as_ps() > credit.as_ps() { now - credit } else { Time::ZERO };
        self.next = self.next.max(from) + self.rate.time(Bytes(u64::from(bytes)));
    }
}
