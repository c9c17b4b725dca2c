//! What NCCL costs on a machine, from the parts of the library and of the GPU.
//!
//! Source: the parts; NCCL, src/include/device.h for how many bytes of a line are data.

use fabriscope_catalog::{Gpu, Nccl, Nearness, Vendor};
use fabriscope_machine::PathClass;
use fabriscope_units::{Bytes, Span};

use super::kernels::Pace;

/// How data and flags travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// A flag of 4 bytes behind every 4 bytes.
    Ll,
    /// A flag of 8 bytes behind every 120 bytes.
    Ll128,
    /// A flag behind a slice.
    Simple,
}

impl Protocol {
    /// Bytes on the way for bytes of payload.
    #[must_use]
    pub const fn taken(self) -> (u64, u64) {
        match self {
            Protocol::Ll => (2, 1),
            Protocol::Ll128 => (128, 120),
            Protocol::Simple => (1, 1),
        }
    }
    /// The same for a whole message.
    #[must_use]
    pub const fn bytes(self, payload: Bytes) -> Bytes {
        let (taken, of) = self.taken();
        Bytes((payload.0 * taken).div_ceil(of))
    }
}

/// A library on a model of GPU.
#[derive(Debug, Clone, PartialEq)]
pub struct Library {
    /// `NCCL` or `RCCL`.
    pub name: &'static str,
    /// What the GPU calls itself.
    pub gpu: String,
    /// Core time of a call with the start of its kernel.
    pub call: Span,
    /// From then until the kernel runs.
    pub kernel_start: Span,
    /// From the end of a stream's work until a waiting core goes on.
    pub synchronise: Span,
    /// From the kernel's start until its blocks look for data.
    pub block_start: Span,
    /// Core time of the proxy for a step.
    pub proxy_step: Span,
    /// The plugin's for a message.
    pub plugin: Span,
    /// The receiver's adapter reads behind a message.
    pub flush: bool,
    /// The farthest adapter that reaches a GPU's memory.
    pub farthest: PathClass,
    /// Length of a message between proxies.
    pub control: u32,
    paces: [Pace; 3],
}

impl Library {
    /// The library on GPUs of a model; `None` where the part of the GPU does not say what a block moves.
    #[must_use]
    pub fn new(part: &Nccl, gpu: &Gpu) -> Option<Library> {
        let block = gpu.block.as_ref()?;
        let pace = |protocol: Protocol, step: &fabriscope_catalog::Step, rate| Pace {
            rate,
            taken: protocol.taken(),
            begin: *step.begin,
            end: *step.end,
            fenced: protocol == Protocol::Simple,
        };
        Some(Library {
            name: if part.vendor == Vendor::Nvidia { "NCCL" } else { "RCCL" },
            gpu: gpu.title.clone(),
            call: *part.call + *gpu.calls.kernel_launch,
            kernel_start: *gpu.calls.kernel_start,
            synchronise: *gpu.calls.stream_synchronize,
            block_start: *part.block_start,
            proxy_step: *part.proxy_step,
            plugin: part.plugin_overhead.as_ref().map_or(Span::ZERO, |span| **span),
            flush: part.flush,
            farthest: match part.gpudirect {
                Nearness::Pix => PathClass::Pix,
                Nearness::Pxb => PathClass::Pxb,
                Nearness::Phb => PathClass::Phb,
                Nearness::Node => PathClass::Node,
                Nearness::Sys => PathClass::Sys,
            },
            control: u32::try_from(part.control_bytes.0).unwrap_or(u32::MAX),
            paces: [
                pace(Protocol::Ll, &part.ll, *block.ll),
                pace(Protocol::Ll128, &part.ll128, *block.ll128),
                pace(Protocol::Simple, &part.simple, *block.simple),
            ],
        })
    }
    /// How blocks move slices.
    #[must_use]
    pub fn pace(&self, protocol: Protocol) -> Pace {
        self.paces[protocol as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_take_room() {
        // 8 B of data in 16 B; 120 B in 128 B; nothing among the data of Simple.
        let bytes = |payload| [Protocol::Ll, Protocol::Ll128, Protocol::Simple].map(|protocol| protocol.bytes(Bytes(payload)).0);
        assert_eq!(bytes(240), [480, 256, 240]);
        assert_eq!(bytes(1), [2, 2, 1]);
    }
}
