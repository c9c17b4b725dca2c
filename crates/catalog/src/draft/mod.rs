//! Files to begin with: a cluster for a fabric that another tool described, and a node (`node`).
//!
//! What the file says is taken: hosts and their adapters, speeds, ports of switches. What no such file says is assumed, and each
//! line that assumes something says so: the node and its adapter by the number and the speed of a host's adapters, the switch
//! by its speed and ports, cables, MTU, software. The text is resolved before it is handed out: what is written runs.

mod node;
mod text;

use std::collections::BTreeMap;
use std::path::PathBuf;

use fabriscope_fabric::import::{Cable, Host, Kind as DeviceKind, Subnet};
use fabriscope_units::Rate;
use miette::Diagnostic;

use crate::catalog::{AnyPart, Catalog};
use crate::error::CatalogError;
use crate::node::Node;
use crate::part::{Layer, LinkSpeed, Nic, NodePart, Switch};

pub use node::node;
pub(crate) use text::quoted;

/// What is said beside the file of the fabric.
#[derive(Clone, Debug, Default)]
pub struct DraftRequest {
    /// The name of the cluster.
    pub name: String,
    /// The folder that the cluster's file is in.
    pub folder: PathBuf,
    /// The fabric, as seen from that folder.
    pub file: String,
    /// Forwarding tables, as seen from that folder.
    pub tables: Option<String>,
    /// The node of the catalogue that the hosts are; by their adapters where none is named.
    pub node: Option<String>,
    /// The hosts that are the nodes: `gpu[01-16],gpu20`; all that have the usual number of adapters where none are named.
    pub hosts: Option<String>,
}

/// A cluster file to begin with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    /// The text of the file.
    pub text: String,
    /// Nodes of the cluster.
    pub nodes: u32,
    /// The first of its hosts, as a list: enough to try a benchmark on.
    pub some_hosts: String,
    /// Whether its nodes have GPUs.
    pub gpus: bool,
}

/// Why there is no cluster file for a fabric.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[non_exhaustive]
pub enum DraftError {
    /// No host, or none with a name.
    #[error("the fabric has no host with a cable to a switch")]
    #[diagnostic(code(import::no_hosts), help("import a fabric that was read while its hosts were up"))]
    NoHosts,
    /// A speed that no part has.
    #[error("the catalogue has no {what} for `{link}`{beside}")]
    #[diagnostic(
        code(import::no_part),
        help("write one into a folder of your own and name it with --catalog DIR; catalog/README.md says how")
    )]
    NoPart {
        /// Adapter or switch.
        what: &'static str,
        /// The speed.
        link: String,
        /// What else it must have.
        beside: String,
    },
    /// A node that does not suit the fabric.
    #[error("{message}")]
    #[diagnostic(code(import::node), help("{help}"))]
    Unsuitable {
        /// What is wrong.
        message: String,
        /// What to write instead.
        help: String,
    },
    /// What the catalogue says of the text.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Catalog(#[from] CatalogError),
}

/// What was found out, on the way to a text.
struct Findings<'c> {
    hosts: Vec<Host>,
    /// Adapters of a node.
    nics: u32,
    /// How many hosts are nodes.
    nodes: u32,
    link: &'c LinkSpeed,
    /// The speed as the file writes it; none where it says nothing.
    speed: Option<String>,
    trunk: Option<&'c LinkSpeed>,
    switch: &'c Switch,
    /// The highest port with a cable.
    ports: u32,
    node: Hardware<'c>,
}

/// What the hosts are made of.
enum Hardware<'c> {
    /// A node of the catalogue; with another adapter where its own does not run at the speed.
    Part { part: &'c NodePart, nic: Option<&'c str>, assumed: bool },
    /// Processors and an adapter.
    Plain { cpu: &'static str, nic: &'c str },
}

/// The usual parts at a speed: GPU node, processor, adapter. Basis: assumed; what was sold together.
const USUAL: [(&str, &str, &str, &str); 14] = [
    ("xdr", "hgx-b200", "xeon-8570", "connectx-8"),
    ("800gbe", "hgx-b200", "xeon-8570", "connectx-8"),
    ("ndr", "hgx-h100", "xeon-8480c", "connectx-7"),
    ("400gbe", "hgx-h100", "xeon-8480c", "connectx-7"),
    ("hdr", "dgx-a100", "epyc-7763", "connectx-6"),
    ("200gbe", "dgx-a100", "epyc-7763", "connectx-6"),
    ("hdr100", "dgx-a100", "epyc-7763", "connectx-6"),
    ("edr", "dgx-1v", "xeon-gold-6248", "connectx-5"),
    ("100gbe", "dgx-1v", "xeon-gold-6248", "connectx-5"),
    ("fdr", "", "xeon-e5-2680v4", "connectx-3"),
    ("ddr", "", "xeon-e5-2680v4", "connectx"),
    ("sdr", "", "xeon-e5-2680v4", "connectx"),
    ("25gbe", "", "xeon-gold-6248", "connectx-5"),
    ("50gbe", "", "xeon-gold-6248", "connectx-5"),
];

/// Adapters from which on a host is taken for a node with GPUs. Basis: assumed; one for every two GPUs of eight.
const ADAPTERS_OF_GPUS: u32 = 4;
/// The speed where the file says none. Basis: assumed.
const USUAL_LINK: &str = "ndr";

/// A cluster file for a subnet.
///
/// # Errors
/// A fabric without hosts, speeds that no part runs at, a node that does not suit it.
pub fn cluster(catalog: &Catalog, subnet: &Subnet, request: &DraftRequest) -> Result<Draft, DraftError> {
    let found = findings(catalog, subnet, request)?;
    let text = text::written(&found, request);
    let file = request.folder.join(format!("{}.toml", request.name));
    let cluster = catalog.parse_cluster(&file.display().to_string(), &text)?;
    let resolved = catalog.resolve(&cluster, None)?;
    let names: Vec<&str> = (0..resolved.nodes().min(SOME)).filter_map(|node| resolved.host_name(node)).collect();
    let some_hosts = fabriscope_fabric::export::fold(names);
    Ok(Draft { text, nodes: resolved.nodes(), some_hosts, gpus: resolved.groups.iter().any(|group| group.node.gpus > 0) })
}

/// Hosts of an example.
const SOME: u32 = 2;

fn findings<'c>(catalog: &'c Catalog, subnet: &Subnet, request: &DraftRequest) -> Result<Findings<'c>, DraftError> {
    let hosts = subnet.hosts();
    let named = || hosts.iter().filter(|host| !host.unnamed);
    let asked = match &request.node {
        Some(name) => Some(catalog.node(name)?),
        None => None,
    };
    let chosen = request.hosts.as_ref().and_then(|list| Host::names(list).ok());
    let counted = named().filter(|host| chosen.as_ref().is_none_or(|names| names.contains(&host.name)));
    let mut counts: BTreeMap<u32, u32> = BTreeMap::new();
    counted.for_each(|host| *counts.entry(host.ports.len() as u32).or_default() += 1);
    // What most adapters belong to.
    let usual = counts.iter().max_by_key(|(ports, count)| (**ports * **count, **ports)).map(|(ports, _)| *ports);
    let mut nics = usual.or_else(|| (!hosts.is_empty()).then_some(1)).ok_or(DraftError::NoHosts)?;
    if let Some(part) = asked {
        nics = nics.min(part.nics());
    }
    let nodes = match (usual, nics) {
        _ if chosen.is_some() => chosen.as_ref().map_or(0, |names| names.len() as u32),
        (None, _) | (_, 1) => hosts.iter().map(|host| host.ports.len() as u32).sum(),
        _ => named().filter(|host| host.ports.len() as u32 == nics).count() as u32,
    };
    let is_host = |cable: &&Cable| cable.ends.iter().any(|end| subnet.device(*end).kind == DeviceKind::Adapter);
    let is_trunk = |cable: &&Cable| cable.ends.iter().all(|end| subnet.device(*end).kind == DeviceKind::Switch);
    let (link, speed) = speed_of(catalog, subnet.cables.iter().filter(is_host))?;
    let trunk = speed_of(catalog, subnet.cables.iter().filter(is_trunk)).ok().filter(|(trunk, known)| {
        // A cable knows its own rate; the cluster's only says what the switch must run at.
        known.is_some() && trunk.name != link.name && trunk.layer == link.layer
    });
    let at_switch = |end: &fabriscope_fabric::import::Plug| subnet.device(*end).kind == DeviceKind::Switch;
    let left_out =
        |cable: &&Cable| cable.ends.iter().any(|end| matches!(subnet.device(*end).kind, DeviceKind::Aggregation | DeviceKind::Router));
    let cabled = subnet.cables.iter().filter(|cable| !left_out(cable)).flat_map(|cable| cable.ends);
    let ports = cabled.filter(at_switch).map(|end| u32::from(end.port)).max().unwrap_or(0);
    let trunk = trunk.map(|(trunk, _)| trunk);
    let switch = switch(catalog, link, trunk, ports)?;
    let node = hardware(catalog, link, nics, asked)?;
    Ok(Findings { hosts, nics, nodes, link, speed, trunk, switch, ports, node })
}

/// The speed that most of these cables run at, and how the file writes it.
fn speed_of<'c, 's>(catalog: &'c Catalog, cables: impl Iterator<Item = &'s Cable>) -> Result<(&'c LinkSpeed, Option<String>), DraftError> {
    let mut counts: BTreeMap<(Option<Rate>, Option<String>), u32> = BTreeMap::new();
    for cable in cables {
        *counts.entry((cable.data_rate(), cable.speed.map(|speed| speed.to_string()))).or_default() += 1;
    }
    let usual = counts.into_iter().filter(|((rate, _), _)| rate.is_some()).max_by_key(|(_, count)| *count);
    let Some(((Some(rate), speed), _)) = usual else { return Ok((catalog.link(USUAL_LINK)?, None)) };
    // Only InfiniBand tells a width and a generation; a bare rate is that of Ethernet where it has such a speed.
    let layers = if speed.is_some() { [Layer::InfiniBand, Layer::InfiniBand] } else { [Layer::Ethernet, Layer::InfiniBand] };
    let links = || catalog.parts().filter_map(|part| if let AnyPart::Link(link) = part { Some(&**link) } else { None });
    let by_speed = |layer: Layer| {
        let same = links().filter(|link| link.layer == layer && link.frame.is_none() && is_near(link, rate));
        // Of several with one rate the one that is usual: four lanes.
        same.max_by_key(|link| (USUAL.iter().any(|(usual, ..)| *usual == link.name), link.lanes == 4))
    };
    let beside = String::new();
    let link = layers.into_iter().find_map(by_speed);
    let text = speed.clone().unwrap_or_else(|| rate.to_string());
    link.map(|link| (link, Some(text.clone()))).ok_or(DraftError::NoPart { what: "link speed", link: text, beside })
}

/// Rates of a generation are rounded differently: this share apart is the same.
const NEAR: u64 = 25;

/// Whether a speed is what people call by that rate.
pub(crate) fn is_near(link: &LinkSpeed, rate: Rate) -> bool {
    link.data_rate().as_bps().abs_diff(rate.as_bps()) <= rate.as_bps() / NEAR
}

/// The processor of nodes at a speed. Basis: assumed.
pub(crate) fn usual_cpu(link: &LinkSpeed) -> &'static str {
    USUAL.iter().find(|(speed, ..)| *speed == link.name).map_or("epyc-7763", |(_, _, cpu, _)| cpu)
}

/// The smallest switch that has the speeds and the ports.
pub(crate) fn switch<'c>(catalog: &'c Catalog, link: &LinkSpeed, trunk: Option<&LinkSpeed>, ports: u32) -> Result<&'c Switch, DraftError> {
    let runs = |switch: &Switch, link: &LinkSpeed| switch.speeds.contains(&link.name);
    let switches = catalog.parts().filter_map(|part| if let AnyPart::Switch(switch) = part { Some(&**switch) } else { None });
    let fitting = switches.filter(|switch| {
        let both = runs(switch, link) && trunk.is_none_or(|trunk| runs(switch, trunk));
        switch.layer == link.layer && both && switch.ports >= ports
    });
    // Parts of no vendor only where there is no other.
    let found = fitting.min_by_key(|switch| (switch.name.starts_with("lab-"), switch.ports, switch.name.clone()));
    found.ok_or_else(|| {
        let trunk = trunk.map_or(String::new(), |trunk| format!(" and `{}`", trunk.name));
        DraftError::NoPart { what: "switch", link: link.name.clone(), beside: format!("{trunk} with at least {ports} ports") }
    })
}

/// What hosts with that many adapters at that speed are made of.
fn hardware<'c>(catalog: &'c Catalog, link: &LinkSpeed, nics: u32, asked: Option<&'c NodePart>) -> Result<Hardware<'c>, DraftError> {
    let usual = USUAL.iter().find(|(speed, ..)| *speed == link.name);
    let runs = |nic: &Nic| nic.speeds.contains(&link.name) && nic.layers.contains(&link.layer);
    let any = || {
        let nics = catalog.parts().filter_map(|part| if let AnyPart::Nic(nic) = part { Some(&**nic) } else { None });
        nics.filter(|nic| runs(nic)).min_by_key(|nic| (nic.name.starts_with("lab-"), nic.name.clone())).map(|nic| nic.name.as_str())
    };
    let known = usual.and_then(|(.., name)| catalog.nic(name).ok()).filter(|nic| runs(nic)).map(|nic| nic.name.as_str());
    let fitting =
        || known.or_else(any).ok_or_else(|| DraftError::NoPart { what: "adapter", link: link.name.clone(), beside: String::new() });
    let of_gpus = || usual.filter(|_| nics >= ADAPTERS_OF_GPUS).and_then(|(_, gpus, ..)| catalog.node(gpus).ok());
    if let Some(part) = asked.or_else(of_gpus).filter(|part| asked.is_some() || part.nics() >= nics) {
        let Some(slots) = &part.nics else {
            let message = format!("the node `{}` has no slots for adapters", part.name);
            return Err(DraftError::Unsuitable {
                message,
                help: "name another node, or rest one of your own on it with [nics]".to_owned(),
            });
        };
        let own = catalog.nic(&slots.part).is_ok_and(|nic| runs(nic));
        let nic = if own { None } else { Some(fitting()?) };
        catalog.resolve_node(&Node { part: Some(part.name.clone()), nic: nic.map(str::to_owned), ..Node::default() })?;
        return Ok(Hardware::Part { part, nic, assumed: asked.is_none() });
    }
    Ok(Hardware::Plain { cpu: usual_cpu(link), nic: fitting()? })
}
