//! PSM2 on an Omni-Path host fabric interface: a thin adapter, and the library that does the transport on the core.
//!
//! Source: opa-psm2 (github.com/cornelisnetworks/opa-psm2: `psm_config.h`, `ptl_ips/`), the hfi1 driver of Linux
//! (`drivers/infiniband/hw/hfi1`: `pio.c`, `user_sdma.c`, `init.c`), Birrittella et al., "Intel Omni-Path Architecture",
//! HotI 2015. The longer story is `docs/models/psm2.md`.
//! Modelled: send contexts with credits (PIO), send DMA engines behind a system call, receive header queues with eager buffers,
//! expected receives with TID flows that check order; in the library matched queues, tiny, short, eager and rendezvous
//! messages, also in memory of GPUs, one go-back-N flow per peer and way of sending, coalesced acknowledgements, timeouts.
//! Not modelled: shared memory inside a node, several rails, BECN and the congestion window, TIDs that leave their cache,
//! active messages, the receive thread.
//!
//! An [`Adapter`] belongs to a node, an [`Endpoint`] to a process. Neither knows of time but what it is told: a [`Cpu`] is the
//! core on which the library runs, with its clock.

pub mod adapter;
mod cpu;
mod endpoint;
mod expected;
mod flow;
mod matching;
mod progress;
mod receive;
mod request;
mod send;
mod settings;
mod staging;
mod state;

#[cfg(test)]
mod tests;

pub use adapter::{Adapter, Counts, Outgoing, Store};
pub use cpu::Cpu;
pub use fabriscope_wire::psm2::{Address, Flow, Header, Kind, RequestId};
pub use receive::Arrival;
pub use request::Buffer;
pub use settings::{AdapterParameters, AdapterSettings, Library, LibraryParameters};
pub use state::{Copy, Endpoint, Psm2Error, Step};
