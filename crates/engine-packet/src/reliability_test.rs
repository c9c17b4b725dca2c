//! Reliable messages over random fabrics whose links lose packets and flap: each is delivered once with the right contents and words, or
//! its sender is told. Then every lane has its credits back.
//!
//! To add a transport, add a line to [`CARRIERS`] and what its queue pairs need to [`Lane::new`] and [`Lane::request`].

use std::sync::{Arc, Mutex};

use fabriscope_catalog::Catalog;
use fabriscope_engine::{Cluster, Prepared, ProgramsWork, Recovery, Run};
use fabriscope_node::{Main, Process, ProgramError, Record, Ties};
use fabriscope_streams::{Stream, Streams};
use fabriscope_switch::Channel;
use fabriscope_units::{Bytes, Span};
use fabriscope_verbs::{
    Access, AhAttr, AhId, AppWords, CqId, EecNum, Lid, Memory, Mr, Mtu, Nic, PdId, Peer, QpAttr, QpCap, QpInit, QpNum, QpType, RecvWr,
    SendWr, Sge, SrqId, UdDestination, WcStatus, WrOpcode,
};
use fabriscope_wire::AckTimeout;

use crate::programs::Programs;
use crate::scenario::Started;
use crate::tests::Idle;
use crate::{Counting, Scenario, Transfers, setup};

/// A transport as it is tried.
#[derive(Clone, Copy, Debug)]
struct Carrier {
    name: &'static str,
    kind: QpType,
    /// Its receivers take packets in any order, and its senders spread them.
    any_order: bool,
    /// The share of the packets that every link loses.
    loss: &'static str,
}

const CARRIERS: [Carrier; 8] = [
    Carrier { name: "RC", kind: QpType::Rc, any_order: false, loss: "1e-3" },
    Carrier { name: "XRC", kind: QpType::XrcSend, any_order: false, loss: "1e-3" },
    Carrier { name: "RD", kind: QpType::Rd, any_order: false, loss: "1e-3" },
    Carrier { name: "DC", kind: QpType::Dci, any_order: false, loss: "1e-3" },
    Carrier { name: "iWARP", kind: QpType::Iwarp, any_order: false, loss: "1e-3" },
    Carrier { name: "RC, any order", kind: QpType::Rc, any_order: true, loss: "1e-2" },
    Carrier { name: "SRD", kind: QpType::Srd, any_order: true, loss: "1e-2" },
    Carrier { name: "UET", kind: QpType::Uet, any_order: true, loss: "1e-2" },
];

/// Fabrics: the topology, how many nodes it has, a cable that flaps, routings that keep the order, and such that do not.
struct Shape {
    topology: &'static str,
    nodes: u32,
    flaps: &'static str,
    ordered: &'static [&'static str],
    spread: &'static [&'static str],
}

const SHAPES: [Shape; 7] = [
    Shape {
        topology: "topology.leaf_spine = { leaves = 4, down = 4, spines = 4 }",
        nodes: 16,
        flaps: "leaf 1 -> spine 2",
        ordered: &["d_mod_k", "ecmp", "min_hop", "up_down"],
        spread: &["spray", "adaptive"],
    },
    Shape {
        topology: "topology.fat_tree = { levels = 3, radix = 4 }",
        nodes: 16,
        flaps: "switch 0:2",
        ordered: &["d_mod_k", "ecmp", "ftree"],
        spread: &["spray", "adaptive"],
    },
    Shape { topology: "topology.single_switch = {}", nodes: 12, flaps: "node 3", ordered: &["d_mod_k"], spread: &["spray"] },
    Shape {
        topology: "topology.torus = { sizes = [3, 3], endpoints = 1 }",
        nodes: 9,
        flaps: "switch 0:1",
        ordered: &["dimension_order", "up_down"],
        spread: &["adaptive"],
    },
    Shape {
        topology: "topology.dragonfly = { groups = 5, switches = 2, endpoints = 2 }",
        nodes: 20,
        flaps: "switch 0:2",
        ordered: &["minimal", "up_down"],
        spread: &["ugal_l", "adaptive"],
    },
    Shape {
        topology: "topology.hyperx = { sizes = [3, 3], endpoints = 1 }",
        nodes: 9,
        flaps: "switch 4:1",
        ordered: &["dimension_order", "up_down"],
        spread: &["adaptive"],
    },
    Shape {
        topology: "topology.full_mesh = { switches = 5, endpoints = 2 }",
        nodes: 10,
        flaps: "switch 1:2",
        ordered: &["dimension_order"],
        spread: &["adaptive"],
    },
];

/// Link layers, what they do where a buffer is full, and congestion controls that go with them.
const LAYERS: [(&str, &str, &[&str]); 3] = [
    ("lab-16", "", &["none", "infiniband", "slingshot"]),
    ("lab-roce-128", "flow_control = \"lossless\"", &["none", "dcqcn", "swift", "hpcc", "dctcp"]),
    ("lab-roce-128", "flow_control = \"lossy\"", &["none", "nscc", "srd", "swift"]),
];

/// Requests of a sender outstanding at once, and receives that are posted.
const DEPTH: u64 = 32;
const RECEIVES: u64 = 64;
/// Room for one message.
const STEP: u64 = 8192;
const MEMORY: usize = ((DEPTH + RECEIVES) * STEP) as usize;
const QKEY: u32 = 7;

#[derive(Clone)]
struct Ram(Arc<Mutex<Vec<u8>>>);

impl Memory for Ram {
    fn read(&self, _: PdId, addr: u64, into: &mut [u8]) {
        into.copy_from_slice(&self.0.lock().expect("one thread")[addr as usize..][..into.len()]);
    }
    fn write(&mut self, _: PdId, addr: u64, from: &[u8]) {
        self.0.lock().expect("one thread")[addr as usize..][..from.len()].copy_from_slice(from);
    }
}

/// Message `number` of `source`: who it is, then bytes that follow from that.
fn contents(source: u32, number: u64, length: u32) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(length as usize + 8);
    bytes.extend_from_slice(&source.to_le_bytes());
    bytes.extend_from_slice(&(number as u32).to_le_bytes());
    let mut state = (u64::from(source) << 32 | number) ^ u64::from(length) << 48 | 1;
    while bytes.len() < length as usize {
        state = state.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23) ^ 0x5851_f42d;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length as usize);
    bytes
}

/// What `source` says with it.
fn words(source: u32, number: u64, length: u32) -> AppWords {
    AppWords([source.into(), number, length.into(), !number])
}

/// What a rank tells the others out of band.
#[derive(Clone, Default)]
struct Card {
    lid: Lid,
    to: QpNum,
    from: QpNum,
    eec_from: EecNum,
    srq: Option<SrqId>,
}

/// What became of the messages of a sender.
#[derive(Default)]
struct Fate {
    /// By number: whether it completed well.
    ended: Vec<Option<WcStatus>>,
    done: bool,
    /// By number: how often it arrived.
    arrived: Vec<u32>,
}

/// A rank's queue pairs: one to send by, one to receive by.
struct Lane {
    kind: QpType,
    cq: CqId,
    mr: Mr,
    to: QpNum,
    from: QpNum,
    eec_to: EecNum,
    eec_from: EecNum,
    srq: Option<SrqId>,
    ah: AhId,
}

impl Lane {
    fn new(nic: &mut Nic, carrier: Carrier, target: Lid, mtu: Mtu, ram: &Ram) -> Lane {
        let kind = carrier.kind;
        nic.set_memory(Box::new(ram.clone()));
        let pd = nic.alloc_pd();
        let mr = nic.reg_mr(pd, 0, Bytes(MEMORY as u64), Access::ALL).expect("a region");
        let cq = nic.create_cq(4096).expect("a queue");
        let cap = QpCap { max_send_wr: 2 * DEPTH as u32, max_recv_wr: 2 * RECEIVES as u32, ..QpCap::default() };
        let init = |qp_type| QpInit { cap, ..QpInit::new(pd, qp_type, cq) };
        let ah = nic.create_ah(pd, AhAttr { dlid: target, sl: 0 }).expect("an address");
        let mut lane =
            Lane { kind, cq, mr, to: QpNum(0), from: QpNum(0), eec_to: EecNum::default(), eec_from: EecNum::default(), srq: None, ah };
        match kind {
            QpType::XrcSend => {
                let xrcd = nic.open_xrcd();
                lane.srq = Some(nic.create_xrc_srq(pd, xrcd, cq, 2 * RECEIVES as u32, 1).expect("a shared queue"));
                lane.to = nic.create_qp(&init(kind)).expect("a queue pair");
                lane.from = nic.create_qp(&QpInit { xrcd: Some(xrcd), ..init(QpType::XrcRecv) }).expect("a queue pair");
            }
            QpType::Dci => {
                lane.srq = Some(nic.create_srq(pd, 2 * RECEIVES as u32, 1).expect("a shared queue"));
                lane.to = nic.create_qp(&init(kind)).expect("a queue pair");
                lane.from = nic.create_qp(&QpInit { srq: lane.srq, ..init(QpType::Dct) }).expect("a queue pair");
                nic.connect(lane.to, &Peer { lid: target, qp: QpNum(0), sl: 0, mtu }, Access::ALL).expect("connected");
                nic.modify_qp(lane.from, &QpAttr::init_datagram(QKEY, Access::ALL)).expect("INIT");
                nic.modify_qp(lane.from, &QpAttr::rtr_dc(mtu)).expect("RTR");
            }
            QpType::Rc | QpType::Iwarp => {
                lane.to = nic.create_qp(&init(kind)).expect("a queue pair");
                lane.from = nic.create_qp(&init(kind)).expect("a queue pair");
            }
            _ => {
                for qp in [&mut lane.to, &mut lane.from] {
                    *qp = nic.create_qp(&init(kind)).expect("a queue pair");
                    for attr in [QpAttr::init_datagram(QKEY, Access::ALL), QpAttr::rtr_ud(), QpAttr::rts(0)] {
                        nic.modify_qp(*qp, &attr).expect("towards RTS");
                    }
                }
                if kind == QpType::Rd {
                    lane.eec_to = nic.create_eec(pd, cq).expect("a context");
                    lane.eec_from = nic.create_eec(pd, cq).expect("a context");
                }
            }
        }
        lane
    }

    /// Connects what is connected; `target` hears from us, `origin` sends to us.
    fn connect(&self, nic: &mut Nic, carrier: Carrier, mtu: Mtu, target: &Card, origin: &Card, origin_eec_to: EecNum) {
        let peer = |lid, qp| Peer { lid, qp, sl: 0, mtu };
        let pairs = match self.kind {
            QpType::Rc | QpType::Iwarp | QpType::XrcSend => {
                [(self.to, peer(target.lid, target.from)), (self.from, peer(origin.lid, origin.to))]
            }
            QpType::Rd => [
                (QpNum(self.eec_to.0), peer(target.lid, QpNum(target.eec_from.0))),
                (QpNum(self.eec_from.0), peer(origin.lid, QpNum(origin_eec_to.0))),
            ],
            _ => return,
        };
        for (qp, peer) in pairs {
            if carrier.any_order {
                let av = AhAttr { dlid: peer.lid, sl: 0 };
                let rtr = QpAttr { any_order: Some(true), spray: Some(true), ..QpAttr::rtr_rc(mtu, peer.qp, 0, av) };
                for attr in [QpAttr::init(Access::ALL), rtr, QpAttr::rts_rc(0)] {
                    nic.modify_qp(qp, &attr).expect("towards RTS");
                }
            } else {
                nic.connect(qp, &peer, Access::ALL).expect("connected");
            }
        }
    }

    /// The request by which `source` sends message `number`.
    fn request(&self, source: u32, number: u64, length: u32, target: &Card) -> SendWr {
        let sge = Sge { addr: number % DEPTH * STEP, length, lkey: self.mr.lkey };
        let wr = SendWr::send(number, sge).signaled().saying(words(source, number, length));
        match self.kind {
            QpType::Rc | QpType::Iwarp => wr,
            QpType::XrcSend => wr.to_srq(target.srq.expect("the target has one")),
            QpType::Rd => wr.over(self.eec_to, target.from, QKEY),
            _ => wr.to(UdDestination { ah: self.ah, remote_qpn: target.from, remote_qkey: QKEY }),
        }
    }

    fn post_receive(&self, process: &Process, slot: u64) {
        let sge = Sge { addr: (DEPTH + slot) * STEP, length: STEP as u32, lkey: self.mr.lkey };
        let wr = RecvWr::new(slot, sge);
        match self.srq {
            Some(srq) => process.nic(0, |nic| nic.post_srq_recv(process_time(), srq, &wr)).expect("there is room"),
            None => process.post_recv(0, self.from, &wr).expect("there is room"),
        }
    }
}

fn process_time() -> fabriscope_units::Time {
    fabriscope_units::Time::ZERO
}

/// What all ranks of a run see of each other.
struct Board {
    cards: Record<Vec<Card>>,
    eec_to: Record<Vec<EecNum>>,
    fates: Record<Vec<Fate>>,
    /// Ranks look at nothing of each other between two barriers: they may be in different parts.
    apart: bool,
}

/// One rank: sends `lengths` to `target`, receives what `origin` sends.
fn rank(board: Arc<Board>, carrier: Carrier, mtu: Mtu, (target, origin): (usize, usize), lengths: Vec<u32>) -> Main {
    Box::new(move |process: Process| {
        Box::pin(async move {
            let me = process.rank() as usize;
            let ram = Ram(Arc::new(Mutex::new(vec![0; MEMORY])));
            let lane = process.nic(0, |nic| Lane::new(nic, carrier, Lid(target as u32), mtu, &ram));
            board.cards.lock()[me] = Card { lid: process.lid(0), to: lane.to, from: lane.from, eec_from: lane.eec_from, srq: lane.srq };
            board.eec_to.lock()[me] = lane.eec_to;
            process.barrier().await;
            let there = board.cards.lock()[target].clone();
            let here = board.cards.lock()[origin].clone();
            let origin_eec = board.eec_to.lock()[origin];
            process.nic(0, |nic| lane.connect(nic, carrier, mtu, &there, &here, origin_eec));
            (0..RECEIVES).for_each(|slot| lane.post_receive(&process, slot));
            process.barrier().await;
            // Requests before `over` have all ended, so that the memory of their slots is free; they may end in any order.
            let (mut posted, mut ended, mut over) = (0u64, 0u64, 0u64);
            loop {
                while posted < lengths.len() as u64 && posted - over < DEPTH {
                    let length = lengths[posted as usize];
                    ram.clone().write(PdId(0), posted % DEPTH * STEP, &contents(me as u32, posted, length));
                    process.post_send(0, lane.to, &lane.request(me as u32, posted, length, &there)).map_err(ProgramError::from)?;
                    posted += 1;
                }
                process.wait_any_until(&[(0, lane.cq)], &[], process.now() + Span::from_us(100)).await;
                for wc in process.poll_cq(0, lane.cq, 64).await {
                    if wc.opcode.is_recv() {
                        assert_eq!(wc.status, WcStatus::Success, "a receive of rank {me}");
                        let mut bytes = vec![0; wc.byte_len as usize];
                        ram.read(PdId(0), (DEPTH + wc.wr_id) * STEP, &mut bytes);
                        let number = u32::from_le_bytes(bytes[4..8].try_into().expect("four bytes"));
                        assert!(
                            bytes == contents(origin as u32, u64::from(number), wc.byte_len),
                            "contents of message {number} to rank {me}"
                        );
                        let said = process.nic(0, |nic| nic.words(&wc));
                        assert_eq!(said, Some(words(origin as u32, u64::from(number), wc.byte_len)), "message {number} to rank {me}");
                        board.fates.lock()[origin].arrived[number as usize] += 1;
                        lane.post_receive(&process, wc.wr_id);
                    } else {
                        let fate = &mut board.fates.lock()[me];
                        assert!(fate.ended[wc.wr_id as usize].replace(wc.status).is_none(), "message {} ends twice", wc.wr_id);
                        ended += 1;
                        while fate.ended.get(over as usize).is_some_and(Option::is_some) {
                            over += 1;
                        }
                    }
                }
                board.fates.lock()[me].done = ended == lengths.len() as u64;
                let fates = board.fates.lock();
                let from = &fates[origin];
                let all_are_here = if board.apart {
                    from.arrived.iter().all(|count| *count > 0)
                } else {
                    let missing = from.ended.iter().zip(&from.arrived).any(|(end, count)| *end == Some(WcStatus::Success) && *count == 0);
                    from.done && !missing
                };
                if fates[me].done && all_are_here {
                    break;
                }
            }
            if board.apart {
                process.barrier().await;
            }
            // Repetitions that are still in flight must not arrive twice.
            process.sleep_until(process.now() + Span::from_us(2_000)).await;
            let again = process.poll_cq(0, lane.cq, 64).await.into_iter().filter(|wc| wc.opcode.is_recv());
            for wc in again {
                let mut bytes = vec![0; wc.byte_len as usize];
                ram.read(PdId(0), (DEPTH + wc.wr_id) * STEP, &mut bytes);
                let number = u32::from_le_bytes(bytes[4..8].try_into().expect("four bytes"));
                board.fates.lock()[origin].arrived[number as usize] += 1;
            }
            Ok(())
        })
    })
}

/// What a run showed.
#[derive(Debug, Default, Clone, Copy)]
struct CounterBank {
    messages: u64,
    failed: u64,
    lost: u64,
    repeated: u64,
}

/// A random fabric of this shape, and what breaks on it.
struct Trial {
    text: String,
    carrier: Carrier,
}

fn trial(shape: &Shape, carrier: Carrier, draw: &mut Stream, faults: &str) -> Trial {
    let mut pick = |choices: &[&'static str]| choices[draw.below(choices.len() as u64) as usize];
    let routing = if carrier.any_order { pick(shape.spread) } else { pick(shape.ordered) };
    // TCP is at home on Ethernet and controls congestion itself.
    let iwarp = carrier.kind == QpType::Iwarp;
    let layers = if iwarp { &LAYERS[1..] } else { &LAYERS[..] };
    let (base, flow, controls) = layers[draw.below(layers.len() as u64) as usize];
    let congestion = if iwarp { "none" } else { controls[draw.below(controls.len() as u64) as usize] };
    let (topology, nodes) = (shape.topology, shape.nodes);
    let text = format!(
        "congestion = \"{congestion}\"\n{flow}\n{faults}\n[cluster]\nbase = \"{base}\"\nnodes = {nodes}\nrouting = \"{routing}\"\n{topology}\n[workload.permutation]\nsize = \"1 B\"\n"
    );
    Trial { text, carrier }
}

impl Trial {
    /// The cluster, and how it is set up.
    fn scene(&self, timeout: u8) -> (Cluster, Scenario) {
        let catalog = Catalog::embedded().expect("the catalogue is sound");
        let mut lab = fabriscope_lab::parse(&catalog, "trial.toml", &self.text).unwrap_or_else(|error| panic!("{error}\n{}", self.text));
        if self.carrier.kind == QpType::Iwarp {
            let mut iwarp = catalog.nic("chelsio-t6").expect("it is there").iwarp.clone().expect("it does iWARP");
            iwarp.min_rto.value = AckTimeout::from_code(timeout).expect("a code").span().expect("not for ever");
            iwarp.retries.value = 7;
            lab.cluster.sole_mut().node.nic.iwarp = Some(iwarp);
        }
        let cluster = Cluster::new(lab.cluster).expect("it can be wired");
        let recovery = Recovery { timeout: Some(timeout), ..Recovery::default() };
        let transfers = Transfers { recovery, ..Transfers::default() };
        (cluster, Scenario { faults: lab.faults, transfers, ..Scenario::default() })
    }

    /// Ranks of which each sends `count` messages to another one, and what they see of each other.
    fn ranks(&self, cluster: &Cluster, count: u64, seed: u64, apart: bool) -> (Arc<Board>, Vec<Main>) {
        let ranks = cluster.ranks() as usize;
        let mut draw = Streams::new(seed).stream("reliability", 0);
        let mut targets: Vec<usize> = (0..ranks).collect();
        while targets.iter().enumerate().any(|(from, to)| from == *to) {
            draw.shuffle(&mut targets);
        }
        let origin = |me: usize| targets.iter().position(|to| *to == me).expect("everybody is somebody's target");
        let mtu = Mtu::from_bytes(cluster.parts.mtu).expect("an MTU");
        let longest = if self.carrier.kind.message_is_packet(WrOpcode::Send) { mtu.bytes().0 } else { 8000 };
        let board = Arc::new(Board {
            cards: Record::new(vec![Card::default(); ranks]),
            eec_to: Record::new(vec![EecNum::default(); ranks]),
            fates: Record::new((0..ranks).map(|_| Fate::new(count)).collect()),
            apart,
        });
        let main = |me| {
            let mut length = || if draw.below(16) == 0 { 8 + draw.below(longest - 8) } else { 8 + draw.below(256) } as u32;
            let lengths = (0..count).map(|_| length()).collect();
            rank(Arc::clone(&board), self.carrier, mtu, (targets[me], origin(me)), lengths)
        };
        let mains = (0..ranks).map(main).collect();
        (board, mains)
    }

    /// Every rank sends `count` messages to another one.
    fn run(&self, count: u64, timeout: u8, seed: u64) -> CounterBank {
        let (cluster, engine) = self.scene(timeout);
        let (board, mains) = self.ranks(&cluster, count, seed, false);
        let nodes: Vec<u32> = (0..cluster.ranks()).collect();
        let mut world = setup::world(&engine, &cluster, seed).unwrap_or_else(|error| panic!("{error}\n{}", self.text));
        let before: Vec<i64> = world.links.lanes.iter().map(Channel::settled).collect();
        let mut programs = Programs::new(&world, &cluster, &nodes, mains).expect("as many nodes as ranks");
        programs.begin(&mut world);
        let what = || format!("{} over\n{}", self.carrier.name, self.text);
        world.run(&mut programs).unwrap_or_else(|error| panic!("{error}: {}", what()));
        programs.check(&world).unwrap_or_else(|error| panic!("{error}: {}", what()));
        world.run(&mut Idle).expect("nothing fails without programs");
        let after: Vec<i64> = world.links.lanes.iter().map(Channel::settled).collect();
        assert_eq!(before, after, "credits return: {}", what());
        self.judge(&board, &world.into_run())
    }

    /// The same with parts of the fabric on so many cores; whether there are several parts.
    fn run_apart(&self, count: u64, timeout: u8, seed: u64, threads: usize) -> (CounterBank, Run, bool) {
        let (cluster, engine) = self.scene(timeout);
        let engine = Scenario { threads, counting: Counting::Sums, ..engine };
        let (board, mains) = self.ranks(&cluster, count, seed, true);
        let work = ProgramsWork { mains, ties: Ties::Fences, beside: 0 };
        let what = || format!("{} over\n{}", self.carrier.name, self.text);
        let started =
            engine.start(&cluster, (0..cluster.ranks()).collect(), work, seed).unwrap_or_else(|error| panic!("{error}: {}", what()));
        let divided = matches!(started, Started::Apart { .. });
        let run = Box::new(started).run().unwrap_or_else(|error| panic!("{error}: {}", what()));
        (self.judge(&board, &run), run, divided)
    }

    /// Counts what became of all messages, which have arrived once where their senders were told so, and else at most once.
    fn judge(&self, board: &Board, run: &Run) -> CounterBank {
        let what = || format!("{} over\n{}", self.carrier.name, self.text);
        let breakage = run.breakage.as_ref().expect("there are faults");
        let mut tally = CounterBank { lost: run.stats.drops, repeated: breakage.repeated, ..CounterBank::default() };
        for fate in board.fates.lock().iter() {
            for (number, (ended, arrived)) in fate.ended.iter().zip(&fate.arrived).enumerate() {
                let ended = ended.unwrap_or_else(|| panic!("message {number} neither completed nor failed: {}", what()));
                let right = match ended {
                    WcStatus::Success => *arrived == 1,
                    WcStatus::RetryExcErr | WcStatus::WrFlushErr => *arrived <= 1,
                    _ => false,
                };
                assert!(right, "message {number} ended with {ended} and arrived {arrived} times: {}", what());
                tally.messages += 1;
                tally.failed += u64::from(ended != WcStatus::Success);
            }
        }
        tally
    }
}

impl Fate {
    fn new(count: u64) -> Fate {
        Fate { ended: vec![None; count as usize], done: false, arrived: vec![0; count as usize] }
    }
}

/// Links that lose packets, and one that is down for 0.2 ms of every 0.5 ms.
fn passing(shape: &Shape, carrier: Carrier) -> String {
    format!(
        "[[fault]]\nat = \"0 us\"\nkind.loss = {{ share = {} }}\n[[fault]]\nat = \"30 us\"\nkind.flapping = {{ link = \"{}\", period = \"500 us\", duty = 0.6, count = 4000 }}\n",
        carrier.loss, shape.flaps
    )
}

/// As many trials as it takes to send `messages`, `each` per rank and trial.
#[allow(clippy::print_stdout)] // The figures are the result.
fn campaign(messages: u64, each: u64) -> CounterBank {
    let mut all = CounterBank::default();
    let mut draw = Streams::new(11).stream("campaign", 0);
    let mut trials = 0;
    while all.messages < messages {
        let (shape, carrier) = (&SHAPES[trials / CARRIERS.len() % SHAPES.len()], CARRIERS[trials % CARRIERS.len()]);
        let trial = trial(shape, carrier, &mut draw, &passing(shape, carrier));
        let one = trial.run(each, 8, trials as u64);
        assert_eq!(one.failed, 0, "1 ms seven times outlasts every flap: {}\n{}", carrier.name, trial.text);
        all.messages += one.messages;
        all.lost += one.lost;
        all.repeated += one.repeated;
        trials += 1;
    }
    println!("{} messages in {trials} runs: {} packets lost, {} sent again", all.messages, all.lost, all.repeated);
    all
}

#[test]
fn messages_arrive_once_over_links_that_lose_and_flap() {
    // Every transport on every shape.
    let nodes: u32 = SHAPES.iter().map(|shape| shape.nodes).sum();
    let all = campaign(u64::from(nodes) * CARRIERS.len() as u64 * 20, 20);
    assert!(all.lost > 100 && all.repeated > 100, "{all:?}");
}

/// Ranks in parts of the fabric: every transport over links that lose and flap, through barriers of all ranks. The same run on one
/// core, on two and on four.
#[test]
fn programs_in_parts_do_the_same_on_any_number_of_cores() {
    let mut draw = Streams::new(13).stream("campaign", 0);
    let (mut divided, mut lost) = (0, 0);
    for (at, carrier) in CARRIERS.into_iter().enumerate() {
        // Borders between switches, and between hosts of one.
        for shape in [&SHAPES[at % 2], &SHAPES[2], &SHAPES[3 + at % (SHAPES.len() - 3)]] {
            let trial = trial(shape, carrier, &mut draw, &passing(shape, carrier));
            let (tally, one, apart) = trial.run_apart(20, 8, at as u64, 1);
            assert_eq!(tally.failed, 0, "{}\n{}", carrier.name, trial.text);
            for threads in [2, 4] {
                let (_, run, _) = trial.run_apart(20, 8, at as u64, threads);
                assert!(one == run, "{threads} threads differ: {} over\n{}", carrier.name, trial.text);
            }
            divided += u32::from(apart);
            lost += tally.lost;
        }
    }
    assert!(divided >= 20 && lost > 20, "{divided} runs in parts, {lost} packets lost");
}

/// A million messages: some minutes.
#[test]
#[ignore = "minutes: make test-long"]
fn a_million_messages_arrive_once() {
    let all = campaign(1_000_000, 400);
    assert!(all.lost > 10_000, "{all:?}");
}

/// Where a link stays down and nothing leads around it, senders are told; whatever they are told, nothing arrives twice.
#[test]
fn what_cannot_arrive_ends_in_an_error() {
    let mut draw = Streams::new(12).stream("campaign", 0);
    for carrier in CARRIERS {
        let shape = &SHAPES[2];
        let faults =
            "[[fault]]\nat = \"40 us\"\nkind.link_down = { link = \"node 3\" }\n[[fault]]\nat = \"0 us\"\nkind.loss = { share = 1e-3 }\n";
        let trial = trial(shape, carrier, &mut draw, faults);
        let tally = trial.run(400, 4, 1);
        assert!(tally.failed > 0 && tally.failed < tally.messages, "{}: {tally:?}", carrier.name);
    }
}
