//! Two NICs joined by a channel that can lose, duplicate and reorder.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use fabriscope_units::{Bytes, Time};
use fabriscope_verbs::*;

use crate::offload;
pub use crate::ram::Ram;

/// Bytes of memory of each side, starting at address 0.
pub const MEMORY: usize = 1 << 20;

/// One end.
pub struct TestEnd {
    pub nic: Nic,
    pub ram: Ram,
    pub pd: PdId,
    pub mr: Mr,
    pub cq: CqId,
    pub qp: QpNum,
    /// Completions polled so far, and what was said with them.
    pub done: Vec<Wc>,
    pub said: Vec<Option<AppWords>>,
    /// What was said with writes that were seen.
    pub written: Vec<AppWords>,
    pub watch: WatchId,
}

/// How the channel treats packets.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// Of 256 packets, so many are lost; never more than five of a requester's without an answer, so that the retry counter lasts.
    pub lose: u8,
    /// Of 256 packets, so many arrive twice.
    pub duplicate: u8,
    /// Of 256 packets, so many are overtaken.
    pub reorder: u8,
    /// Of 256 packets with payload, so many lose it to a switch.
    pub trim: u8,
    /// Of 256 packets, so many are marked by a switch.
    pub mark: u8,
    pub seed: u64,
}

/// Two ends and what is between them.
pub struct Pair {
    pub ends: [TestEnd; 2],
    pub side: ExtHeaders,
    pub wires: [VecDeque<Packet>; 2],
    pub now: Time,
    pub faults: Faults,
    random: u64,
    /// Losses since the last answer, by requester.
    unanswered: [u32; 2],
    pub sent: u64,
    pub lost: u64,
    pub retransmitted: u64,
    /// Packets that arrived, by direction, when asked for.
    pub log: Option<Vec<Packet>>,
}

impl Pair {
    pub fn new(init: impl Fn(QpInit) -> QpInit, qp_type: QpType, faults: Faults) -> Pair {
        Pair::governed(init, qp_type, faults, cc::Settings::default())
    }

    /// Under congestion control.
    pub fn governed(init: impl Fn(QpInit) -> QpInit, qp_type: QpType, faults: Faults, congestion: cc::Settings) -> Pair {
        let end = |lid| {
            let iwarp = (qp_type == QpType::Iwarp).then(offload::iwarp);
            let mut nic = Nic::new(NicConfig { lid: Lid(lid), congestion: congestion.clone(), iwarp, ..NicConfig::default() });
            let ram = Ram(Arc::new(Mutex::new(vec![0; MEMORY])));
            nic.set_memory(Box::new(ram.clone()));
            let pd = nic.alloc_pd();
            let mr = nic.reg_mr(pd, 0, Bytes(MEMORY as u64), Access::ALL).unwrap();
            let cq = nic.create_cq(1 << 16).unwrap();
            let qp = nic.create_qp(&init(QpInit::new(pd, qp_type, cq))).unwrap();
            let watch = nic.create_watch(0, Bytes(MEMORY as u64));
            TestEnd { nic, ram, pd, mr, cq, qp, done: Vec::new(), said: Vec::new(), written: Vec::new(), watch }
        };
        Pair {
            ends: [end(1), end(2)],
            side: ExtHeaders::new(),
            wires: Default::default(),
            now: Time::from_ps(1),
            faults,
            random: faults.seed | 1,
            unanswered: [0; 2],
            sent: 0,
            lost: 0,
            retransmitted: 0,
            log: None,
        }
    }

    /// INIT, RTR, RTS of both ends with changes to the attributes.
    pub fn connect(&mut self, mtu: Mtu, psn: u32, rtr: impl Fn(&mut QpAttr), rts: impl Fn(&mut QpAttr)) {
        for me in 0..2 {
            let peer = &self.ends[1 - me];
            let (lid, qp) = (peer.nic.lid(), peer.qp);
            let av = AhAttr { dlid: lid, sl: 0 };
            let end = &mut self.ends[me];
            let qp_type = end.nic.query_qp(end.qp).unwrap().init.qp_type;
            let (init, mut to_rtr, mut to_rts) = match qp_type {
                QpType::Rc | QpType::Iwarp => (QpAttr::init(Access::ALL), QpAttr::rtr_rc(mtu, qp, psn, av), QpAttr::rts_rc(psn)),
                QpType::Uc => (QpAttr::init(Access::ALL), QpAttr::rtr_uc(mtu, qp, psn, av), QpAttr::rts(psn)),
                QpType::Srd | QpType::Uet | QpType::UetRod | QpType::UetRudi => {
                    (QpAttr::init_datagram(7, Access::ALL), QpAttr::rtr_ud(), QpAttr::rts(psn))
                }
                _ => (QpAttr::init_ud(7), QpAttr::rtr_ud(), QpAttr::rts(psn)),
            };
            rtr(&mut to_rtr);
            rts(&mut to_rts);
            end.nic.modify_qp(end.qp, &init).unwrap();
            end.nic.modify_qp(end.qp, &to_rtr).unwrap();
            end.nic.modify_qp(end.qp, &to_rts).unwrap();
        }
    }

    /// Reliable, 256 B, defaults.
    pub fn rc() -> Pair {
        let mut pair = Pair::new(|init| init, QpType::Rc, Faults::default());
        pair.connect(Mtu::B256, 0xff_fff0, |_| (), |_| ());
        pair
    }

    fn random(&mut self) -> u64 {
        // xorshift64* (Vigna 2016), enough to shake packets.
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32
    }
    pub fn chance(&mut self, of_256: u8) -> bool {
        (self.random() & 255) < u64::from(of_256)
    }

    /// Packets that move at once: any number with faults, all without.
    fn burst(&mut self) -> usize {
        if self.faults.seed == 0 { 1000 } else { 1 + (self.random() % 5) as usize }
    }

    pub fn sge(&self, end: usize, addr: u64, length: u32) -> Sge {
        Sge { addr, length, lkey: self.ends[end].mr.lkey }
    }
    pub fn remote(&self, end: usize, addr: u64) -> Remote {
        Remote { addr, rkey: self.ends[end].mr.rkey }
    }
    pub fn fill(&mut self, end: usize, addr: u64, bytes: &[u8]) {
        self.ends[end].ram.write(addr, bytes);
    }
    pub fn bytes(&self, end: usize, addr: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.ends[end].ram.read(addr, &mut bytes);
        bytes
    }

    /// Posts and rings.
    pub fn post(&mut self, end: usize, wr: &SendWr) -> Result<(), PostError> {
        let (now, end) = (self.now, &mut self.ends[end]);
        let posted = end.nic.post_send(now, end.qp, wr)?;
        end.nic.doorbell(now, end.qp, posted.wqe);
        Ok(())
    }
    pub fn post_recv(&mut self, end: usize, wr_id: u64, sge: Sge) -> Result<(), PostError> {
        let (now, end) = (self.now, &mut self.ends[end]);
        end.nic.post_recv(now, end.qp, &RecvWr::new(wr_id, sge))
    }

    /// Puts what an end has to send on the wire, with faults.
    pub fn transmit(&mut self, from: usize, limit: usize) -> bool {
        let mut any = false;
        for _ in 0..limit {
            let Some(transmit) = self.ends[from].nic.poll_transmit(self.now, &mut self.side) else { break };
            any = true;
            self.sent += 1;
            self.retransmitted += u64::from(transmit.retransmission);
            let mut packet = transmit.packet;
            let requester = if transmit.responder { 1 - from } else { from };
            if self.faults.mark > 0 && self.chance(self.faults.mark) {
                packet.flags.insert(PacketFlags::ECN_CE);
            }
            if self.faults.trim > 0
                && packet.payload > 0
                && !transmit.responder
                && self.unanswered[requester] < 5
                && self.chance(self.faults.trim)
            {
                self.unanswered[requester] += 1;
                packet.payload = 0;
                packet.flags.insert(PacketFlags::TRIMMED);
            }
            if self.unanswered[requester] < 5 && self.chance(self.faults.lose) {
                self.unanswered[requester] += 1;
                self.lost += 1;
                self.side.free(packet.ext);
                continue;
            }
            if self.chance(self.faults.duplicate) {
                let twin = Packet { ext: self.side.duplicate(packet.ext), ..packet };
                self.wires[1 - from].push_back(twin);
            }
            let wire = 1 - from;
            if self.chance(self.faults.reorder) {
                let back = self.random() as usize % 8;
                let at = self.wires[wire].len().saturating_sub(back);
                self.wires[wire].insert(at, packet);
            } else {
                self.wires[wire].push_back(packet);
            }
        }
        self.drain(from);
        any
    }

    /// Hands over the next packet for an end.
    pub fn receive(&mut self, to: usize) -> Option<Received> {
        let packet = self.wires[to].pop_front()?;
        if let Some(log) = &mut self.log {
            log.push(packet);
        }
        let received = self.ends[to].nic.handle_packet(self.now, &packet, &mut self.side);
        if (0x0d..=0x12).contains(&packet.opcode) && packet.syndrome < 0x20 && !received.dropped {
            self.unanswered[to] = 0;
        }
        self.drain(to);
        let end = &mut self.ends[to];
        while let Some(landed) = end.nic.poll_landed() {
            end.nic.landed(self.now, landed);
        }
        if let Some(landed) = received.landed {
            end.nic.landed(self.now, landed);
        }
        if let Some((cq, wc)) = received.completion {
            end.nic.deliver(self.now, cq, wc);
        }
        self.poll(to);
        Some(received)
    }

    fn drain(&mut self, end: usize) {
        let end_ref = &mut self.ends[end];
        while let Some((cq, wc)) = end_ref.nic.poll_completion() {
            end_ref.nic.deliver(self.now, cq, wc);
        }
        self.poll(end);
    }

    pub fn poll(&mut self, end: usize) {
        let end = &mut self.ends[end];
        end.nic.poll_cq(self.now, end.cq, usize::MAX, &mut end.done);
        let fresh = &end.done[end.said.len()..];
        end.said.extend(fresh.iter().map(|wc| end.nic.words(wc)));
        while let Some(words) = end.nic.watch_words(end.watch, self.now) {
            end.written.push(words);
        }
    }

    /// Runs until nothing moves and no timer is left, or `limit` steps; true when quiet.
    pub fn run(&mut self, limit: usize) -> bool {
        for _ in 0..limit {
            let mut moved = false;
            for end in 0..2 {
                self.drain(end);
                let burst = self.burst();
                moved |= self.transmit(end, burst);
                let burst = self.burst();
                for _ in 0..burst {
                    moved |= self.receive(end).is_some();
                }
            }
            if moved {
                self.now += fabriscope_units::Span::from_ns(100);
                continue;
            }
            let next = (0..2).filter_map(|end| self.ends[end].nic.poll_timeout()).min();
            match next {
                None => return true,
                Some(at) => {
                    self.now = self.now.max(at);
                    for end in 0..2 {
                        self.ends[end].nic.handle_timeout(self.now);
                        self.drain(end);
                    }
                }
            }
        }
        false
    }

    pub fn state(&self, end: usize) -> QpState {
        self.ends[end].nic.query_qp(self.ends[end].qp).unwrap().state
    }
    /// (wr_id, status) of what completed at an end.
    pub fn ids(&self, end: usize) -> Vec<(u64, WcStatus)> {
        self.ends[end].done.iter().map(|wc| (wc.wr_id, wc.status)).collect()
    }
}
