//! A network adapter: the times its engines need and the sizes of its queues and buffers.
//!
//! Modelled: one send engine shared by all queue pairs (`message_interval`, `write_interval`), a limit per queue pair
//! (`wqe_interval`), a responder that reads ahead of the wire (`read_ahead`), write-combined doorbells, a cache of the
//! contexts of queue pairs (`contexts`) and of translations (`translations`), connections over TCP (`iwarp`), cores of its own (`dpu`),
//! commands of NVMe that it serves by itself (`nvme`), match–action stages (`pipeline`) and engines in the way of packets (`engines`).
//! Not modelled: on-chip switching between functions of one adapter.

use fabriscope_nic::{ContextLimits, NicCosts, TranslationLimits, nic_parameters};
use fabriscope_psm2::AdapterParameters;
use fabriscope_units::{Bytes, Span};
use fabriscope_verbs::{AckCoalescing, TriggeredLimits};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::spliced::part;
use super::{Dpu, Engines, Interface, Iwarp, Kind, Layer, NvmeOffload, PacketPipeline, Part, PcieSlot};
use crate::error::Problem;
use crate::sourced::{Sourced, Stated};

/// When the library writes a work request straight into the adapter instead of ringing for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BlueFlame {
    /// For every single work request up to `blueflame_limit`, inline or not.
    Always,
    /// Only for work requests that carry their data inline.
    Inline,
    /// Never: the adapter fetches each work request.
    Never,
}

/// What an adapter does with the memory of its host for its peers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Rdma {
    /// Nothing: it carries messages only.
    None,
    /// It reads.
    Read,
    /// It reads and writes.
    #[default]
    ReadWrite,
}

/// Contexts of queue pairs, with the origin of each number.
pub type Contexts = ContextLimits<Stated>;

/// When a receiver of Ultra Ethernet acknowledges, with the origin of each number.
pub type UltraEthernet = AckCoalescing<Stated>;

/// What an adapter without a transport of its own offers to a library on the core: send buffers, send DMA, receive queues.
pub type Onload = AdapterParameters<Stated>;

fn check_onload(onload: &Onload) -> Result<(), Problem> {
    for (key, count) in [
        ("contexts", &onload.contexts),
        ("engines", &onload.engines),
        ("ring", &onload.ring),
        ("header_queue", &onload.header_queue),
        ("tid_flows", &onload.tid_flows),
    ] {
        if **count == 0 {
            let message = format!("`{key}` of the adapter is zero: nothing could be sent");
            return Err(Problem::at(&["onload", key, "value"], message, "use at least 1"));
        }
    }
    if !(256..=10_240).contains(&onload.mtu.as_u64()) {
        let message = format!("packets of {}", *onload.mtu);
        return Err(Problem::at(&["onload", "mtu", "value"], message, "use 256 B to 10240 B"));
    }
    if *onload.overhead > Bytes(256) {
        let message = format!("{} beside the payload of every packet", *onload.overhead);
        return Err(Problem::at(&["onload", "overhead", "value"], message, "use at most 256 B"));
    }
    if *onload.eager_buffer < *onload.mtu {
        let message = format!("eager buffers of {} cannot hold a packet of {}", *onload.eager_buffer, *onload.mtu);
        return Err(Problem::at(&["onload", "eager_buffer", "value"], message, "make them at least one packet"));
    }
    if !(onload.flit.as_u64().is_power_of_two() && onload.flit.as_u64() <= 64) {
        let message = format!("flits of {}", *onload.flit);
        return Err(Problem::at(&["onload", "flit", "value"], message, "use a power of two up to 64 B"));
    }
    Ok(())
}

nic_parameters! {
    part {
        /// One network adapter.
        pub struct Nic {
            /// The name others refer to it by; equals the name of its file.
            pub name: String,
            /// One line that tells a person what it is.
            pub title: String,
            /// What a reader should know besides.
            #[serde(default, skip_serializing_if = "String::is_empty")]
            pub notes: String,
            /// Through what programs drive it.
            #[serde(default)]
            pub interface: Interface,
            /// Number of network ports.
            pub ports: u32,
            /// Names of the link speeds its ports can run at.
            pub speeds: Vec<String>,
            /// What its ports can speak.
            pub layers: Vec<Layer>,
            /// Its connector to the host.
            pub pcie: PcieSlot,
            /// Largest payload of a packet.
            pub mtu_max: Sourced<Bytes>,
            /// Largest message that fits into a work request.
            pub max_inline: Sourced<Bytes>,
            /// When a work request is written straight into the adapter.
            pub blueflame: BlueFlame,
            /// Largest work request that is.
            pub blueflame_limit: Sourced<Bytes>,
            /// Size of the basic block of a work request.
            pub wqe_size: Sourced<Bytes>,
            /// Packets that can wait for the host, per virtual lane: what its credits are granted from.
            pub rx_buffer: Sourced<Bytes>,
            /// What it does with the memory of its host for its peers.
            #[serde(default)]
            pub rdma: Rdma,
            /// Largest datagram, and packet of SRD, where that is more than the MTU of the standard.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub datagram_max: Option<Sourced<Bytes>>,
            /// Its connections over TCP, where `interface` is `iwarp`.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub iwarp: Option<Iwarp>,
            /// When it acknowledges as a receiver of Ultra Ethernet; the specification says when, where this does not.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub ultra_ethernet: Option<UltraEthernet>,
            /// What it offers to a library that does the transport on the core; adapters with interface "psm2" have it.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub onload: Option<Onload>,
            /// The cores on it, where it has some.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub dpu: Option<Dpu>,
            /// How it serves commands of NVMe over fabrics by itself, where it can.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub nvme: Option<NvmeOffload>,
            /// The match–action stages that switch packets of virtual machines, where it has some.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub pipeline: Option<PacketPipeline>,
            /// Engines beside these stages.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub engines: Option<Engines>,
            /// Number of virtual lanes (or lossless priorities).
            pub vls: Sourced<u32>,
            /// RDMA READs and atomics in flight per queue pair.
            pub max_rd_atomic: Sourced<u32>,
            /// A responder acknowledges at least every so many packets.
            pub ack_interval: Sourced<u32>,
            /// It takes packets in any order and puts them where they belong: no workload has to ask for it.
            #[serde(default, skip_serializing_if = "std::ops::Not::not")]
            pub any_order: bool,
        } costs -> NicCosts
    }
}

impl Part for Nic {
    const KIND: Kind = Kind::Nic;
    fn name(&self) -> &str {
        &self.name
    }
    fn title(&self) -> &str {
        &self.title
    }
    fn check(&self) -> Result<(), Problem> {
        self.pcie.check(&["pcie"])?;
        if self.ports == 0 {
            return Err(Problem::at(&["ports"], "a NIC without ports", "give it at least 1 port"));
        }
        if self.speeds.is_empty() {
            return Err(Problem::at(&["speeds"], "a NIC without a link speed", "name at least one file of links/"));
        }
        if self.layers.is_empty() {
            return Err(Problem::at(&["layers"], "`layers` is empty", "use [\"infiniband\"], [\"ethernet\"] or both"));
        }
        check_mtu(*self.mtu_max, &["mtu_max", "value"])?;
        if let Some(most) = self.datagram_max.as_ref().filter(|most| !(256..=MOST_DATAGRAM).contains(&most.as_u64())) {
            let help = format!("use 256 B to {MOST_DATAGRAM} B, or leave it out");
            return Err(Problem::at(&["datagram_max", "value"], format!("a datagram of {}", **most), help));
        }
        for (key, value) in [("vls", *self.vls), ("max_rd_atomic", *self.max_rd_atomic), ("ack_interval", *self.ack_interval)] {
            if value == 0 {
                return Err(Problem::at(&[key, "value"], format!("`{key}` is zero"), "use at least 1"));
            }
        }
        if let Some(contexts) = &self.contexts {
            for (key, value) in [("cached", *contexts.cached), ("reads", *contexts.reads)] {
                if value == 0 {
                    let message = format!("`{key}` of the contexts is zero: no packet could be handled");
                    return Err(Problem::at(&["contexts", key, "value"], message, "use at least 1, or remove [contexts]"));
                }
            }
            if !(1..=4096).contains(&contexts.size.as_u64()) {
                let message = format!("a context of {}", *contexts.size);
                return Err(Problem::at(&["contexts", "size", "value"], message, "use 1 B to 4096 B"));
            }
        }
        if let Some(translations) = &self.translations {
            let counts = [("cached", *translations.cached), ("entries", *translations.entries), ("reads", *translations.reads)];
            if let Some((key, _)) = counts.into_iter().find(|(_, value)| *value == 0) {
                let message = format!("`{key}` of the translations is zero: no memory could be reached");
                return Err(Problem::at(&["translations", key, "value"], message, "use at least 1, or remove [translations]"));
            }
        }
        if let Some(triggered) = self.triggered.as_ref().filter(|triggered| *triggered.counters == 0) {
            let message = format!("{} counters: nothing could be triggered", *triggered.counters);
            return Err(Problem::at(&["triggered", "counters", "value"], message, "use at least 1, or remove [triggered]"));
        }
        if self.onload.is_some() != (self.interface == Interface::Psm2) {
            let message = format!("interface `{}` does not suit the table [onload]", self.interface);
            let help = "adapters with interface = \"psm2\" have an [onload] table, others do not";
            return Err(Problem::at(&["interface"], message, help));
        }
        if let Some(onload) = &self.onload {
            check_onload(onload)?;
        }
        for (key, value) in [("wqe_size", &self.wqe_size), ("cqe_size", &self.cqe_size), ("tx_buffer", &self.tx_buffer)] {
            if **value == Bytes::ZERO {
                return Err(Problem::at(&[key, "value"], format!("`{key}` is zero"), "use at least one byte"));
            }
        }
        match (&self.iwarp, self.interface == Interface::Iwarp) {
            (Some(iwarp), true) => iwarp.check()?,
            (None, true) => {
                let help = "add an [iwarp] table as nics/chelsio-t6.toml has it, or choose another interface";
                return Err(Problem::at(&["interface"], "an iWARP adapter without its TCP", help));
            }
            (Some(_), false) => {
                let message = format!("connections over TCP in an adapter that is driven through {}", self.interface);
                return Err(Problem::at(&["iwarp"], message, "write interface = \"iwarp\", or remove [iwarp] from here or from its base"));
            }
            (None, false) => {}
        }
        if let Some(dpu) = &self.dpu {
            dpu.check()?;
            if self.interface != Interface::Verbs {
                let message = format!("cores on an adapter that is driven through {}", self.interface);
                return Err(Problem::at(&["dpu"], message, "their programs post verbs: use interface = \"verbs\", or remove [dpu]"));
            }
        }
        if let Some(pipeline) = &self.pipeline {
            pipeline.check()?;
        }
        if let Some(engines) = &self.engines {
            engines.check()?;
            if engines.compression.is_some() && self.dpu.is_none() {
                let message = "an engine for compression on an adapter without cores";
                return Err(Problem::at(&["engines", "compression"], message, "it is part of their complex: add [dpu], or remove it"));
            }
        }
        if *self.rx_buffer < *self.mtu_max {
            let message = format!("a receive buffer of {} cannot hold a packet of {}", *self.rx_buffer, *self.mtu_max);
            return Err(Problem::at(&["rx_buffer", "value"], message, "make it at least one packet"));
        }
        Ok(())
    }
}

/// Largest payload of an Ethernet packet, in bytes: what jumbo frames of 9216 B leave. Basis: assumed, the usual limit of switches.
const MOST_DATAGRAM: u64 = 9000;

/// An MTU is a power of two from 256 B to 4096 B.
pub(crate) fn check_mtu(mtu: Bytes, path: &[&str]) -> Result<(), Problem> {
    if matches!(mtu.as_u64(), 256 | 512 | 1024 | 2048 | 4096) {
        return Ok(());
    }
    Err(Problem::at(path, format!("{mtu} is not an MTU"), "use \"256 B\", \"512 B\", \"1024 B\", \"2048 B\" or \"4096 B\""))
}
