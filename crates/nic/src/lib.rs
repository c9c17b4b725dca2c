//! The hardware pipelines of a NIC, without I/O: when a packet can be built, when what arrives is in memory.
//!
//! `verbs` decides *which* packet is next; this crate decides *when* it is ready for the wire. [`Pipeline`] is the machine that an
//! engine drives: [`Pipeline::fetch_context`] and [`Pipeline::build`] on the way out, [`Pipeline::store`] and
//! [`Pipeline::complete`] on the way in. Its parts are the send engine ([`send_engine`]: message rate, interval of each queue), the
//! window between fetch and wire ([`tx_window`]), the caches of queue-pair contexts ([`context`]) and of translations ([`translation`]), the atomic unit, and the memories
//! that DMA reaches ([`dma_targets`]). All numbers are in [`NicCosts`]; time is an argument.
//!
//! Source: each file names its own. Modelled: one send engine for all queues, read-ahead per queue, PCI Express as `node` has it.
//! Not modelled: several ports that share one pipeline; internal bandwidth between the units; doorbell coalescing.

pub mod context;
mod costs;
pub mod dma_targets;
mod iommu;
mod pipeline;
pub mod send_engine;
pub mod translation;
pub mod tx_window;

pub use context::{ContextCache, ContextCounts, ContextLimits};
pub use costs::{NicCosts, Uplink};
pub use dma_targets::{DmaTargets, Hops};
pub use iommu::{IoTlb, IoTlbCounts, IommuLimits};
pub use pipeline::{Built, Pipeline, ReceiveEntry, is_atomic_response};
pub use translation::{TranslationCache, TranslationCounts, TranslationLimits};
pub use tx_window::{LEVELS, TxWindow};
