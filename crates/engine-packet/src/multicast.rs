//! Packets for groups: copies at switches and adapters, and the tables that say where they go.
//!
//! A copy is a packet of its own, with its own credits and its own place in a queue. The buffer in which the packet arrived
//! is free when the last copy has left; a small record counts them. Tables change when the subnet manager has written them, or
//! when a switch has heard a report; a packet follows those it finds.
//!
//! Source: InfiniBand vol. 1 §10.5 and §18.2.4.3 (multicast forwarding: every port of the table but the one it came by);
//! the trees: `fabriscope_fabric::multicast`, the times: `[multicast]` of the cluster.
//! Modelled: time between copies (`replication` of the switch), loss and marks of each copy, several queue pairs of one
//! adapter, loopback, a subnet manager that serves one request after the other and writes some tables at once, and makes trees anew when links
//! or switches have died.
//! Not modelled: trimming of copies (they are dropped whole), the management packets themselves (their time counts, their
//! bytes do not), periodic queries (runs are shorter than the 260 s after which silence prunes), context misses for copies,
//! a new spanning tree of Ethernet when links or switches die.

use std::collections::BTreeMap;

use fabriscope_catalog::LinkLayer;
use fabriscope_engine::Cluster;
use fabriscope_fabric::multicast::{Groups, Mlid, Snooping};
use fabriscope_fabric::{LinkId, PortId, SwitchId};
use fabriscope_switch::{Report, Snooper, Timing};
use fabriscope_units::{Span, Time};
use fabriscope_verbs::{Membership, QpNum};

/// What a run knows of groups.
pub(crate) struct Multicast {
    pub(crate) groups: Groups,
    /// The links that a group has at a switch, as the switch knows them now.
    pub(crate) tables: BTreeMap<(Mlid, u32), Vec<LinkId>>,
    /// Where Ethernet sends packets of groups that its switches know nothing of.
    ethernet: Option<Ethernet>,
    /// Between two copies.
    pub(crate) replication: Span,
    /// When the subnet manager has done what it was asked, and written what it has decided.
    pub(crate) manager_free: Time,
    pub(crate) tables_free: Time,
    /// Sweeps of the manager after faults are planned.
    pub(crate) repairs_planned: bool,
    /// What will happen: an event names its number.
    pub(crate) plans: Vec<Plan>,
    pub(crate) free_plans: Vec<u32>,
    pub(crate) arrived: Arrived,
    // For use while copying.
    pub(crate) links: Vec<LinkId>,
    pub(crate) listeners: Vec<QpNum>,
}

/// Switches of an Ethernet.
pub(crate) struct Ethernet {
    pub(crate) tree: Snooping,
    /// By switch; none where they do not snoop.
    pub(crate) snoopers: Vec<Snooper>,
}

/// Something that will happen to a group.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Plan {
    /// The subnet manager decides about a request.
    Decide { host: u32, request: Membership },
    /// A sweep after a fault has written the tables of single receivers: those of groups follow.
    Repair { sweep: u32 },
    /// A switch gets the ports that the tree has there by now.
    Write { switch: u32, mlid: Mlid },
    /// A switch hears a report by a port.
    Hear { switch: u32, port: u16, mlid: Mlid, report: Report },
    /// A switch prunes what nobody answered for.
    Prune { switch: u32 },
    /// The aggregation manager answers a job.
    Answer { job: u32 },
}

/// Packets of which copies wait: a record for each.
#[derive(Debug, Default)]
pub(crate) struct Arrived {
    records: Vec<Record>,
    free: Vec<u32>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Record {
    /// The lane it came in by.
    lane: u32,
    /// Copies that have not left.
    left: u32,
    /// When the last one's tail leaves.
    tail: Time,
}

impl Arrived {
    pub(crate) fn add(&mut self, lane: u32, left: u32) -> u32 {
        let record = Record { lane, left, tail: Time::ZERO };
        match self.free.pop() {
            Some(at) => {
                self.records[at as usize] = record;
                at
            }
            None => {
                self.records.push(record);
                self.records.len() as u32 - 1
            }
        }
    }
    /// A copy leaves at `tail`: the lane, and when its buffer is free, if it was the last.
    pub(crate) fn leave(&mut self, at: u32, tail: Time) -> Option<(u32, Time)> {
        let record = &mut self.records[at as usize];
        record.tail = record.tail.max(tail);
        record.left -= 1;
        if record.left > 0 {
            return None;
        }
        self.free.push(at);
        Some((record.lane, record.tail))
    }
}

impl Multicast {
    pub fn new(cluster: &Cluster) -> Multicast {
        let parts = &cluster.parts;
        let ethernet = parts.link_layer != LinkLayer::InfiniBand;
        Multicast {
            groups: if ethernet { Groups::treeless() } else { Groups::new() },
            tables: BTreeMap::new(),
            ethernet: None,
            replication: parts.switch.as_ref().and_then(|switch| switch.replication.as_ref()).map_or(Span::ZERO, |span| **span),
            manager_free: Time::ZERO,
            tables_free: Time::ZERO,
            repairs_planned: false,
            plans: Vec::new(),
            free_plans: Vec::new(),
            arrived: Arrived::default(),
            links: Vec::new(),
            listeners: Vec::new(),
        }
    }

    /// The Ethernet of the cluster, worked out when it is first needed.
    pub(crate) fn ethernet(&mut self, cluster: &Cluster) -> Option<&mut Ethernet> {
        if cluster.parts.link_layer == LinkLayer::InfiniBand {
            return None;
        }
        if self.ethernet.is_none() {
            let graph = &cluster.fabric.graph;
            let tree = Snooping::new(graph)?;
            let settings = &cluster.parts.multicast;
            let timing = Timing { last_member_query: settings.last_member_query, ..Timing::default() };
            let snooper = |switch| {
                let mut snooper = Snooper::new(timing);
                if let Some(up) = tree.towards_querier(switch) {
                    snooper.handle_query(graph.link(up).from_port.0);
                }
                snooper
            };
            let snoopers = if settings.snooping { graph.switches().map(snooper).collect() } else { Vec::new() };
            self.ethernet = Some(Ethernet { tree, snoopers });
        }
        self.ethernet.as_mut()
    }

    /// Fills `links` with those that a packet of group `mlid` goes to at `switch`.
    pub(crate) fn outputs(&mut self, cluster: &Cluster, mlid: Mlid, switch: u32) {
        self.links.clear();
        if let Some(links) = self.tables.get(&(mlid, switch)) {
            self.links.extend_from_slice(links);
            return;
        }
        let mut links = std::mem::take(&mut self.links);
        if let Some(ethernet) = self.ethernet(cluster) {
            match ethernet.snoopers.get(switch as usize) {
                None => links.extend_from_slice(ethernet.tree.flood().outputs(SwitchId(switch))),
                Some(snooper) => links.extend(known(cluster, snooper, mlid, switch)),
            }
        }
        self.links = links;
    }

    pub(crate) fn plan(&mut self, plan: Plan) -> u32 {
        if let Some(at) = self.free_plans.pop() {
            self.plans[at as usize] = plan;
            return at;
        }
        self.plans.push(plan);
        self.plans.len() as u32 - 1
    }
}

/// The links of the ports that a switch has learned.
pub(crate) fn known<'a>(cluster: &'a Cluster, snooper: &'a Snooper, mlid: Mlid, switch: u32) -> impl Iterator<Item = LinkId> + 'a {
    let graph = &cluster.fabric.graph;
    snooper.ports(mlid.index() as u32).filter_map(move |port| graph.out_link(SwitchId(switch), PortId(port)))
}
