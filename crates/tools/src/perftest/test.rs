//! Which of the ten programs runs, and its fixed properties.

use fabriscope_tool::{Exchange, Measures, Operation, SizeOption, Suite, Traits};

/// What moves the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// Send and receive.
    Send,
    /// RDMA write.
    Write,
    /// RDMA read.
    Read,
    /// 8-byte remote atomic.
    Atomic,
    /// A frame of Ethernet, without a transport.
    Raw,
}

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Time of one message.
    Latency,
    /// Messages and bytes per second.
    Bandwidth,
}

/// One program of the family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Test {
    /// What moves the data.
    pub verb: Verb,
    /// What is measured.
    pub kind: Kind,
}

impl Test {
    /// The program's name.
    pub fn name(self) -> &'static str {
        match (self.verb, self.kind) {
            (Verb::Send, Kind::Latency) => "ib_send_lat",
            (Verb::Send, Kind::Bandwidth) => "ib_send_bw",
            (Verb::Write, Kind::Latency) => "ib_write_lat",
            (Verb::Write, Kind::Bandwidth) => "ib_write_bw",
            (Verb::Read, Kind::Latency) => "ib_read_lat",
            (Verb::Read, Kind::Bandwidth) => "ib_read_bw",
            (Verb::Atomic, Kind::Latency) => "ib_atomic_lat",
            (Verb::Atomic, Kind::Bandwidth) => "ib_atomic_bw",
            (Verb::Raw, Kind::Latency) => "raw_ethernet_lat",
            (Verb::Raw, Kind::Bandwidth) => "raw_ethernet_bw",
        }
    }
    /// One line for a list of tools.
    pub fn about(self) -> &'static str {
        match (self.verb, self.kind) {
            (Verb::Send, Kind::Latency) => "half round trip of a send (perftest)",
            (Verb::Send, Kind::Bandwidth) => "bandwidth and message rate of sends (perftest)",
            (Verb::Write, Kind::Latency) => "half round trip of an RDMA write, polled in memory (perftest)",
            (Verb::Write, Kind::Bandwidth) => "bandwidth and message rate of RDMA writes (perftest)",
            (Verb::Read, Kind::Latency) => "round trip of an RDMA read (perftest)",
            (Verb::Read, Kind::Bandwidth) => "bandwidth and message rate of RDMA reads (perftest)",
            (Verb::Atomic, Kind::Latency) => "round trip of a remote atomic (perftest)",
            (Verb::Atomic, Kind::Bandwidth) => "rate of remote atomics (perftest)",
            (Verb::Raw, Kind::Latency) => "half round trip of a frame of raw Ethernet (perftest)",
            (Verb::Raw, Kind::Bandwidth) => "bandwidth and rate of frames of raw Ethernet (perftest)",
        }
    }
    /// Whether a response from the far memory ends an operation, so that a latency is a whole round trip.
    pub fn is_one_sided_round_trip(self) -> bool {
        matches!(self.verb, Verb::Read | Verb::Atomic)
    }
    /// What the program is.
    #[must_use]
    pub fn traits(self) -> Traits {
        let operation = match self.verb {
            Verb::Send | Verb::Raw => Operation::Message,
            Verb::Write => Operation::Write,
            Verb::Read => Operation::Read,
            Verb::Atomic => Operation::Atomic,
        };
        Traits {
            measures: if self.kind == Kind::Latency { Measures::Latency } else { Measures::Bandwidth },
            exchange: match self.kind {
                Kind::Latency if self.is_one_sided_round_trip() => Exchange::RoundTrip,
                Kind::Latency => Exchange::PingPong,
                Kind::Bandwidth => Exchange::Other,
            },
            sizes: if self.verb == Verb::Atomic { SizeOption::Fixed } else { SizeOption::One },
            ..Traits::new(Suite::Perftest, operation)
        }
    }
    /// The name in the first line of the header.
    pub(crate) fn title(self) -> &'static str {
        match self.verb {
            Verb::Send | Verb::Raw => "Send",
            Verb::Write => "RDMA_Write",
            Verb::Read => "RDMA_Read",
            Verb::Atomic => "Atomic",
        }
    }
}

/// Every program of the family.
pub const TESTS: [Test; 10] = [
    Test { verb: Verb::Send, kind: Kind::Latency },
    Test { verb: Verb::Send, kind: Kind::Bandwidth },
    Test { verb: Verb::Write, kind: Kind::Latency },
    Test { verb: Verb::Write, kind: Kind::Bandwidth },
    Test { verb: Verb::Read, kind: Kind::Latency },
    Test { verb: Verb::Read, kind: Kind::Bandwidth },
    Test { verb: Verb::Atomic, kind: Kind::Latency },
    Test { verb: Verb::Atomic, kind: Kind::Bandwidth },
    Test { verb: Verb::Raw, kind: Kind::Latency },
    Test { verb: Verb::Raw, kind: Kind::Bandwidth },
];
