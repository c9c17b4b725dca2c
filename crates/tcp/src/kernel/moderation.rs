//! When packets that have landed raise an interrupt.
//!
//! Source: ethtool's `rx-usecs`, `rx-frames`, `adaptive-rx`; the profiles of Linux's dynamic interrupt moderation (lib/dim).
//! Modelled: delay after the first packet, number of packets; adaptively, one profile up after an interrupt that brought much, in
//! packets or in bytes, one down after one that brought little: DIM compares rates of bytes before rates of packets, so a few jumbo
//! frames are a load as well.
//! Not modelled: DIM's search by these rates and its parking; here the batch decides.

use fabriscope_units::{Span, Time};

use super::settings::KernelParameters;

#[derive(Clone, Copy, Debug)]
pub(super) struct Moderation {
    kernel: KernelParameters,
    profile: usize,
}

impl Moderation {
    pub fn new(kernel: KernelParameters) -> Moderation {
        Moderation { kernel, profile: 0 }
    }
    /// When the interrupt comes, the first packet having landed at `first` and now `count` of them being there at `now`.
    pub fn due(&self, first: Time, now: Time, count: u32) -> Time {
        if count >= self.kernel.interrupt_frames.max(1) {
            return now;
        }
        first + self.delay()
    }
    /// An interrupt brought `packets` with so many `bytes` of payload.
    pub fn brought(&mut self, packets: u32, bytes: u64) {
        if packets >= MANY || bytes >= u64::from(MANY) * FRAME {
            self.profile = (self.profile + 1).min(PROFILES.len() - 1);
        } else if packets <= FEW && bytes <= u64::from(FEW) * FRAME {
            self.profile = self.profile.saturating_sub(1);
        }
    }
    fn delay(&self) -> Span {
        let KernelParameters { interrupt_delay, interrupt_adaptive, .. } = self.kernel;
        if interrupt_adaptive { PROFILES[self.profile].min(interrupt_delay) } else { interrupt_delay }
    }
}

/// Delays of the profiles. Basis: published (Linux, lib/dim/net_dim.c, receive, moderation by completions).
const PROFILES: [Span; 5] = [Span::from_us(2), Span::from_us(8), Span::from_us(16), Span::from_us(32), Span::from_us(64)];
/// Packets of an interrupt that ask for longer delays, and for shorter ones. Basis: assumed.
const MANY: u32 = 32;
const FEW: u32 = 4;
/// Payload of a packet of Ethernet's usual size, with timestamps. Basis: standard (RFC 894, RFC 7323).
const FRAME: u64 = 1448;

#[cfg(test)]
mod tests {
    use super::super::tests::kernel;
    use super::*;

    #[test]
    fn time_or_number_raises_it_and_load_lengthens_the_time() {
        let at = |us| Time::ZERO + Span::from_us(us);
        let kernel = KernelParameters { interrupt_frames: 128, ..kernel() };
        let fixed = Moderation::new(KernelParameters { interrupt_delay: Span::from_us(8), interrupt_adaptive: false, ..kernel });
        assert_eq!(fixed.due(at(1), at(3), 5), at(9));
        assert_eq!(fixed.due(at(1), at(3), 128), at(3));
        let mut adaptive = Moderation::new(KernelParameters { interrupt_delay: Span::from_us(64), interrupt_adaptive: true, ..kernel });
        assert_eq!(adaptive.due(at(0), at(0), 1), at(2));
        for _ in 0..10 {
            adaptive.brought(64, 64 * FRAME);
        }
        assert_eq!(adaptive.due(at(0), at(0), 1), at(64));
        for _ in 0..3 {
            adaptive.brought(1, FRAME);
        }
        assert_eq!(adaptive.due(at(0), at(0), 1), at(8));
    }

    #[test]
    fn a_few_jumbo_frames_are_a_load() {
        let kernel = KernelParameters { interrupt_delay: Span::from_us(64), interrupt_frames: 128, interrupt_adaptive: true, ..kernel() };
        let mut adaptive = Moderation::new(kernel);
        adaptive.brought(6, 6 * 8948);
        assert_eq!(adaptive.due(Time::ZERO, Time::ZERO, 1), Time::ZERO + Span::from_us(8));
        // Four of them are neither much nor little.
        adaptive.brought(4, 4 * 8948);
        assert_eq!(adaptive.due(Time::ZERO, Time::ZERO, 1), Time::ZERO + Span::from_us(8));
    }
}
