//! What the catalogue's parts mean for the virtual switch of a node.
//!
//! The host's kernel copies over the ring of a machine at the rate of its cores. A packet that a core of the adapter has crosses into the
//! memory of that core by a write and out of it by a read, each past the switch between host, cores and adapter.

use std::sync::Arc;

use fabriscope_catalog::{Ipsec, ResolvedCluster, ResolvedNode, StageKind, SwitchedBy, SwitchingCosts, VirtualSwitch};
use fabriscope_units::Span;
use fabriscope_vswitch::{CoreCosts, Settings, SoftwareCores, Stage, Switcher};

/// The virtual switch of each node, where a cluster has one that its parts can be.
#[must_use]
pub(crate) fn settings(parts: &ResolvedCluster) -> Option<Arc<Settings>> {
    let switch = parts.ip.virtual_switch.as_ref()?;
    let node = &parts.sole().node;
    let (switcher, stages) = match switch.by {
        SwitchedBy::Host => (Switcher::Host, Vec::new()),
        SwitchedBy::DpuCores => (Switcher::AdapterCores, Vec::new()),
        SwitchedBy::Adapter => (Switcher::Pipeline, stages(node, switch)),
    };
    let pipeline = node.nic.pipeline.as_ref();
    Some(Arc::new(Settings {
        switcher,
        encapsulation: switch.encapsulation(),
        granularity: switch.granularity(),
        software: software(parts, switch)?,
        stages,
        rules: pipeline.and_then(|pipeline| pipeline.entries(StageKind::Exact)).unwrap_or(0),
        insertion: pipeline.map_or(Span::ZERO, |pipeline| *pipeline.insertion),
        buffer: *node.nic.rx_buffer,
    }))
}

/// The stages of the adapter, and its engine behind them.
fn stages(node: &ResolvedNode, switch: &VirtualSwitch) -> Vec<Stage> {
    let tables = node.nic.pipeline.iter().flat_map(|pipeline| &pipeline.stages);
    let tables = tables.map(|stage| Stage::table(*stage.interval, *stage.latency));
    let crypto = node.nic.engines.as_ref().and_then(|engines| engines.crypto.as_ref()).filter(|_| switch.ipsec == Ipsec::Engine);
    let engine = crypto.map(|engine| Stage { rate: Some(*engine.rate), ..Stage::table(*engine.interval, *engine.latency) });
    tables.chain(engine).collect()
}

/// The cores that switch, or that have what the pipeline does not know: those of the adapter, where it has some.
fn software(parts: &ResolvedCluster, switch: &VirtualSwitch) -> Option<SoftwareCores> {
    let node = &parts.sole().node;
    let dpu = node.dpu.as_ref().filter(|_| switch.by != SwitchedBy::Host);
    if let Some(dpu) = dpu
        && let Some(switching) = &dpu.part.switching
    {
        let (root, between) = (&dpu.cpu.root_complex, *dpu.part.switch_latency);
        let crossing = *root.dma_write_latency + *root.dma_read_latency + between * 3;
        let cores = switch.cores.unwrap_or(dpu.part.cores);
        let costs = CoreCosts { crossing, ..core(switching, switch) };
        return Some(SoftwareCores { costs, cores, handlers: *switching.handlers, of_host: false });
    }
    let costs = parts.ip.kernel.virtual_switch.as_ref()?;
    let of_host = core(costs, switch);
    let host = match switch.by {
        SwitchedBy::Host => CoreCosts { copy: Some(*node.cpu.copy_rate_streaming), ..of_host },
        // The adapter moves what it does not know to and from the host's memory.
        SwitchedBy::DpuCores | SwitchedBy::Adapter => {
            let root = &node.cpu.root_complex;
            CoreCosts { ring: Span::ZERO, crossing: *root.dma_write_latency + *root.dma_read_latency, ..of_host }
        }
    };
    Some(SoftwareCores { costs: host, cores: node.cpu.cores.saturating_mul(node.sockets), handlers: *costs.handlers, of_host: true })
}

fn core(costs: &SwitchingCosts, switch: &VirtualSwitch) -> CoreCosts {
    CoreCosts {
        packet: *costs.packet,
        ring: costs.ring.as_deref().copied().unwrap_or(Span::ZERO),
        copy: None,
        cipher: (switch.ipsec == Ipsec::Cores).then_some((*costs.cipher_packet, *costs.cipher_rate)),
        upcall: *costs.upcall,
        crossing: Span::ZERO,
        wake_up: costs.wake_up.as_deref().copied().unwrap_or(Span::ZERO),
    }
}
