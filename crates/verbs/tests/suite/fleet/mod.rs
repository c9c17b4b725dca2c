//! Several NICs, every one connected to every other by one transport, over a channel that loses, duplicates and reorders.

use std::sync::{Arc, Mutex};

use fabriscope_units::{Bytes, Span, Time};
use fabriscope_verbs::*;

use crate::offload;
pub use crate::ram::Ram;

/// Bytes of memory of each node, from address 0 on.
pub const MEMORY: usize = 1 << 21;
pub const QKEY: u32 = 7;

/// How the channel treats packets: of 1,000, so many are lost, arrive twice, are overtaken, lose their payload.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    pub lose: u32,
    pub duplicate: u32,
    pub reorder: u32,
    pub trim: u32,
    pub seed: u64,
}

pub struct Node {
    pub nic: Nic,
    pub ram: Ram,
    pub pd: PdId,
    pub mr: Mr,
    pub cq: CqId,
    /// What requests to each peer are posted to, and what the peer names.
    pub to: Vec<QpNum>,
    pub from: Vec<QpNum>,
    pub ah: Vec<AhId>,
    pub eec: Vec<EecNum>,
    pub srq: Option<SrqId>,
    pub done: Vec<Wc>,
    /// What was said with each of them.
    pub said: Vec<Option<AppWords>>,
}

pub struct Fleet {
    pub kind: QpType,
    pub nodes: Vec<Node>,
    pub side: ExtHeaders,
    /// Packets in flight: when they arrive, in which order they left, the packet.
    wires: Vec<(Time, u64, Packet)>,
    pub now: Time,
    faults: Faults,
    random: u64,
    left: u64,
    pub sent: u64,
    pub lost: u64,
    /// By packet with payload: the node that read it from memory and where from; the node that wrote it and where to.
    pub fetched: Vec<(usize, MemoryId)>,
    pub written: Vec<(usize, MemoryId)>,
}

impl Fleet {
    pub fn new(kind: QpType, nodes: u32, mtu: Mtu, faults: Faults, congestion: cc::Settings) -> Fleet {
        let cap = QpCap { max_send_sge: 2, max_send_wr: 512, max_recv_wr: 512, max_inline_data: Bytes(64), ..QpCap::default() };
        let all: Vec<u32> = (0..nodes).collect();
        let made = all.iter().map(|me| node(kind, *me, nodes, mtu, cap, congestion.clone()));
        let made = made.map(|mut node| {
            node.nic.set_memory(Box::new(node.ram.clone()));
            node
        });
        Fleet::of(kind, made.collect(), mtu, faults)
    }
    /// Adapters whose packets have no bytes, on a channel that treats them so.
    pub fn without_bytes(kind: QpType, nodes: u32, mtu: Mtu, faults: Faults) -> Fleet {
        let cap = QpCap { max_send_wr: 512, max_recv_wr: 512, ..QpCap::default() };
        let made = (0..nodes).map(|me| node(kind, me, nodes, mtu, cap, cc::Settings::default())).collect();
        Fleet::of(kind, made, mtu, faults)
    }

    fn of(kind: QpType, mut made: Vec<Node>, mtu: Mtu, faults: Faults) -> Fleet {
        let nodes = made.len();
        for me in 0..nodes {
            for you in (0..nodes).filter(|you| *you != me) {
                let peer = |nodes: &Vec<Node>, qp: QpNum| Peer { lid: nodes[you].nic.lid(), qp, sl: 0, mtu };
                match kind {
                    QpType::Rc | QpType::Iwarp | QpType::Uc => {
                        let peer = peer(&made, made[you].to[me]);
                        let qp = made[me].to[you];
                        made[me].nic.connect(qp, &peer, Access::ALL).unwrap();
                    }
                    QpType::XrcSend => {
                        let (send, recv) = (made[me].to[you], made[me].from[you]);
                        let (sender, receiver) = (peer(&made, made[you].to[me]), peer(&made, made[you].from[me]));
                        made[me].nic.connect(send, &receiver, Access::ALL).unwrap();
                        made[me].nic.connect(recv, &sender, Access::ALL).unwrap();
                    }
                    QpType::Rd => {
                        let peer = peer(&made, QpNum(made[you].eec[me].0));
                        let eec = made[me].eec[you];
                        made[me].nic.connect(QpNum(eec.0), &peer, Access::ALL).unwrap();
                    }
                    _ => {}
                }
            }
        }
        Fleet {
            kind,
            nodes: made,
            side: ExtHeaders::new(),
            wires: Vec::new(),
            now: Time::from_ps(1),
            faults,
            random: faults.seed | 1,
            left: 0,
            sent: 0,
            lost: 0,
            fetched: Vec::new(),
            written: Vec::new(),
        }
    }

    fn random(&mut self) -> u64 {
        // xorshift64* (Vigna 2016), enough to shake packets.
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32
    }
    fn chance(&mut self, of_1000: u32) -> bool {
        self.random() % 1000 < u64::from(of_1000)
    }

    pub fn sge(&self, node: usize, addr: u64, length: u32) -> Sge {
        Sge { addr, length, lkey: self.nodes[node].mr.lkey }
    }
    pub fn remote(&self, node: usize, addr: u64) -> Remote {
        Remote { addr, rkey: self.nodes[node].mr.rkey }
    }

    /// The request with its destination, for transports that want it.
    pub fn addressed(&self, from: usize, to: usize, wr: SendWr) -> SendWr {
        let ah = || self.nodes[from].ah[to];
        let peer = &self.nodes[to];
        match self.kind {
            QpType::XrcSend => wr.to_srq(peer.srq.unwrap()),
            QpType::Rd => wr.over(self.nodes[from].eec[to], peer.from[from], QKEY),
            QpType::Rc | QpType::Iwarp | QpType::Uc => wr,
            _ => wr.to(UdDestination { ah: ah(), remote_qpn: peer.from[from], remote_qkey: QKEY }),
        }
    }
    /// Posts and rings.
    pub fn post(&mut self, from: usize, to: usize, wr: SendWr) -> Result<(), PostError> {
        let wr = self.addressed(from, to, wr);
        let node = &mut self.nodes[from];
        let posted = node.nic.post_send(self.now, node.to[to], &wr)?;
        node.nic.doorbell(self.now, node.to[to], posted.wqe);
        self.collect(from);
        Ok(())
    }
    /// Posts a receive for a message of `from` to `to`.
    pub fn post_recv(&mut self, from: usize, to: usize, wr_id: u64, sge: Sge) -> Result<(), PostError> {
        let node = &mut self.nodes[to];
        let wr = RecvWr::new(wr_id, sge);
        match node.srq {
            Some(srq) => node.nic.post_srq_recv(self.now, srq, &wr),
            None if matches!(self.kind, QpType::Rc | QpType::Iwarp | QpType::Uc) => node.nic.post_recv(self.now, node.to[from], &wr),
            None => node.nic.post_recv(self.now, node.from[from], &wr),
        }
    }

    fn collect(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        while let Some((cq, wc)) = node.nic.poll_completion() {
            node.nic.deliver(self.now, cq, wc);
        }
        node.nic.poll_cq(self.now, node.cq, usize::MAX, &mut node.done);
        let fresh = &node.done[node.said.len()..];
        node.said.extend(fresh.iter().map(|wc| node.nic.words(wc)));
    }

    fn transmit(&mut self, from: usize) {
        while let Some(transmit) = self.nodes[from].nic.poll_transmit(self.now, &mut self.side) {
            self.sent += 1;
            if transmit.fetch > Bytes::ZERO {
                self.fetched.push((from, transmit.place));
            }
            let mut packet = transmit.packet;
            if self.chance(self.faults.lose) {
                self.lost += 1;
                self.side.free(packet.ext);
                continue;
            }
            if packet.payload > 0 && self.chance(self.faults.trim) {
                packet.payload = 0;
                packet.flags.insert(PacketFlags::TRIMMED);
            }
            let twin = self.chance(self.faults.duplicate);
            for copy in 0..=u32::from(twin) {
                let packet = if copy == 0 { packet } else { Packet { ext: self.side.duplicate(packet.ext), ..packet } };
                let late = if self.chance(self.faults.reorder) { self.random() % 3000 } else { 0 };
                self.left += 1;
                self.wires.push((self.now + Span::from_ns(500 + late), self.left, packet));
            }
        }
        self.collect(from);
    }

    fn receive(&mut self, packet: Packet) {
        let to = self.nodes.iter().position(|node| node.nic.lid() == packet.dest).unwrap();
        let node = &mut self.nodes[to];
        let received = node.nic.handle_packet(self.now, &packet, &mut self.side);
        if received.write > Bytes::ZERO {
            self.written.push((to, received.place));
        }
        self.collect(to);
        if let Some((cq, wc)) = received.completion {
            self.nodes[to].nic.deliver(self.now, cq, wc);
        }
        while self.nodes[to].nic.poll_landed().is_some() {}
        self.collect(to);
    }

    /// Runs until nothing is outstanding and no timer is left, or `limit` steps; true when quiet.
    pub fn run(&mut self, limit: usize) -> bool {
        for _ in 0..limit {
            for node in 0..self.nodes.len() {
                self.collect(node);
                self.transmit(node);
            }
            let arrival = self.wires.iter().map(|(at, left, _)| (*at, *left)).min();
            let timeout = self.nodes.iter().filter_map(|node| node.nic.poll_timeout()).min();
            match (arrival, timeout) {
                (None, None) => return true,
                (Some((at, left)), timeout) if timeout.is_none_or(|timeout| at <= timeout) => {
                    self.now = self.now.max(at);
                    let place = self.wires.iter().position(|(_, other, _)| *other == left).unwrap();
                    let (_, _, packet) = self.wires.swap_remove(place);
                    self.receive(packet);
                }
                (_, Some(at)) => {
                    self.now = self.now.max(at);
                    for node in 0..self.nodes.len() {
                        self.nodes[node].nic.handle_timeout(self.now);
                        self.collect(node);
                    }
                }
                (Some(_), None) => unreachable!("taken above"),
            }
        }
        false
    }
}

fn node(kind: QpType, me: u32, nodes: u32, mtu: Mtu, cap: QpCap, congestion: cc::Settings) -> Node {
    let iwarp = (kind == QpType::Iwarp).then(offload::iwarp);
    let mut nic = Nic::new(NicConfig { lid: Lid(me + 1), congestion, datagram_mtu: mtu.bytes(), iwarp, ..NicConfig::default() });
    let ram = Ram(Arc::new(Mutex::new(vec![0; MEMORY])));
    let pd = nic.alloc_pd();
    let mr = nic.reg_mr(pd, 0, Bytes(MEMORY as u64), Access::ALL).unwrap();
    let cq = nic.create_cq(1 << 16).unwrap();
    let init = |qp_type| QpInit { cap, ..QpInit::new(pd, qp_type, cq) };
    let ah = (0..nodes).map(|you| nic.create_ah(pd, AhAttr { dlid: Lid(you + 1), sl: 0 }).unwrap()).collect();
    let each = |nic: &mut Nic, init: QpInit| (0..nodes).map(|_| nic.create_qp(&init).unwrap()).collect::<Vec<_>>();
    let own = Peer { lid: Lid(me + 1), qp: QpNum(0), sl: 0, mtu };
    let (to, from);
    let (mut eec, mut srq) = (Vec::new(), None);
    match kind {
        QpType::Rc | QpType::Iwarp | QpType::Uc => {
            to = each(&mut nic, init(kind));
            from = to.clone();
        }
        QpType::XrcSend => {
            let xrcd = nic.open_xrcd();
            srq = Some(nic.create_xrc_srq(pd, xrcd, cq, 512, 1).unwrap());
            to = each(&mut nic, init(QpType::XrcSend));
            from = each(&mut nic, QpInit { xrcd: Some(xrcd), ..init(QpType::XrcRecv) });
        }
        QpType::Dci => {
            let shared = nic.create_srq(pd, 512, 1).unwrap();
            srq = Some(shared);
            let dci = nic.create_qp(&init(QpType::Dci)).unwrap();
            let dct = nic.create_qp(&QpInit { srq, ..init(QpType::Dct) }).unwrap();
            nic.connect(dci, &own, Access::ALL).unwrap();
            nic.modify_qp(dct, &QpAttr::init_datagram(QKEY, Access::ALL)).unwrap();
            nic.modify_qp(dct, &QpAttr::rtr_dc(mtu)).unwrap();
            (to, from) = (vec![dci; nodes as usize], vec![dct; nodes as usize]);
        }
        _ => {
            let qp = nic.create_qp(&init(kind)).unwrap();
            let to_init = match kind {
                QpType::Ud | QpType::UetUud => QpAttr::init_ud(QKEY),
                QpType::RawPacket => QpAttr::init_plain(),
                _ => QpAttr::init_datagram(QKEY, Access::ALL),
            };
            let to_rts = if kind == QpType::RawPacket { QpAttr::to(QpState::Rts) } else { QpAttr::rts(0) };
            for attr in [to_init, QpAttr::rtr_ud(), to_rts] {
                nic.modify_qp(qp, &attr).unwrap();
            }
            if kind == QpType::Rd {
                eec = (0..nodes).map(|_| nic.create_eec(pd, cq).unwrap()).collect();
            }
            (to, from) = (vec![qp; nodes as usize], vec![qp; nodes as usize]);
        }
    }
    Node { nic, ram, pd, mr, cq, to, from, ah, eec, srq, done: Vec::new(), said: Vec::new() }
}

impl Fleet {
    /// From now on the channel loses nothing.
    pub fn heal(&mut self) {
        self.faults = Faults::default();
    }
}
