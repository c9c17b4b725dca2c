//! A message in the stream: into which segments it is cut, and where each of them lies.
//!
//! Source: RFC 5041 §4 (headers), RFC 5040 §4 (what each operation carries), RFC 5044 §4.3 (one frame, one segment of TCP).

use fabriscope_wire::{Ddp, Placement, RdmapOpcode, ReadRequest, TerminateCode};

use super::frame::Control;
use crate::ids::WqeIndex;
use crate::words::AppWords;
use crate::wr::{Remote, SendFlags, SgeList};

/// What a message does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Send { number: u32 },
    Write { to: Remote },
    ReadRequest { number: u32, request: ReadRequest },
    ReadResponse { sink: (u32, u64) },
    Terminate(TerminateCode),
}

/// A message.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) kind: Kind,
    /// Where its first frame begins in the stream.
    pub(super) start: u64,
    /// Bytes of its payload, and of the program's data.
    pub(super) length: u32,
    pub(super) data: u32,
    /// Segments that were handed to TCP; the next ones are not sent if the stream ends.
    pub(super) posted: u32,
    pub(super) segments: u32,
    /// Payload of a full segment.
    pub(super) most: u32,
    /// Bytes of a full frame, and of the last one.
    pub(super) frame: u32,
    pub(super) last_frame: u32,
    /// Local memory.
    pub(super) sge: SgeList,
    pub(super) inline: Option<Box<[u8]>>,
    pub(super) flags: SendFlags,
    /// What the program says with it.
    pub(super) words: Option<AppWords>,
    pub(super) wqe: WqeIndex,
    pub(super) wr_id: u64,
}

impl Kind {
    /// The operation in the header.
    pub(super) fn opcode(self, flags: SendFlags) -> RdmapOpcode {
        match self {
            Kind::Send { .. } if flags.contains(SendFlags::SOLICITED) => RdmapOpcode::SendSolicited,
            Kind::Send { .. } => RdmapOpcode::Send,
            Kind::Write { .. } => RdmapOpcode::Write,
            Kind::ReadRequest { .. } => RdmapOpcode::ReadRequest,
            Kind::ReadResponse { .. } => RdmapOpcode::ReadResponse,
            Kind::Terminate(_) => RdmapOpcode::Terminate,
        }
    }
    /// Bytes of its header.
    pub(super) const fn header(self) -> u32 {
        match self {
            Kind::Write { .. } | Kind::ReadResponse { .. } => Ddp::TAGGED as u32,
            Kind::Send { .. } | Kind::ReadRequest { .. } | Kind::Terminate(_) => Ddp::UNTAGGED as u32,
        }
    }
    /// Bytes of its payload, where it carries `data` bytes of a program.
    pub(super) const fn length(self, data: u32) -> u32 {
        match self {
            Kind::Send { .. } | Kind::Write { .. } | Kind::ReadResponse { .. } => data,
            Kind::ReadRequest { .. } => ReadRequest::BYTES as u32,
            Kind::Terminate(_) => TERMINATE,
        }
    }
    /// What follows the header besides data.
    pub(super) const fn control(self) -> Control {
        match self {
            Kind::ReadRequest { request, .. } => Control::Read(request),
            Kind::Terminate(code) => Control::Terminate(code),
            Kind::Send { .. } | Kind::Write { .. } | Kind::ReadResponse { .. } => Control::Data,
        }
    }
}

impl Message {
    /// Behind its last frame.
    pub(super) fn end(&self) -> u64 {
        self.start + u64::from(self.segments - 1) * u64::from(self.frame) + u64::from(self.last_frame)
    }
    /// No more of it is handed to TCP; what was is full frames.
    pub(super) fn cut(&mut self) {
        if self.posted < self.segments {
            (self.segments, self.last_frame) = (self.posted, self.frame);
        }
    }
    /// Where the segments end that were handed to TCP.
    pub(super) fn posted_end(&self) -> u64 {
        if self.posted == self.segments { self.end() } else { self.start + u64::from(self.posted) * u64::from(self.frame) }
    }
    /// Bytes of the frame of segment `number`.
    pub(super) fn frame_bytes(&self, number: u32) -> u32 {
        if number + 1 == self.segments { self.last_frame } else { self.frame }
    }
    /// The segment at a place of the stream.
    pub(super) fn number_at(&self, offset: u64) -> u32 {
        ((offset - self.start) / u64::from(self.frame)) as u32
    }
    /// Place and bytes of the payload of segment `number`.
    pub(super) fn part(&self, number: u32) -> (u32, u32) {
        let offset = number * self.most;
        (offset, (self.length - offset).min(self.most))
    }
    /// The header of segment `number`.
    pub(super) fn ddp(&self, number: u32) -> Ddp {
        let (offset, _) = self.part(number);
        let opcode = self.kind.opcode(self.flags);
        let untagged = |message| Placement::Untagged { invalidate: 0, queue: opcode.queue(), message, offset };
        let placement = match self.kind {
            Kind::Send { number } | Kind::ReadRequest { number, .. } => untagged(number),
            Kind::Terminate(_) => untagged(1),
            Kind::Write { to } => Placement::Tagged { stag: to.rkey.0, offset: to.addr + u64::from(offset) },
            Kind::ReadResponse { sink: (stag, addr) } => Placement::Tagged { stag, offset: addr + u64::from(offset) },
        };
        // Where the message was cut short nothing says that it ends.
        Ddp { last: (number + 1) * self.most >= self.length, opcode, placement }
    }
}

/// Payload of a Terminate without a copy of what it refuses. Basis: standard, RFC 5040 §4.8.
const TERMINATE: u32 = 4;
