//! Virtual switching, without I/O: when a packet of a virtual machine has passed the switch between it and the wire, and whose core that took.
//!
//! A virtual switch is software on cores of the host, software on cores of the adapter, or the adapter's match–action pipeline. All three
//! are a [`Pipeline`] of stages that packets pass one after the other; behind the adapter's stands a slow path. [`VirtualSwitch`] keeps the
//! table of flows ([`FlowTable`]): the first packet of a flow is an upcall to a core, which decides and inserts a rule.
//!
//! Source: B. Pfaff et al., "The Design and Implementation of Open vSwitch", NSDI 2015 (flow caches, upcalls); D. Firestone et al., "Azure
//! Accelerated Networking", NSDI 2018 (exception packets, flow tables in the adapter); P. Bosshart et al., "P4", CCR 2014 (parser, match–action
//! stages, deparser); RFC 7348 (VXLAN), RFC 8926 (Geneve), RFC 4303 and 4106 (ESP with AES-GCM).
//! Modelled: stages with an interval, a rate of bytes and a latency; cores as stages; a table of flows of limited size, misses, rules that
//! become active later; headers of tunnels and of ESP.
//! Not modelled: rules that age, reordering where a flow moves from the slow path to the pipeline, statistics that are read back.

mod flow;
mod pipeline;
mod settings;
mod switch;
mod tunnel;

pub use flow::{Flow, FlowTable, Granularity, Rule};
pub use pipeline::{Discipline, Pipeline, Stage, Work};
pub use settings::{CoreCosts, Settings, SoftwareCores, Switcher};
pub use switch::{Lane, Usage, Verdict, VirtualSwitch};
pub use tunnel::{Encapsulation, Tunnel};
