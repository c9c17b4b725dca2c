//! A library's numbers for messages in the memory of a GPU, and what follows from them by size and distance.

use fabriscope_catalog::GpuProtocol;
use fabriscope_machine::PathClass;
use fabriscope_node::{Process, ProgramError};
use fabriscope_units::{Bytes, Span};

use crate::buffer::{Buffer, RankLocation};

/// The numbers of a library for messages in the memory of a GPU; sizes in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gpu {
    /// Programs may give pointers to it.
    pub aware: bool,
    /// Core time of each side of a message on a GPU.
    pub overhead: Span,
    /// Core time of finding a mapping.
    pub mapping_overhead: Span,
    /// Largest message that the sender's core loads.
    pub load_limit: u32,
    /// Largest part of a message that the receiver's core stores.
    pub store_limit: u32,
    /// Largest message between nodes that is sent at once.
    pub eager_limit: u32,
    /// Largest message within a node that the sender's core loads.
    pub local_load_limit: u32,
    /// Largest message within a node that goes through shared memory at once.
    pub local_eager_limit: u32,
    /// Adapters that reach it.
    pub direct: Option<Direct>,
    /// Size of a chunk on its way through host memory.
    pub chunk: u32,
    /// Chunks there at a time, at each end.
    pub depth: u32,
    /// Copies from the GPU of another rank.
    pub peers: Option<Peers>,
    /// What the first use of a buffer costs.
    pub registration: Option<Registration>,
}

/// Copies from the GPU of another rank of the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peers {
    /// From this size on.
    pub from: u32,
    /// By kernels instead of engines.
    pub by_kernels: bool,
    /// Core time of each side.
    pub overhead: Span,
}

/// Adapters that reach the memory of a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Direct {
    /// The farthest that is used.
    pub farthest: PathClass,
    /// Largest message that is read there.
    pub send_limit: u32,
    /// Largest that is written.
    pub receive_limit: u32,
}

/// What registering memory costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Registration {
    /// The call.
    pub call: Span,
    /// Each page of host memory.
    pub page: Span,
    /// Each page of a GPU's memory.
    pub gpu_page: Span,
}

impl Registration {
    /// Registering the pages of `buffer` from the one behind `from` up to the one of byte `to`.
    pub(crate) fn cost(&self, buffer: Buffer, from: u32, to: u32) -> Span {
        let (page, size) = if buffer == Buffer::Host { (self.page, HOST_PAGE) } else { (self.gpu_page, GPU_PAGE) };
        let pages = u64::from(to.div_ceil(size)) - u64::from(from.div_ceil(size));
        if pages == 0 { Span::ZERO } else { self.call + page * pages }
    }
}

/// How a message in the memory of a GPU leaves for another node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leaving {
    /// A core loads it; sent at once.
    Loaded,
    /// An engine copies it to host memory while the core waits; sent at once.
    Copied,
    /// The adapter reads it; sent at once.
    Direct,
    /// The adapter reads it, once both sides met.
    DirectRendezvous,
    /// Through host memory chunk by chunk, once both sides met.
    Staged,
}

impl Gpu {
    /// No GPUs.
    pub(crate) const NONE: Gpu = Gpu {
        aware: false,
        overhead: Span::ZERO,
        mapping_overhead: Span::ZERO,
        load_limit: 0,
        store_limit: 0,
        eager_limit: 0,
        local_load_limit: 0,
        local_eager_limit: 0,
        direct: None,
        chunk: 1 << 18,
        depth: 1,
        peers: None,
        registration: None,
    };

    /// The same on the GPUs of a node: no core reaches memory on which it has no window.
    pub(crate) fn on(self, process: &Process) -> Gpu {
        if process.devices().is_ok_and(|devices| devices.costs().mapped.is_none()) { self.without_window() } else { self }
    }

    /// The same where no core loads or stores.
    pub(crate) fn without_window(self) -> Gpu {
        Gpu { load_limit: 0, local_load_limit: 0, store_limit: 0, ..self }
    }

    /// The nearest adapter of a rank may read and write the memory of its GPU.
    pub(crate) fn reaches(&self, home: &RankLocation) -> bool {
        let class = home.nics.first().filter(|_| home.gpu.is_some()).map(|(_, class)| *class);
        self.direct.zip(class).is_some_and(|(direct, class)| class <= direct.farthest)
    }

    /// The nearest adapter of a rank may read messages of `size` bytes there.
    pub(crate) fn reads(&self, home: &RankLocation, size: u32) -> bool {
        self.reaches(home) && self.direct.is_some_and(|direct| size <= direct.send_limit)
    }

    /// How a message of `size` bytes leaves; `near`: the adapter may read it.
    pub(crate) fn leaving(&self, size: u32, buffer: Buffer, near: bool) -> Leaving {
        let own = buffer == Buffer::Device;
        let direct = own && near && self.direct.is_some_and(|direct| size <= direct.send_limit);
        let at_once = size <= self.eager_limit;
        match (at_once, direct) {
            (true, _) if own && size <= self.load_limit && self.load_limit > 0 => Leaving::Loaded,
            (true, true) => Leaving::Direct,
            (true, false) => Leaving::Copied,
            (false, true) => Leaving::DirectRendezvous,
            (false, false) => Leaving::Staged,
        }
    }
    /// Whether the adapter writes a long message of `size` bytes into `buffer`.
    pub(crate) fn lands(&self, size: u32, buffer: Buffer, near: bool) -> bool {
        buffer == Buffer::Host || (buffer == Buffer::Device && near && self.direct.is_some_and(|direct| size <= direct.receive_limit))
    }
}

impl From<&GpuProtocol> for Gpu {
    fn from(part: &GpuProtocol) -> Gpu {
        let bytes = Bytes::saturating_u32;
        Gpu {
            aware: part.aware,
            overhead: part.overhead.as_ref().map_or(Span::ZERO, |span| **span),
            mapping_overhead: part.mapping_overhead.as_ref().map_or(Span::ZERO, |span| **span),
            load_limit: bytes(*part.load_limit),
            store_limit: bytes(*part.store_limit),
            eager_limit: bytes(*part.eager_limit),
            local_load_limit: bytes(**part.local_load_limit.as_ref().unwrap_or(&part.load_limit)),
            local_eager_limit: bytes(*part.local_eager_limit),
            direct: part.direct.as_ref().map(|direct| Direct {
                farthest: direct.farthest.class(),
                send_limit: direct.send_limit.as_ref().map_or(u32::MAX, |limit| bytes(**limit)),
                receive_limit: direct.receive_limit.as_ref().map_or(u32::MAX, |limit| bytes(**limit)),
            }),
            chunk: bytes(*part.chunk).max(1),
            depth: (*part.depth).max(1),
            peers: part.peers.as_ref().map(|peers| Peers {
                from: bytes(*peers.from),
                by_kernels: peers.by_kernels,
                overhead: *peers.overhead,
            }),
            registration: part.registration.as_ref().map(|registration| Registration {
                call: *registration.call,
                page: *registration.page,
                gpu_page: *registration.gpu_page,
            }),
        }
    }
}

/// A program gives a buffer on a device to a library that cannot take it.
pub(crate) fn unaware() -> ProgramError {
    ProgramError("a buffer on a device, and the MPI library knows nothing of GPUs; copy it to host memory first".to_owned())
}

/// Pages of host memory, in bytes.
const HOST_PAGE: u32 = 4096;
/// Pages of a GPU's memory as adapters see it, in bytes. Basis: published (GPUDirect RDMA, CUDA toolkit documentation).
const GPU_PAGE: u32 = 65_536;

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) const EXAMPLE: Gpu = Gpu {
        aware: true,
        overhead: Span::ZERO,
        mapping_overhead: Span::ZERO,
        load_limit: 32,
        store_limit: 8192,
        eager_limit: 8192,
        local_load_limit: 32,
        local_eager_limit: 4096,
        direct: Some(Direct { farthest: PathClass::Phb, send_limit: 16_384, receive_limit: u32::MAX }),
        chunk: 262_144,
        depth: 4,
        peers: Some(Peers { from: 4096, by_kernels: false, overhead: Span::ZERO }),
        registration: None,
    };

    #[test]
    fn size_and_distance_decide() {
        let near = [32, 33, 8192, 8193, 16_384, 16_385].map(|size| EXAMPLE.leaving(size, Buffer::Device, true));
        use Leaving::{Copied, Direct, DirectRendezvous, Loaded, Staged};
        assert_eq!(near, [Loaded, Direct, Direct, DirectRendezvous, DirectRendezvous, Staged]);
        let far = [32, 33, 8192, 8193].map(|size| EXAMPLE.leaving(size, Buffer::Device, false));
        assert_eq!(far, [Loaded, Copied, Copied, Staged]);
        // No adapter may touch managed memory, and no core maps it.
        assert_eq!([8, 8193].map(|size| EXAMPLE.leaving(size, Buffer::Managed, true)), [Copied, Staged]);
        assert!(EXAMPLE.lands(1 << 30, Buffer::Device, true) && !EXAMPLE.lands(1, Buffer::Device, false));
        assert!(!EXAMPLE.lands(1, Buffer::Managed, true) && EXAMPLE.lands(1, Buffer::Host, false));
    }

    #[test]
    fn a_page_is_registered_once() {
        let cost = Registration { call: Span::from_us(5), page: Span::from_ns(100), gpu_page: Span::from_us(1) };
        assert_eq!(cost.cost(Buffer::Host, 0, 4097), Span::from_ns(5200));
        assert_eq!(cost.cost(Buffer::Host, 4097, 8192), Span::ZERO);
        assert_eq!(cost.cost(Buffer::Device, 65_536, 262_144), Span::from_us(8));
    }
}
