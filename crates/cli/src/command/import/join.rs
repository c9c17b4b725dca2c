//! Which adapter of which node is which endpoint of a fabric.
//!
//! An adapter is found by its GUID where one adapter of its node has it, else by the name of host and adapter. NCCL writes GUIDs
//! with their bytes reversed, so both orders count; `HCA-1` of older drivers is the first adapter of its host.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fabriscope_fabric::import::{Device, Kind, Subnet};
use fabriscope_machine::VertexId;
use fabriscope_machine::import::{NodeFile, nearest};
use fabriscope_report::Table;
use serde::Serialize;

use super::text_of;
use crate::context::Context;
use crate::error::Failure;
use crate::node;

/// An adapter that is in both.
#[derive(Debug, Serialize)]
struct Found {
    host: String,
    /// What the node calls it.
    adapter: String,
    /// What the fabric calls it.
    device: String,
    /// `GUID` or `name`.
    by: &'static str,
    /// Its endpoints, as labs count them.
    endpoints: Vec<u32>,
    /// Where its cables lead.
    switches: Vec<String>,
    /// GPUs of which it is the nearest adapter.
    gpus: Vec<String>,
}

/// What fits and what does not.
#[derive(Debug, Default, Serialize)]
pub struct Joined {
    found: Vec<Found>,
    /// Adapters of nodes that are not in the fabric.
    not_in_fabric: Vec<String>,
    /// Adapters in the fabric, of hosts whose file does not have them.
    not_in_node: Vec<String>,
    /// Hosts in the fabric without a file.
    hosts_without_file: Vec<String>,
    notes: Vec<String>,
}

/// The files that are meant: of a folder, all in it.
pub fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    for path in paths {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let cannot = |cause: std::io::Error| Failure::told(format!("{}: {cause}", path.display()), "name a folder that can be read");
        let mut inside = Vec::new();
        for entry in std::fs::read_dir(path).map_err(cannot)? {
            inside.push(entry.map_err(cannot)?.path());
        }
        inside.retain(|path| path.is_file());
        inside.sort();
        files.extend(inside);
    }
    if files.is_empty() {
        return Err(Failure::told("no file about a node in what --nodes names", "put the output of `lstopo --of xml` of each node there"));
    }
    Ok(files)
}

/// The nodes in files; one host has one file.
pub fn nodes(files: &[PathBuf], context: &Context) -> Result<Vec<NodeFile>, Failure> {
    let rates = node::rates(context)?;
    let mut hosts: BTreeMap<String, &Path> = BTreeMap::new();
    let mut nodes = Vec::new();
    for path in files {
        let file = node::parse(path, &text_of(path)?, &rates)?;
        if let Some(before) = hosts.insert(short(&file.host), path) {
            let message = format!("{}: host {} has a file already, {}", path.display(), file.host, before.display());
            return Err(Failure::told(message, "give one file for each host; name a file of NCCL or nvidia-smi after its host"));
        }
        nodes.push(file);
    }
    Ok(nodes)
}

/// Host names count up to the first dot, in any case.
fn short(host: &str) -> String {
    host.split('.').next().unwrap_or_default().to_lowercase()
}

/// Finds the adapters of nodes in a subnet.
pub fn join(subnet: &Subnet, nodes: &[NodeFile]) -> Joined {
    let mut joined = Joined::default();
    let adapters: Vec<(u32, &Device)> = subnet.of_kind(Kind::Adapter).collect();
    let mut by_guid: BTreeMap<u64, u32> = BTreeMap::new();
    let mut by_host: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for (index, device) in &adapters {
        by_guid.extend(device.guid.map(|guid| (guid, *index)));
        if !device.is_unnamed() {
            by_host.entry(short(device.host())).or_default().push(*index);
        }
    }
    let mut endpoints: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (number, plug) in subnet.wiring().endpoints.iter().enumerate() {
        endpoints.entry(plug.device).or_default().push(number as u32);
    }
    let mut taken: BTreeMap<u32, String> = BTreeMap::new();
    for node in nodes {
        let machine = &node.machine;
        let ports: Vec<(VertexId, String, Option<u64>)> = machine.nics().into_iter().flat_map(|id| ports(node, id)).collect();
        let gpus: Vec<(VertexId, Vec<VertexId>)> = machine.gpus().into_iter().map(|gpu| (gpu, nearest(machine, gpu).1)).collect();
        let of_host = by_host.get(&short(&node.host)).map_or(&[][..], Vec::as_slice);
        for (nic, name, guid) in &ports {
            let alone = guid.filter(|guid| ports.iter().filter(|(_, _, other)| *other == Some(*guid)).count() == 1);
            let known = alone.and_then(|guid| by_guid.get(&guid).or_else(|| by_guid.get(&guid.swap_bytes())));
            let named = of_host.iter().find(|index| is_called(&subnet.devices[**index as usize], name));
            let (device, by) = match (known, named) {
                (Some(device), _) => (*device, "GUID"),
                (None, Some(device)) => (*device, "name"),
                (None, None) => {
                    joined.not_in_fabric.push(format!("{} {name}", node.host));
                    continue;
                }
            };
            if let Some(other) = named.filter(|other| **other != device) {
                let devices = [device, *other].map(|index| subnet.devices[index as usize].name());
                let what = format!("{} {name} has the GUID of `{}` and the name of `{}`", node.host, devices[0], devices[1]);
                joined.notes.push(format!("{what}: the GUID counts"));
            }
            let here = format!("{} {name}", node.host);
            if let Some(before) = taken.insert(device, here.clone()) {
                joined.notes.push(format!("`{}` is both {before} and {here}", subnet.devices[device as usize].name()));
            }
            let near = gpus.iter().filter(|(_, nics)| nics.contains(nic)).map(|(gpu, _)| machine.vertex(*gpu).name.clone());
            joined.found.push(Found {
                host: node.host.clone(),
                adapter: name.clone(),
                device: subnet.devices[device as usize].name().to_owned(),
                by,
                endpoints: endpoints.get(&device).cloned().unwrap_or_default(),
                switches: switches(subnet, device),
                gpus: near.collect(),
            });
        }
    }
    left_over(&mut joined, subnet, nodes, &by_host, &taken);
    joined
}

/// What is in the fabric and in no node.
fn left_over(
    joined: &mut Joined,
    subnet: &Subnet,
    nodes: &[NodeFile],
    by_host: &BTreeMap<String, Vec<u32>>,
    taken: &BTreeMap<u32, String>,
) {
    for (host, devices) in by_host {
        let has_file = nodes.iter().any(|node| short(&node.host) == *host);
        let left: Vec<&u32> = devices.iter().filter(|device| !taken.contains_key(device)).collect();
        if has_file {
            joined.not_in_node.extend(left.iter().map(|device| subnet.devices[**device as usize].name().to_owned()));
        } else if left.len() == devices.len() {
            joined.hosts_without_file.push(host.clone());
        }
    }
}

/// Name and GUID of each port of an adapter.
fn ports(node: &NodeFile, id: VertexId) -> Vec<(VertexId, String, Option<u64>)> {
    let vertex = node.machine.vertex(id);
    if vertex.identity.ports.is_empty() {
        return vec![(id, vertex.name.clone(), None)];
    }
    let named = |name: &str| if name.is_empty() { vertex.name.clone() } else { name.to_owned() };
    vertex.identity.ports.iter().map(|port| (id, named(&port.name), port.guid.filter(|guid| *guid != 0))).collect()
}

/// Whether the fabric calls an adapter as its node does.
fn is_called(device: &Device, name: &str) -> bool {
    let adapter = device.adapter();
    let number = |text: &str| text.rsplit(|c: char| !c.is_ascii_digit()).next().and_then(|digits| digits.parse::<u32>().ok());
    let counted = adapter.strip_prefix("HCA-").and_then(|digits| digits.parse::<u32>().ok());
    adapter == name || counted.is_some_and(|counted| number(name).is_some_and(|number| number.checked_add(1) == Some(counted)))
}

/// Switch and port at the other end of each cable of a device.
fn switches(subnet: &Subnet, device: u32) -> Vec<String> {
    let cables = subnet.cables.iter().filter(|cable| cable.ends.iter().any(|end| end.device == device));
    let far = cables.flat_map(|cable| cable.ends.into_iter().filter(|end| end.device != device));
    far.map(|plug| format!("{}:{}", subnet.device(plug).name(), plug.port)).collect()
}

impl Joined {
    /// As tables and lists.
    pub fn text(&self) -> String {
        let mut table = Table::new(["host", "adapter", "in the fabric", "by", "endpoint", "switch:port", "nearest of"]);
        for column in [1, 2, 3, 5, 6] {
            table = table.words(column);
        }
        for found in &self.found {
            let numbers = found.endpoints.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
            let (switches, gpus) = (found.switches.join(", "), found.gpus.join(", "));
            table.push([found.host.clone(), found.adapter.clone(), found.device.clone(), found.by.to_owned(), numbers, switches, gpus]);
        }
        let mut text = format!("# nodes: {} adapters of theirs are in the fabric\n\n", self.found.len());
        if !self.found.is_empty() {
            text += &format!("{table}\n");
        }
        for note in &self.notes {
            text += &format!("note: {note}\n");
        }
        let lists = [
            ("adapters of nodes that are not in the fabric", &self.not_in_fabric),
            ("adapters in the fabric that the file of their host does not have", &self.not_in_node),
            ("hosts in the fabric without a file", &self.hosts_without_file),
        ];
        for (what, places) in lists.into_iter().filter(|(_, places)| !places.is_empty()) {
            let names: Vec<&str> = places.iter().map(String::as_str).collect();
            text += &format!("{what} ({}): {}\n", places.len(), node::text::some(&names, SHOWN));
        }
        text + "\n"
    }
}

/// Names that are listed; --json has all.
const SHOWN: usize = 8;
