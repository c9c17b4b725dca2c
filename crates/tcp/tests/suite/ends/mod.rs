//! Ends of connections whose peer is the test: segments made by hand, and what an end answers.

use fabriscope_tcp::{Algorithm, Config, Connection, Segment, Seq};
use fabriscope_units::{Bytes, Span, Time};
use fabriscope_wire::{Tcp, TcpFlags};

/// Our first number, and the peer's: data of the peer begins at 5000, as in the examples of RFC 2018.
pub const OURS: u32 = 99;
pub const PEERS: u32 = 4999;

pub fn us(us: u64) -> Span {
    Span::from_us(us)
}
pub fn at(us: u64) -> Time {
    Time::ZERO + Span::from_us(us)
}

/// Segments of 1000 bytes, no options, buffers of a mebibyte, every segment acknowledged by its own unless told otherwise.
pub fn config() -> Config {
    Config {
        mss: 1000,
        send_buffer: Bytes::from_mib(1),
        receive_buffer: Bytes::from_mib(1),
        no_delay: true,
        timestamps: false,
        algorithm: Algorithm::NewReno,
        quick_acks: u32::MAX,
        ..Config::default()
    }
}

/// An end that was opened before.
pub fn open(config: Config) -> Connection {
    Connection::established(config, Seq(OURS), Seq(PEERS)).unwrap()
}

/// A segment of the peer with `payload` bytes from `seq` on that acknowledges up to `ack` and offers the largest window.
pub fn segment(seq: u32, ack: u32, payload: u32) -> Segment {
    let header = Tcp { seq, ack, flags: TcpFlags::ACK, window: u16::MAX, ..Tcp::default() };
    Segment { header, payload, ..Segment::default() }
}

/// The same without payload and with `flags`.
pub fn bare(seq: u32, ack: u32, flags: TcpFlags) -> Segment {
    let mut segment = segment(seq, ack, 0);
    segment.header.flags = flags;
    segment
}

/// An acknowledgement with blocks that arrived behind a hole.
pub fn with_blocks(ack: u32, blocks: &[(u32, u32)]) -> Segment {
    let mut segment = segment(PEERS + 1, ack, 0);
    blocks.iter().for_each(|(from, to)| segment.header.sack.push(*from, *to));
    segment
}

/// All that an end has to say now.
pub fn say(end: &mut Connection, now: Time) -> Vec<Segment> {
    std::iter::from_fn(|| end.poll_transmit(now, 0)).take(10_000).collect()
}

/// Where in our stream each segment with data begins.
pub fn offsets(segments: &[Segment]) -> Vec<u64> {
    segments.iter().filter(|segment| segment.payload > 0).map(|segment| segment.offset).collect()
}
