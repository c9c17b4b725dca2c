//! The proxy of a head for the network's reduction (CollNet): slices leave for the switches, and their sums come back.
//!
//! ```text
//! slot filled by the kernel ─ slots free for the result ─ reduction in the switches ─▶ slot filled for the kernel, slot emptied
//! ```
//! Source: NCCL, src/transport/coll_net.cc (sendProxyProgress, recvProxyProgress); nccl-rdma-sharp-plugins, src/sharp_plugin.c (one
//! communicator of SHARP for each adapter, `sharp_coll_do_allreduce_nb` for each slice).
//! Modelled: one group of all heads at the same GPU of their nodes, slices of all channels in the same order everywhere, several in flight,
//! GPU memory where the adapter reaches it.
//! Not modelled: reads behind results (flush), all-gather and reduce-scatter, registered user buffers.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use fabriscope_machine::Access as Moved;
use fabriscope_nccl::Protocol;
use fabriscope_node::aggregation::{Group, Member, Reduction, Region};
use fabriscope_node::{Memory, Process, ProgramError};
use fabriscope_units::{Bytes, Remedy};
use fabriscope_verbs::{CqId, PdId, Wc};
use fabriscope_wire::{Collective, Element, Reducer, Task};

use super::fifo::{Fifo, FifoEnd, FifoId, FifoPath};
use super::proxy::Proxy;
use super::world::{Node, RankPlacement, SLOTS, Shared, Wire, WireKind};

/// Where an adapter finds the slots of a head.
#[derive(Debug, Clone, Copy)]
pub(super) struct SlotAddress {
    pub nic: usize,
    pub pd: PdId,
    pub region: Region,
    /// The slots are in the GPU's memory.
    pub near: bool,
}

/// A slice in the switches.
struct SliceInNetwork {
    /// Nothing where it is empty.
    reduction: Option<Reduction>,
    channel: u32,
    bytes: Bytes,
    slots: u32,
    /// Its number in the group.
    number: u64,
}

/// A head's way through the network.
pub(super) struct Outlet {
    group: Group,
    region: Region,
    /// By channel: what the kernel fills, and what it empties.
    fifos: BTreeMap<u32, [FifoId; 2]>,
    /// Channels of the slices to come, in the order in which all heads ask.
    order: VecDeque<u32>,
    asked: VecDeque<SliceInNetwork>,
    /// Slices asked for so far, and the number of the group.
    count: u64,
    gpu: u32,
}

impl Outlet {
    /// Joins the group of the heads at this GPU of all nodes, and makes the slots of `channels`.
    pub async fn open(
        process: &Process,
        world: &Shared,
        (me, seat): (u32, RankPlacement),
        node: &Rc<RefCell<Node>>,
        place: SlotAddress,
        channels: &[u32],
    ) -> Result<Outlet, ProgramError> {
        let none = || ProgramError("the switches do not reduce; leave NCCL_COLLNET_ENABLE out".to_owned());
        let rules = world.switches.ok_or_else(none)?;
        let job = u64::from(world.number) << 32 | (u64::from(seat.gpu) + 1);
        let member = Member { job, member: world.plan.seat(me).node, members: world.plan.nodes() };
        let joined = Group::join(process, place.nic, place.pd, member, rules).await.map_err(|error| ProgramError(error.in_full()))?;
        let group = joined.map_err(|denied| {
            let remedy = "leave NCCL_COLLNET_ENABLE out, or set NCCL_ALGO to Ring or Tree";
            ProgramError(format!("rank {me} got no group of switches, as {denied}; {remedy}"))
        })?;
        let devices = process.devices()?;
        let own = devices.vertex(Memory::Device(seat.gpu))?;
        let host = devices.vertex(devices.home(seat.gpu)?)?;
        let (out, latency) = devices.way(own, host, Moved::Write)?;
        let (into, back) = devices.way(host, own, Moved::Read)?;
        let local = devices.way(own, own, Moved::Write)?.0;
        let mut fifos = BTreeMap::new();
        for &channel in channels {
            let uses = if place.near { local.to_vec() } else { out.to_vec() };
            let takes = if place.near { Vec::new() } else { into.to_vec() };
            let up = FifoPath { uses, takes: Vec::new(), latency, back };
            let down = FifoPath { uses: Vec::new(), takes, latency: back, back: latency };
            let proxy = FifoEnd::Proxy(seat.gpu);
            let make = |kind, way, sender, receiver| {
                let wire = Wire { from: me, to: me, channel, kind };
                node.borrow_mut().fifo(world.number, (wire, Protocol::Simple), || Ok(Fifo::new(way, SLOTS, sender, receiver)))
            };
            let up = make(WireKind::ToNetwork, up, FifoEnd::Block, proxy)?;
            let down = make(WireKind::FromNetwork, down, proxy, FifoEnd::Block)?;
            fifos.insert(channel, [up, down]);
        }
        Ok(Outlet { group, region: place.region, fifos, order: VecDeque::new(), asked: VecDeque::new(), count: 0, gpu: seat.gpu })
    }

    /// The FIFO of a channel on its way there, or back.
    pub fn fifo(&self, wire: Wire) -> Option<FifoId> {
        self.fifos.get(&wire.channel).map(|fifos| fifos[usize::from(wire.kind == WireKind::FromNetwork)])
    }
    /// Where completions show.
    pub fn queue(&self) -> (usize, CqId) {
        self.group.queue()
    }
    /// Nothing is in the switches, and nothing is to come.
    pub fn is_idle(&self) -> bool {
        self.asked.is_empty() && self.order.is_empty()
    }
    /// A kernel will fill so many slices of each of these channels: one of each in turn.
    pub fn expect(&mut self, mut slices: Vec<(u32, u64)>) {
        slices.sort_unstable();
        while !slices.is_empty() {
            self.order.extend(slices.iter().map(|(channel, _)| *channel));
            slices.iter_mut().for_each(|(_, left)| *left -= 1);
            slices.retain(|(_, left)| *left > 0);
        }
    }

    /// A completion of its queue.
    pub fn complete(&mut self, wc: &Wc) -> Result<(), ProgramError> {
        self.group.complete(wc).map_err(|error| ProgramError(error.in_full()))
    }

    /// Asks for the sums of what is filled, and hands on those that have come.
    pub fn progress(&mut self, c: &Proxy) -> Result<(), ProgramError> {
        let step = c.library().proxy_step + c.library().plugin;
        loop {
            let over = |asked: &SliceInNetwork| asked.reduction.is_none_or(|reduction| self.group.is_done(reduction));
            let Some(asked) = self.asked.front().filter(|asked| over(asked)) else { break };
            let [up, down] = self.fifos[&asked.channel];
            let (bytes, slots, number) = (asked.bytes, asked.slots, asked.number);
            self.asked.pop_front();
            c.process.compute(step);
            let contents = c.world.0.sum_of(self.gpu, number);
            c.node.borrow_mut().kernels.fill(down, c.process.now(), bytes, slots, contents);
            c.node.borrow_mut().kernels.release(up, c.process.now(), slots);
        }
        while let Some(&channel) = self.order.front() {
            let [up, down] = self.fifos[&channel];
            let now = c.process.now();
            let node = &mut *c.node.borrow_mut();
            let Some(slots) = node.kernels.first_filled(up, now).map(|filled| filled.slots) else { break };
            if !node.kernels.occupy(down, now, slots) {
                break;
            }
            let Some(filled) = node.kernels.take_filled(up, now) else { break };
            self.order.pop_front();
            c.process.compute(step);
            let bytes = filled.bytes.saturating_u32();
            let post = |group: &mut Group| group.post(SUM, self.region, self.region, bytes).map_err(|error| ProgramError(error.in_full()));
            let reduction = if bytes > 0 { Some(post(&mut self.group)?) } else { None };
            c.world.0.add_to_sum(self.gpu, self.count, filled.contents);
            self.asked.push_back(SliceInNetwork { reduction, channel, bytes: filled.bytes, slots, number: self.count });
            self.count += 1;
        }
        if self.asked.front().is_some_and(|asked| asked.reduction.is_none()) {
            return self.progress(c);
        }
        Ok(())
    }
}

/// What NCCL's tests add up; the time of other types is the same.
const SUM: Task = Task { collective: Collective::Allreduce, reducer: Reducer::Sum, element: Element::F32, root: 0 };
