//! What a packet of iWARP carries, and what an adapter's iWARP is made with.

use fabriscope_tcp::{Config, Segment};
use fabriscope_wire::{Ddp, Mpa, ReadRequest, TerminateCode};

/// What the iWARP of an adapter is made with.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Settings {
    /// How frames are put into the stream.
    pub mpa: Mpa,
    /// Every connection. Segments are records, and short ones leave at once.
    pub tcp: Config,
}

/// What a packet of iWARP carries: a segment of TCP, and the segment of DDP that is its payload.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frame {
    /// The segment of TCP.
    pub segment: Segment,
    /// The header of DDP and RDMAP; none without payload.
    pub ddp: Option<Ddp>,
    /// What follows the header besides data.
    pub control: Control,
}

/// The payload of messages that adapters exchange among themselves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Control {
    /// None: what follows is data of a program.
    Data,
    /// What a READ request asks for.
    Read(ReadRequest),
    /// Why the stream ends.
    Terminate(TerminateCode),
}
