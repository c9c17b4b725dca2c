//! Causes between switches: too few ways up, nodes farther apart, routing, congestion control, flow control.

use fabriscope_catalog::{FlowControl, LinkLayer, NodeChoice, Routing, Topology};

use super::{Amount, Cause, Scene, not_here};

/// Fewer uplinks than there should be.
pub(super) const UPLINKS: Cause = Cause {
    name: "uplinks",
    title: "fewer ways between leaf switches carry the traffic: oversubscription, dead spines, flows that collide (ECMP)",
    check: "iblinkinfo or the switches' counters: missing and unevenly loaded uplinks; hash fields and entropy (UDP source ports)",
    weight: 1.0,
    amounts: uplinks,
};

/// What of the uplinks is left, as a ratio. Basis: assumed.
const LEFT: [u32; 2] = [2, 4];

fn uplinks(scene: &Scene<'_>) -> Vec<Amount> {
    if !scene.uses_network() || scene.setup.nodes == NodeChoice::SameLeaf && scene.setup.layout.nodes <= 2 {
        return Vec::new();
    }
    let fewer = |by: u32| -> Option<(String, Topology)> {
        let mut topology = scene.parts().topology.clone();
        let count = match &mut topology {
            Topology::LeafSpine(family) => family.spines.as_mut()?,
            Topology::RailOptimised(family) => family.spines.as_mut()?,
            Topology::FatTree(family) => family.up.as_mut()?,
            _ => return None,
        };
        let now = *count;
        *count = now / by;
        (*count > 0).then(|| (format!("{} of {now}", now / by), topology))
    };
    LEFT.into_iter()
        .filter_map(fewer)
        .map(|(what, topology)| Amount::new(what, move |setup| setup.parts.topology.clone_from(&topology)))
        .collect()
}

/// The nodes are not at one switch.
pub(super) const DISTANCE: Cause = Cause {
    name: "distance",
    title: "the nodes are farther apart than expected: more switches lie between them",
    check: "the scheduler's topology plugin and the nodes of the job; ibtracert between them",
    weight: 1.0,
    amounts: distance,
};

fn distance(scene: &Scene<'_>) -> Vec<Amount> {
    let single = matches!(scene.parts().topology, Topology::SingleSwitch(_) | Topology::BackToBack(_));
    if !scene.uses_network() || single || scene.setup.nodes != NodeChoice::SameLeaf {
        return Vec::new();
    }
    let to = |what: &str, nodes: NodeChoice| Amount::new(what, move |setup| setup.nodes = nodes);
    vec![to("as far as the fabric has it", NodeChoice::Across)]
}

/// One path for each flow where packets should spread.
pub(super) const ROUTING: Cause = Cause {
    name: "routing",
    title: "packets do not spread over the ways: no adaptive routing",
    check: "AR enabled on switches and for the service level (ibdiagnet, opensm's ar_updn engine), FI_CXI traffic class; RoCE adaptive routing",
    weight: 1.0,
    amounts: routing,
};

fn routing(scene: &Scene<'_>) -> Vec<Amount> {
    let now = scene.parts().routing;
    if !scene.uses_network() || !now.reorders() {
        return Vec::new();
    }
    [Routing::Ecmp, Routing::DModK, Routing::Minimal]
        .into_iter()
        .map(|routing| {
            Amount::may(format!("{routing} instead of {now}"), move |setup| {
                setup.parts.set_routing(routing).map_err(|p| not_here(p.message))
            })
        })
        .collect()
}

/// Senders do not slow down.
pub(super) const CONGESTION: Cause = Cause {
    name: "congestion-control",
    title: "congestion control is off, or is on where it is not expected",
    check: "RoCE: ECN marking on switches, DCQCN on adapters (mlxconfig ROCE_CC_PRIO_MASK); InfiniBand: the subnet manager's CC settings",
    weight: 1.0,
    amounts: congestion,
};

fn congestion(scene: &Scene<'_>) -> Vec<Amount> {
    if !scene.uses_network() {
        return Vec::new();
    }
    if scene.parts().congestion.is_some() {
        return vec![Amount::new("off", |setup| setup.parts.congestion = None)];
    }
    let mut with = scene.parts().clone();
    let usual = if with.link_layer == LinkLayer::InfiniBand { return Vec::new() } else { "dcqcn".to_owned() };
    if with.set_congestion(scene.catalog, Some(&usual)).is_err() || with.check_marks().is_err() {
        return Vec::new();
    }
    let congestion = with.congestion;
    vec![Amount::new("DCQCN", move |setup| setup.parts.congestion.clone_from(&congestion))]
}

/// Switches drop what does not fit.
pub(super) const PAUSE: Cause = Cause {
    name: "flow-control",
    title: "priority flow control is off: switches drop packets",
    check: "mlnx_qos, lldptool or the switch: PFC on for the priority of RoCE; the adapters' out_of_sequence and retransmit counters",
    weight: 1.0,
    amounts: pause,
};

fn pause(scene: &Scene<'_>) -> Vec<Amount> {
    let parts = scene.parts();
    if !scene.uses_network() || parts.link_layer == LinkLayer::InfiniBand || parts.flow_control != FlowControl::Lossless {
        return Vec::new();
    }
    vec![Amount::may("off", |setup| setup.parts.set_flow_control(FlowControl::Lossy).map_err(|problem| not_here(problem.message)))]
}
