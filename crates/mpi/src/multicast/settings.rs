//! How a broadcast by multicast goes: what the library's part says, and what the name of the algorithm says on top.

use fabriscope_catalog::{Interface, Mpi};
use fabriscope_platform::{LinkType, Target, path_mtu};
use fabriscope_units::{Bytes, Span};

/// How the sender's adapter gets at data in the memory of a GPU.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Gather {
    /// The GPU copies chunks into pinned host memory, from where the adapter reads them.
    #[default]
    Pipeline,
    /// The adapter reads the memory of the GPU.
    Direct,
}

/// Who passes data on to the other GPUs of a node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Within {
    /// A chain where there are several chunks, otherwise the leader.
    #[default]
    Tuned,
    /// The rank that receives from the network, to each of the others.
    Leader,
    /// Each to the next.
    Chain,
}

/// How a broadcast by multicast goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Bytes in front of the payload of a packet; its number travels as immediate data.
    pub header: u32,
    /// Most payload of a packet.
    pub payload: u32,
    /// Packets of a chunk.
    pub chunk: u32,
    /// Chunks of the pinned buffer.
    pub depth: u32,
    /// Core time of a packet at each end.
    pub packet_overhead: Span,
    /// The first wait of a receiver.
    pub timeout: Span,
    /// How the sender's adapter gets at the data.
    pub gather: Gather,
    /// Who passes it on within a node.
    pub within: Within,
    /// Groups are named by IP addresses.
    pub ethernet: bool,
    /// Packets of a path.
    pub(super) mtu: fabriscope_verbs::Mtu,
    /// Reads that a queue pair may have outstanding.
    pub(super) reads: u8,
}

/// Why there is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unable {
    /// The adapters have no datagrams that go to groups.
    #[error("adapters driven through {interface} have no multicast")]
    Adapter {
        /// Through what.
        interface: Interface,
    },
    /// The library does not do it.
    #[error("the MPI library has no broadcast by multicast ([mpi.multicast])")]
    Library,
    /// The adapter does not write to the memory of the GPUs.
    #[error("the MPI library does not have adapters write to the memory of GPUs ([mpi.gpu.direct])")]
    NoDirect,
}

/// Names of the algorithm, with what stands in parentheses.
pub const NAMES: &str = "multicast, multicast_gdr(chunk, pipeline|direct, leader|chain)";

impl Settings {
    /// What `mpi` does on a machine like `target`, with data on GPUs or not.
    ///
    /// # Errors
    /// It cannot.
    pub fn of(mpi: &Mpi, target: &Target, on_gpus: bool) -> Result<Settings, Unable> {
        if target.interface != Interface::Verbs {
            return Err(Unable::Adapter { interface: target.interface });
        }
        let part = mpi.multicast.as_ref().ok_or(Unable::Library)?;
        if on_gpus && mpi.gpu.as_ref().is_none_or(|gpu| gpu.direct.is_none()) {
            return Err(Unable::NoDirect);
        }
        let mtu = path_mtu(target.mtu);
        let header = u32::try_from(part.header.0).unwrap_or(0).max(IMMEDIATE);
        let settings = Settings {
            header,
            payload: (mtu.bytes().0 as u32).saturating_sub(header).max(1),
            chunk: 1,
            depth: (*part.depth).max(2),
            packet_overhead: *part.packet_overhead,
            timeout: *part.timeout,
            gather: Gather::default(),
            within: Within::default(),
            ethernet: target.link == LinkType::Ethernet,
            mtu,
            reads: target.max_outstanding_reads,
        };
        Ok(settings.with_chunk(*part.chunk))
    }

    /// The same with chunks of so many bytes, whole packets.
    #[must_use]
    pub fn with_chunk(self, chunk: Bytes) -> Settings {
        let packets = chunk.0 / u64::from(self.payload);
        Settings { chunk: packets.clamp(1, MOST_PACKETS.into()) as u32, ..self }
    }

    /// The same as `parameters` say, which stand between commas; `None` where one says nothing known.
    #[must_use]
    pub fn with(self, parameters: &str) -> Option<Settings> {
        let words = parameters.split(',').map(str::trim).filter(|word| !word.is_empty());
        words.into_iter().try_fold(self, |settings, word| match word {
            "pipeline" => Some(Settings { gather: Gather::Pipeline, ..settings }),
            "direct" => Some(Settings { gather: Gather::Direct, ..settings }),
            "leader" => Some(Settings { within: Within::Leader, ..settings }),
            "chain" => Some(Settings { within: Within::Chain, ..settings }),
            size => Bytes::parse(size).ok().filter(|chunk| *chunk > Bytes::ZERO).map(|chunk| settings.with_chunk(chunk)),
        })
    }

    /// Bytes of a whole chunk.
    #[must_use]
    pub fn chunk_bytes(&self) -> u64 {
        u64::from(self.chunk) * u64::from(self.payload)
    }
    /// Chunks for which receives are posted.
    pub(super) fn ahead(&self) -> u32 {
        (self.depth / 2).max(1)
    }
    /// Chunks by which the data of a chunk may be later than its last packet, when what was lost is read, before the sender has to wait.
    pub(super) fn slack(&self) -> u32 {
        self.depth / 4
    }
    /// Packets of a message.
    #[must_use]
    pub fn packets(&self, size: u32) -> u32 {
        size.div_ceil(self.payload).max(1)
    }
    /// The name of the group of source `rank`, of which there are fewer than 65,536.
    pub(super) fn group(&self, casting: u8, rank: u32) -> [u8; 16] {
        let number = rank.to_be_bytes();
        if self.ethernet {
            return std::net::Ipv4Addr::new(239, 192 + casting, number[2], number[3]).to_ipv6_mapped().octets();
        }
        let mut mgid = [0; 16];
        mgid[..4].copy_from_slice(&[0xFF, 0x12, 0xA0, 0x1B]);
        mgid[12..].copy_from_slice(&number);
        mgid[8] = 1 + casting;
        mgid
    }
}

impl std::fmt::Display for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let gather = if self.gather == Gather::Pipeline { "pipeline" } else { "direct" };
        write!(f, "multicast_gdr({}, {gather}", Bytes(self.chunk_bytes()))?;
        match self.within {
            Within::Tuned => f.write_str(")"),
            Within::Leader => f.write_str(", leader)"),
            Within::Chain => f.write_str(", chain)"),
        }
    }
}

/// Immediate data carries the number of the packet, in bytes. Basis: standard.
pub(super) const IMMEDIATE: u32 = 4;
/// Receives of half a buffer of two such chunks fit into a queue. Basis: assumed.
const MOST_PACKETS: u32 = 16_384;
