//! The cluster that a profile describes, as a file of TOML with what was assumed beside each line.

use std::fmt::Write as _;
use std::path::Path;

use fabriscope_units::Rate;

use super::Wrong;
use super::read::{Placed, Read};
use crate::catalog::{AnyPart, Catalog};
use crate::cluster::ResolvedCluster;
use crate::draft::{self, quoted};
use crate::identity::kinds;
use crate::part::{Kind, Layer, LinkSpeed, Nic, NodePart, Switch};
use crate::suggest;

/// GPUs as NVML calls them, without the vendor: the beginning of the name, the GPU of the catalogue and the node that has such.
/// Source: NVML's names. Basis of the nodes: assumed; what these GPUs are sold in.
const GPUS: [(&str, &str, &str); 9] = [
    ("V100-SXM2-16GB", "v100-sxm2-16", "dgx-1v"),
    ("V100-SXM2-32GB", "v100-sxm2-32", "dgx-1v"),
    ("A100-SXM4-40GB", "a100-sxm4-40", "dgx-a100"),
    ("A100-SXM4-80GB", "a100-sxm4-80", "dgx-a100"),
    ("H100 80GB HBM3", "h100-sxm5", "hgx-h100"),
    ("H200", "h200", "hgx-h200"),
    ("GH200", "gh200-h100", "gh200-quad"),
    ("B200", "b200", "hgx-b200"),
    ("GB200", "gb200-b200", "gb200-nvl72"),
];
/// What vendors are called in front of them.
const VENDORS: [&str; 2] = ["NVIDIA ", "Tesla "];
/// Switches of Ethernet for such adapters; the smallest of the catalogue where none of them runs at the speed. Basis: assumed.
const ETHERNET_SWITCHES: [&str; 3] = ["sn5400", "sn5600", "sn2410"];
/// Rates by which speeds are called, in Gb/s (standard).
const RATES: [u64; 10] = [10, 20, 25, 40, 50, 56, 100, 200, 400, 800];
/// Adapters of a node that the mocks have numbers for.
const MOST_ADAPTERS: u32 = 16;
/// Nodes where nobody says how many: what a benchmark between two needs. Basis: assumed.
const USUAL_NODES: u32 = 2;

/// What the profile's words mean in the catalogue.
struct Found<'c> {
    /// The node, and the GPU where the node is not known to have it.
    node: Option<(&'c str, Option<&'static str>)>,
    nic: &'c Nic,
    nics: u32,
    link: &'c LinkSpeed,
    switch: &'c Switch,
    nodes: u32,
}

/// The text of the cluster.
pub(super) fn cluster(catalog: &Catalog, read: &Read, file: &Path, nodes: Option<u32>) -> Result<String, Wrong> {
    let nic = adapter(catalog, read)?;
    let link = link(catalog, read, nic)?;
    let usual = ETHERNET_SWITCHES.iter().filter_map(|name| catalog.switch(name).ok());
    let usual =
        usual.filter(|switch| switch.layer == link.layer && switch.speeds.contains(&link.name)).min_by_key(|switch| switch.speeds.len());
    let any = || draft::switch(catalog, link, None, 0).map_err(|error| wrong(&read.gbps, error.to_string(), "write another rate_gbps"));
    let switch = usual.map_or_else(any, Ok)?;
    let nodes = nodes.or(read.nodes.as_ref().map(|nodes| nodes.value)).unwrap_or(USUAL_NODES);
    let node = node(catalog, read)?;
    let nics = adapters(catalog, read, node.map(|(part, _)| part))?;
    Ok(written(read, &Found { node, nic, nics, link, switch, nodes }, file))
}

fn wrong<T>(place: &Placed<T>, message: String, help: impl Into<String>) -> Wrong {
    Wrong { at: place.at.clone(), message, help: help.into() }
}

/// How many adapters a node has.
fn adapters(catalog: &Catalog, read: &Read, node: Option<&str>) -> Result<u32, Wrong> {
    let all = node.and_then(|name| catalog.node(name).ok()).map_or(0, NodePart::gpus);
    let gpus = if read.gpus.value > 0 { read.gpus.value } else { all.max(1) };
    let each = &read.hcas_per_gpu;
    let of_gpus = || Placed { value: each.value.saturating_mul(gpus), at: each.at.clone() };
    let hcas = read.hcas.clone().unwrap_or_else(of_gpus);
    if hcas.value <= MOST_ADAPTERS {
        return Ok(hcas.value);
    }
    let help = format!("use at most {MOST_ADAPTERS}: list the GPUs of one node in `devices`, or write `hca_count`");
    Err(wrong(&hcas, format!("{} adapters of a node", hcas.value), help))
}

/// The adapter of that kind.
fn adapter<'c>(catalog: &'c Catalog, read: &Read) -> Result<&'c Nic, Wrong> {
    if let Some(name) = &read.nic {
        return catalog.nic(&name.value).map(|nic| &**nic).map_err(|_| {
            let known = catalog.names(Kind::Nic);
            wrong(name, format!("there is no adapter called `{}`", name.value), suggest::help(&name.value, known))
        });
    }
    let kind = &read.kind;
    let found = kinds().find(|(known, _)| known.eq_ignore_ascii_case(&kind.value)).and_then(|(_, name)| catalog.nic(name).ok());
    found.map(|nic| &**nic).ok_or_else(|| {
        let known = kinds().map(|(kind, name)| format!("{kind} ({name})")).collect::<Vec<_>>().join(", ");
        let message = format!("the catalogue has no adapter `{}`", kind.value);
        wrong(kind, message, format!("write one of {known}; or name one to take in its place, `fabriscope: {{ nic: connectx-7 }}`"))
    })
}

/// The speed of the adapter's ports at that rate: four lanes where there are several.
fn link<'c>(catalog: &'c Catalog, read: &Read, nic: &Nic) -> Result<&'c LinkSpeed, Wrong> {
    let rate = Rate::from_gbps(read.gbps.value.into());
    let layer = read.layer.value;
    let links = || {
        let links = catalog.parts().filter_map(|part| if let AnyPart::Link(link) = part { Some(&**link) } else { None });
        links.filter(|link| link.layer == layer && nic.speeds.contains(&link.name))
    };
    let found = links().filter(|link| draft::is_near(link, rate)).max_by_key(|link| link.lanes == 4);
    found.ok_or_else(|| {
        let message = format!("`{}` has no port of {layer} at {rate}", nic.name);
        let runs = RATES.iter().filter(|gbps| links().any(|link| draft::is_near(link, Rate::from_gbps(**gbps))));
        let runs = runs.map(u64::to_string).collect::<Vec<_>>().join(", ");
        let help = if runs.is_empty() { "write another link_layer or hca_type".to_owned() } else { format!("write one of {runs}") };
        wrong(&read.gbps, message, help)
    })
}

/// The node of the catalogue with such GPUs; none where there are no GPUs.
fn node<'c>(catalog: &'c Catalog, read: &Read) -> Result<Option<(&'c str, Option<&'static str>)>, Wrong> {
    let known = read.gpu.as_ref().and_then(|gpu| {
        let name = VENDORS.iter().fold(gpu.value.trim(), |name, vendor| name.strip_prefix(vendor).unwrap_or(name));
        let begins = |(known, ..): &&(&str, &str, &str)| name.get(..known.len()).is_some_and(|start| start.eq_ignore_ascii_case(known));
        GPUS.iter().find(begins)
    });
    if let Some(name) = &read.node {
        let part = catalog.node(&name.value).map_err(|_| {
            let nodes = catalog.names(Kind::Node);
            wrong(name, format!("there is no node called `{}`", name.value), suggest::help(&name.value, nodes))
        })?;
        let gpu = known.map(|(_, gpu, _)| *gpu).filter(|gpu| part.gpus.as_ref().is_some_and(|gpus| gpus.part != *gpu));
        return Ok(Some((&part.name, gpu)));
    }
    match (known, &read.gpu) {
        (Some((_, gpu, node)), _) => {
            let part = catalog.node(node).ok().filter(|part| part.gpus.is_some());
            Ok(part.map(|part| (part.name.as_str(), part.gpus.as_ref().is_none_or(|gpus| gpus.part != *gpu).then_some(*gpu))))
        }
        (None, Some(gpu)) => {
            let names = GPUS.iter().map(|(name, ..)| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            let message = format!("the catalogue has no node with GPUs called `{}`", gpu.value);
            let help = format!("it has {names}; or name the node to take, `fabriscope: {{ node: hgx-h100 }}` (`fabriscope parts`)");
            Err(wrong(gpu, message, help))
        }
        (None, None) => Ok(None),
    }
}

/// Whether the NVLinks that a profile tells of are those of the node.
pub(super) fn agree(read: &Read, cluster: &ResolvedCluster) -> Result<(), Wrong> {
    let node = &cluster.sole().node;
    let name = &node.layout.part.name;
    let help = "correct it, leave `nvlink` out, or name another node, `fabriscope: { node: NAME }`";
    let has = node.layout.scale_up.as_ref().map(|links| links.part.name.as_str());
    if let Some(version) = &read.nvlink {
        let wanted = format!("nvlink-{}", version.value);
        if has.is_none_or(|has| has != wanted) {
            let has = has.unwrap_or("no NVLink");
            return Err(wrong(version, format!("{wanted}, but the GPUs of `{name}` have {has}"), help));
        }
    }
    let most = node.layout.part.scale_up.as_ref().map_or(0, |links| links.most_links(node.layout.part.gpus()));
    match &read.nvlinks {
        Some(links) if links.value != most => {
            Err(wrong(links, format!("{} links of each GPU, but those of `{name}` have {most}", links.value), help))
        }
        _ => Ok(()),
    }
}

/// Where the reasons begin.
const COLUMN: usize = 28;

fn written(read: &Read, found: &Found<'_>, file: &Path) -> String {
    let mut text = String::new();
    let mut line = |key: &str, why: &str| {
        let gap = " ".repeat(COLUMN.saturating_sub(key.chars().count() + 1));
        // Writing to a string cannot fail.
        let _ = if why.is_empty() { writeln!(text, "{key}") } else { writeln!(text, "{key}{gap} # {why}") };
    };
    let stem = file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let word = |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '_' || c == '.' { c } else { '-' };
    let hcas = found.nics;
    let gpus =
        read.gpu.as_ref().filter(|_| read.gpus.value > 0).map_or(String::new(), |gpu| format!("{} x {}, ", read.gpus.value, gpu.value));
    line("# A node as a profile of hardware mocks describes it. What that does not say is assumed below: correct it.", "");
    line("", "");
    line(&format!("name = {}", quoted(&stem.chars().map(word).collect::<String>())), "");
    line(&format!("title = {}", quoted(&format!("{gpus}{hcas} x {}", read.kind.value))), "");
    line(&format!("nodes = {}", found.nodes), "");
    line(&format!("link = {}", quoted(&found.link.name)), &format!("rate_gbps: {}", read.gbps.value));
    let layer = if found.link.layer == Layer::InfiniBand { "infiniband" } else { "roce_v2" };
    line(&format!("link_layer = \"{layer}\""), "");
    line("mtu = \"4096 B\"", "assumed: the largest");
    line(&format!("switch = {}", quoted(&found.switch.name)), "assumed: it has the speed");
    line("software = \"openmpi-ucx\"", "assumed; of all_reduce_perf and its kin it is the NCCL of the catalogue");
    let endpoints = u64::from(found.nodes) * u64::from(hcas);
    let topology = if endpoints <= u64::from(found.switch.ports) { "single_switch" } else { "fat_tree" };
    line(&format!("topology.{topology} = {{}}"), "assumed: the least that blocks nothing");
    line("", "");
    line("[node]", "");
    match found.node {
        Some((part, gpu)) => {
            line(&format!("part = {}", quoted(part)), "the node of the catalogue with such GPUs");
            if let Some(gpu) = gpu {
                line(&format!("gpu = {}", quoted(gpu)), "");
            }
            if read.gpus.value > 0 {
                line(&format!("gpus = {}", read.gpus.value), "");
            }
        }
        None => {
            line(&format!("cpu = {}", quoted(draft::usual_cpu(found.link))), "assumed");
            line("sockets = 2", "assumed");
        }
    }
    line(&format!("nic = {}", quoted(&found.nic.name)), &read.kind.value.replace(char::is_control, " "));
    line(&format!("nics = {hcas}"), "");
    line("", "");
    line("[cable]", "");
    line("part = \"optical\"", "assumed");
    line("host_length = { value = \"5 m\", basis = \"assumed\", note = \"within a rack or to the next\" }", "");
    line("trunk_length = { value = \"20 m\", basis = \"assumed\", note = \"within one room\" }", "");
    if !read.identity.is_empty() {
        line("", "");
        line("[identity]", "what adapters say of themselves");
    }
    for (key, value) in &read.identity {
        line(&format!("{key} = {}", quoted(&value.value)), "");
    }
    text
}
