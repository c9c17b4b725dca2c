//! `--pcap`: from the words of a person to taps of the fabric, and from what passed them to a file.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use fabriscope_capture::{Address, Format, Framing, Interface, LARGEST_SUBNET, write};
use fabriscope_engine::{Cluster, Sighting, Tap};
use fabriscope_fabric::{EndpointId, LinkId, Node, PortId, SwitchId};

use crate::error::LabError;

/// What to capture, and where.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CaptureRequest {
    /// The file: pcap with nanoseconds, or pcapng by its extension; nothing is captured without one.
    pub file: Option<PathBuf>,
    /// The ports, as a person names them: `node 1`, `switch 0:3`, `nodes`, `all`; node 0 if empty.
    pub taps: Vec<String>,
    /// Bytes of each frame that are kept; all of them if `None`.
    pub snap: Option<u32>,
}

/// The taps of a run, and what is needed to write what passed them.
#[derive(Debug)]
pub struct Taps {
    file: PathBuf,
    format: Format,
    framing: Framing,
    snap: u32,
    interfaces: Vec<Interface>,
    /// Interface by tap.
    numbers: BTreeMap<Tap, u32>,
    /// Ethernet address of the port that a link leaves.
    senders: BTreeMap<u32, [u8; 6]>,
}

impl CaptureRequest {
    /// The taps on a cluster; `None` where nothing is captured.
    pub fn taps(&self, cluster: &Cluster) -> Result<Option<Taps>, LabError> {
        let Some(file) = &self.file else { return Ok(None) };
        if cluster.parts.groups.iter().filter_map(|group| group.node.nic.iwarp.as_ref()).any(|iwarp| iwarp.markers.value) {
            let help = "leave --pcap out, or say markers = false in [iwarp] of the adapter";
            return Err(LabError::refused("frames of iWARP with markers are not written to captures", help));
        }
        let slingshot = cluster.parts.groups.iter().any(|group| group.node.nic.interface == fabriscope_catalog::Interface::Cxi);
        let layer = cluster.parts.link_layer.wire();
        let endpoints = cluster.fabric.graph.endpoint_count();
        if !layer.is_ethernet() && endpoints > LARGEST_SUBNET {
            let message = format!("{endpoints} adapters do not fit into an InfiniBand subnet, which has addresses for {LARGEST_SUBNET}");
            return Err(LabError::refused(message, "capture on a smaller cluster, or on one with link_layer = \"roce_v2\""));
        }
        let format = if file.extension().is_some_and(|extension| extension == "pcapng") { Format::PcapNg } else { Format::Pcap };
        let mut taps = Taps {
            file: file.clone(),
            format,
            framing: Framing { slingshot, subnet: cluster.parts.subnet(), ..Framing::of(layer) },
            // No frame is so long: all of it is kept.
            snap: self.snap.unwrap_or(u32::MAX),
            interfaces: Vec::new(),
            numbers: BTreeMap::new(),
            senders: BTreeMap::new(),
        };
        let first = ["node 0".to_owned()];
        for place in if self.taps.is_empty() { &first[..] } else { &self.taps } {
            taps.add(cluster, place.trim())?;
        }
        Ok(Some(taps))
    }
}

impl Taps {
    /// The taps, for an engine.
    pub fn list(&self) -> Vec<Tap> {
        self.numbers.keys().copied().collect()
    }

    /// The file that was named.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// What of the capture is not in its own form, in words.
    pub fn notes(&self, sightings: &[Sighting]) -> Vec<&'static str> {
        self.framing.stand_ins(sightings)
    }

    /// Writes what passed.
    ///
    /// # Errors
    /// What the writer says.
    pub fn write(&self, sightings: &[Sighting], writer: &mut dyn Write) -> io::Result<()> {
        let place = |sighting: &Sighting| {
            let number = self.numbers.get(&sighting.tap).copied().unwrap_or(0);
            (number, self.senders.get(&sighting.tap.link).copied().unwrap_or_default())
        };
        write(writer, (self.format, self.framing, self.snap), &self.interfaces, sightings, place)
    }

    fn add(&mut self, cluster: &Cluster, place: &str) -> Result<(), LabError> {
        let graph = &cluster.fabric.graph;
        match place {
            "all" => {
                let links = (0..graph.link_count()).map(LinkId);
                links.for_each(|link| self.port(cluster, link, false));
            }
            "nodes" => {
                let adapters = (0..cluster.ranks()).map(|adapter| graph.uplink(EndpointId(adapter)));
                adapters.for_each(|link| self.port(cluster, link, true));
            }
            _ => {
                let link = link(cluster, place)?;
                self.port(cluster, link, true);
            }
        }
        Ok(())
    }

    /// Taps the port that `out` leaves; also what arrives at it, if `both`.
    fn port(&mut self, cluster: &Cluster, out: LinkId, both: bool) {
        let graph = &cluster.fabric.graph;
        let link = graph.link(out);
        let node = graph.node(link.from);
        let number = self.interfaces.len() as u32;
        self.numbers.insert(Tap { link: out.0, arrival: false }, number);
        if both {
            self.numbers.insert(Tap { link: out.reverse().0, arrival: true }, number);
        }
        let name = match node {
            Node::Endpoint(endpoint) => match cluster.parts.adapter_at(endpoint.0) {
                Some((group, node, nic)) if cluster.parts.groups[group].node.nics > 1 => format!("node {node}:{nic}"),
                Some((_, node, _)) => format!("node {node}"),
                None => format!("endpoint {}", endpoint.0),
            },
            Node::Switch(_) => format!("{}:{}", cluster.fabric.name(node), link.from_port.0),
        };
        self.interfaces.push(Interface { name, bits_per_s: link.rate.as_bps() });
        for side in [out, out.reverse()] {
            let from = graph.link(side);
            let mac = match graph.node(from.from) {
                Node::Endpoint(endpoint) => Address::of(endpoint.0).mac(),
                Node::Switch(switch) => Address::switch_mac(switch.0, from.from_port.0),
            };
            self.senders.insert(side.0, mac);
        }
    }
}

/// The link that leaves the port named by `place`.
fn link(cluster: &Cluster, place: &str) -> Result<LinkId, LabError> {
    let graph = &cluster.fabric.graph;
    let (device, port) = match place.rsplit_once(':') {
        Some((device, port)) => (device.trim(), port.trim().parse::<u16>().ok()),
        None => (place, Some(0)),
    };
    let unknown = |what: String| {
        let help = "write a place as `node 1`, `node 1:0` (adapter 0), `switch 0:3` (port 3), `nodes` or `all`; \
                    `fabriscope topo CLUSTER` shows the names of switches";
        LabError::refused(format!("--tap {place}: {what}"), help)
    };
    let Some(port) = port else { return Err(unknown(format!("`{place}` has no port number behind the colon"))) };
    let number = |kind: &str| device.strip_prefix(kind).and_then(|rest| rest.trim().parse::<u32>().ok());
    if let Some(node) = number("node") {
        let Some(mut adapters) = cluster.parts.endpoints_of(node) else {
            return Err(unknown(format!("the cluster has nodes 0 to {}", cluster.nodes().saturating_sub(1))));
        };
        let nics = adapters.end - adapters.start;
        return match adapters.nth(usize::from(port)) {
            Some(endpoint) => Ok(graph.uplink(EndpointId(endpoint))),
            None => Err(unknown(format!("a node has {nics} adapters, counted from 0"))),
        };
    }
    let named = || graph.switches().find(|&switch| cluster.fabric.name(Node::Switch(switch)) == device);
    let switch = named().or_else(|| number("switch").filter(|&switch| switch < graph.switch_count()).map(SwitchId));
    let Some(switch) = switch else { return Err(unknown(format!("the fabric has no `{device}`, and {} switches", graph.switch_count()))) };
    if !place.contains(':') {
        return Err(unknown("which port of the switch?".to_owned()));
    }
    graph.out_link(switch, PortId(port)).ok_or_else(|| {
        let ports: Vec<u16> = graph.outputs(switch).map(|(port, _)| port.0).collect();
        let range = ports.first().zip(ports.last()).map_or_else(|| "none".to_owned(), |(first, last)| format!("within {first} to {last}"));
        unknown(format!("nothing is plugged into port {port}; the ports in use are {range}"))
    })
}
