//! Packets that two NICs on one core build and handle, without memory and without an engine.
#![allow(missing_docs)]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use fabriscope_units::{Bytes, Span, Time};
use fabriscope_verbs::*;

/// Two NICs with queue pairs between them.
struct Load {
    nics: [Nic; 2],
    qps: Vec<QpNum>,
    cq: CqId,
    wr: SendWr,
    side: ExtHeaders,
    now: Time,
    packets: Vec<Packet>,
    done: Vec<Wc>,
}

impl Load {
    fn new(queue_pairs: usize, opcode: WrOpcode, length: u32, any_order: bool) -> Load {
        let mut nics = [0, 1].map(|lid| Nic::new(NicConfig { lid: Lid(lid), ..NicConfig::default() }));
        let cap = QpCap { max_send_wr: 16, ..QpCap::default() };
        let mut made = Vec::new();
        for nic in &mut nics {
            let pd = nic.alloc_pd();
            let mr = nic.reg_mr(pd, 0, Bytes(1 << 40), Access::ALL).unwrap();
            let cq = nic.create_cq(1 << 20).unwrap();
            let init = QpInit { cap, ..QpInit::new(pd, QpType::Rc, cq) };
            let qps: Vec<QpNum> = (0..queue_pairs).map(|_| nic.create_qp(&init).unwrap()).collect();
            made.push((mr, cq, qps));
        }
        for me in 0..2 {
            for (qp, peer) in made[me].2.iter().zip(&made[1 - me].2) {
                let av = AhAttr { dlid: Lid(1 - me as u32), sl: 0 };
                let rtr = QpAttr { any_order: Some(any_order), ..QpAttr::rtr_rc(Mtu::B4096, *peer, 0, av) };
                for attr in [QpAttr::init(Access::ALL), rtr, QpAttr::rts_rc(0)] {
                    nics[me].modify_qp(*qp, &attr).unwrap();
                }
            }
        }
        let sge = Sge { addr: 0, length, lkey: made[0].0.lkey };
        let remote = Some(Remote { addr: 0, rkey: made[1].0.rkey });
        let wr = SendWr { remote, ..SendWr::new(1, opcode, sge) }.signaled();
        let (_, cq, qps) = made.swap_remove(0);
        Load { nics, qps, cq, wr, side: ExtHeaders::new(), now: Time::ZERO, packets: Vec::new(), done: Vec::new() }
    }

    /// Moves at least `count` packets.
    fn run(&mut self, count: u64) {
        let mut moved = 0;
        while moved < count {
            self.now += Span::from_ns(100);
            for qp in &self.qps {
                while let Ok(posted) = self.nics[0].post_send(self.now, *qp, &self.wr) {
                    self.nics[0].doorbell(self.now, *qp, posted.wqe);
                }
            }
            for _ in 0..16 {
                for me in 0..2 {
                    moved += self.pass(me);
                }
            }
            self.done.clear();
            self.nics[0].poll_cq(self.now, self.cq, usize::MAX, &mut self.done);
        }
    }

    /// Up to 64 packets from one NIC to the other.
    fn pass(&mut self, from: usize) -> u64 {
        while self.packets.len() < 64 {
            let Some(transmit) = self.nics[from].poll_transmit(self.now, &mut self.side) else { break };
            self.packets.push(transmit.packet);
        }
        let moved = self.packets.len() as u64;
        let nic = &mut self.nics[1 - from];
        for packet in self.packets.drain(..) {
            let received = nic.handle_packet(self.now, &packet, &mut self.side);
            while let Some((cq, wc)) = nic.poll_completion() {
                nic.deliver(self.now, cq, wc);
            }
            if let Some((cq, wc)) = received.completion {
                nic.deliver(self.now, cq, wc);
            }
        }
        moved
    }
}

fn packets(criterion: &mut Criterion) {
    const PACKETS: u64 = 100_000;
    let mut group = criterion.benchmark_group("packets");
    group.throughput(Throughput::Elements(PACKETS)).sample_size(10);
    for (name, queue_pairs, opcode, length, any_order) in [
        ("write 1 MiB, 1 queue pair", 1, WrOpcode::RdmaWrite, 1 << 20, false),
        ("write 1 MiB, 64 queue pairs", 64, WrOpcode::RdmaWrite, 1 << 20, false),
        ("write 1 MiB, 4096 queue pairs", 4096, WrOpcode::RdmaWrite, 1 << 20, false),
        ("write 8 B, 64 queue pairs", 64, WrOpcode::RdmaWrite, 8, false),
        ("read 1 MiB, 64 queue pairs", 64, WrOpcode::RdmaRead, 1 << 20, false),
        ("write 1 MiB, any order, 64 queue pairs", 64, WrOpcode::RdmaWrite, 1 << 20, true),
    ] {
        let mut load = Load::new(queue_pairs, opcode, length, any_order);
        group.bench_function(name, |bencher| bencher.iter(|| load.run(PACKETS)));
    }
    group.finish();
}

criterion_group!(benches, packets);
criterion_main!(benches);
