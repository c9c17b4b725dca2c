//! One thing that is otherwise, and what the step takes then: each is a run of its own on a changed cluster.
//!
//! Modelled: links, PCI Express and GPUs twice as fast in the parts of the cluster; GPUDirect RDMA off, as `NCCL_NET_GDR_LEVEL=LOC` has it: the
//! library looks for channels anew, and messages go through the memory of the host; NVLS and SHARP by the library's own variables and its
//! own choice; an adapter of every node that neither the library nor anybody else sees; cables between switches half as fast, which is what
//! half as many of them carry.
//! Not modelled: what a library does at the moment at which an adapter dies; fewer cables that some flows share by bad luck.

use fabriscope_catalog::{Catalog, ResolvedCluster, Sourced};
use fabriscope_engine_flow::Nodes;
use fabriscope_explain::{double, double_lanes, double_links};
use fabriscope_training::{Layout, Step};
use fabriscope_units::Rate;

use crate::error::Error;
use fabriscope_lab::training::job::{Job, made};
use fabriscope_lab::training::times::{ClusterTimes, Network, Situation};

/// What is otherwise.
pub(super) struct Change {
    /// In words.
    pub what: &'static str,
    /// Changes parts and situation; why it cannot be.
    make: fn(&mut ResolvedCluster, &mut Situation) -> Result<Network, &'static str>,
    /// How many times as fast GPUs multiply, and move bytes of their memory.
    gpus: (u64, u64),
    /// Groups within nodes take as long as before.
    within_as_before: bool,
}

/// What came of a change.
pub(super) enum Outcome {
    /// The step with it, and what held the most of its exposed communication back.
    Step(Box<Step>),
    /// Why it was not run.
    Left(String),
}

/// All changes, in the order in which they are told.
pub(super) const CHANGES: [Change; 15] = [
    Change {
        what: "adapters twice as fast",
        gpus: (1, 1),
        within_as_before: true,
        make: |parts, _| {
            parts.groups.iter_mut().for_each(|group| double([&mut group.link.lane_rate, &mut group.link.data_rate]));
            Ok(Network::AsItIs)
        },
    },
    Change {
        what: "PCI Express twice as fast",
        gpus: (1, 1),
        within_as_before: false,
        make: |parts, _| {
            pcie(parts);
            Ok(Network::AsItIs)
        },
    },
    Change {
        what: "all links of the network twice as fast",
        gpus: (1, 1),
        within_as_before: true,
        make: |parts, _| {
            double_links(parts);
            Ok(Network::AsItIs)
        },
    },
    Change {
        what: "network and PCI Express twice as fast",
        gpus: (1, 1),
        within_as_before: false,
        make: |parts, _| {
            double_links(parts);
            pcie(parts);
            Ok(Network::AsItIs)
        },
    },
    Change { what: "no network between nodes", gpus: (1, 1), within_as_before: true, make: |_, _| Ok(Network::None) },
    Change {
        what: "no latency",
        gpus: (1, 1),
        within_as_before: true,
        make: |_, situation| {
            situation.without_latency = true;
            Ok(Network::AsItIs)
        },
    },
    Change {
        what: "links between GPUs twice as fast",
        gpus: (1, 1),
        within_as_before: false,
        make: |parts, _| {
            let links = parts.sole_mut().node.layout.scale_up.as_mut().ok_or("GPUs have PCI Express only")?;
            double([&mut links.part.link_rate]);
            Ok(Network::AsItIs)
        },
    },
    Change {
        what: "GPUDirect RDMA off",
        gpus: (1, 1),
        within_as_before: true,
        make: |parts, situation| {
            if parts.sole().node.gpu.as_ref().is_none_or(|gpu| gpu.peer.is_none()) {
                return Err("it is off");
            }
            situation.nodes.staged = true;
            situation.environment.push(("NCCL_NET_GDR_LEVEL", "LOC"));
            Ok(Network::AsItIs)
        },
    },
    Change {
        what: "NVLS off",
        gpus: (1, 1),
        within_as_before: false,
        make: |parts, situation| {
            let hopper = parts.sole().node.gpu.as_ref().and_then(|gpu| gpu.architecture.as_deref()?.strip_prefix("sm_")?.parse().ok());
            if hopper.is_none_or(|capability: u32| capability < 90) {
                return Err("these GPUs have none");
            }
            situation.environment.push(("NCCL_NVLS_ENABLE", "0"));
            Ok(Network::AsItIs)
        },
    },
    Change {
        what: "SHARP on",
        gpus: (1, 1),
        within_as_before: true,
        make: |parts, situation| {
            let switch = parts.switch.as_ref().and_then(|switch| switch.aggregation.as_ref());
            if switch.is_none_or(|aggregation| aggregation.stream.is_none()) {
                return Err("the switches do not reduce long vectors");
            }
            situation.in_network = true;
            situation.environment.push(("NCCL_COLLNET_ENABLE", "1"));
            Ok(Network::AsItIs)
        },
    },
    Change {
        what: "one adapter of each node dead",
        gpus: (1, 1),
        within_as_before: true,
        make: |parts, situation| {
            if parts.sole().node.nics < 2 {
                return Err("nodes have one");
            }
            situation.nodes = Nodes { lost: 1, ..situation.nodes };
            Ok(Network::AsItIs)
        },
    },
    Change {
        what: "cables between switches half as fast (2:1)",
        gpus: (1, 1),
        within_as_before: true,
        make: |parts, _| {
            for link in [&mut parts.trunk_link, &mut parts.global_link] {
                halve([&mut link.lane_rate, &mut link.data_rate]);
            }
            Ok(Network::AsItIs)
        },
    },
    Change { what: "GPUs multiply twice as fast", gpus: (2, 1), within_as_before: true, make: AS_IT_IS },
    Change { what: "memory of GPUs twice as fast", gpus: (1, 2), within_as_before: true, make: AS_IT_IS },
    Change { what: "GPUs twice as fast, with their memory", gpus: (2, 2), within_as_before: true, make: AS_IT_IS },
];

/// Nothing of the cluster.
const AS_IT_IS: fn(&mut ResolvedCluster, &mut Situation) -> Result<Network, &'static str> = |_, _| Ok(Network::AsItIs);

fn pcie(parts: &mut ResolvedCluster) {
    for group in &mut parts.groups {
        let node = &mut group.node;
        let layout = &mut node.layout;
        double_lanes(layout.uplinks.iter_mut().chain(&mut layout.gpu_slot).chain([&mut node.pcie]));
    }
}

fn halve<'a>(rates: impl IntoIterator<Item = &'a mut Sourced<Rate>>) {
    for rate in rates {
        rate.value = Rate::from_bps(rate.value.as_bps() / 2);
    }
}

impl Change {
    /// The step with the change, by someone who knows the times of the cluster as it is.
    ///
    /// # Errors
    /// What stops any run; what only this change cannot have is an answer.
    pub fn run(&self, catalog: &Catalog, job: &Job, layout: &Layout, known: &ClusterTimes<'_>, gpus: u32) -> Result<Outcome, Error> {
        let (mut parts, mut situation) = (job.parts.clone(), Situation::default());
        let network = match (self.make)(&mut parts, &mut situation) {
            Ok(network) => network,
            Err(why) => return Ok(Outcome::Left(why.to_owned())),
        };
        let roofline = job.roofline.times_as_fast(self.gpus.0, self.gpus.1);
        let changed = Job { model: job.model.clone(), gpu: job.gpu.clone(), parts, roofline };
        let mut times = match ClusterTimes::in_situation(catalog, changed.parts.clone(), gpus, situation) {
            Ok(times) => times,
            Err(error) => return Ok(Outcome::Left(error.to_string())),
        };
        if self.within_as_before {
            times.inherit(known);
        }
        times.on(network);
        Ok(match made(&changed, layout, &mut times) {
            Ok(step) => Outcome::Step(Box::new(step)),
            Err(error) => Outcome::Left(error.to_string()),
        })
    }
}
