//! A model of node: which parts it holds and what is wired to what.
//!
//! Source: the vendors' block diagrams; each part says which.
//! Modelled: sockets with NUMA domains, PCI Express switches in any depth, GPUs and adapters in their slots, links from processor
//! to GPU, scale-up networks switched, point to point or as a mesh, memory behind CXL, trays that share a scale-up network.
//! Not modelled: disks, management, adapters that share a slot with one another.

use std::collections::BTreeSet;

use fabriscope_units::{Bytes, Rate, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CxlPool, DramTiming, Kind, MemoryKind, Part, PcieSlot, Wafer};
use crate::error::Problem;
use crate::sourced::Sourced;

/// Some links of one interconnect between two devices.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bundle {
    /// Name of the interconnect.
    pub interconnect: String,
    /// How many of its links.
    pub links: u32,
}

/// The memory of a socket.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostMemory {
    /// What it is made of.
    pub kind: MemoryKind,
    /// Its size.
    pub size: Sourced<Bytes>,
    /// Number of channels.
    pub channels: u32,
    /// Peak rate of one channel.
    pub channel_rate: Sourced<Rate>,
    /// How it answers; without it no program measures it load by load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timing: Option<DramTiming>,
}

impl HostMemory {
    /// What all channels carry.
    pub fn peak(&self) -> Rate {
        Rate::from_bps(self.channel_rate.as_bps().saturating_mul(u64::from(self.channels)))
    }
}

/// Switches of PCI Express that are alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PcieSwitches {
    /// The name of each.
    pub names: Vec<String>,
    /// What each of them hangs under: `numa0` (a root port there) or the name of another switch.
    pub under: Vec<String>,
    /// The slot of the way up.
    pub uplink: PcieSlot,
    /// From port to port.
    pub latency: Sourced<Span>,
}

/// The GPUs of a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Gpus {
    /// Name of the GPU.
    pub part: String,
    /// What each of them hangs under, in the order in which drivers count them: `numa0`, the name of a switch, or `scale_up` alone.
    pub under: Vec<String>,
    /// The slot, where it is narrower or slower than the GPU's connector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<PcieSlot>,
    /// The way to the processor, where it is not PCI Express.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_link: Option<Bundle>,
    /// Processor and GPU have one memory: that of the GPU.
    #[serde(default)]
    pub unified_memory: bool,
}

/// The adapters of a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Nics {
    /// Name of the adapter.
    pub part: String,
    /// What each of them hangs under: `numa0`, the name of a switch, or `gpu0`.
    pub under: Vec<String>,
    /// The slot, where it is narrower or slower than the adapter's connector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<PcieSlot>,
    /// The way to what it hangs under, where it is not PCI Express: adapters on the chip of an accelerator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_link: Option<Bundle>,
}

/// Memory behind CXL.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Expanders {
    /// What each of them hangs under: `numa0`.
    pub under: Vec<String>,
    /// The links to each.
    pub link: Bundle,
    /// Size of each.
    pub size: Sourced<Bytes>,
    /// Peak rate of the memory of each.
    pub peak: Sourced<Rate>,
    /// Channels of that memory.
    #[serde(default = "one")]
    pub channels: u32,
    /// How its memory answers; without it no program measures it load by load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timing: Option<DramTiming>,
    /// Both ways through its controller, without the memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller: Option<Sourced<Span>>,
    /// Retimers between processor and expander.
    #[serde(default)]
    pub retimers: u32,
    /// Several hosts share them; `under` is then where their links begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<CxlPool>,
}

/// Two GPUs and the number of links between them: `[0, 3, 2]`.
pub type GpuPair = [u32; 3];

/// Every GPU to every one of some switches (NVSwitch).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Switched {
    /// Number of switches.
    pub switches: u32,
    /// Links from each GPU, to all switches together.
    pub links: u32,
    /// From port to port of a switch.
    pub latency: Sourced<Span>,
    /// What the switches do with vectors that they add up themselves; none where they only pass data on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reduction: Option<Box<SwitchReduction>>,
}

/// Sums in a switch between accelerators.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SwitchReduction {
    /// From the last contribution to the first byte of the sum, beside the way through the switch.
    pub latency: Sourced<Span>,
    /// Data of a packet that takes part.
    pub payload: Sourced<Bytes>,
    /// From one such packet of a port to the next.
    pub interval: Sourced<Span>,
}

/// Links between pairs of GPUs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PointToPoint {
    /// The two GPUs of each pair and the number of links between them.
    pub pairs: Vec<GpuPair>,
}

/// Every GPU to every other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AllToAllLinks {
    /// Links between each two.
    pub links: u32,
}

/// Neighbours in a plane (the dies of a wafer).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Mesh {
    /// GPUs in a row.
    pub columns: u32,
    /// Rows.
    pub rows: u32,
    /// Links between neighbours.
    pub links: u32,
}

/// How the GPUs of a node are joined beside PCI Express.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ScaleUp {
    /// Through switches.
    Switched(Switched),
    /// By links between pairs.
    PointToPoint(PointToPoint),
    /// By links between each two.
    AllToAll(AllToAllLinks),
    /// By links between neighbours.
    Mesh(Mesh),
}

impl ScaleUp {
    /// The pairs of GPUs with links of their own; none where switches lie between.
    pub fn pairs(&self, gpus: u32) -> Vec<GpuPair> {
        match self {
            ScaleUp::Switched(_) => Vec::new(),
            ScaleUp::PointToPoint(PointToPoint { pairs }) => pairs.clone(),
            ScaleUp::AllToAll(AllToAllLinks { links }) => (0..gpus).flat_map(|a| (a + 1..gpus).map(move |b| [a, b, *links])).collect(),
            ScaleUp::Mesh(Mesh { columns, rows, links }) => {
                let at = |column: u32, row: u32| row * columns + column;
                let right = (0..*rows).flat_map(|row| (1..*columns).map(move |column| [at(column - 1, row), at(column, row), *links]));
                let down = (1..*rows).flat_map(|row| (0..*columns).map(move |column| [at(column, row - 1), at(column, row), *links]));
                right.chain(down).collect()
            }
        }
    }
    /// Links in use at the GPU that has most of them.
    pub fn most_links(&self, gpus: u32) -> u32 {
        let mut links = vec![0u32; gpus as usize];
        if let ScaleUp::Switched(switched) = self {
            return switched.links;
        }
        for [a, b, count] in self.pairs(gpus) {
            for end in [a, b] {
                if let Some(sum) = links.get_mut(end as usize) {
                    *sum = sum.saturating_add(count);
                }
            }
        }
        links.into_iter().max().unwrap_or(0)
    }
}

/// One model of node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NodePart {
    /// The name others refer to it by; equals the name of its file.
    pub name: String,
    /// One line that tells a person what it is.
    pub title: String,
    /// What a reader should know besides.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub notes: String,
    /// Name of the processor.
    pub cpu: String,
    /// Number of processors.
    pub sockets: u32,
    /// NUMA domains of a processor; they are called `numa0`, `numa1`, … over all processors.
    #[serde(default = "one")]
    pub numa_per_socket: u32,
    /// How many units like this share the scale-up network; all other keys tell of one of them.
    #[serde(default = "one")]
    pub trays: u32,
    /// The links between each two processors, where they are not those that the processor names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket_link: Option<Bundle>,
    /// The memory of each processor; none where it is that of the GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<HostMemory>,
    /// Switches of PCI Express; what one hangs under is named before it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub switches: Vec<PcieSwitches>,
    /// The GPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus: Option<Gpus>,
    /// How they are joined beside PCI Express.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale_up: Option<ScaleUp>,
    /// The adapters, or the slots for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nics: Option<Nics>,
    /// Memory behind CXL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expanders: Option<Expanders>,
    /// The drives behind PCI Express that jobs may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drives: Option<NodeDrives>,
    /// The cores of a wafer, where its dies stand for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wafer: Option<Wafer>,
}

/// Drives of a node. Not modelled: where they hang; what they move shares no link with GPUs and adapters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeDrives {
    /// Name of the drive.
    pub part: String,
    /// How many.
    pub count: Sourced<u32>,
}

fn one() -> u32 {
    1
}

/// What a device hangs under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Under {
    /// A NUMA domain, counted over the sockets of a tray.
    Numa(u32),
    /// A switch, counted over all groups of switches.
    Switch(u32),
    /// A GPU.
    Gpu(u32),
    /// Nothing but the scale-up network.
    ScaleUp,
}

/// What a GPU hangs under that only the scale-up network reaches.
const SCALE_UP: &str = "scale_up";

impl NodePart {
    /// NUMA domains of one tray.
    pub fn numa_domains(&self) -> u32 {
        self.sockets.saturating_mul(self.numa_per_socket)
    }
    /// GPUs of all trays.
    pub fn gpus(&self) -> u32 {
        self.trays.saturating_mul(self.gpus.as_ref().map_or(0, |gpus| gpus.under.len() as u32))
    }
    /// Slots for adapters of all trays.
    pub fn nics(&self) -> u32 {
        self.trays.saturating_mul(self.nics.as_ref().map_or(0, |nics| nics.under.len() as u32))
    }
    /// What the name of a device means.
    pub fn under(&self, name: &str) -> Option<Under> {
        if let Some(number) = numbered(name, "numa") {
            return (number < self.numa_domains()).then_some(Under::Numa(number));
        }
        if let Some(number) = numbered(name, "gpu") {
            return (number < self.gpus.as_ref().map_or(0, |gpus| gpus.under.len() as u32)).then_some(Under::Gpu(number));
        }
        if name == SCALE_UP {
            return self.scale_up.is_some().then_some(Under::ScaleUp);
        }
        self.switch_names().position(|known| known == name).map(|number| Under::Switch(number as u32))
    }

    fn switch_names(&self) -> impl Iterator<Item = &str> + Clone {
        self.switches.iter().flat_map(|group| group.names.iter().map(String::as_str))
    }

    /// The names that a device may hang under.
    fn places(&self, gpus_too: bool) -> Vec<String> {
        let numa = (0..self.numa_domains().min(NAMED)).map(|number| format!("numa{number}"));
        let gpus = self.gpus.iter().filter(|_| gpus_too).flat_map(|gpus| (0..gpus.under.len()).map(|number| format!("gpu{number}")));
        numa.chain(self.switch_names().map(str::to_owned)).chain(gpus).collect()
    }

    fn check_switches(&self) -> Result<(), Problem> {
        let mut known = BTreeSet::new();
        for (group, switches) in self.switches.iter().enumerate() {
            let at = group.to_string();
            if switches.names.len() != switches.under.len() {
                let message = format!("{} switches hang under {} places", switches.names.len(), switches.under.len());
                return Err(Problem::at(&["switches", &at, "under"], message, "write one place for each name"));
            }
            switches.uplink.check(&["switches", &at, "uplink"])?;
            for (number, under) in switches.under.iter().enumerate() {
                let above = numbered(under, "numa").is_some_and(|numa| numa < self.numa_domains()) || known.contains(under.as_str());
                if !above {
                    let message = format!("nothing called `{under}` is above the switch `{}`", switches.names[number]);
                    let help = format!("write `numa0` to `numa{}`, or a switch named further up", self.numa_domains().saturating_sub(1));
                    return Err(Problem::at(&["switches", &at, "under", &number.to_string()], message, help));
                }
            }
            for (number, name) in switches.names.iter().enumerate() {
                let taken = name == SCALE_UP || ["numa", "gpu", "nic", "bridge", "cxl"].iter().any(|prefix| name.starts_with(prefix));
                if taken || !known.insert(name.as_str()) {
                    let what = if taken { "is a name that other devices have" } else { "is the name of two switches" };
                    let message = format!("`{name}` {what}");
                    return Err(Problem::at(&["switches", &at, "names", &number.to_string()], message, "choose another name"));
                }
            }
        }
        Ok(())
    }

    fn check_under(&self, table: &str, under: &[String], gpus_too: bool) -> Result<(), Problem> {
        for (number, name) in under.iter().enumerate() {
            let fits = match self.under(name) {
                None => false,
                Some(Under::Gpu(_)) => gpus_too,
                Some(Under::ScaleUp) => table == "gpus",
                Some(_) => true,
            };
            if !fits {
                let places = self.places(gpus_too);
                let message = format!("`{table}` hang under `{name}`, which is no place of this node");
                let help = crate::suggest::help(name, places.iter().map(String::as_str));
                return Err(Problem::at(&[table, "under", &number.to_string()], message, help));
            }
        }
        Ok(())
    }

    fn check_scale_up(&self) -> Result<(), Problem> {
        let Some(scale_up) = &self.scale_up else { return Ok(()) };
        let gpus = self.gpus();
        if gpus == 0 {
            return Err(Problem::at(&["scale_up"], "a scale-up network without GPUs", "add [gpus], or remove [scale_up]"));
        }
        match scale_up {
            ScaleUp::Switched(Switched { switches: 0, .. }) => {
                Err(Problem::at(&["scale_up", "switched", "switches"], "a switched network without switches", "give it at least 1"))
            }
            ScaleUp::Switched(Switched { reduction: Some(reduction), .. }) if *reduction.payload == Bytes::ZERO => {
                let path = ["scale_up", "switched", "reduction", "payload", "value"];
                Err(Problem::at(&path, "packets without data add nothing up", "use for example \"1024 B\""))
            }
            ScaleUp::Switched(Switched { links: 0, .. }) => {
                Err(Problem::at(&["scale_up", "switched", "links"], "GPUs without a link to the switches", "give each at least 1"))
            }
            ScaleUp::Mesh(Mesh { columns, rows, .. }) if columns.saturating_mul(*rows) != gpus => {
                let message = format!("a mesh of {columns} by {rows} for {gpus} GPUs");
                Err(Problem::at(&["scale_up", "mesh"], message, "columns times rows is the number of GPUs"))
            }
            ScaleUp::PointToPoint(PointToPoint { pairs }) => check_pairs(pairs, gpus),
            _ => Ok(()),
        }
    }
}

impl Part for NodePart {
    const KIND: Kind = Kind::Node;
    fn name(&self) -> &str {
        &self.name
    }
    fn title(&self) -> &str {
        &self.title
    }
    fn check(&self) -> Result<(), Problem> {
        for (key, number) in [("sockets", self.sockets), ("numa_per_socket", self.numa_per_socket), ("trays", self.trays)] {
            if !(1..=MOST).contains(&number) {
                return Err(Problem::at(&[key], format!("`{key}` is {number}"), format!("use 1 to {MOST}")));
            }
        }
        if self.memory.as_ref().is_some_and(|memory| memory.channels == 0) {
            return Err(Problem::at(&["memory", "channels"], "a memory without channels", "give it at least 1"));
        }
        self.check_switches()?;
        for (table, devices) in [("gpus", self.gpus()), ("nics", self.nics())] {
            if devices > MOST_DEVICES {
                return Err(Problem::at(&[table], format!("{devices} devices"), format!("use at most {MOST_DEVICES}")));
            }
        }
        if let Some(gpus) = &self.gpus {
            self.check_under("gpus", &gpus.under, false)?;
            check_way("gpus", gpus.slot, gpus.host_link.as_ref())?;
        }
        if let Some(nics) = &self.nics {
            self.check_under("nics", &nics.under, true)?;
            check_way("nics", nics.slot, nics.host_link.as_ref())?;
        }
        self.wafer.as_ref().map_or(Ok(()), Wafer::check)?;
        if let Some(expanders) = &self.expanders {
            self.check_under("expanders", &expanders.under, false)?;
        }
        self.check_scale_up()
    }
}

fn check_way(table: &str, slot: Option<PcieSlot>, link: Option<&Bundle>) -> Result<(), Problem> {
    match (slot, link) {
        (Some(_), Some(_)) => {
            Err(Problem::at(&[table, "host_link"], "a slot and a link to the same device", "remove `slot`, or `host_link`"))
        }
        (Some(slot), None) => slot.check(&[table, "slot"]),
        (None, Some(Bundle { links: 0, .. })) => {
            Err(Problem::at(&[table, "host_link", "links"], "no link leads to the device", "give it at least 1"))
        }
        (None, _) => Ok(()),
    }
}

fn check_pairs(pairs: &[GpuPair], gpus: u32) -> Result<(), Problem> {
    let mut known = BTreeSet::new();
    for (number, &[a, b, links]) in pairs.iter().enumerate() {
        let wrong = if a >= gpus || b >= gpus {
            Some(format!("there is no `gpu{}`", a.max(b)))
        } else if a == b {
            Some(format!("`gpu{a}` is linked to itself"))
        } else if links == 0 {
            Some(format!("no link between `gpu{a}` and `gpu{b}`"))
        } else if !known.insert((a.min(b), a.max(b))) {
            Some(format!("the links between `gpu{a}` and `gpu{b}` are told twice"))
        } else {
            None
        };
        if let Some(message) = wrong {
            let help = "write two GPUs and the number of links between them, each pair once: [0, 1, 2]";
            return Err(Problem::at(&["scale_up", "point_to_point", "pairs", &number.to_string()], message, help));
        }
    }
    Ok(())
}

/// The number in `prefix` + number.
fn numbered(name: &str, prefix: &str) -> Option<u32> {
    name.strip_prefix(prefix).filter(|digits| !digits.is_empty() && !digits.starts_with('+'))?.parse().ok()
}

/// Sockets, NUMA domains of a socket or trays that a node has at most.
const MOST: u32 = 64;

/// GPUs or adapters that a node has at most, over all trays.
const MOST_DEVICES: u32 = 1024;

/// NUMA domains that a message names at most.
const NAMED: u32 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_of_each_family() {
        assert_eq!(ScaleUp::AllToAll(AllToAllLinks { links: 3 }).pairs(3), [[0, 1, 3], [0, 2, 3], [1, 2, 3]]);
        // Three columns, two rows: 2 × 2 links to the right and 3 down.
        let mesh = ScaleUp::Mesh(Mesh { columns: 3, rows: 2, links: 1 });
        assert_eq!(mesh.pairs(6), [[0, 1, 1], [1, 2, 1], [3, 4, 1], [4, 5, 1], [0, 3, 1], [1, 4, 1], [2, 5, 1]]);
        assert_eq!(mesh.most_links(6), 3);
        let switched =
            ScaleUp::Switched(Switched { switches: 6, links: 12, latency: Sourced::assumed(Span::from_ns(1), "a test"), reduction: None });
        assert_eq!((switched.most_links(8), switched.pairs(8).len()), (12, 0));
    }

    #[test]
    fn numbers_of_devices() {
        assert_eq!((numbered("numa12", "numa"), numbered("numa", "numa"), numbered("numa+1", "numa")), (Some(12), None, None));
    }
}
