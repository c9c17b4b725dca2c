//! What happens to contributions of groups that switches reduce.

use crate::aggregation::{LATER, Neighbour, OPERATION, Piece, Station};
use crate::event::Event;
use crate::packed_packet::PackedPacket;
use crate::queues::UNHELD;
use crate::world::{Client, World};
use fabriscope_fabric::aggregation::Refusal;
use fabriscope_fabric::{EndpointId, LinkId, Node};
use fabriscope_switch::aggregation::{Arrival, Joined, Session, Verdict};
use fabriscope_units::{Bytes, Time};
use fabriscope_verbs::{Denied, Ext, GroupRequest, Lid, Packet, PacketFlags, PayloadBytes};
use fabriscope_wire::{Collective, NakCode, Opcode, Operation, Psn, RnrTimer, Syndrome, Task};
use std::collections::BTreeMap;

/// Management.
impl World<'_> {
    /// A program of `host` asks for a group at `now`.
    #[cold]
    pub(crate) fn ask_group(&mut self, now: Time, host: u32, request: GroupRequest) {
        let asked = self.groups.aggregation.asked.entry(request.job).or_default();
        asked.push((host, request));
        if asked.len() < request.members as usize {
            return;
        }
        self.groups.aggregation.due.push(request.job);
        let settings = &self.cluster.parts.multicast;
        let at = now + settings.answer + settings.table_write;
        let job = self.groups.aggregation.due.len() as u32 - 1;
        self.plan_group(at, job);
    }

    /// The manager answers all members of a job.
    pub(crate) fn answer_group(&mut self, client: &mut impl Client, at: Time, job: u32) {
        let job = self.groups.aggregation.due[job as usize];
        let mut members = self.groups.aggregation.asked.remove(&job).unwrap_or_default();
        members.sort_unstable_by_key(|(_, request)| request.member);
        let group = self.make_group(at, &members);
        for (host, request) in members {
            let h = self.host(host);
            let seen = h.pipeline.notify(at);
            h.nic().deliver(seen, request.cq, request.answer(group));
            client.visible(self, host, Some(request.cq), seen);
        }
    }

    fn make_group(&mut self, at: Time, members: &[(u32, GroupRequest)]) -> Result<u32, Denied> {
        let graph = &self.cluster.fabric.graph;
        let faults = self.watch.faults.as_deref();
        let (_, manager) = self.groups.aggregation.unit.as_mut().ok_or(Denied::NoUnit)?;
        let agree = |(index, (_, request)): (usize, &(u32, GroupRequest))| request.member as usize == index;
        if !members.iter().enumerate().all(agree) {
            return Err(Denied::Twice);
        }
        let endpoints: Vec<EndpointId> = members.iter().map(|(host, _)| EndpointId(*host)).collect();
        let slots = members.first().map_or(1, |(_, request)| request.slots);
        let alive = |link: LinkId| faults.is_none_or(|faults| !faults.is_down(link.cable(), at));
        let number = manager.grant(graph, &endpoints, slots, alive).map_err(|refusal| denied(&refusal))?;
        let Some(tree) = manager.tree(number) else { return Err(Denied::Apart) };
        // Below which child each member is: from the leaves up, as parents come first.
        let mut above: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        let mut group = BTreeMap::new();
        for node in tree.nodes().iter().rev() {
            let mut below = vec![None; members.len()];
            let mut neighbours = Vec::new();
            for (child, link) in node.children.iter().enumerate() {
                let child = child as u32;
                match graph.node(graph.link(*link).to) {
                    Node::Switch(switch) => {
                        for member in above.get(&switch.0).into_iter().flatten() {
                            below[*member as usize] = Some(child);
                        }
                        neighbours.push(Neighbour::Switch);
                    }
                    Node::Endpoint(endpoint) => {
                        let at = endpoints.iter().position(|other| *other == endpoint).unwrap_or(0);
                        below[at] = Some(child);
                        neighbours.push(Neighbour::Adapter { lid: Lid(endpoint.0), qp: members[at].1.qp, psn: Psn::new(0) });
                    }
                }
            }
            above.insert(node.switch.0, (0..members.len() as u32).filter(|member| below[*member as usize].is_some()).collect());
            let session = Session::new(neighbours.len() as u32, below, slots);
            let children = node.children.clone();
            group.insert(node.switch.0, Station { up: node.up, children, neighbours, session, psn: Psn::new(0), passing: Task::BARRIER });
        }
        self.groups.aggregation.groups.push(group);
        Ok(self.groups.aggregation.groups.len() as u32 - 1)
    }
}

/// Packets.
impl World<'_> {
    /// A packet of a group has reached `switch` by `lane`.
    pub(crate) fn aggregate(&mut self, now: Time, lane: u32, switch: u32, packed: PackedPacket) {
        let came_by = LinkId(lane / self.links.vls);
        let bytes = packed.wire_bytes();
        let tail = now + self.links.lane(lane).serialisation(bytes);
        // No group has the largest number: the packet finds no station.
        let group = Lid(packed.dest()).aggregation().unwrap_or(u32::MAX);
        let station = self.groups.aggregation.groups.get(group as usize).and_then(|stations| stations.get(&switch));
        let child = station.and_then(|station| station.children.binary_search(&came_by.reverse()).ok());
        let from_above = station.is_some_and(|station| station.up == Some(came_by.reverse()));
        if from_above {
            return self.pass_down(now, lane, (group, switch), packed);
        }
        self.release(lane, bytes, tail);
        let Some(child) = child.filter(|_| packed.unpack().opcode != Opcode::RC_ACKNOWLEDGE.as_u8()) else {
            // An acknowledgement of a result, or a packet of a stranger.
            self.watch.stats.unwanted += u64::from(child.is_none());
            self.ext_headers.free(packed.ext());
            return;
        };
        self.contribute(now, tail, (group, switch), child as u32, packed);
    }

    /// A contribution of a child, whole at `tail`.
    fn contribute(&mut self, now: Time, tail: Time, (group, switch): (u32, u32), child: u32, packed: PackedPacket) {
        let packet = packed.unpack();
        let ext = self.ext_headers.take(packet.ext);
        let operation = packet.opcode & OPERATION;
        let starts = operation == Operation::WriteFirst as u8 || operation == Operation::WriteOnly as u8;
        let last = operation == Operation::WriteLast as u8 || operation == Operation::WriteOnly as u8;
        let header = ext.as_ref().filter(|_| starts).and_then(|ext| Some((Task::unpack(ext.remote_addr)?, ext.dma_length)));
        let (psn, at) = (Psn::new(packet.psn), tail);
        let arrival =
            Arrival { psn, header, last, payload: packet.payload, data: ext.and_then(|ext| ext.data).map(PayloadBytes::into_boxed), at };
        let Some(station) = self.groups.aggregation.groups[group as usize].get_mut(&switch) else { return };
        let verdict = station.session.handle(child, arrival);
        let asks = packet.flags.contains(PacketFlags::ACK_REQ);
        let told = match verdict {
            Verdict::Taken => asks.then_some((psn, Syndrome::ACK)),
            Verdict::Repeated(psn) => Some((psn, Syndrome::ACK)),
            Verdict::Early(psn) => Some((psn, Syndrome::Nak(NakCode::PsnSequenceError))),
            Verdict::Full => Some((psn, Syndrome::RnrNak(RnrTimer::at_least(LATER)))),
            Verdict::Refused => Some((psn, Syndrome::Nak(NakCode::InvalidRequest))),
        };
        if verdict == Verdict::Taken {
            self.go_on(now, (group, switch), packet.sl);
        } else {
            self.watch.stats.unwanted += 1;
        }
        // A result that is ready at the same moment goes first.
        if let Some((psn, syndrome)) = told {
            self.tell_child(tail, (group, switch), child, psn, syndrome, packet.sl);
        }
    }

    /// Acknowledges, or refuses, what an adapter sent. Switches are told nothing.
    fn tell_child(&mut self, at: Time, (group, switch): (u32, u32), child: u32, psn: Psn, syndrome: Syndrome, sl: u8) {
        let Some(station) = self.groups.aggregation.groups[group as usize].get(&switch) else { return };
        let Neighbour::Adapter { lid, qp, .. } = station.neighbours[child as usize] else { return };
        let link = station.children[child as usize];
        let packet = self.groups.aggregation.packet(Operation::Acknowledge, 0, psn, sl);
        let packet = Packet { dest: lid, dest_qp: qp.0, syndrome: syndrome.encode(), ..packet };
        let out = link.0 * self.links.vls + self.links.lane_out(u32::from(sl));
        self.queue.push(at + self.links.latency_before(out), Event::emit(out, PackedPacket::new(&packet)));
    }

    /// Sends on what all children brought.
    fn go_on(&mut self, now: Time, (group, switch): (u32, u32), sl: u8) {
        let Some((pace, _)) = &self.groups.aggregation.unit else { return };
        let pace = *pace;
        loop {
            let Some(station) = self.groups.aggregation.groups[group as usize].get_mut(&switch) else { return };
            let Some(joined) = station.session.poll_joined() else { return };
            let bytes = Bytes(u64::from(joined.payload));
            let unit = self.groups.aggregation.units.entry(switch).or_default();
            let ready = unit.join(&pace, joined.at, bytes, Bytes(u64::from(joined.length))).max(now);
            self.watch.stats.reductions += 1;
            match station.up {
                Some(up) => {
                    let psn = station.psn;
                    station.psn = psn.next();
                    self.send_up(ready, group, up, psn, sl, joined);
                }
                None => {
                    let Joined { task, first, last, payload, data, .. } = joined;
                    if last {
                        station.session.end();
                    }
                    self.spread(ready, (group, switch), task, Piece { first, last, payload, sl }, data.as_deref());
                }
            }
        }
    }

    fn send_up(&mut self, ready: Time, group: u32, up: LinkId, psn: Psn, sl: u8, joined: Joined) {
        let operation = match (joined.first, joined.last) {
            (true, true) => Operation::WriteOnly,
            (true, false) => Operation::WriteFirst,
            (false, true) => Operation::WriteLast,
            (false, false) => Operation::WriteMiddle,
        };
        let packet = self.groups.aggregation.packet(operation, joined.payload, psn, sl);
        let ext =
            Ext { remote_addr: joined.task.pack(), dma_length: joined.length, data: joined.data.map(PayloadBytes::from), ..Ext::default() };
        let packet = Packet { dest: Lid::aggregate(group), ext: self.ext_headers.alloc(ext), ..packet };
        let out = up.0 * self.links.vls + self.links.lane_out(u32::from(sl));
        self.queue.push(ready, Event::emit(out, PackedPacket::new(&packet)));
    }

    /// The root sends a packet of a result to its children at `ready`.
    fn spread(&mut self, ready: Time, (group, switch): (u32, u32), task: Task, piece: Piece, data: Option<&[u8]>) {
        let children = self.groups.aggregation.groups[group as usize].get(&switch).map_or(0, |station| station.children.len());
        for child in 0..children {
            if let Some((out, packet)) = self.piece_for((group, switch), child, task, piece) {
                let packet = self.with_data(packet, task, data);
                self.queue.push(ready, Event::emit(out, PackedPacket::new(&packet)));
            }
        }
    }

    /// A packet of a result has come from above: copies for the children.
    fn pass_down(&mut self, now: Time, lane: u32, (group, switch): (u32, u32), packed: PackedPacket) {
        let packet = packed.unpack();
        let operation = packet.opcode & OPERATION;
        let first = operation == Operation::SendFirst as u8 || operation == Operation::SendOnly as u8;
        let last = operation == Operation::SendLast as u8 || operation == Operation::SendOnly as u8;
        let ext = self.ext_headers.take(packet.ext);
        let Some(station) = self.groups.aggregation.groups[group as usize].get_mut(&switch) else { return };
        if let Some(task) = ext.as_ref().filter(|_| first).and_then(|ext| Task::unpack(ext.remote_addr)) {
            station.passing = task;
        }
        let task = station.passing;
        if last {
            station.session.end();
        }
        let (children, data) = (station.children.len(), ext.and_then(|ext| ext.data));
        let piece = Piece { first, last, payload: packet.payload, sl: packet.sl };
        let pieces: Vec<_> = (0..children).filter_map(|child| self.piece_for((group, switch), child, task, piece)).collect();
        // What is as long as the packet that came is a copy of it, and holds its buffer.
        let copies = pieces.iter().filter(|(_, copy)| copy.wire_bytes == packet.wire_bytes).count() as u32;
        let record = if copies == 0 { UNHELD } else { self.hold_copies(lane, copies) };
        if copies == 0 {
            let tail = now + self.links.lane(lane).serialisation(packed.wire_bytes());
            self.release(lane, packed.wire_bytes(), tail);
        }
        for (out, copy) in pieces {
            let from = if copy.wire_bytes == packet.wire_bytes { record } else { UNHELD };
            let copy = PackedPacket::new(&self.with_data(copy, task, data.as_deref()));
            let earliest = self.leaves_at(now, lane, out, copy.wire_bytes());
            self.send(now, out, copy, from, earliest);
        }
        self.watch.stats.copies += u64::from(copies);
    }

    /// What a child gets of a packet of a result, and by which lane; nothing where a later packet tells it all.
    fn piece_for(&mut self, (group, switch): (u32, u32), child: usize, task: Task, piece: Piece) -> Option<(u32, Packet)> {
        let station = self.groups.aggregation.groups[group as usize].get_mut(&switch)?;
        let (towards, link) = (station.session.towards(task.root) == Some(child as u32), station.children[child]);
        let is_adapter = matches!(station.neighbours[child], Neighbour::Adapter { .. });
        // The root of a broadcast has its data; of a reduction to one, the others have no use for them.
        let gets = match task.collective {
            Collective::Reduce => towards,
            Collective::Bcast => !(towards && is_adapter),
            Collective::Barrier | Collective::Allreduce => true,
        };
        if !gets && !piece.last {
            return None;
        }
        let (first, payload) = if gets { (piece.first, piece.payload) } else { (true, 0) };
        let operation = match (first, piece.last) {
            (true, true) => Operation::SendOnly,
            (true, false) => Operation::SendFirst,
            (false, true) => Operation::SendLast,
            (false, false) => Operation::SendMiddle,
        };
        let (dest, dest_qp, psn) = match &mut station.neighbours[child] {
            Neighbour::Switch => (Lid::aggregate(group), 0, Psn::new(0)),
            Neighbour::Adapter { lid, qp, psn } => {
                let number = *psn;
                *psn = number.next();
                (*lid, qp.0, number)
            }
        };
        let flags = if is_adapter && piece.last { PacketFlags::ACK_REQ } else { PacketFlags::NONE };
        let packet = self.groups.aggregation.packet(operation, payload, psn, piece.sl);
        let out = link.0 * self.links.vls + self.links.lane_out(u32::from(piece.sl));
        Some((out, Packet { dest, dest_qp, flags, ..packet }))
    }

    /// The same with the header and the bytes that it carries.
    fn with_data(&mut self, packet: Packet, task: Task, data: Option<&[u8]>) -> Packet {
        let data: Option<PayloadBytes> = data.map(|data| data[..usize::from(packet.payload).min(data.len())].into());
        if data.is_none() && packet.dest.aggregation().is_none() {
            return packet;
        }
        Packet { ext: self.ext_headers.alloc(Ext { remote_addr: task.pack(), data, ..Ext::default() }), ..packet }
    }
}

fn denied(refusal: &Refusal) -> Denied {
    match refusal {
        Refusal::TooFew(_) => Denied::TooFew,
        Refusal::Twice(_) => Denied::Twice,
        Refusal::Trees(_) => Denied::Trees,
        Refusal::Groups { .. } => Denied::Groups,
        Refusal::Slots { .. } => Denied::Slots,
        Refusal::Children { .. } => Denied::Children,
        _ => Denied::Apart,
    }
}
