//! A node of the catalogue to begin with, for a node that another tool described.
//!
//! Taken from the file: sockets, NUMA domains, PCI Express switches with their uplinks, what GPUs and adapters hang under.
//! Assumed, because no such file says it: which processor, GPU and adapter these are with all their costs, and how GPUs are joined:
//! those of the node of the catalogue that the new one rests on.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;

use fabriscope_machine::import::NodeFile;
use fabriscope_machine::{LinkKind, Machine, VertexId, VertexKind};

use super::{DraftError, text::quoted};
use crate::catalog::{AnyPart, Catalog};
use crate::part::{Kind, NodePart};

/// The usual base node by the NVLinks of each GPU to its like. Basis: assumed; the links of these generations.
const BASES: [(u32, &str); 4] = [(18, "hgx-h100"), (12, "dgx-a100"), (6, "dgx-1v"), (0, "cpu-two-socket")];

/// The node as a part called `name`, which rests on `base`, or on the usual node with such GPUs.
///
/// # Errors
/// Nodes whose GPUs are not known, a base with another number of GPUs, domains that processors do not share evenly.
pub fn node(catalog: &Catalog, file: &NodeFile, name: &str, base: Option<&str>) -> Result<String, DraftError> {
    let machine = &file.machine;
    let unsuitable = |message: String, help: &str| DraftError::Unsuitable { message, help: help.to_owned() };
    let gpus = machine.gpus();
    let links = gpus.iter().map(|gpu| nvlinks(machine, *gpu)).max().unwrap_or(0);
    let usual = BASES.iter().find(|(each, _)| *each == links && (links > 0 || gpus.is_empty())).map(|(_, base)| *base);
    let Some(base) = base.or(usual) else {
        let message = format!("{} GPUs with {links} NVLinks to their like each: no node of that kind is usual", gpus.len());
        return Err(unsuitable(message, "name the node of the catalogue that is nearest: --node NAME; `fabriscope parts` lists them"));
    };
    let part = catalog.node(base)?;
    if part.gpus() as usize != gpus.len() {
        let message = format!("the file has {} GPUs, and the node `{base}` has {}", gpus.len(), part.gpus());
        return Err(unsuitable(message, "name a node with as many: --node NAME; `fabriscope parts` lists them"));
    }
    if machine.nics().is_empty() {
        let help = "take the file where adapters can be seen: on the host, not in a container";
        return Err(unsuitable("the file has no network adapter".to_owned(), help));
    }
    let text = written(file, name, part)?;
    match catalog.parse_part(Kind::Node, name, &text)? {
        AnyPart::Node(part) => crate::resolve_node::of_part(catalog, NodePart::clone(&part)).map(|_| text).map_err(|problem| {
            unsuitable(problem.message, "name another node of the catalogue: --node NAME; `fabriscope parts` lists them")
        }),
        _ => Ok(text),
    }
}

/// The file.
fn written(file: &NodeFile, name: &str, base: &NodePart) -> Result<String, DraftError> {
    let tree = Tree::of(&file.machine)?;
    let list = |names: Vec<String>| format!("[{}]", names.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(", "));
    let host = if file.host.is_empty() { name } else { &file.host };
    let mut text = format!("# A node to begin with, made of a file of {} about {}.\n", file.format, host.replace(char::is_control, " "));
    text += "# What hangs under what is as that file says. Processor, GPU, adapter and the links of GPUs are assumed to be those of the\n";
    text += "# node that it rests on: name others by `cpu`, `gpus.part`, `nics.part`.\n\n";
    // Writing to a string cannot fail.
    let _ = writeln!(text, "name = {}", quoted(name));
    let _ = writeln!(
        text,
        "title = {}",
        quoted(&format!("{host}: {} GPUs, {} adapters", file.machine.gpus().len(), file.machine.nics().len()))
    );
    let _ = writeln!(text, "base = {}", quoted(&base.name));
    let _ = writeln!(text, "sockets = {}\nnuma_per_socket = {}", tree.sockets, tree.domains_of_socket);
    if tree.switches.is_empty() && !base.switches.is_empty() {
        text += "switches = []\n";
    }
    for group in tree.switches.chunk_by(|one, other| one.uplink == other.uplink) {
        let (generation, lanes) = group[0].uplink;
        let names = list(group.iter().map(|switch| switch.name.clone()).collect());
        let under = list(group.iter().map(|switch| switch.under.clone()).collect());
        let _ = writeln!(text, "\n[[switches]]\nnames = {names}\nunder = {under}");
        let _ = writeln!(text, "uplink = {{ generation = {generation}, lanes = {lanes} }}");
        text += "latency = { value = \"150 ns\", basis = \"assumed\", note = \"vendors of PCI Express switches tell of 100 to 150 ns\" }\n";
    }
    if base.gpus.is_some() {
        let _ = writeln!(text, "\n[gpus]\nunder = {}", list(tree.under(&file.machine.gpus())?));
    }
    let _ = writeln!(text, "\n[nics]\nunder = {}", list(tree.under(&file.machine.nics())?));
    Ok(text)
}

/// A PCI Express switch, and what it hangs under.
struct SwitchAt {
    name: String,
    under: String,
    /// Generation and lanes of its uplink.
    uplink: (u32, u32),
}

/// What hangs under what.
struct Tree<'m> {
    machine: &'m Machine,
    sockets: u32,
    domains_of_socket: u32,
    switches: Vec<SwitchAt>,
    /// The name of what each device hangs under.
    under: BTreeMap<VertexId, String>,
}

impl<'m> Tree<'m> {
    /// Walks down from the NUMA domains; what is above comes before what is below.
    fn of(machine: &'m Machine) -> Result<Tree<'m>, DraftError> {
        let mut domains: Vec<(u32, VertexId)> = Vec::new();
        for id in machine.numas() {
            if let VertexKind::Numa { package } = machine.vertex(id).kind {
                domains.push((package, id));
            }
        }
        domains.sort();
        let mut of_socket: BTreeMap<u32, u32> = BTreeMap::new();
        domains.iter().for_each(|(package, _)| *of_socket.entry(*package).or_default() += 1);
        let each = of_socket.values().copied().max().unwrap_or(0);
        if each == 0 || of_socket.values().any(|count| *count != each) {
            let message = "processors with unlike numbers of NUMA domains".to_owned();
            let help = "nodes of the catalogue have the same on each; write the node by hand: catalog/README.md says how".to_owned();
            return Err(DraftError::Unsuitable { message, help });
        }
        let sockets = of_socket.len() as u32;
        let mut tree = Tree { machine, sockets, domains_of_socket: each, switches: Vec::new(), under: BTreeMap::new() };
        let mut open: VecDeque<(VertexId, String)> =
            domains.iter().enumerate().map(|(number, (_, id))| (*id, format!("numa{number}"))).collect();
        while let Some((above, name)) = open.pop_front() {
            for &link in machine.around(above) {
                let link = machine.link(link);
                let below = link.other(above);
                if !tree.under.contains_key(&below) {
                    tree.hang(below, &name, link.kind, &mut open);
                }
            }
        }
        Ok(tree)
    }

    fn hang(&mut self, below: VertexId, above: &str, link: LinkKind, open: &mut VecDeque<(VertexId, String)>) {
        let name = match self.machine.vertex(below).kind {
            VertexKind::HostBridge => above.to_owned(),
            VertexKind::PcieSwitch => {
                let name = format!("sw{}", self.switches.len());
                let uplink = match link {
                    LinkKind::Pcie { generation: generation @ 1.., lanes: lanes @ 1.. } => (generation, lanes),
                    _ => USUAL_UPLINK,
                };
                self.switches.push(SwitchAt { name: name.clone(), under: above.to_owned(), uplink });
                name
            }
            VertexKind::Gpu | VertexKind::Nic => {
                self.under.insert(below, above.to_owned());
                return;
            }
            _ => return,
        };
        self.under.insert(below, above.to_owned());
        open.push_back((below, name));
    }

    /// What each of these hangs under.
    fn under(&self, devices: &[VertexId]) -> Result<Vec<String>, DraftError> {
        let found = devices.iter().map(|id| {
            self.under.get(id).cloned().ok_or_else(|| DraftError::Unsuitable {
                message: format!("nothing of PCI Express leads to `{}`", self.machine.vertex(*id).name),
                help: "write the node by hand: catalog/README.md says how".to_owned(),
            })
        });
        found.collect()
    }
}

/// NVLinks of a GPU to its like, and to switches between them.
fn nvlinks(machine: &Machine, gpu: VertexId) -> u32 {
    let links = machine.around(gpu).iter().map(|link| match machine.link(*link).kind {
        LinkKind::NvLink { links, .. } => links,
        _ => 0,
    });
    links.sum()
}

/// Generation and lanes of an uplink where a file does not say them. Basis: assumed.
const USUAL_UPLINK: (u32, u32) = (4, 16);
