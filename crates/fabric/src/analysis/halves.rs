//! Two halves of the endpoints of a fabric, and the least capacity between them.
//!
//! Endpoints of a switch stay together, but for one switch where the number does not come out. Switches without endpoints
//! fall on the side where they cut less: that is a maximum flow from one half to the other.

use fabriscope_units::Rate;

use super::Backbone;
use super::flow::Network;
use crate::graph::SwitchId;

/// By switch, how many of its endpoints are in the second half.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Halves(pub(super) Vec<u32>);

/// What lies between two halves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    /// What its cables carry in one direction.
    pub(super) rate: Rate,
    /// How many cables there are, those to endpoints included where one switch is cut through.
    pub(super) cables: u64,
}

impl Halves {
    /// The first half of the endpoints in this order of switches, and the rest.
    pub(super) fn of_order(backbone: &Backbone, order: &[SwitchId]) -> Halves {
        let mut first = order.iter().map(|&switch| backbone.endpoints(switch)).sum::<u32>() / 2;
        let mut second = vec![0; backbone.switches() as usize];
        for &switch in order {
            let taken = backbone.endpoints(switch).min(first);
            first -= taken;
            second[switch.index()] = backbone.endpoints(switch) - taken;
        }
        Halves(second)
    }

    /// From sides that may differ: endpoints of the switches that cost least move until the halves are even.
    pub(super) fn of_sides(backbone: &Backbone, sides: &[bool]) -> Halves {
        let mut second: Vec<u32> =
            (0..backbone.switches()).map(|switch| if sides[switch as usize] { backbone.endpoints(SwitchId(switch)) } else { 0 }).collect();
        let all: u32 = backbone.leaves().iter().map(|&leaf| backbone.endpoints(leaf)).sum();
        let there: u32 = second.iter().sum();
        let here = all - there;
        let mut surplus = here.abs_diff(there) / 2;
        let heavy = there > here;
        let mut movable: Vec<(i128, SwitchId)> = backbone
            .leaves()
            .iter()
            .filter(|leaf| sides[leaf.index()] == heavy)
            .map(|&leaf| (-gain(backbone, sides, leaf), leaf))
            .collect();
        movable.sort_unstable();
        for (_, leaf) in movable {
            let moved = backbone.endpoints(leaf).min(surplus);
            surplus -= moved;
            if heavy { second[leaf.index()] -= moved } else { second[leaf.index()] += moved }
        }
        Halves(second)
    }

    /// On which side most endpoints of each switch are.
    pub(super) fn sides(&self, backbone: &Backbone) -> Vec<bool> {
        self.0.iter().enumerate().map(|(at, &there)| 2 * there > backbone.endpoints(SwitchId(at as u32))).collect()
    }

    /// What the endpoints of the half that sends less send together.
    pub(super) fn demand(&self, backbone: &Backbone) -> Rate {
        let (mut first, mut second) = (0u64, 0u64);
        for &leaf in backbone.leaves() {
            let (all, there) = (u64::from(backbone.endpoints(leaf)), u64::from(self.0[leaf.index()]));
            let rate = u128::from(backbone.host_rate(leaf).as_bps());
            let there = (rate * u128::from(there) / u128::from(all)) as u64;
            second = second.saturating_add(there);
            first = first.saturating_add(backbone.host_rate(leaf).as_bps() - there);
        }
        Rate::from_bps(first.min(second))
    }

    /// The least that separates them, and the side of each switch there.
    pub(super) fn cut(&self, backbone: &Backbone) -> (Cut, Vec<bool>) {
        let whole = |at: SwitchId| self.0[at.index()] == 0 || self.0[at.index()] == backbone.endpoints(at);
        let fixed = |at: SwitchId| backbone.endpoints(at) > 0 && whole(at);
        let switches = || (0..backbone.switches()).map(SwitchId);
        if switches().all(fixed) {
            let sides = self.sides(backbone);
            return (self.between(backbone, &sides), sides);
        }
        let (source, sink) = (backbone.switches(), backbone.switches() + 1);
        let mut network = Network::new(backbone.switches() + 2);
        for at in switches() {
            let (all, there) = (u64::from(backbone.endpoints(at)), u64::from(self.0[at.index()]));
            let share = |count: u64| if whole(at) && count > 0 { ENDLESS } else { backbone.host_rate(at).as_bps() / all.max(1) * count };
            network.lead(source, at.0, share(all - there));
            network.lead(at.0, sink, share(there));
            for trunk in backbone.trunks(at).iter().filter(|trunk| at < trunk.to) {
                network.join(at.0, trunk.to.0, trunk.rate.as_bps());
            }
        }
        let mut network = network.ready();
        network.most(source, sink);
        let sides: Vec<bool> = switches().map(|at| !network.near(at.0)).collect();
        (self.between(backbone, &sides), sides)
    }

    /// What lies between switches on different sides, and between a switch and endpoints that are not on its side.
    fn between(&self, backbone: &Backbone, sides: &[bool]) -> Cut {
        let (mut rate, mut cables) = (0u64, 0u64);
        for at in (0..backbone.switches()).map(SwitchId) {
            for trunk in backbone.trunks(at).iter().filter(|trunk| at < trunk.to && sides[at.index()] != sides[trunk.to.index()]) {
                rate = rate.saturating_add(trunk.rate.as_bps());
                cables += u64::from(trunk.cables);
            }
            let there = self.0[at.index()];
            let apart = u64::from(if sides[at.index()] { backbone.endpoints(at) - there } else { there });
            if apart > 0 {
                rate = rate.saturating_add(backbone.host_rate(at).as_bps() / u64::from(backbone.endpoints(at)) * apart);
                cables += apart;
            }
        }
        Cut { rate: Rate::from_bps(rate), cables }
    }
}

/// What crosses less when a switch changes its side, in bit/s; negative where more does.
pub(super) fn gain(backbone: &Backbone, sides: &[bool], at: SwitchId) -> i128 {
    let sign = |trunk: &super::Trunk| if sides[trunk.to.index()] == sides[at.index()] { -1 } else { 1 };
    backbone.trunks(at).iter().map(|trunk| sign(trunk) * i128::from(trunk.rate.as_bps())).sum()
}

/// More than any cut, and small enough that a few of them can be added.
const ENDLESS: u64 = u64::MAX / 8;
