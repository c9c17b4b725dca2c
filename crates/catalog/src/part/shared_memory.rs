//! How a library takes messages between the ranks of a node.
//!
//! Source: the libraries' parameters (Open MPI `btl_vader_single_copy_mechanism`, which prefers XPMEM, then CMA, then KNEM; UCX_TLS;
//! MV2_SMP_USE_CMA; MPICH_SMP_SINGLE_COPY_MODE).
//! Modelled: a FIFO in shared memory, and three ways of copying a long message once; each library has those that it can be built with.
//! Not modelled: limits of cells in flight, huge pages.
//!
//! The numbers stand here, and crate `mpi`, which depends on this one, computes with them as they are.

use fabriscope_units::{Bytes, Form, Span, parameters};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::Problem;
use crate::sourced::Stated;

/// By what means long messages within a node travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mechanism {
    /// Through shared memory like short ones, in chunks that both cores copy.
    Fifo,
    /// Cross-memory attach: the receiver asks the kernel to copy (`process_vm_readv`).
    Cma,
    /// A kernel module: the sender declares its buffer, the receiver asks for a copy.
    Knem,
    /// A kernel module maps the sender's buffer into the receiver's process; its loads and stores copy.
    Xpmem,
}

impl Mechanism {
    /// Every one.
    pub const ALL: [Mechanism; 4] = [Mechanism::Fifo, Mechanism::Cma, Mechanism::Knem, Mechanism::Xpmem];

    /// Its name in files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Mechanism::Fifo => "fifo",
            Mechanism::Cma => "cma",
            Mechanism::Knem => "knem",
            Mechanism::Xpmem => "xpmem",
        }
    }
}

parameters! {
    /// Messages between ranks of one node.
    pub struct SharedMemoryParameters as "SharedMemory" {
        /// Largest message that is copied into shared memory at once, and out of it by the receiver.
        pub eager_limit: u32 from Bytes,
        /// By what means longer ones travel.
        choice pub mechanism: Mechanism,
        /// Size of a chunk of what goes through shared memory piece by piece.
        pub chunk: u32 from Bytes,
        /// Cache lines that each side of a message has to fetch from another core, beside the one that the receiver waits for.
        pub lines: u32,
        /// Payload that fits into the line which announces a message, beside its header; the first line of what does not comes after it.
        pub inline: u32 from Bytes,
        /// Slots for collective operations, where the library has them.
        optional table pub slots: SlotParameters,
        /// Costs of cross-memory attach, where the library has it.
        optional table pub cma: SingleCopyParameters,
        /// Costs of KNEM, where the library can be built with it.
        optional table pub knem: SingleCopyParameters,
        /// Costs of XPMEM, where the library can be built with it.
        optional table pub xpmem: SingleCopyParameters,
    }
}

parameters! {
    /// Memory in which every rank of a node has slots of its own that all others read: collective operations that send no messages.
    pub struct SlotParameters as "Slots" {
        /// Payload of a slot; longer pieces take several.
        pub length: u32 from Bytes,
        /// Payload that fits into the line which says that a slot is full.
        pub inline: u32 from Bytes,
    }
}

parameters! {
    /// What one copy by the receiver costs beside its bytes.
    pub struct SingleCopyParameters as "SingleCopy" {
        /// Messages longer than this, and than `eager_limit`, are copied so.
        pub above: u32 from Bytes,
        /// Core time of the receiver for each message: the system call, or finding the mapping.
        pub call: Span,
        /// Core time of the receiver for each page of 4 KiB of a message: looking it up, pinning it.
        pub page: Span,
        /// Core time of the sender for each message: declaring its buffer to the kernel.
        optional pub declare: Span,
        /// Core time of the sender for each page that it declares.
        optional pub declare_page: Span,
        /// Core time of the receiver for mapping a buffer, once.
        optional pub attach: Span,
        /// Core time of the receiver for the first touch of each mapped page.
        optional pub attach_page: Span,
    }
}

impl Eq for SharedMemoryParameters {}
impl Eq for SlotParameters {}
impl Eq for SingleCopyParameters {}

/// Messages between ranks of one node, each number with its origin.
pub type SharedMemory = SharedMemoryParameters<Stated>;
/// Slots for collective operations, each number with its origin.
pub type Slots = SlotParameters<Stated>;
/// What one copy by the receiver costs, each number with its origin.
pub type SingleCopy = SingleCopyParameters<Stated>;

impl<F: Form> SharedMemoryParameters<F> {
    /// The costs of a mechanism; none of the FIFO, and of those that the library does not have.
    #[must_use]
    pub fn costs(&self, mechanism: Mechanism) -> Option<&SingleCopyParameters<F>> {
        match mechanism {
            Mechanism::Fifo => None,
            Mechanism::Cma => self.cma.as_ref(),
            Mechanism::Knem => self.knem.as_ref(),
            Mechanism::Xpmem => self.xpmem.as_ref(),
        }
    }
}

impl SharedMemory {
    pub(super) fn check(&self) -> Result<(), Problem> {
        if *self.chunk == Bytes::ZERO {
            return Err(Problem::at(&["mpi", "shared_memory", "chunk", "value"], "chunks without room", "use at least one byte"));
        }
        if self.slots.as_ref().is_some_and(|slots| *slots.length == Bytes::ZERO) {
            return Err(Problem::at(&["mpi", "shared_memory", "slots", "length", "value"], "slots without room", "use at least one byte"));
        }
        let name = self.mechanism.name();
        if self.mechanism != Mechanism::Fifo && self.costs(self.mechanism).is_none() {
            let message = format!("the mechanism `{name}` has no costs");
            return Err(Problem::at(&["mpi", "shared_memory", "mechanism"], message, format!("add [mpi.shared_memory.{name}]")));
        }
        Ok(())
    }
}
