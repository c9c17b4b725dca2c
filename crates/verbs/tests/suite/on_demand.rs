//! Queue pairs on demand: connections of one NIC with many, of which few are in memory, and none forgets where it is.

use std::sync::Arc;

use fabriscope_units::{Bytes, Time};
use fabriscope_verbs::*;

/// NIC 0 and `0` others have a connection each; so many.
struct Star(u32);

impl Peers for Star {
    fn count(&self, lid: Lid) -> u32 {
        if lid == Lid(0) { self.0 } else { 1 }
    }
    fn peer(&self, lid: Lid, place: u32) -> Option<(Lid, u32)> {
        (place < self.count(lid)).then(|| if lid == Lid(0) { (Lid(place + 1), 0) } else { (Lid(0), lid.0 - 1) })
    }
}

fn what(nic: &mut Nic, peers: u32) -> OnDemand {
    let pd = nic.alloc_pd();
    let mr = nic.reg_mr(pd, 0, Bytes(1 << 20), Access::ALL).unwrap();
    let cq = nic.create_cq(1 << 10).unwrap();
    let cap = QpCap { max_send_wr: 64, max_recv_wr: 1, ..QpCap::default() };
    let av = AhAttr { dlid: Lid(0), sl: 3 };
    let steps = [QpAttr::init(Access::ALL), QpAttr::rtr_rc(Mtu::B1024, QpNum(0), 100, av), QpAttr::rts_rc(100)];
    let receive = Some(RecvWr::new(7, Sge { addr: 0, length: 1 << 20, lkey: mr.lkey }));
    OnDemand { init: QpInit { cap, ..QpInit::new(pd, QpType::Rc, cq) }, steps, peers: Arc::new(Star(peers)), receive }
}

fn nic(lid: u32, peers: u32) -> Nic {
    let mut nic = Nic::new(NicConfig { lid: Lid(lid), ..NicConfig::default() });
    let all = what(&mut nic, peers);
    nic.reserve_qps(all).unwrap();
    nic
}

/// Lets everything happen; gives the completions of each NIC.
fn settle(nics: &mut [Nic], side: &mut ExtHeaders) -> Vec<Vec<Wc>> {
    let now = Time::ZERO;
    let mut done = vec![Vec::new(); nics.len()];
    loop {
        let mut sent = Vec::new();
        for nic in nics.iter_mut() {
            sent.extend(std::iter::from_fn(|| nic.poll_transmit(now, side)).map(|transmit| transmit.packet));
        }
        if sent.is_empty() {
            return done;
        }
        for packet in sent {
            let to = packet.dest.0 as usize;
            let received = nics[to].handle_packet(now, &packet, side);
            assert!(!received.dropped, "{packet:?}");
            for (cq, wc) in received.completion.into_iter().chain(std::iter::from_fn(|| nics[to].poll_completion())).collect::<Vec<_>>() {
                nics[to].deliver(now, cq, wc);
            }
            nics[to].poll_cq(now, CqId(0), usize::MAX, &mut done[to]);
        }
    }
}

fn send(nic: &mut Nic, place: u32, length: u32) {
    let qp = Nic::on_demand(place);
    let sge = Sge { addr: 0, length, lkey: Lkey(0) };
    let wr = SendWr::send(u64::from(place), sge).with_flags(SendFlags::INLINE).signaled();
    let posted = nic.post_send(Time::ZERO, qp, &wr).unwrap();
    nic.doorbell(Time::ZERO, qp, posted.wqe);
}

#[test]
fn few_of_many_connections_are_in_memory() {
    const PEERS: u32 = 200;
    let mut nics: Vec<Nic> = (0..=PEERS).map(|lid| nic(lid, PEERS)).collect();
    let mut side = ExtHeaders::new();
    assert_eq!((nics[0].queue_pairs(), nics[0].queue_pairs_awake(), nics[5].queue_pairs()), (PEERS, 1, 1));
    for round in 0..3 {
        for place in 0..PEERS {
            send(&mut nics[0], place, 0);
            send(&mut nics[place as usize + 1], 0, 0);
            let done = settle(&mut nics, &mut side);
            for (nic, qp, other) in [(0, place, place as usize + 1), (place as usize + 1, 0, 0)] {
                let mut kinds: Vec<_> = done[nic].iter().map(|wc| (wc.status, wc.opcode, wc.qp_num)).collect();
                kinds.sort_by_key(|(_, opcode, _)| opcode.is_recv());
                let number = Nic::on_demand(qp);
                let wanted = [(WcStatus::Success, WcOpcode::Send, number), (WcStatus::Success, WcOpcode::Recv, number)];
                assert_eq!(kinds, wanted, "round {round}, {nic} and {other}");
            }
            assert!(nics[0].queue_pairs_awake() <= 17, "{} are awake", nics[0].queue_pairs_awake());
        }
    }
    assert_eq!((nics[0].queue_pairs(), nics[0].retransmissions()), (PEERS, 0));
}

/// One that has something outstanding keeps its place, whoever else wants one.
#[test]
fn nobody_falls_asleep_at_work() {
    const PEERS: u32 = 60;
    let mut nics: Vec<Nic> = (0..=PEERS).map(|lid| nic(lid, PEERS)).collect();
    (0..PEERS).for_each(|place| send(&mut nics[0], place, 0));
    assert_eq!(nics[0].queue_pairs_awake(), PEERS);
    let done = settle(&mut nics, &mut ExtHeaders::new());
    assert_eq!(done[0].len(), PEERS as usize);
    assert!(done[1..].iter().all(|done| done.len() == 1));
}

#[test]
fn numbers_belong_to_those_on_demand() {
    let mut one = nic(0, 3);
    let status = one.query_qp(Nic::on_demand(0)).unwrap();
    assert_eq!((status.state, status.attr.dest_qp_num), (QpState::Rts, Some(Nic::on_demand(0))));
    assert!(one.create_qp(&status.init).is_err(), "all numbers are taken");
    assert!(one.post_send(Time::ZERO, Nic::on_demand(3), &SendWr::send(0, Sge::default())).is_err(), "there are three");
    let mut other = Nic::new(NicConfig::default());
    let all = what(&mut other, 3);
    other.create_qp(&all.init).unwrap();
    assert!(other.reserve_qps(all).is_err(), "it has a queue pair");
}
