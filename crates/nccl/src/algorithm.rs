//! Operations, algorithms and protocols by the names that the library gives them.
//!
//! Source: NCCL 2.22.3, src/include/nccl_common.h, src/graph/tuning.cc (names).

use std::fmt;

use fabriscope_units::Bytes;

/// An operation that the tuner knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// One rank's data to all.
    Broadcast,
    /// The sum of all ranks' data to one.
    Reduce,
    /// All ranks' blocks to all.
    AllGather,
    /// To each rank its block of the sum.
    ReduceScatter,
    /// The sum to all.
    AllReduce,
}

impl Operation {
    /// All of them, in the order of the library.
    pub const ALL: [Operation; 5] =
        [Operation::Broadcast, Operation::Reduce, Operation::AllGather, Operation::ReduceScatter, Operation::AllReduce];
    /// As the library prints it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Operation::Broadcast => "Broadcast",
            Operation::Reduce => "Reduce",
            Operation::AllGather => "AllGather",
            Operation::ReduceScatter => "ReduceScatter",
            Operation::AllReduce => "AllReduce",
        }
    }
    /// The larger buffer of a rank in units of the block that a rank sends or gets: what the tuner calls the size.
    #[must_use]
    pub const fn blocks(self, ranks: u32) -> u64 {
        match self {
            Operation::AllGather | Operation::ReduceScatter => ranks as u64,
            _ => 1,
        }
    }
    /// What passes a link of a ring for each byte of a block.
    pub(crate) const fn traffic(self, ranks: u32) -> u64 {
        match self {
            Operation::AllReduce => 2,
            _ => self.blocks(ranks),
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// How data moves through the communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Algorithm {
    /// Up a tree and down again.
    Tree,
    /// Around a ring.
    Ring,
    /// To heads, which use the network's reduction.
    CollnetDirect,
    /// Along a chain to a head, which does.
    CollnetChain,
    /// By the reduction of NVLink switches.
    Nvls,
    /// The same, with trees between nodes.
    NvlsTree,
}

impl Algorithm {
    /// All of them, in the order of the library.
    pub const ALL: [Algorithm; 6] =
        [Algorithm::Tree, Algorithm::Ring, Algorithm::CollnetDirect, Algorithm::CollnetChain, Algorithm::Nvls, Algorithm::NvlsTree];
    /// As the library prints and reads it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Algorithm::Tree => "Tree",
            Algorithm::Ring => "Ring",
            Algorithm::CollnetDirect => "CollNetDirect",
            Algorithm::CollnetChain => "CollNetChain",
            Algorithm::Nvls => "NVLS",
            Algorithm::NvlsTree => "NVLSTree",
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// How bytes lie in the slots of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// A flag beside each four bytes.
    Ll,
    /// A flag beside each 120 bytes.
    Ll128,
    /// Flags for whole slots.
    Simple,
}

impl Protocol {
    /// All of them, in the order of the library.
    pub const ALL: [Protocol; 3] = [Protocol::Ll, Protocol::Ll128, Protocol::Simple];
    /// As the library prints and reads it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Protocol::Ll => "LL",
            Protocol::Ll128 => "LL128",
            Protocol::Simple => "Simple",
        }
    }
    /// Bytes on the way for so many of data, flags included.
    #[must_use]
    pub const fn wire(self, data: Bytes) -> Bytes {
        match self {
            Protocol::Ll => Bytes(data.0.div_ceil(8) * 16),
            Protocol::Ll128 => Bytes(data.0.div_ceil(120) * 128),
            Protocol::Simple => data,
        }
    }
    /// What is carried at once by those who wait for the same flags: 8 bytes of each thread of a block by LL, the 1,920 bytes of a warp by
    /// LL128 (prims_ll.h, prims_ll128.h). By Simple all wait for the whole slice.
    #[must_use]
    pub const fn wave(self, threads: u32) -> Bytes {
        match self {
            Protocol::Ll => Bytes(threads as u64 * 8),
            Protocol::Ll128 => Bytes(self.grain()),
            Protocol::Simple => Bytes(0),
        }
    }
    /// Chunks are whole multiples of it (device.h, ncclProtoGrainSize).
    pub(crate) const fn grain(self) -> u64 {
        match self {
            Protocol::Ll => 16,
            Protocol::Ll128 => 32 * 8 / 16 * 15 * 8,
            Protocol::Simple => 512,
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
