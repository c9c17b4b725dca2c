//! Link-level retry and low-power states: what they add to the start of a packet.
//!
//! Source: see `catalog::line`. Modelled: a damaged packet occupies the wire, its loss is known one way later, and it goes again after a
//! turn-around and the way back, before all that stands behind it (go-back-N), as often as it is damaged; a resting link wakes
//! when a packet wants to leave, and carries nothing, or at the rate of the lanes that are awake, until it is back.
//! How long each link rests is added up, for the energy that it saves (`lab::energy`).
//! Not modelled: control symbols of the retry; a replay buffer that is full.

use fabriscope_catalog::Line as Settings;
use fabriscope_streams::Stream;

use fabriscope_units::{Bytes, Span, Time};

/// The settings of all links, and the state of each.
#[derive(Debug)]
pub(crate) struct LinkLevel {
    pub(crate) retry: Option<Retry>,
    power: Option<PowerSaving>,
    /// Until when each link wakes, by place.
    awake: Vec<Time>,
    /// How long each link has rested until it woke last, by place.
    rested: Vec<Span>,
    stream: Stream,
}

/// Link-level retry.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Retry {
    /// Probability of a bit error [0..1].
    bit_errors: f64,
    /// From the arrival of a damaged packet until it is sent again, but for the ways.
    pub(crate) turn_around: Span,
}

/// Low-power states.
#[derive(Debug, Clone, Copy)]
struct PowerSaving {
    /// Idle time before a link sleeps.
    after: Span,
    wake: Span,
    /// How much slower it is while it wakes; `None` when it carries nothing.
    slowdown: Option<f64>,
}

impl LinkLevel {
    /// `None` where links do neither.
    pub fn new(settings: &Settings, links: usize, stream: Stream) -> Option<Box<LinkLevel>> {
        if settings.retry.is_none() && settings.rest.is_none() {
            return None;
        }
        let retry = settings.retry.as_ref().map(|retry| Retry { bit_errors: retry.bit_errors, turn_around: retry.latency });
        let power = settings.rest.as_ref().map(|rest| PowerSaving {
            after: rest.after,
            wake: rest.wake,
            slowdown: rest.lanes.map(|lanes| 1.0 / lanes.as_f64()),
        });
        Some(Box::new(LinkLevel { retry, power, awake: vec![Time::ZERO; links], rested: vec![Span::ZERO; links], stream }))
    }

    /// When a packet starts that has the wire, free since `free`, from `start` on and takes `length` of it.
    pub(crate) fn wake(&mut self, number: usize, free: Time, start: Time, length: Span) -> Start {
        let Some(power) = self.power else { return Start { at: start, woke: false } };
        // All links are awake when the run begins.
        let woke = start >= free + power.after;
        if woke {
            self.awake[number] = start + power.wake;
            self.rested[number] += start.since(free + power.after);
        }
        let at = match power.slowdown {
            _ if start >= self.awake[number] => start,
            None => self.awake[number],
            // The tail comes as late as the lanes that are awake bring it.
            Some(slowdown) => start + Span::from_ps(((slowdown - 1.0) * length.as_ps() as f64) as u64),
        };
        Start { at, woke }
    }

    /// How long a link has rested at `now`, whose wire is free since `free`.
    pub(crate) fn rested(&self, number: usize, free: Time, now: Time) -> Span {
        let Some(power) = self.power else { return Span::ZERO };
        self.rested[number] + now.since(free + power.after)
    }

    /// How often a packet of `amount` is damaged before it arrives whole.
    pub(crate) fn damages(&mut self, amount: Bytes) -> u64 {
        let Some(retry) = self.retry else { return 0 };
        // 1 − (1 − p)ⁿ without a power: p is small, and n p at most 1.
        let bits = amount.0 as f64 * 8.0 * retry.bit_errors;
        let damaged = bits - bits * bits / 2.0 + bits * bits * bits / 6.0;
        let mut count = 0;
        while (self.stream.next_u32() as f64) < damaged * 4_294_967_296.0 {
            count += 1;
        }
        count
    }
}

/// When a packet starts, and whether its link was asleep.
pub(crate) struct Start {
    pub(crate) at: Time,
    pub(crate) woke: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriscope_streams::Streams;

    fn link_level(retry: Option<Retry>, power: Option<PowerSaving>) -> LinkLevel {
        LinkLevel { retry, power, awake: vec![Time::ZERO; 1], rested: vec![Span::ZERO; 1], stream: Streams::new(1).stream("link retry", 0) }
    }

    #[test]
    fn a_link_sleeps_after_its_idle_time_and_wakes_when_it_is_needed() {
        let (after, wake) = (Span::from_us(10), Span::from_us(1));
        let mut link = link_level(None, Some(PowerSaving { after, wake, slowdown: None }));
        let at = |us| Time::ZERO + Span::from_us(us);
        let start = link.wake(0, at(5), at(14), Span::ZERO);
        assert!(!start.woke && start.at == at(14), "idle for 9 us");
        let start = link.wake(0, at(5), at(15), Span::ZERO);
        assert!(start.woke && start.at == at(16), "idle for 10 us");
        // It fell asleep as it was to wake; after a packet until 20 us it rests from 30 us on.
        assert_eq!((link.rested(0, at(20), at(29)), link.rested(0, at(20), at(35))), (Span::ZERO, Span::from_us(5)));
        let _ = link.wake(0, at(20), at(37), Span::ZERO);
        assert_eq!(link.rested(0, at(40), at(52)), Span::from_us(7 + 2));
        // On half the lanes a packet starts at once and takes twice the time.
        let mut half = link_level(None, Some(PowerSaving { after, wake, slowdown: Some(2.0) }));
        assert_eq!(half.wake(0, at(5), at(15), Span::from_ns(80)).at, at(15) + Span::from_ns(80));
    }

    /// 10⁻⁴ a bit and 1000 bytes: the series gives 8000 · 10⁻⁴ = 0.8, 0.8 − 0.32 + 0.0853 = 0.5653; the mean of the geometric
    /// distribution is p / (1 − p) = 1.3005.
    #[test]
    fn packets_are_damaged_as_often_as_their_length_says() {
        let mut link = link_level(Some(Retry { bit_errors: 1e-4, turn_around: Span::ZERO }), None);
        let packets = 20_000;
        let mean = (0..packets).map(|_| link.damages(Bytes(1000))).sum::<u64>() as f64 / f64::from(packets);
        assert!((mean - 1.3005).abs() < 0.05, "{mean}");
        assert_eq!(link_level(None, None).damages(Bytes(4096)), 0);
    }
}
