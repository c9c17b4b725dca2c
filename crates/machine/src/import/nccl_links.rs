//! Links beside the tree in topology files of NCCL and RCCL: `nvlink`, `xgmi`, `c2c` of GPUs, `pcilink` of switches.
//!
//! Source: NCCL, src/graph/topo.cc (ncclTopoAddNvLinks, ncclTopoAddC2c, ncclTopoAddPciLinks); RCCL, the same (`xgmi`).
//! Each of two GPUs tells of the links between them; where they disagree the larger number is taken.

use std::collections::BTreeMap;

use fabriscope_units::Rate;

use super::assembly::Draft;
use super::element::{Element, hex};
use super::error::{ImportError, Mistake};
use super::nccl::{GPU_CLASSES, Gpu, Switches};
use crate::bus::Address;
use crate::identity::Bundle;
use crate::link::LinkKind;
use crate::vertex::{Vertex, VertexId, VertexKind};

/// How links between GPUs are called in such a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Wire {
    NvLink,
    Xgmi,
}

impl Wire {
    fn of(name: &str) -> Option<Wire> {
        match name {
            "nvlink" => Some(Wire::NvLink),
            "xgmi" => Some(Wire::Xgmi),
            _ => None,
        }
    }
    const fn title(self) -> &'static str {
        match self {
            Wire::NvLink => "NVLinks",
            Wire::Xgmi => "links of xGMI",
        }
    }
}

/// Links that stay among GPUs.
#[derive(Default)]
struct OwnLinks {
    /// Of each pair the number of links that either says.
    pairs: BTreeMap<([VertexId; 2], Wire), [u32; 2]>,
    /// Of each GPU the number of links to switches.
    switched: Vec<(VertexId, u32)>,
}

/// `nvlink`, `xgmi` and `c2c` of all GPUs, when all are known.
pub(super) fn between_gpus(draft: &mut Draft<'_>, gpus: &[Gpu<'_>]) -> Result<(), ImportError> {
    let mut by_bus = BTreeMap::new();
    for gpu in gpus {
        by_bus.extend(Address::parse(&draft.vertex_mut(gpu.id).bus).map(|address| (address, gpu.id)));
    }
    let mut own = OwnLinks::default();
    for gpu in gpus {
        let of = nvlink_of(draft, gpu.id, total(gpu.element));
        let mut to_switches = 0u32;
        for link in gpu.element.children() {
            let (wire, bundle) = match (Wire::of(link.name()), link.name()) {
                (Some(wire), _) => (wire, bundle(link)?),
                (None, "c2c") => (Wire::NvLink, coherent(link)?),
                _ => continue,
            };
            if let Some(each) = bundle.each {
                let rate = Rate::from_bps(each.as_bps().saturating_mul(u64::from(bundle.links)));
                draft.coherent(gpu.domain, gpu.id, format!("C2C x{}", bundle.links), rate);
            } else if bundle.class.is_some_and(|class| GPU_CLASSES.contains(&(class >> 16))) {
                let peer = Address::parse(&bundle.target).and_then(|address| by_bus.get(&address)).copied();
                if let Some(peer) = peer.filter(|peer| *peer != gpu.id) {
                    let pair = [gpu.id.min(peer), gpu.id.max(peer)];
                    let said = own.pairs.entry((pair, wire)).or_default();
                    said[usize::from(pair[0] != gpu.id)] += bundle.links;
                    continue;
                }
                let (line, links, target, title) = (link.line(), bundle.links, &bundle.target, wire.title());
                let where_to = if peer.is_some() { "which is the GPU itself" } else { "which the file does not describe" };
                draft.notes.push(format!("line {line}: {links} {title} lead to {target}, {where_to}"));
            } else if bundle.class == Some(Bundle::POWER_CPU) {
                draft.host_nvlink(gpu.domain, gpu.id, of.as_ref(), bundle.links);
            } else {
                to_switches = to_switches.saturating_add(bundle.links);
            }
            draft.vertex_mut(gpu.id).identity.bundles.push(bundle);
        }
        if to_switches > 0 {
            own.switched.push((gpu.id, to_switches));
        }
    }
    join(draft, own, gpus)
}

/// Links between two GPUs, and from GPUs to their switch.
fn join(draft: &mut Draft<'_>, own: OwnLinks, gpus: &[Gpu<'_>]) -> Result<(), ImportError> {
    for (([a, b], wire), [there, back]) in own.pairs {
        let most = there.max(back);
        if there != back {
            let names = [a, b].map(|id| draft.vertex_mut(id).name.clone());
            let what = format!("{} counts {there} {} to {}, which counts {back}", names[0], wire.title(), names[1]);
            draft.notes.push(format!("{what}: the larger number is taken"));
        }
        match wire {
            Wire::NvLink => {
                let nvlink = nvlink_of(draft, a, most);
                draft.nvlink(a, b, nvlink.as_ref(), most);
            }
            Wire::Xgmi => {
                let amd = gpus.iter().find(|gpu| gpu.id == a).and_then(|gpu| gpu.amd.as_deref());
                draft.xgmi(a, b, amd, most);
            }
        }
    }
    if !own.switched.is_empty() {
        let line = gpus.first().map_or(1, |gpu| gpu.element.line());
        let switch = draft.add(Vertex::new(VertexKind::ScaleUpSwitch, "nvswitch"), line)?;
        for (id, links) in own.switched {
            let nvlink = nvlink_of(draft, id, links);
            draft.nvlink(id, switch, nvlink.as_ref(), links);
        }
    }
    Ok(())
}

/// Elements that tell of NVLinks: where nothing else is known of a GPU, its generation follows from their number.
fn total(gpu: Element<'_>) -> u32 {
    gpu.children().filter(|child| child.name() == "nvlink").count() as u32
}

/// NVLink of a GPU, by what it can do, else by its number of links.
fn nvlink_of(draft: &mut Draft<'_>, id: VertexId, links: u32) -> Option<super::NvLinkRate> {
    let ability = draft.vertex_mut(id).identity.compute_capability;
    let rates = draft.rates;
    ability.map_or_else(|| rates.nvlink_of_links(links), |sm| rates.nvlink_of_gpu(sm)).cloned()
}

/// `pcilink`: switches that are joined beside the tree.
pub(super) fn between_switches(draft: &mut Draft<'_>, switches: &Switches<'_>) -> Result<(), ImportError> {
    let mut joined: Vec<[VertexId; 2]> = Vec::new();
    for (id, pci) in switches.values() {
        for link in pci.children().filter(|child| child.name() == "pcilink") {
            let target = link.needed("target", "give the address of the other switch")?;
            draft.vertex_mut(*id).identity.said.push(("pcilink/target".to_owned(), target.to_owned()));
            let Some((other, _)) = Address::parse(target).and_then(|address| switches.get(&address)) else {
                draft.notes.push(format!("line {}: `pcilink` to {target}, which is no switch of the file", link.line()));
                continue;
            };
            let pair = [*id.min(other), *id.max(other)];
            if id != other && !joined.contains(&pair) {
                joined.push(pair);
                let (rate, latency) = (draft.rates.local, draft.rates.pcie_latency);
                draft.join(pair[0], pair[1], LinkKind::Die, "between switches".to_owned(), rate, latency);
            }
        }
    }
    Ok(())
}

/// Whether this is NVLinks from a GPU to a POWER processor.
pub(super) fn is_host_nvlink(link: Element<'_>) -> bool {
    link.name() == "nvlink" && link.says("tclass").and_then(hex).is_some_and(|class| class & 0xff_ffff == u64::from(Bundle::POWER_CPU))
}

fn count(link: Element<'_>) -> Result<u32, ImportError> {
    link.needed("count", "say how many links there are")?;
    let links = link.number("count")?.unwrap_or(0);
    if links == 0 || links > MOST_LINKS {
        let expected = "a GPU has 1 to 1000 links";
        return Err(link.wrong(Mistake::Value { text: links.to_string(), what: "number of links", expected }));
    }
    Ok(links)
}

fn bundle(link: Element<'_>) -> Result<Bundle, ImportError> {
    link.needed("tclass", "say what is at the other end: 0x030200 or 0x120000 a GPU, 0x068000 an NVSwitch, 0x068001 a processor")?;
    let class = link.hex("tclass")?.map(|class| (class & 0xff_ffff) as u32);
    Ok(Bundle { target: link.says("target").unwrap_or_default().to_owned(), class, links: count(link)?, each: None })
}

fn coherent(link: Element<'_>) -> Result<Bundle, ImportError> {
    link.needed("bw", "say what a link carries in MB/s")?;
    let rate = link.number("bw")?.unwrap_or(0);
    if rate == 0 {
        return Err(link.wrong(Mistake::Value { text: "0".to_owned(), what: "bandwidth in MB/s", expected: "use what a link carries" }));
    }
    Ok(Bundle { links: count(link)?, each: Some(Rate::from_bps(u64::from(rate) * 8_000_000)), ..Bundle::default() })
}

const MOST_LINKS: u32 = 1000;
