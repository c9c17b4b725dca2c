//! Partitions isolate: what crosses them fails with the right error, or is dropped and counted.

use fabriscope_catalog::{Catalog, HostSet, Partition, PartitionEnforcement};
use fabriscope_engine::{Cluster, Counter, EngineError, Run};
use fabriscope_node::{Main, Process, ProgramError, Record};
use fabriscope_schedule::Builder;
use fabriscope_units::Bytes;
use fabriscope_verbs::{Access, AhAttr, Mtu, QpAttr, QpInit, QpNum, QpType, RecvWr, SendWr, Sge, UdDestination, WcStatus};

use crate::{Scenario, Transfers};

/// Hosts 0 and 1 are full members of partition 0x10, 2 and 3 limited ones; 4 and 5 are full members of 0x20.
fn cluster() -> Cluster {
    let catalog = Catalog::embedded().expect("the catalogue is sound");
    let mut parts = catalog.target("lab-16:6").expect("its parts are there");
    let hosts = |text: &str| HostSet::parse(text).expect("hosts");
    parts.partitions.insert("a".to_owned(), Partition { pkey: Some(0x10), full: hosts("0-1"), limited: hosts("2-3") });
    parts.partitions.insert("b".to_owned(), Partition { pkey: Some(0x20), full: hosts("4-5"), limited: hosts("") });
    Cluster::new(parts).expect("it can be wired")
}

type Board = Record<Vec<Option<QpNum>>>;
type Seen = Record<Vec<WcStatus>>;

/// Two ranks with the keys at these places of their tables: rank 0 sends one message to rank 1. What either saw.
fn exchange(nodes: [u32; 2], index: [u16; 2], qp_type: QpType) -> (Run, Vec<WcStatus>, Vec<WcStatus>) {
    exchange_on(&cluster(), nodes, index, qp_type, None)
}

/// The same where rank 0 may give its adapter another key at place 1 than the manager of the subnet did.
fn exchange_on(
    cluster: &Cluster,
    nodes: [u32; 2],
    index: [u16; 2],
    qp_type: QpType,
    forged: Option<u16>,
) -> (Run, Vec<WcStatus>, Vec<WcStatus>) {
    let board: Board = Record::new(vec![None; 2]);
    let seen: [Seen; 2] = Default::default();
    let main = |rank: usize| -> Main {
        let (board, seen, index) = (board.clone(), seen[rank].clone(), index[rank]);
        let peer_node = nodes[1 - rank];
        Box::new(move |process: Process| {
            Box::pin(async move {
                let (pd, cq, qp, mr) = process.nic(0, |nic| {
                    if let Some(key) = forged.filter(|_| rank == 0) {
                        nic.set_pkeys(vec![0xFFFF, key]);
                    }
                    let pd = nic.alloc_pd();
                    let cq = nic.create_cq(16).expect("a CQ");
                    let qp = nic.create_qp(&QpInit::new(pd, qp_type, cq)).expect("a QP");
                    (pd, cq, qp, nic.reg_mr(pd, 0, Bytes(1 << 20), Access::ALL).expect("an MR"))
                });
                board.lock()[rank] = Some(qp);
                process.barrier().await;
                let peer_qp = board.lock()[1 - rank].expect("both wrote their line");
                let lid = fabriscope_verbs::Lid(peer_node);
                let av = AhAttr { dlid: lid, sl: 0 };
                let datagram = qp_type == QpType::Ud;
                let sge = Sge { addr: 0, length: 256, lkey: mr.lkey };
                let ah = process.nic(0, |nic| {
                    let init = if datagram { QpAttr::init_ud(7) } else { QpAttr::init(Access::ALL) };
                    let (rtr, rts) = match datagram {
                        true => (QpAttr::rtr_ud(), QpAttr::rts(0)),
                        false => (QpAttr::rtr_rc(Mtu::B4096, peer_qp, 0, av), QpAttr::rts_rc(0)),
                    };
                    for step in [QpAttr { pkey_index: Some(index), ..init }, rtr, rts] {
                        nic.modify_qp(qp, &step).expect("the attributes are right");
                    }
                    nic.create_ah(pd, av).expect("a handle")
                });
                if rank == 1 {
                    process.post_recv(0, qp, &RecvWr::new(1, Sge { length: 512, ..sge })).map_err(ProgramError::from)?;
                }
                process.barrier().await;
                if rank == 0 {
                    let send = SendWr::send(2, sge).signaled();
                    let send = if datagram {
                        SendWr { ud: Some(UdDestination { ah, remote_qpn: peer_qp, remote_qkey: 7 }), ..send }
                    } else {
                        send
                    };
                    process.post_send(0, qp, &send).map_err(ProgramError::from)?;
                    let found = process.wait_cq(0, cq, 1).await;
                    seen.lock().extend(found.iter().map(|wc| wc.status));
                    // Time for whatever is outstanding.
                    process.sleep_until(process.now() + fabriscope_units::Span::from_us(100)).await;
                }
                process.barrier().await;
                if rank == 1 {
                    let found = process.poll_cq(0, cq, 16).await;
                    seen.lock().extend(found.iter().map(|wc| wc.status));
                }
                Ok(())
            })
        })
    };
    let job = (nodes.to_vec(), (0..2).map(main).collect());
    let engine = Scenario { counting: crate::Counting::Sums, ..Scenario::default() };
    let run = engine.execute(cluster, job, 1).expect("it ends");
    let [sender, receiver] = seen.map(|seen| seen.take());
    (run, sender, receiver)
}

/// Place 0 of each table is the default partition, place 1 the other.
#[test]
fn partitions_isolate() {
    let ok = vec![WcStatus::Success];
    for (nodes, index) in [([0, 1], [1, 1]), ([0, 2], [1, 1]), ([2, 0], [1, 1]), ([2, 3], [0, 0]), ([0, 4], [0, 0])] {
        for qp_type in [QpType::Rc, QpType::Ud] {
            let (run, sender, receiver) = exchange(nodes, index, qp_type);
            assert_eq!((sender, receiver, run.stats.pkey_violations), (ok.clone(), ok.clone(), 0), "{nodes:?} {qp_type:?}");
        }
    }
    // Two limited members; two partitions; one end in the default partition.
    for (nodes, index) in [([2, 3], [1, 1]), ([0, 4], [1, 1]), ([0, 1], [0, 1])] {
        let (run, sender, receiver) = exchange(nodes, index, QpType::Rc);
        assert_eq!((sender, receiver), (vec![WcStatus::RetryExcErr], vec![]), "{nodes:?}");
        assert_eq!(run.stats.pkey_violations, 8, "the message and seven retries");
        let (run, sender, receiver) = exchange(nodes, index, QpType::Ud);
        assert_eq!((sender, receiver, run.stats.pkey_violations), (ok.clone(), vec![], 1), "a datagram is dropped in silence and counted");
    }
}

/// Switches drop at the port of the adapter: what it may not receive, and what it may not send. The adapter behind never sees it.
#[test]
fn switches_enforce_partitions() {
    let enforcing = |partition_enforcement| {
        let plain = cluster();
        Cluster::new(fabriscope_catalog::ResolvedCluster { partition_enforcement, ..plain.parts }).expect("it can be wired")
    };
    let refused = |run: &Run| {
        let counters = run.counters.as_ref().expect("they were asked for");
        let [inbound, outbound] = [Counter::RcvConstraints, Counter::XmitConstraints].map(|counter| counters.sum(counter));
        (inbound, outbound, run.stats.pkey_violations)
    };
    let (both, inwards) = (enforcing(PartitionEnforcement::Both), enforcing(PartitionEnforcement::In));
    for (nodes, index) in [([0, 1], [1, 1]), ([2, 0], [1, 1]), ([0, 4], [0, 0])] {
        let (run, sender, receiver) = exchange_on(&both, nodes, index, QpType::Rc, None);
        assert_eq!((sender.len(), receiver.len(), refused(&run)), (1, 1, (0, 0, 0)), "{nodes:?}");
    }
    // To host 4, which has no part in 0x10.
    let (run, sender, _) = exchange_on(&both, [0, 4], [1, 1], QpType::Rc, None);
    assert_eq!((sender, refused(&run)), (vec![WcStatus::RetryExcErr], (0, 8, 8)));
    let (run, _, receiver) = exchange_on(&inwards, [0, 4], [1, 1], QpType::Ud, None);
    assert_eq!((receiver, refused(&run)), (vec![], (0, 0, 1)), "what comes in is right; the adapter of host 4 drops it");
    // Host 0 claims to be in the partition of hosts 4 and 5: only a switch that looks at what comes in finds out.
    let (run, _, receiver) = exchange_on(&cluster(), [0, 4], [1, 1], QpType::Ud, Some(0x8020));
    assert_eq!((receiver, refused(&run)), (vec![WcStatus::Success], (0, 0, 0)));
    let (run, _, receiver) = exchange_on(&inwards, [0, 4], [1, 1], QpType::Ud, Some(0x8020));
    assert_eq!((receiver, refused(&run)), (vec![], (1, 0, 1)));
}

#[test]
fn schedules_run_within_a_partition() {
    let run = |from: u32, to: u32, pkey: u16| {
        let mut builder = Builder::new(6);
        let _ = builder.put(from, to, Bytes(100_000));
        let transfers = Transfers { pkey, ..Transfers::default() };
        Scenario { transfers, ..Scenario::default() }.run(&cluster(), &builder.build().expect("it is sound"), 1)
    };
    assert_eq!(run(0, 3, 0x10).expect("it ends").stats.bytes_delivered, 100_000);
    assert_eq!(run(0, 5, 0).expect("the default partition has all").stats.pkey_violations, 0);
    assert!(matches!(run(0, 5, 0x10), Err(EngineError::Setup(told)) if told.contains("host 5")));
    assert!(matches!(run(2, 3, 0x10), Err(EngineError::Transfer { .. })), "two limited members");
}
