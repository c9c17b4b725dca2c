//! What a virtual switch is made with.

use fabriscope_units::{Bytes, Rate, Span};

use crate::flow::Granularity;
use crate::pipeline::{Discipline, Stage};
use crate::tunnel::Encapsulation;

/// Who switches the packets of a node's virtual machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switcher {
    /// The host's kernel: a core brings packets up, another serves the machine's ring.
    Host,
    /// Cores on the adapter, which poll.
    AdapterCores,
    /// The adapter's pipeline; a core has what it does not know.
    Pipeline,
}

/// What a core pays that switches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CoreCosts {
    /// For one packet, or one segment where it sees segments: looking it up and doing what its rule says, the header of a tunnel counted.
    pub packet: Span,
    /// For handing one packet or segment over the ring of a machine.
    pub ring: Span,
    /// The rate at which it copies bytes over that ring; none where the adapter moves them.
    pub copy: Option<Rate>,
    /// For ESP, each packet, and the rate of its bytes; none where no core encrypts.
    pub cipher: Option<(Span, Rate)>,
    /// For an upcall: deciding about a flow and inserting the rule.
    pub upcall: Span,
    /// What the way to the core and back adds.
    pub crossing: Span,
    /// From the first packet to a core that sleeps; none where it polls.
    pub wake_up: Span,
}

/// Cores that switch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SoftwareCores {
    /// What they pay.
    pub costs: CoreCosts,
    /// Their number; with `Switcher::Host` each machine has one of its own, and this is not asked.
    pub cores: u32,
    /// Threads that decide about new flows.
    pub handlers: u32,
    /// They are the host's.
    pub of_host: bool,
}

/// A virtual switch.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Who switches.
    pub switcher: Switcher,
    /// What goes around packets of tenants.
    pub encapsulation: Encapsulation,
    /// What a rule distinguishes.
    pub granularity: Granularity,
    /// Cores that switch, or that have what the pipeline does not know.
    pub software: SoftwareCores,
    /// The adapter's stages and engines, in their order; empty where it does not switch.
    pub stages: Vec<Stage>,
    /// Rules that its tables hold.
    pub rules: u64,
    /// Between two rules that the adapter takes.
    pub insertion: Span,
    /// Packets that may wait in front of the stages or of a core on the adapter; more are dropped.
    pub buffer: Bytes,
}

impl CoreCosts {
    /// The core as a stage that packets pass.
    #[must_use]
    pub fn stage(&self) -> Stage {
        let (packet, cipher) = self.cipher.map_or((Span::ZERO, None), |(packet, rate)| (packet, Some(rate)));
        Stage {
            interval: self.packet + self.ring,
            packet,
            rate: both(self.copy, cipher),
            latency: self.crossing,
            discipline: Discipline::Whole,
        }
    }
    /// The same where packets were looked up and decrypted before, and only the ring of a machine is left.
    #[must_use]
    pub fn over_ring(&self) -> Stage {
        Stage { interval: self.ring, packet: Span::ZERO, rate: self.copy, ..self.stage() }
    }
}

/// The rate of bytes that are handled twice, one time at each rate.
fn both(first: Option<Rate>, second: Option<Rate>) -> Option<Rate> {
    let (Some(first), Some(second)) = (first, second) else { return first.or(second) };
    let (a, b) = (u128::from(first.as_bps()), u128::from(second.as_bps()));
    let together = a * b / (a + b).max(1);
    Some(Rate::from_bps(u64::try_from(together).unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use fabriscope_units::Bytes;

    use super::*;
    use crate::pipeline::Work;

    #[test]
    fn a_core_that_copies_and_encrypts_does_one_after_the_other() {
        let costs = CoreCosts {
            packet: Span::from_ns(100),
            ring: Span::from_ns(50),
            copy: Some(Rate::from_gbps(80)),
            cipher: Some((Span::from_ns(10), Rate::from_gbps(20))),
            upcall: Span::ZERO,
            crossing: Span::ZERO,
            wake_up: Span::ZERO,
        };
        // 150 ns, two packets of 10 ns, 2000 B at 10 B/ns and at 2.5 B/ns.
        let work = Work { packets: 2, bytes: Bytes(2000) };
        assert_eq!(costs.stage().service(work), Span::from_ns(150 + 20 + 200 + 800));
    }
}
