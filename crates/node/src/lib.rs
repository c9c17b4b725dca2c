//! How bytes move inside a node, and how a program there sees the machine.
//!
//! [`adapter`] is the RDMA NIC with the kernel's interface and PSM2 beside it, [`pcie`] times the bus between host memory and a NIC, [`cpu`] what a core pays for posting and
//! polling, [`sockets`] the memories and links between sockets that the cores share, [`device`] the GPUs and copies by them, [`managed`] pages that move to whoever touches them, [`dma`] the ways of adapters to
//! memory beyond their own link and [`reach`] these ways as the machine has them, [`traffic`] what they and copies share, [`datagram`] what a library does to make datagrams reliable, [`process`] is the
//! view a benchmark program has: one core with its clock, and the node's NICs; [`socket`] gives it the sockets of the kernel, `psm2`
//! runs that library on it.

mod activity;
pub mod adapter;
pub mod aggregation;
mod awaited;
mod calls;
mod copies;
pub mod cpu;
pub mod datagram;
pub mod device;
#[cfg(test)]
mod device_test;
pub mod dma;
#[cfg(test)]
mod dma_test;
pub mod exchange;
pub mod managed;
mod noise;
pub mod pcie;
pub mod process;
mod program_error;
mod psm2;
pub mod reach;
#[cfg(test)]
mod reach_test;
mod record;
mod segments;
pub mod socket;
pub mod sockets;
pub mod traffic;
#[cfg(test)]
mod traffic_test;
mod triggered;
mod work;
mod wqe;

pub use activity::{Activity, Doing, Kernel};
pub use adapter::{Adapter, AdapterConfig};
pub use awaited::Awaited;
pub use copies::CopyId;
pub use cpu::{Blueflame, CpuCosts, DoorbellPolicy};
pub use device::{CopyEngines, DeviceCosts, Devices, GpuCalls, Mapped, Memory, Mover, Pageable};
pub use dma::{Crossing, DmaHops, DmaPath};
pub use managed::{Managed, Pages, Toucher};
pub use noise::Noise;
pub use pcie::{Pcie, PcieTiming, ReadAhead, ReadStream, Wires};
pub use process::{Core, Main, Process, Program, Ties, UsedNics};
pub use program_error::ProgramError;
pub use reach::Reach;
pub use record::Record;
pub use segments::Segments;
pub use socket::{DatagramSocket, Socket, Waiting};
pub use sockets::{Route, Sockets};
pub use traffic::{Meeting, Traffic};
pub use work::Work;
pub use wqe::wqe_bytes;
