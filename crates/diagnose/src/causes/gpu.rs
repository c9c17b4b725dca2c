//! Causes at GPUs: no GPUDirect, no mapping of their memory, an adapter that is far from them.

use fabriscope_catalog::Under;
use fabriscope_lab::devices::WITHOUT_GPUDIRECT;
use fabriscope_units::Bytes;

use super::{Amount, Cause, Scene};

/// Adapters do not reach the memory of GPUs.
pub(super) const GPUDIRECT: Cause = Cause {
    name: "gpudirect",
    title: "GPUDirect RDMA is off",
    check: "lsmod | grep nvidia_peermem (or amdgpu's peer memory, dma-buf); NCCL_DEBUG=INFO prints GDRDMA for each connection",
    weight: 2.0,
    amounts: gpudirect,
};

fn gpudirect(scene: &Scene<'_>) -> Vec<Amount> {
    let gpu = scene.node().gpu.as_ref();
    if !scene.in_gpus() || !scene.uses_network() || gpu.is_none_or(|gpu| gpu.peer.is_none()) {
        return Vec::new();
    }
    if scene.is_nccl() {
        return vec![Amount::new("off", |setup| {
            setup.options.extend(WITHOUT_GPUDIRECT.map(str::to_owned));
        })];
    }
    let direct = scene.mpi().and_then(|mpi| mpi.gpu.as_ref()).is_some_and(|gpu| gpu.aware && gpu.direct.is_some());
    let off = || {
        Amount::new("off", |setup| {
            if let Some(gpu) = setup.parts.sole_mut().software.mpi.as_mut().and_then(|mpi| mpi.gpu.as_mut()) {
                gpu.without_gpudirect();
            }
        })
    };
    if direct { vec![off()] } else { Vec::new() }
}

/// Cores do not reach the memory of GPUs.
pub(super) const MAPPING: Cause = Cause {
    name: "gdrcopy",
    title: "GDRCopy is missing: short messages go through copies by the driver",
    check: "lsmod | grep gdrdrv; ucx_info -d lists gdr_copy",
    weight: 1.0,
    amounts: mapping,
};

fn mapping(scene: &Scene<'_>) -> Vec<Amount> {
    let gpu = scene.mpi().and_then(|mpi| mpi.gpu.as_ref());
    let maps = gpu.is_some_and(|gpu| *gpu.store_limit > Bytes::ZERO || *gpu.load_limit > Bytes::ZERO);
    if !maps || !scene.in_gpus() {
        return Vec::new();
    }
    vec![Amount::new("missing", |setup| {
        if let Some(gpu) = setup.parts.sole_mut().software.mpi.as_mut().and_then(|mpi| mpi.gpu.as_mut()) {
            (gpu.load_limit.value, gpu.store_limit.value) = (Bytes::ZERO, Bytes::ZERO);
            gpu.local_load_limit = None;
        }
    })]
}

/// The adapter is behind the root complex, or at the other socket.
pub(super) const FAR: Cause = Cause {
    name: "gpu-path",
    title: "the way from GPU to adapter leads through the root complex or between sockets",
    check: "nvidia-smi topo -m shows PIX or PXB for the adapter in use; access control (ACS) is off on PCIe switches; NCCL_TOPO_FILE fits",
    weight: 2.0,
    amounts: far,
};

fn far(scene: &Scene<'_>) -> Vec<Amount> {
    let node = scene.node();
    let (Some(nics), Some(_)) = (&node.layout.part.nics, &node.layout.part.gpus) else { return Vec::new() };
    if !scene.in_gpus() || !scene.uses_network() || nics.host_link.is_some() {
        return Vec::new();
    }
    let part = &node.layout.part;
    let domains = part.sockets.saturating_mul(part.numa_per_socket).max(1);
    // The domain that a device is below, however many switches are between.
    let domain = |under: &str| -> Option<u32> {
        let mut place = part.under(under)?;
        for _ in 0..8 {
            match place {
                Under::Numa(number) => return Some(number),
                Under::Switch(number) => {
                    let above = part.switches.iter().flat_map(|switches| &switches.under).nth(number as usize)?;
                    place = part.under(above)?;
                }
                Under::Gpu(_) | Under::ScaleUp => return None,
            }
        }
        None
    };
    let Some(near) = nics.under.iter().map(|under| domain(under)).collect::<Option<Vec<u32>>>() else { return Vec::new() };
    let moved = |what: &str, places: Vec<String>| {
        Amount::new(what, move |setup| {
            if let Some(nics) = &mut setup.parts.sole_mut().node.layout.part.nics {
                nics.under.clone_from(&places);
            }
        })
    };
    let mut amounts = Vec::new();
    if nics.under.iter().any(|under| !under.starts_with("numa")) {
        amounts.push(moved("through the root complex (PHB)", near.iter().map(|number| format!("numa{number}")).collect()));
    }
    if part.sockets > 1 {
        let across = |number: u32| (number + domains / 2) % domains;
        amounts.push(moved("between the sockets (SYS)", near.iter().map(|number| format!("numa{}", across(*number))).collect()));
    }
    amounts
}
