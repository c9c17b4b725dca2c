//! How a library takes a message out of one memory and into another: what each end decides, for people.
//!
//! The choices are those of [`Gpu`] and of PSM2, asked as the ranks ask them; nothing is run.

use fabriscope_catalog::{Mpi, TagMatching};

use super::buffer::{Buffer, RankLocation};
use super::protocol::gpu::{Gpu, Leaving};
use super::protocol::{Path, Protocol};

/// How the bytes get between a buffer and the adapter, or the other rank of the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyMethod {
    /// The buffer is in host memory.
    Host,
    /// The core loads them out of the GPU's memory, or stores them there (GDRCopy).
    Core,
    /// An engine copies them through host memory while the core waits.
    Copy,
    /// The adapter reads or writes the GPU's memory (GPUDirect RDMA).
    Direct,
    /// Through host memory in chunks, which are copied while others are on the wire.
    Chunks {
        /// How many.
        count: u32,
        /// Bytes of each but the last.
        chunk: u32,
        /// How many of them have room at a time.
        depth: u32,
    },
    /// From the GPU of one rank to that of the other.
    Peers {
        /// By kernels, and not by engines.
        by_kernels: bool,
    },
    /// The library knows nothing of GPUs: the program copies through host memory itself.
    Program,
}

/// A message between two ranks.
#[derive(Debug, Clone, Copy)]
pub struct Between<'a> {
    /// Its bytes.
    pub size: u32,
    /// Where the sender sits, and where its buffer is.
    pub sender: (&'a RankLocation, Buffer),
    /// The same of the receiver.
    pub receiver: (&'a RankLocation, Buffer),
    /// Both are on one node, under one operating system.
    pub local: bool,
    /// Both are on one node, but only links between GPUs join their systems.
    pub beside: bool,
    /// The sender waits for the message and does nothing else (`MPI_Send`).
    pub waits: bool,
    /// Cores have a window on the memory of GPUs.
    pub mapped: bool,
}

/// What the two ends do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    /// The sender.
    pub sender: CopyMethod,
    /// The receiver.
    pub receiver: CopyMethod,
    /// Both meet before the bytes move.
    pub rendezvous: bool,
}

impl Decision {
    /// What a library like `part` decides.
    #[must_use]
    pub fn of(part: &Mpi, message: &Between<'_>) -> Decision {
        let protocol = Protocol::from(part);
        let gpu = protocol.gpu.filter(|gpu| gpu.aware).map(|gpu| if message.mapped { gpu } else { gpu.without_window() });
        let Some(gpu) = gpu else {
            let end = |buffer| if buffer == Buffer::Device { CopyMethod::Program } else { CopyMethod::Host };
            let rendezvous = protocol.path(message.size, message.waits) == Path::Rendezvous;
            return Decision { sender: end(message.sender.1), receiver: end(message.receiver.1), rendezvous };
        };
        let devices = [message.sender.1, message.receiver.1] == [Buffer::Device; 2];
        if let Some(peers) =
            gpu.peers.filter(|peers| message.beside && devices && message.size >= peers.from && gpu.reads(message.sender.0, message.size))
        {
            let means = CopyMethod::Peers { by_kernels: peers.by_kernels };
            return Decision { sender: means, receiver: means, rendezvous: true };
        }
        match (&part.psm2, message.local) {
            (_, true) => within(&gpu, &protocol, message),
            (Some(psm2), false) => {
                let window = psm2.window.saturating_u32().max(1);
                onload(&gpu, window, psm2.eager_limit.saturating_u32(), message)
            }
            (None, false) => across(&gpu, &protocol, message),
        }
    }
}

/// Over verbs, as `State::bring`, `State::accept` and `State::take_out` decide.
fn across(gpu: &Gpu, protocol: &Protocol, message: &Between<'_>) -> Decision {
    let (size, sends) = (message.size, protocol.sends(message.size));
    let chunks = CopyMethod::Chunks { count: size.div_ceil(gpu.chunk), chunk: gpu.chunk, depth: gpu.depth };
    let (near, buffer) = (gpu.reaches(message.sender.0), message.sender.1);
    let (sender, rendezvous) = if buffer == Buffer::Host {
        (CopyMethod::Host, protocol.path(size, message.waits) == Path::Rendezvous)
    } else {
        match gpu.leaving(size, buffer, near && !sends) {
            Leaving::Loaded => (CopyMethod::Core, false),
            Leaving::Copied => (CopyMethod::Copy, false),
            Leaving::Direct => (CopyMethod::Direct, false),
            Leaving::DirectRendezvous => (CopyMethod::Direct, true),
            Leaving::Staged if sends => (CopyMethod::Copy, true),
            Leaving::Staged => (chunks, true),
        }
    };
    let (near, buffer) = (gpu.reaches(message.receiver.0), message.receiver.1);
    let placed = protocol.tag_matching == TagMatching::Adapter && near;
    let receiver = match buffer {
        Buffer::Host => CopyMethod::Host,
        Buffer::Device if !rendezvous && placed => CopyMethod::Direct,
        Buffer::Device if (!rendezvous || sends) && size <= gpu.store_limit => CopyMethod::Core,
        _ if !rendezvous || sends => CopyMethod::Copy,
        _ if gpu.lands(size, buffer, near) => CopyMethod::Direct,
        _ => chunks,
    };
    Decision { sender, receiver, rendezvous }
}

/// Over PSM2, as `Onload` decides.
fn onload(gpu: &Gpu, window: u32, host_limit: u32, message: &Between<'_>) -> Decision {
    let size = message.size;
    let chunks = CopyMethod::Chunks { count: size.div_ceil(window), chunk: window, depth: gpu.depth };
    let direct = |(home, buffer): (&RankLocation, Buffer), limit: fn(&super::protocol::gpu::Direct) -> u32| {
        buffer == Buffer::Device && gpu.reaches(home) && gpu.direct.is_some_and(|direct| size <= limit(&direct))
    };
    let reads = direct(message.sender, |direct| direct.send_limit);
    let (sender, rendezvous) = match message.sender.1 {
        Buffer::Host => (CopyMethod::Host, size > host_limit),
        Buffer::Device if reads && size <= gpu.load_limit => (CopyMethod::Core, size > host_limit),
        _ if reads => (CopyMethod::Direct, size > gpu.eager_limit),
        _ => (chunks, true),
    };
    let receiver = match message.receiver.1 {
        Buffer::Host => CopyMethod::Host,
        Buffer::Device if !rendezvous && size <= gpu.store_limit => CopyMethod::Core,
        _ if !rendezvous => CopyMethod::Copy,
        _ if direct(message.receiver, |direct| direct.receive_limit) => CopyMethod::Direct,
        _ => chunks,
    };
    Decision { sender, receiver, rendezvous }
}

/// Within a node, as `State::send_across` and `State::copy_to_or_from_gpu` decide.
fn within(gpu: &Gpu, protocol: &Protocol, message: &Between<'_>) -> Decision {
    let size = message.size;
    let (from, to) = (message.sender.1, message.receiver.1);
    let part = match protocol.local {
        Some(local) if size > gpu.local_eager_limit => local.memory.chunk.min(size),
        _ => size,
    };
    let stored = |part| if to == Buffer::Device && part <= gpu.store_limit { CopyMethod::Core } else { CopyMethod::Copy };
    let receiver = if to == Buffer::Host { CopyMethod::Host } else { stored(part) };
    let peers = gpu.peers.filter(|peers| size >= peers.from);
    match (from, peers) {
        (Buffer::Host, _) => {
            let single = protocol.local.is_some_and(|local| local.single(size).is_some());
            let staged = CopyMethod::Chunks { count: size.div_ceil(gpu.chunk), chunk: gpu.chunk, depth: gpu.depth };
            Decision {
                sender: CopyMethod::Host,
                receiver: if single && to != Buffer::Host { staged } else { receiver },
                rendezvous: single,
            }
        }
        (Buffer::Device, _) if size <= gpu.local_load_limit => Decision {
            sender: CopyMethod::Core,
            receiver: if to == Buffer::Host { CopyMethod::Host } else { stored(size) },
            rendezvous: false,
        },
        (Buffer::Device, Some(peers)) => {
            let means = CopyMethod::Peers { by_kernels: peers.by_kernels };
            Decision { sender: means, receiver: means, rendezvous: true }
        }
        _ => Decision { sender: CopyMethod::Copy, receiver, rendezvous: false },
    }
}

#[cfg(test)]
mod tests {
    use fabriscope_machine::PathClass;

    use super::super::protocol::gpu::tests::EXAMPLE;
    use super::super::protocol::tests::example;
    use super::*;

    fn decide(size: u32, class: PathClass, buffers: (Buffer, Buffer), local: bool) -> Decision {
        let home = RankLocation { gpu: Some(0), nics: vec![(0, class)], ..RankLocation::default() };
        let message =
            Between { size, sender: (&home, buffers.0), receiver: (&home, buffers.1), local, beside: false, waits: false, mapped: true };
        let protocol = example();
        if local { within(&EXAMPLE, &protocol, &message) } else { across(&EXAMPLE, &protocol, &message) }
    }

    #[test]
    fn each_end_says_how_its_bytes_go() {
        const D: (Buffer, Buffer) = (Buffer::Device, Buffer::Device);
        let ends = |size, class| {
            let Decision { sender, receiver, rendezvous } = decide(size, class, D, false);
            (sender, receiver, rendezvous)
        };
        assert_eq!(ends(8, PathClass::Pix), (CopyMethod::Core, CopyMethod::Core, false));
        assert_eq!(ends(8192, PathClass::Phb), (CopyMethod::Direct, CopyMethod::Core, false));
        assert_eq!(ends(16_384, PathClass::Phb), (CopyMethod::Direct, CopyMethod::Direct, true));
        let chunks = CopyMethod::Chunks { count: 4, chunk: 262_144, depth: 4 };
        // Beyond the limit of reads the sender copies, and the adapter still writes.
        assert_eq!(ends(1 << 20, PathClass::Phb), (chunks, CopyMethod::Direct, true));
        assert_eq!(ends(1 << 20, PathClass::Sys), (chunks, chunks, true));
        assert_eq!(ends(4096, PathClass::Sys), (CopyMethod::Copy, CopyMethod::Core, false));
        let peers = CopyMethod::Peers { by_kernels: false };
        assert_eq!(decide(1 << 20, PathClass::Phb, D, true), Decision { sender: peers, receiver: peers, rendezvous: true });
        let host = decide(64, PathClass::Phb, (Buffer::Host, Buffer::Managed), false);
        assert_eq!(host, Decision { sender: CopyMethod::Host, receiver: CopyMethod::Copy, rendezvous: false });
    }
}
