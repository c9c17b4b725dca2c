//! What an MPI library does with messages that lie in the memory of a GPU.
//!
//! Source: MVAPICH2-GDR and PSM2 user guides, UCX and Cray MPICH documentation of their environment variables; the parts say which.
//! Modelled: messages that a core loads and stores itself (GDRCopy), adapters that read and write the memory (GPUDirect RDMA) where
//! they are near enough, a pipeline through host memory, copies between GPUs of a node (CUDA IPC, ROCm IPC), registration at first use.
//! Not modelled: kernels that pack, reductions on the GPU, registration caches that run full.

use std::fmt;

use fabriscope_machine::PathClass;
use fabriscope_units::{Bytes, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::Problem;
use crate::sourced::Sourced;

/// How near an adapter and a GPU are, nearest first, in the words of `nvidia-smi topo -m`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Nearness {
    /// At most one PCI Express switch between them.
    Pix,
    /// Several PCI Express switches.
    Pxb,
    /// One host bridge.
    Phb,
    /// Several host bridges of one socket.
    Node,
    /// Another socket.
    Sys,
}

impl Nearness {
    /// That as a class of paths.
    #[must_use]
    pub fn class(self) -> PathClass {
        match self {
            Nearness::Pix => PathClass::Pix,
            Nearness::Pxb => PathClass::Pxb,
            Nearness::Phb => PathClass::Phb,
            Nearness::Node => PathClass::Node,
            Nearness::Sys => PathClass::Sys,
        }
    }
}

impl fmt::Display for Nearness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Nearness::Pix => "pix",
            Nearness::Pxb => "pxb",
            Nearness::Phb => "phb",
            Nearness::Node => "node",
            Nearness::Sys => "sys",
        })
    }
}

/// Adapters that read and write the memory of a GPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GpuDirect {
    /// The farthest adapter that does.
    pub farthest: Nearness,
    /// Largest message whose payload the sender's adapter reads; longer ones go through host memory there. All where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send_limit: Option<Sourced<Bytes>>,
    /// Largest message whose payload the receiver's adapter writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receive_limit: Option<Sourced<Bytes>>,
}

/// Copies from the GPU of another rank of the node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GpuPeers {
    /// Smallest message that goes this way; shorter ones go through shared memory.
    pub from: Sourced<Bytes>,
    /// Kernels copy instead of engines: they use all links to the peer.
    #[serde(default)]
    pub by_kernels: bool,
    /// Core time of each side beside the calls of the driver: events, the cache of handles.
    pub overhead: Sourced<Span>,
}

/// What registering memory with an adapter costs when a buffer is used for the first time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Registration {
    /// The call.
    pub call: Sourced<Span>,
    /// Each page of host memory, of 4 KiB.
    pub page: Sourced<Span>,
    /// Each page of a GPU's memory, of 64 KiB.
    pub gpu_page: Sourced<Span>,
}

/// Messages in the memory of a GPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GpuProtocol {
    /// Programs may give pointers to the memory of a GPU; otherwise they copy to and from host memory themselves.
    pub aware: bool,
    /// It knows of GPUs where a job asks for it (`MPICH_GPU_SUPPORT_ENABLED`, `MV2_USE_CUDA`), as jobs with buffers there do; other jobs pay
    /// nothing for it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub on_request: bool,
    /// Core time of each side of a message on a GPU, beside the calls of the driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overhead: Option<Sourced<Span>>,
    /// Core time of finding the mapping of a buffer, each time a core loads or stores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mapping_overhead: Option<Sourced<Span>>,
    /// Largest message that the sender's core loads out of the memory itself (GDRCopy); 0 B where it does not.
    pub load_limit: Sourced<Bytes>,
    /// Largest part of a message that the receiver's core stores into the memory itself; 0 B where it does not.
    pub store_limit: Sourced<Bytes>,
    /// Largest message between nodes that is sent at once; above comes the rendezvous.
    pub eager_limit: Sourced<Bytes>,
    /// The same as `load_limit` within a node, where it is another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local_load_limit: Option<Sourced<Bytes>>,
    /// Largest message between ranks of a node that goes through shared memory at once.
    pub local_eager_limit: Sourced<Bytes>,
    /// Adapters that read and write the memory; without it, everything goes through host memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direct: Option<GpuDirect>,
    /// Bytes that are copied to host memory, or from it, at a time.
    pub chunk: Sourced<Bytes>,
    /// Chunks of a message in host memory at a time, at each end.
    pub depth: Sourced<u32>,
    /// Copies between GPUs of a node; without it, everything goes through shared memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peers: Option<GpuPeers>,
    /// What registering memory costs when a buffer is used for the first time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registration: Option<Registration>,
}

impl GpuProtocol {
    /// Neither adapters nor cores reach the memory of GPUs any more: the library copies through host memory.
    pub fn without_gpudirect(&mut self) {
        self.direct = None;
        (self.load_limit.value, self.store_limit.value) = (Bytes::ZERO, Bytes::ZERO);
        self.local_load_limit = None;
    }
}

impl GpuProtocol {
    pub(super) fn check(&self) -> Result<(), Problem> {
        let at = |key: &'static str| ["mpi", "gpu", key, "value"];
        if *self.chunk == Bytes::ZERO {
            return Err(Problem::at(&at("chunk"), "chunks without room: nothing could be copied", "use for example \"256 KiB\""));
        }
        if *self.depth == 0 {
            return Err(Problem::at(&at("depth"), "no chunk at a time: nothing could be copied", "use at least 1"));
        }
        if *self.load_limit > *self.eager_limit {
            let message = format!("`load_limit` of {} lies above `eager_limit` of {}", *self.load_limit, *self.eager_limit);
            return Err(Problem::at(&at("load_limit"), message, "what a core loads is sent at once: make it at most `eager_limit`"));
        }
        Ok(())
    }
}
