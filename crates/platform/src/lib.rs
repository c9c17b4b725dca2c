//! What programs find on a simulated machine before they start: adapters, GPUs, processors, the libraries they are linked with.
//!
//! Plain data from the parts of a cluster. Modelled: what each file says. Not modelled: two kinds of node in one job.

mod address;
mod binding;
mod dpu;
mod gpu;
pub mod nccl;
pub mod processor;
mod target;

pub use address::PciAddress;
pub use binding::Binding;
pub use dpu::{AdapterCores, DpuTarget};
pub use gpu::GpuTarget;
pub use processor::Processor;
pub use target::{Layout, LinkType, Target, Unlike, device, path_mtu};
