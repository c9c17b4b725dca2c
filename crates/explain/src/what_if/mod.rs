//! Single changes of a cluster or of a tool's options, to see what each would save.

mod devices;

use fabriscope_catalog::{AnyPart, BlueFlame, Catalog, Layer, LinkSpeed, NodeChoice, NumaDistance, ResolvedCluster};
use fabriscope_fabric::Topology;
use fabriscope_platform::{Binding, Layout};
use fabriscope_units::Bytes;

use crate::data_path::Inside;

/// One thing changed, everything else as it was.
pub struct Variation {
    /// What is changed, in words.
    pub what: String,
    /// The cluster with the change.
    pub parts: ResolvedCluster,
    /// The tool's options with the change.
    pub options: Vec<String>,
    /// Which two nodes.
    pub nodes: NodeChoice,
    /// GPUs of the ranks.
    pub binding: Binding,
    /// The shape of the job, where it is not the usual one.
    pub layout: Option<Layout>,
}

/// The setting that changes start from.
pub struct Setting<'a> {
    /// Where other parts come from.
    pub catalog: &'a Catalog,
    /// The cluster.
    pub parts: &'a ResolvedCluster,
    /// The same before options about GPUs changed its library.
    pub original: &'a ResolvedCluster,
    /// What happens inside nodes with GPUs.
    pub inside: Option<&'a Inside>,
    /// GPUs of the ranks.
    pub binding: &'a Binding,
    /// The shape of the job, where it is not the usual one.
    pub layout: Option<Layout>,
    /// The tool is one of perftest.
    pub perftest: bool,
    /// The tool's options.
    pub options: &'a [String],
    /// Which two nodes.
    pub nodes: NodeChoice,
    /// Message size in bytes.
    pub size: u64,
}

impl Setting<'_> {
    /// Every change that makes sense here.
    pub fn variations(&self) -> Vec<Variation> {
        let mut all = Vec::new();
        // Within a node nothing of the network counts.
        if !self.inside.is_some_and(|inside| inside.local) {
            self.inline(&mut all);
            self.mtu(&mut all);
            self.slot(&mut all);
            self.path(&mut all);
            self.host(&mut all);
        }
        self.devices(&mut all);
        all
    }

    /// No change at all.
    pub fn as_it_is(&self) -> Variation {
        self.with("", |_| {})
    }

    fn with(&self, what: impl Into<String>, change: impl FnOnce(&mut ResolvedCluster)) -> Variation {
        let mut parts = self.parts.clone();
        change(&mut parts);
        let (options, binding) = (self.options.to_vec(), self.binding.clone());
        Variation { what: what.into(), parts, options, nodes: self.nodes, binding, layout: self.layout }
    }

    /// Payload inside the work request, as far as it fits; and not at all.
    fn inline(&self, all: &mut Vec<Variation>) {
        let largest = self.parts.sole().node.nic.max_inline.as_u64();
        let given = self.options.iter().any(|o| o.starts_with("-I") || o.starts_with("--inline"));
        if !self.perftest || given || self.in_gpu() || self.size > largest {
            return;
        }
        let mut options = |what: &str, limit: u64| {
            let mut variation = self.with(what, |_| {});
            variation.options.extend(["-I".to_owned(), limit.to_string()]);
            all.push(variation);
        };
        options("payload inline", self.size);
        options("payload not inline", 0);
    }

    /// Whether the tool has its buffers in the memory of a GPU.
    fn in_gpu(&self) -> bool {
        self.perftest && self.options.iter().any(|option| devices::is_gpu(option))
    }

    fn mtu(&self, all: &mut Vec<Variation>) {
        let (now, largest) = (self.parts.mtu.as_u64(), self.parts.sole().node.nic.mtu_max.as_u64());
        for mtu in [now / 2, now * 2].into_iter().filter(|mtu| (256..=largest).contains(mtu)) {
            all.push(self.with(format!("MTU {mtu} B instead of {now} B"), |parts| parts.mtu = Bytes(mtu)));
        }
    }

    fn slot(&self, all: &mut Vec<Variation>) {
        let slot = &self.parts.sole().node.pcie;
        if slot.lanes > 1 {
            let lanes = slot.lanes / 2;
            all.push(self.with(format!("PCIe x{lanes} instead of x{}", slot.lanes), |parts| parts.sole_mut().node.pcie.lanes = lanes));
        }
        let next = self.catalog.parts().find_map(|part| match part {
            AnyPart::Pcie(pcie) if pcie.generation == slot.part.generation + 1 => Some(pcie),
            _ => None,
        });
        if let Some(next) = next {
            let what = format!("PCIe generation {} instead of {}", next.generation, slot.part.generation);
            all.push(self.with(what, |parts| parts.sole_mut().node.pcie.part.clone_from(next)));
        }
    }

    fn path(&self, all: &mut Vec<Variation>) {
        if self.nodes == NodeChoice::Across && !matches!(self.parts.topology, Topology::SingleSwitch(_)) {
            let mut variation = self.with("both nodes at one switch", |_| {});
            variation.nodes = NodeChoice::SameLeaf;
            all.push(variation);
        }
        // Back to back there is room for one adapter per node.
        if self.parts.switch.is_some() && self.parts.sole().node.nics == 1 {
            all.push(self.with("one hop less: no switch between the nodes", |parts| {
                parts.topology = Topology::BackToBack(Default::default());
                parts.switch = None;
                parts.switch_levels = Vec::new();
                parts.sole_mut().nodes = 2;
            }));
        }
        let link = &self.parts.sole().link;
        let faster = self.catalog.parts().filter_map(|part| match part {
            AnyPart::Link(other) if other.layer == link.layer && other.data_rate() > link.data_rate() => Some(&**other),
            _ => None,
        });
        // What is usual: of InfiniBand as many lanes or four, of the others Ethernet itself.
        let usual = |other: &&LinkSpeed| match link.layer {
            Layer::InfiniBand => other.lanes == link.lanes || other.lanes == 4,
            Layer::Ethernet => other.frame.is_none(),
        };
        let faster = faster.filter(usual);
        if let Some(faster) = faster.min_by_key(|other| (other.data_rate(), other.name.clone())) {
            all.push(self.with(format!("links of {} instead of {}", faster.data_rate(), link.data_rate()), |parts| {
                for link in parts.link_speeds_mut() {
                    if link.data_rate() < faster.data_rate() {
                        link.clone_from(faster);
                    }
                }
            }));
        }
    }

    fn host(&self, all: &mut Vec<Variation>) {
        if self.parts.sole().node.numa == NumaDistance::Remote {
            all.push(self.with("the NIC at the program's own socket", |parts| parts.sole_mut().node.numa = NumaDistance::Local));
        }
        let (what, other) = match self.parts.sole().node.nic.blueflame {
            BlueFlame::Always | BlueFlame::Inline => ("work requests fetched, not pushed by BlueFlame", BlueFlame::Never),
            BlueFlame::Never => ("work requests pushed by BlueFlame", BlueFlame::Always),
        };
        all.push(self.with(what, |parts| parts.sole_mut().node.nic.blueflame = other));
        all.push(self.with("a NIC with twice the message rate", |parts| {
            let nic = &mut parts.sole_mut().node.nic;
            nic.message_interval.value = nic.message_interval.value / 2;
            nic.wqe_interval.value = nic.wqe_interval.value / 2;
        }));
    }
}
