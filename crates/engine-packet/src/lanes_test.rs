//! Programs on the engine: service levels that share a link by weight, and one that stays quick beside bulk traffic.

use fabriscope_catalog::{Catalog, Qos, VlArb, VlQos};
use fabriscope_engine::Cluster;
use fabriscope_node::{Main, Process, ProgramError, Record};
use fabriscope_units::{Bytes, Span};
use fabriscope_verbs::{Access, Mtu, Peer, QpInit, QpNum, QpType, Remote, Rkey, SendWr, Sge};

use crate::Scenario;

const SIZE: u32 = 1 << 20;

type Board = Record<Vec<Option<(fabriscope_verbs::Lid, QpNum, Rkey)>>>;

/// What a writer does: service level, size, writes outstanding, writes in all.
type Load = (u8, u32, u64, u64);

/// The first half of the ranks write, each to its partner in the second half, and note when each write was done.
fn writer(board: Board, (sl, size, depth, count): Load, done: Record<Vec<u64>>) -> Main {
    Box::new(move |process: Process| {
        Box::pin(async move {
            let (me, half) = (process.rank() as usize, process.ranks() as usize / 2);
            let peer = (me + half) % (2 * half);
            let lid = process.lid(0);
            let (cq, qp, mr) = process.nic(0, |nic| {
                let pd = nic.alloc_pd();
                let cq = nic.create_cq(1024).expect("a CQ");
                let mr = nic.reg_mr(pd, 0, Bytes(u64::from(SIZE)), Access::ALL).expect("an MR");
                (cq, nic.create_qp(&QpInit::new(pd, QpType::Rc, cq)).expect("a QP"), mr)
            });
            board.lock()[me] = Some((lid, qp, mr.rkey));
            process.barrier().await;
            let (peer_lid, peer_qp, rkey) = board.lock()[peer].expect("all ranks wrote their line");
            process
                .nic(0, |nic| nic.connect(qp, &Peer { lid: peer_lid, qp: peer_qp, sl, mtu: Mtu::B4096 }, Access::ALL))
                .expect("connected");
            process.barrier().await;
            let sge = Sge { addr: 0, length: size, lkey: mr.lkey };
            let (mut posted, mut finished) = (0, 0);
            while me < half && finished < count {
                while posted < count && posted - finished < depth {
                    process
                        .post_send(0, qp, &SendWr::write(posted, sge, Remote { addr: 0, rkey }).signaled())
                        .map_err(ProgramError::from)?;
                    posted += 1;
                }
                for _ in process.wait_cq(0, cq, 16).await {
                    finished += 1;
                    done.lock().push(process.now().as_ps());
                }
            }
            Ok(())
        })
    })
}

/// One writer on a node of its own for each load; all partners share the last node. When each write was done, by writer.
fn run(lanes: Option<VlQos>, loads: &[Load]) -> Vec<Vec<u64>> {
    let writers = loads.len();
    let catalog = Catalog::embedded().expect("the catalogue is sound");
    let mut parts = catalog.target(&format!("lab-16:{}", writers + 1)).expect("its parts are there");
    parts.qos = lanes.map(Qos::InfiniBand);
    let cluster = Cluster::new(parts).expect("it can be wired");
    let board: Board = Record::new(vec![None; 2 * writers]);
    let done: Vec<Record<Vec<u64>>> = (0..2 * writers).map(|_| Record::default()).collect();
    let main = |rank: usize| writer(board.clone(), loads[rank % writers], done[rank].clone());
    let nodes = (0..2 * writers).map(|rank| rank.min(writers) as u32).collect();
    let job = (nodes, (0..2 * writers).map(main).collect());
    Scenario::default().execute(&cluster, job, 1).expect("it ends");
    done.iter().take(writers).map(|notes| notes.take()).collect()
}

/// Two lanes with weights of low priority.
fn weighted(table: &str) -> Option<VlQos> {
    Some(VlQos { vlarb_low: Some(VlArb::parse(table).expect("a table")), ..VlQos::even(2) })
}

/// Lanes with weights 192 and 64 share the last link 3 : 1 while both have something to send.
#[test]
fn service_levels_share_a_link_by_weight() {
    let done = run(weighted("0:192,1:64"), &[(0, SIZE, 4, 60), (1, SIZE, 4, 60)]);
    let end = *done[0].last().expect("the first writer finished");
    let behind = done[1].iter().filter(|time| **time <= end).count();
    assert!((18..=22).contains(&behind), "{behind} of 60 messages, a third expected");
}

/// Small messages on a lane of their own wait for at most a packet or two at each hop beside bulk traffic;
/// on the same lane they wait for the whole queue.
#[test]
fn a_lane_of_its_own_keeps_small_messages_quick() {
    let median = |lanes: Option<VlQos>| {
        let done = run(lanes, &[(0, SIZE, 4, 40), (0, SIZE, 4, 40), (1, 64, 1, 100)]);
        let mut gaps: Vec<u64> = done[2].windows(2).map(|pair| pair[1] - pair[0]).collect();
        gaps.sort_unstable();
        Span::from_ps(gaps[gaps.len() / 2])
    };
    let alone = median(weighted("0:64,1:64"));
    let shared = median(None);
    assert!(alone + Span::from_us(1) < shared, "own lane {alone}, shared lane {shared}");
}
