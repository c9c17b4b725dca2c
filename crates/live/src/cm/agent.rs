//! The connection manager of a host: it carries messages over the fabric, from an own queue pair of each adapter.
//!
//! Modelled: datagrams of 256 bytes beside all other traffic, and the kernel's work on each. Not modelled: their contents on the wire.

use std::collections::BTreeMap;

use fabriscope_node::{Core, Process, ProgramError};
use fabriscope_units::{Bytes, Span, Time};
use fabriscope_verbs::{
    Access, AhAttr, AhId, CqId, Lid, Lkey, PdId, QpAttr, QpCap, QpInit, QpNum, QpState, QpType, RecvWr, SendFlags, SendWr, Sge,
    UdDestination, VerbsError, WrOpcode,
};

use super::{Message, Port, calls};
use crate::world::{Key, Shared};

/// Bytes of a management datagram (standard).
const DATAGRAM: u32 = 256;
/// The kernel's work on a message that has come: an interrupt, two work queues, and what is told. Basis: assumed.
const HANDLING: Span = Span::from_us(10);
/// Receives that an agent keeps posted.
const RECEIVES: u32 = 512;
/// The key of such queue pairs (standard).
const QKEY: u32 = 0x8001_0000;
/// Any address: nobody reads what is there.
const NOWHERE: u64 = 4096;

/// The queue pair of an adapter.
#[derive(Debug)]
pub(crate) struct AgentPort {
    lid: Lid,
    pd: PdId,
    cq: CqId,
    qp: QpNum,
    key: Lkey,
    /// Ways to others.
    ways: BTreeMap<Lid, AhId>,
}

fn open_port(process: &Process, nic: usize) -> Result<AgentPort, VerbsError> {
    let lid = process.lid(nic);
    process.nic(nic, |n| {
        let pd = n.alloc_pd();
        let cq = n.create_cq(4 * RECEIVES)?;
        let key = n.reg_mr(pd, NOWHERE, Bytes(4096), Access::LOCAL_WRITE)?.lkey;
        let cap = QpCap { max_send_wr: RECEIVES, max_recv_wr: RECEIVES, max_send_sge: 1, max_recv_sge: 1, max_inline_data: Bytes::ZERO };
        let init = QpInit {
            pd,
            qp_type: QpType::Ud,
            send_cq: cq,
            recv_cq: cq,
            srq: None,
            xrcd: None,
            cap,
            sq_sig_all: true,
            block_mcast_loopback: false,
        };
        let qp = n.create_qp(&init)?;
        let to = |qp_state| QpAttr { qp_state: Some(qp_state), ..QpAttr::default() };
        let init = QpAttr { pkey_index: Some(0), port_num: Some(1), qkey: Some(QKEY), ..to(QpState::Init) };
        n.modify_qp(qp, &init)?;
        n.modify_qp(qp, &to(QpState::Rtr))?;
        n.modify_qp(qp, &QpAttr { sq_psn: Some(0), ..to(QpState::Rts) })?;
        Ok(AgentPort { lid, pd, cq, qp, key, ways: BTreeMap::new() })
    })
}

fn receive(process: &Process, nic: usize, (qp, key): (QpNum, Lkey)) -> Result<(), ProgramError> {
    let room = RecvWr { wr_id: 0, sge: [Sge { addr: NOWHERE, length: DATAGRAM + 40, lkey: key }].into_iter().collect() };
    process.post_recv(nic, qp, &room).map_err(|error| ProgramError(error.to_string()))
}

/// Starts the agent of a host, once.
pub(crate) fn begin(shared: &Shared, process: &Process, node: u32) -> Result<(), ProgramError> {
    if !shared.world().hosts[node as usize].agent.is_empty() {
        return Ok(());
    }
    let mut ports = Vec::new();
    for nic in 0..process.nics() {
        let port = open_port(process, nic).map_err(|error| ProgramError(error.to_string()))?;
        for _ in 0..RECEIVES / 2 {
            receive(process, nic, (port.qp, port.key))?;
        }
        ports.push(port);
    }
    shared.world().hosts[node as usize].agent = ports;
    let shared = shared.clone();
    let begin = move |process: Process| -> fabriscope_node::Program {
        process.serve();
        Box::pin(serve(process, shared, node))
    };
    process.spawn(Core::Host, Box::new(begin));
    Ok(())
}

/// Sends what a host has to say.
pub(crate) fn transmit(shared: &Shared, process: &Process, node: u32) {
    let mut world = shared.world();
    for out in world.connections.take_outgoing(node) {
        let Some((to, remote)) = world.hosts[out.to.0 as usize].agent.get(out.to.1).map(|port| (port.lid, port.qp)) else { continue };
        let number = world.connections.carry((out.from, out.message));
        let Some(port) = world.hosts[node as usize].agent.get_mut(out.from.1) else { continue };
        let known = port.ways.get(&to).copied();
        let way = known.or_else(|| process.nic(out.from.1, |n| n.create_ah(port.pd, AhAttr { dlid: to, sl: 0 })).ok());
        let Some(ah) = way else { continue };
        port.ways.insert(to, ah);
        let request = SendWr {
            wr_id: 0,
            opcode: WrOpcode::SendWithImm,
            sge: [Sge { addr: NOWHERE, length: DATAGRAM, lkey: port.key }].into_iter().collect(),
            flags: SendFlags::SIGNALED,
            remote: None,
            imm: Some(number),
            atomic: None,
            ud: Some(UdDestination { ah, remote_qpn: remote, remote_qkey: QKEY }),
            remote_srqn: None,
            eec: None,
            window: None,
            words: None,
        };
        // What finds no room is repeated, as whatever is lost.
        drop(process.post_send(out.from.1, port.qp, &request));
    }
    for channel in world.connections.take_news() {
        // Whoever waits there sees for itself when it can be read.
        world.tell(process, Key::Connections(channel), process.now());
    }
    if world.connections.next_repetition(node).is_some() {
        world.tell(process, Key::Agent(node), process.now());
    }
}

/// Handles what comes, until the run is over.
async fn serve(process: Process, shared: Shared, node: u32) -> Result<(), ProgramError> {
    let queues: Vec<(usize, CqId)> =
        shared.world().hosts[node as usize].agent.iter().enumerate().map(|(nic, port)| (nic, port.cq)).collect();
    loop {
        process.catch_up().await;
        for (nic, cq) in &queues {
            take(&process, &shared, ((node, *nic), *cq)).await?;
        }
        let again = {
            let mut world = shared.world();
            world.connections.handle_timeout(process.now(), node);
            world.connections.next_repetition(node)
        };
        transmit(&shared, &process, node);
        if shared.world().is_over() {
            return Ok(());
        }
        let (rank, key) = (process.rank(), [Key::Agent(node)]);
        shared.world().await_all(rank, &key);
        process.wait_any_until(&queues, &[], again.unwrap_or(Time::MAX)).await;
        shared.world().await_none(rank, &key);
        drop(process.take_notes());
    }
}

/// Takes what has come to a port.
async fn take(process: &Process, shared: &Shared, (at, cq): (Port, CqId)) -> Result<(), ProgramError> {
    while process.earliest(&[(at.1, cq)], &[]).is_some_and(|from| from <= process.now()) {
        for wc in process.poll_cq(at.1, cq, 16).await {
            if !wc.opcode.is_recv() {
                continue;
            }
            let port = shared.world().hosts[at.0 as usize].agent.get(at.1).map(|port| (port.qp, port.key));
            if let Some(port) = port {
                receive(process, at.1, port)?;
            }
            let message = wc.imm.and_then(|number| shared.world().connections.arrived(number));
            let Some((from, message)) = message else { continue };
            process.compute(HANDLING);
            let mut world = shared.world();
            let vector = calls::vector(&world.hosts[from.0 as usize].devices[from.1]);
            world.connections.handle(process.now(), at, (from, vector), message);
        }
    }
    Ok(())
}

impl super::Connections {
    /// The number under which a message goes.
    fn carry(&mut self, message: (Port, Message)) -> u32 {
        self.next_message = self.next_message.wrapping_add(1);
        self.on_the_way.insert(self.next_message, message);
        self.next_message
    }
    /// The message that had a number.
    fn arrived(&mut self, number: u32) -> Option<(Port, Message)> {
        self.on_the_way.remove(&number)
    }
}
