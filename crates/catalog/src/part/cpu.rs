//! A processor as an adapter sees it: what posting and polling cost, how fast it copies, and its root complex.
//!
//! Source: the stages of Neugebauer et al., "Understanding PCIe performance for end host networking" (SIGCOMM 2018).
//! Modelled: constant times per operation, two copy rates, the memory bandwidth that cores share, DMA latencies.
//! Not modelled: frequency changes, cache contents.

use fabriscope_nic::IommuLimits;
use fabriscope_node::{CpuCosts, cpu_parameters};
use fabriscope_units::{Bytes, Frequency, Rate, Ratio, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::spliced::part;
use super::{Bundle, CoreLoads, CpuDgemm, Kind, Part};
use crate::error::Problem;
use crate::sourced::{Sourced, Stated};

/// The bridge between PCI Express and memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RootComplex {
    /// From a device's read request leaving it to the first byte of the completion, apart from the link's own time.
    pub dma_read_latency: Sourced<Span>,
    /// From a device's write leaving it to the data being visible to cores, apart from the link's own time.
    pub dma_write_latency: Sourced<Span>,
    /// Payload of one completion TLP.
    pub completion_payload: Sourced<Bytes>,
    /// Largest payload of a write TLP (MPS).
    pub max_payload: Sourced<Bytes>,
    /// Largest read request (MRRS).
    pub max_read_request: Sourced<Bytes>,
    /// Added to both latencies where the memory belongs to the other socket.
    pub numa_penalty: Sourced<Span>,
    /// The unit that translates addresses of devices, where a cluster has it on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iommu: Option<IommuLimits<Stated>>,
    /// What devices below different root ports move between each other; nothing where requests between them are refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer_to_peer: Option<PeerToPeer>,
}

/// What a root complex forwards from one device to another, at most.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PeerToPeer {
    /// Data of reads, both devices at one socket.
    pub read: Sourced<Rate>,
    /// Data of writes, both devices at one socket.
    pub write: Sourced<Rate>,
    /// Data of reads, the devices at different sockets.
    pub read_across: Sourced<Rate>,
    /// Data of writes, the devices at different sockets.
    pub write_across: Sourced<Rate>,
}

/// The memory of a socket, which its cores share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// What all cores of a socket move together, as STREAM counts it: a copied byte counts twice.
    pub copy_rate: Sourced<Rate>,
    /// The last two levels of caches of a socket: what the buffers of its programs may take without going to memory.
    pub caches: Sourced<Bytes>,
    /// Groups of cores of a socket which have their own part of the last caches; one where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub complexes: Option<Sourced<u32>>,
    /// What one core moves alone, counted the same way; where nothing is said, as much as all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core_rate: Option<Sourced<Rate>>,
}

/// Make and generation of a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CpuFamily {
    /// Intel before Skylake, with QPI.
    IntelBroadwell,
    /// Intel from Skylake on, with UPI.
    IntelSkylake,
    /// AMD.
    Amd,
    /// Arm.
    Arm,
    /// POWER.
    Power,
}

cpu_parameters! {
    part {
        /// One model of processor.
        pub struct Cpu {
            /// The name others refer to it by; equals the name of its file.
            pub name: String,
            /// One line that tells a person what it is.
            pub title: String,
            /// What a reader should know besides.
            #[serde(default, skip_serializing_if = "String::is_empty")]
            pub notes: String,
            /// Make and generation, as far as libraries of collectives tell processors apart.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub family: Option<CpuFamily>,
            /// Cores of one socket.
            pub cores: u32,
            /// Base clock.
            pub clock: Sourced<Frequency>,
            /// The time of code that branches and follows pointers, as that of drivers, as a share of what a core of the Xeon E5-2680 v4
            /// takes; as much where nothing is said.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub code_time: Option<Sourced<Ratio>>,
            /// The memory that the cores share; where nothing is said, each core copies at its own rate.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub memory: Option<Memory>,
            /// The links to another processor of the same model, all of them; none where it works alone.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub socket_link: Option<Bundle>,
            /// What its loads take on their way to memory; where nothing is said, no program measures them one by one.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub loads: Option<CoreLoads>,
            /// How its cores multiply matrices of double precision; where nothing is said, HPL does not run on them.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub dgemm: Option<CpuDgemm>,
            /// What one core takes in where it compresses by zlib at level 6; where nothing is said, no program does.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub deflate: Option<Sourced<Rate>>,
            /// The bridge between PCI Express and memory.
            pub root_complex: RootComplex,
        } core -> CpuCosts
    }
}

impl Part for Cpu {
    const KIND: Kind = Kind::Cpu;
    fn name(&self) -> &str {
        &self.name
    }
    fn title(&self) -> &str {
        &self.title
    }
    fn check(&self) -> Result<(), Problem> {
        if self.cores == 0 {
            return Err(Problem::at(&["cores"], "a processor without cores", "give it at least 1 core"));
        }
        for (key, rate) in [
            ("copy_rate_cached", &self.copy_rate_cached),
            ("copy_rate_streaming", &self.copy_rate_streaming),
            ("copy_rate_long", &self.copy_rate_long),
        ] {
            if rate.as_bps() == 0 {
                return Err(Problem::at(&[key, "value"], format!("`{key}` is zero: a copy would never end"), "use the rate of one core"));
            }
        }
        if self.memory.as_ref().is_some_and(|memory| memory.copy_rate.as_bps() == 0) {
            let message = "`copy_rate` of the memory is zero: a copy would never end";
            return Err(Problem::at(&["memory", "copy_rate", "value"], message, "use what STREAM measures, or remove [memory]"));
        }
        if self.memory.as_ref().and_then(|memory| memory.core_rate.as_ref()).is_some_and(|rate| rate.as_bps() == 0) {
            let message = "`core_rate` of the memory is zero: a core would never end";
            return Err(Problem::at(&["memory", "core_rate", "value"], message, "use what STREAM measures with one thread, or remove it"));
        }
        if self.deflate.as_ref().is_some_and(|rate| rate.as_bps() == 0) {
            return Err(Problem::at(
                &["deflate", "value"],
                "`deflate` is zero: nothing would ever be compressed",
                "use the rate of one core",
            ));
        }
        if self.socket_link.as_ref().is_some_and(|link| link.links == 0) {
            return Err(Problem::at(&["socket_link", "links"], "no link to the other processor", "remove [socket_link]"));
        }
        if let Some(dgemm) = &self.dgemm {
            dgemm.check(self.cores, *self.clock)?;
        }
        let root = &self.root_complex;
        if let Some(peer) = &root.peer_to_peer {
            for (key, rate) in
                [("read", &peer.read), ("write", &peer.write), ("read_across", &peer.read_across), ("write_across", &peer.write_across)]
            {
                if rate.as_bps() == 0 {
                    let message = format!("`{key}` is zero: a transfer between devices would never end");
                    return Err(Problem::at(&["root_complex", "peer_to_peer", key, "value"], message, "use the rate that is forwarded"));
                }
            }
        }
        if let Some(iommu) = &root.iommu {
            let counts = [("entries", *iommu.entries), ("walks", *iommu.walks)];
            if let Some((key, _)) = counts.into_iter().find(|(_, value)| *value == 0) {
                let message = format!("`{key}` of the IOMMU is zero: no address could be translated");
                return Err(Problem::at(
                    &["root_complex", "iommu", key, "value"],
                    message,
                    "use at least 1, or remove [root_complex.iommu]",
                ));
            }
        }
        for (key, size) in [
            ("completion_payload", &root.completion_payload),
            ("max_payload", &root.max_payload),
            ("max_read_request", &root.max_read_request),
        ] {
            if !(16..=4096).contains(&size.as_u64()) {
                let message = format!("`{key}` of {} is outside what PCI Express allows", **size);
                return Err(Problem::at(&["root_complex", key, "value"], message, "use 16 B to 4096 B"));
            }
        }
        Ok(())
    }
}
