//! What a connection is made with.

use fabriscope_units::{Bytes, Span};

/// The congestion control of TCP.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "TcpAlgorithm")]
pub enum Algorithm {
    // RFC 5681 and 6582.
    /// NewReno.
    #[serde(rename = "reno")]
    NewReno,
    // RFC 9438: what Linux uses where nothing else is said.
    /// CUBIC.
    #[default]
    Cubic,
    // RFC 8257.
    /// DCTCP: ends that answer to marks.
    Dctcp,
    /// Slow start after every loss: what some adapters do. Linux has it no more, so that no kernel can be told to.
    #[serde(skip)]
    Tahoe,
}

impl Algorithm {
    /// Those that Linux has.
    pub const ALL: [Algorithm; 3] = [Algorithm::NewReno, Algorithm::Cubic, Algorithm::Dctcp];

    /// The name that Linux knows it by.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Algorithm::NewReno => "reno",
            Algorithm::Cubic => "cubic",
            Algorithm::Dctcp => "dctcp",
            Algorithm::Tahoe => "tahoe",
        }
    }
    /// The algorithm of this name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Algorithm> {
        Algorithm::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }
}

/// Settings of one end of a connection.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Config {
    /// Payload of a full segment, options of data segments taken off.
    pub mss: u32,
    /// Room for data that was not acknowledged yet.
    pub send_buffer: Bytes,
    /// Room for data that the program has not read.
    pub receive_buffer: Bytes,
    /// Short segments leave at once (`TCP_NODELAY`).
    pub no_delay: bool,
    /// Each post is a record of its own: no segment holds bytes of two.
    pub records: bool,
    /// Selective acknowledgements.
    pub sack: bool,
    /// The option of RFC 7323; it takes 12 bytes of every header.
    pub timestamps: bool,
    /// Marks instead of losses where both ends and the network can.
    pub ecn: bool,
    /// The congestion control.
    pub algorithm: Algorithm,
    /// The congestion window at the start, in full segments.
    pub initial_window: u32,
    /// How long the acknowledgement of a single segment may wait.
    pub delayed_ack: Span,
    /// Segments at the start that are acknowledged at once, so that the peer's window grows (Linux: quick acknowledgements).
    pub quick_acks: u32,
    /// The shortest retransmission timeout.
    pub min_rto: Span,
    /// Retransmissions before a connection is given up.
    pub retries: u32,
}

impl Default for Config {
    /// As Linux connects over Ethernet with an MTU of 1500 B.
    fn default() -> Config {
        Config {
            mss: 1448,
            send_buffer: Bytes::from_mib(4),
            receive_buffer: Bytes::from_mib(6),
            no_delay: false,
            records: false,
            sack: true,
            timestamps: true,
            ecn: false,
            algorithm: Algorithm::Cubic,
            initial_window: 10,
            delayed_ack: Span::from_us(40_000),
            quick_acks: 16,
            min_rto: Span::from_us(200_000),
            retries: TCP_RETRIES2,
        }
    }
}

/// Linux's `tcp_retries2`. Basis: measured.
const TCP_RETRIES2: u32 = 15;
