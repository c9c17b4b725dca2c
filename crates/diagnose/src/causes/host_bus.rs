//! Causes between adapter and memory: the slot's width and generation, translation of addresses, the other socket.

use fabriscope_catalog::{AnyPart, NumaDistance, Pcie, ResolvedSlot};
use fabriscope_platform::Binding;
use fabriscope_tools::Suite;
use fabriscope_units::Span;

use super::{Amount, Cause, Scene, not_here};

/// The slot has fewer lanes than it should.
pub(super) const WIDTH: Cause = Cause {
    name: "pcie-width",
    title: "the adapter's PCI Express link runs with fewer lanes",
    check: "lspci -vv -s ADAPTER: LnkSta against LnkCap (width); reseat the card, look at the slot's bifurcation",
    weight: 2.0,
    amounts: width,
};

/// Changes the slots of adapters, and the ways up of switches that they hang under, which a slow adapter does not slow down.
fn slots(setup: &mut fabriscope_lab::prediction::Setup, change: impl Fn(&mut ResolvedSlot)) {
    change(&mut setup.parts.sole_mut().node.pcie);
}

fn width(scene: &Scene<'_>) -> Vec<Amount> {
    let node = scene.node();
    if !scene.uses_network() || node.layout.nic_link.is_some() {
        return Vec::new();
    }
    let lanes = node.pcie.lanes;
    let fewer = [2, 4].into_iter().map(|by| lanes / by).filter(|fewer| *fewer >= 1);
    fewer.map(|fewer| Amount::new(format!("x{fewer} instead of x{lanes}"), move |setup| slots(setup, |slot| slot.lanes = fewer))).collect()
}

/// The slot runs at an earlier generation than it should.
pub(super) const GENERATION: Cause = Cause {
    name: "pcie-generation",
    title: "the adapter's PCI Express link runs at a lower rate",
    check: "lspci -vv -s ADAPTER: LnkSta against LnkCap (speed); the slot's setting in the firmware, the riser, retimers",
    weight: 2.0,
    amounts: generation,
};

fn generation(scene: &Scene<'_>) -> Vec<Amount> {
    let node = scene.node();
    if !scene.uses_network() || node.layout.nic_link.is_some() {
        return Vec::new();
    }
    let now = node.pcie.part.generation;
    let part = |generation: u32| {
        scene.catalog.parts().find_map(|part| match part {
            AnyPart::Pcie(pcie) if pcie.generation == generation => Some(pcie.clone()),
            _ => None,
        })
    };
    let earlier = [1, 2].into_iter().filter_map(|by| part(now.checked_sub(by)?));
    earlier
        .map(|pcie: Box<Pcie>| {
            Amount::new(format!("generation {} instead of {now}", pcie.generation), move |setup| {
                slots(setup, |slot| slot.part.clone_from(&pcie));
            })
        })
        .collect()
}

/// Each access to memory waits for a translation of its address.
pub(super) const TRANSLATION: Cause = Cause {
    name: "iommu",
    title: "accesses of the adapter to memory wait for the IOMMU",
    check: "dmesg | grep -i -e DMAR -e AMD-Vi; boot with iommu=pt, or off",
    weight: 1.0,
    amounts: translation,
};

/// What a miss of the table of translations costs. Basis: published, Neugebauer et al., "Understanding PCIe performance for end host
/// networking", SIGCOMM 2018, §6.5: 330 ns; the others are assumed: more levels of nested tables, which are not cached.
const MISSES: [Span; 3] = [Span::from_ns(330), Span::from_ns(1000), Span::from_ns(2000)];

fn translation(scene: &Scene<'_>) -> Vec<Amount> {
    if !scene.uses_network() {
        return Vec::new();
    }
    MISSES
        .into_iter()
        .map(|miss| {
            Amount::new(format!("{miss} for each access"), move |setup| {
                let root = &mut setup.parts.sole_mut().node.cpu.root_complex;
                root.dma_read_latency.value += miss;
                root.dma_write_latency.value += miss;
            })
        })
        .collect()
}

/// Program and memory are at the socket that the adapter is not at.
pub(super) const SOCKET: Cause = Cause {
    name: "far-socket",
    title: "the process runs at the socket that the adapter is not at",
    check: "cat /sys/class/infiniband/DEVICE/device/numa_node; numactl --cpunodebind, or the launcher's binding report",
    weight: 2.0,
    amounts: socket,
};

fn socket(scene: &Scene<'_>) -> Vec<Amount> {
    let node = scene.node();
    let two_ranks = scene.setup.layout.per_node <= 1 || scene.suite() == Suite::Perftest;
    if node.sockets < 2 || !scene.uses_network() || !two_ranks || scene.is_nccl() {
        return Vec::new();
    }
    if node.layout.part.nics.is_none() || node.gpus == 0 {
        if node.numa == NumaDistance::Remote {
            return Vec::new();
        }
        return vec![Amount::new("at the other socket", |setup| setup.parts.sole_mut().node.numa = NumaDistance::Remote)];
    }
    let domains = node.layout.part.numa_domains();
    vec![Amount::may("at the other socket", move |setup| {
        if setup.tool.traits().suite == Suite::Perftest {
            return Err(not_here("perftest takes memory beside its adapter here"));
        }
        setup.binding = Binding::default().at(vec![domains / 2]);
        Ok(())
    })]
}
