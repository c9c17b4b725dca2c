//! Collective operations of HCL on accelerators whose ports are their own: Gaudi2 and Gaudi3.
//!
//! Source: HCL (<https://github.com/HabanaAI/HCL>), hcl/src/platform/gen2_arch_common/hcl_collective_routines.cpp, collective_states.cpp;
//! Intel Gaudi Network Configuration: 21 ports of each to the seven others of a server, three out.
//! Modelled: slices of an operation ([`Slices`]), each a reduce-scatter and an all-gather; within a server each accelerator sends to all
//! others at once; between servers to those of the same number, first of the next server, then of the one behind it, by all ports out
//! together, packet by packet over the fabric of the engine; parts that are added up by engines at the rate of the memory; slices in progress
//! at a time, also over the end of one call and the begin of the next, as calls are waited for at the end only.
//! Not modelled: broadcast, reduce, sends and receives; adapters of the host in the place of ports out; parts of a slice as packets within
//! a server (links there are serial resources, each part by itself).

mod card;
mod job;
mod slices;

pub use card::run;
pub use job::{HclError, HclJob, Operation, Settings};
pub use slices::Slices;
