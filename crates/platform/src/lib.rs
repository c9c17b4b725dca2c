//! What programs find on a simulated machine before they start: adapters, GPUs, processors, the libraries they are linked with.
//!
//! Plain data from the parts of a cluster. Modelled: what each file says; of two kinds of node in one job what they have in common, and the
//! collective library of each.

mod address;
mod binding;
mod compression;
mod dpu;
mod gpu;
mod links;
pub mod loads;
pub mod nccl;
pub mod processor;
mod target;
mod unlike;

pub use address::PciAddress;
pub use binding::Binding;
pub use compression::{CompressionTarget, EngineMemory, EngineUser};
pub use dpu::{AdapterCores, DpuTarget};
pub use gpu::{GpuTarget, Reduction, ScaleUpSwitches};
pub use links::links_of_gpu;
pub use loads::Loads;
pub use processor::Processor;
pub use target::{Layout, LinkType, Target, device, path_mtu};
pub use unlike::Unlike;
