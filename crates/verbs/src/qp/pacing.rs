//! A queue pair under a limit of its rate: packets that wait for their time.
//!
//! Source: IBA vol. 1 §9.11 (static rate control); the limit itself is [`RateLimit`](crate::rate_limit::RateLimit).

use fabriscope_units::Time;

use crate::port::Port;
use crate::qp::Qp;

impl Qp {
    /// Whether its limit holds a packet back; then the port looks at it when it does not.
    #[inline]
    pub(crate) fn is_held_back(&mut self, now: Time, port: &mut Port) -> bool {
        let Some(next) = self.limit.as_ref().map(|limit| limit.next()).filter(|next| *next > now) else { return false };
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
