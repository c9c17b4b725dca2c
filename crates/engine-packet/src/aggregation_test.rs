//! Reductions in switches on the engine: sums at every rank, the closed form of an idle fabric, streams, what runs out, what is dead.

use std::sync::{Arc, Mutex};

use fabriscope_catalog::Catalog;
use fabriscope_engine::{Cluster, EngineError, Run};
use fabriscope_node::aggregation::{Group, GroupError, Member, Region, Rules};
use fabriscope_node::{Main, Process, ProgramError, Record};
use fabriscope_switch::Channel;
use fabriscope_units::Remedy;
use fabriscope_units::{Bytes, Span, Time};
use fabriscope_verbs::{Access, Denied, Memory, Mtu, PdId};
use fabriscope_wire::{Collective, Element, LinkLayer, Opcode, Reducer, Task};

use crate::programs::Programs;
use crate::tests::{Idle, cluster};
use crate::{Scenario, setup};

/// Memory of an adapter, shared with the test.
#[derive(Clone)]
struct Ram(Arc<Mutex<Vec<u8>>>);

impl Memory for Ram {
    fn read(&self, _: PdId, addr: u64, into: &mut [u8]) {
        let bytes = self.0.lock().expect("nobody panicked");
        into.copy_from_slice(&bytes[addr as usize..][..into.len()]);
    }
    fn write(&mut self, _: PdId, addr: u64, from: &[u8]) {
        self.0.lock().expect("nobody panicked")[addr as usize..][..from.len()].copy_from_slice(from);
    }
}

const SUM: Task = Task { collective: Collective::Allreduce, reducer: Reducer::Sum, element: Element::U32, root: 0 };
/// Where results go.
const RESULT: u64 = 4 << 20;

/// What the ranks do.
#[derive(Clone)]
struct Plan {
    /// Operations in order: task, bytes.
    work: Vec<(Task, u32)>,
    rules: Rules,
    job: u64,
    nodes: Vec<u32>,
    /// They begin then, at the earliest.
    from: Time,
}

/// When each operation began and ended, by rank; or why there was no group.
type Log = Record<Vec<Result<Vec<(Time, Time)>, Denied>>>;

fn told(error: &GroupError) -> ProgramError {
    ProgramError(error.in_full())
}

/// The byte that a rank contributes.
fn byte(rank: u32, at: u64) -> u8 {
    (u64::from(rank).wrapping_mul(31) ^ at.wrapping_mul(7)) as u8
}

fn program(plan: Plan, ram: Option<Ram>, log: Log) -> Main {
    Box::new(move |process: Process| {
        Box::pin(async move {
            if let Some(ram) = ram {
                process.nic(0, |nic| nic.set_memory(Box::new(ram)));
            }
            let (pd, mr) = process.nic(0, |nic| {
                let pd = nic.alloc_pd();
                (pd, nic.reg_mr(pd, 0, Bytes(8 << 20), Access::ALL).expect("a region"))
            });
            let member = Member { job: plan.job, member: process.rank(), members: process.ranks() };
            let joined = Group::join(&process, 0, pd, member, plan.rules).await.map_err(|error| told(&error))?;
            let mut group = match joined {
                Ok(group) => group,
                Err(denied) => {
                    log.lock()[process.rank() as usize] = Err(denied);
                    return Ok(());
                }
            };
            process.sleep_until(plan.from).await;
            for (task, bytes) in plan.work {
                process.barrier().await;
                let begun = process.now();
                let at = |addr| Region { addr, lkey: mr.lkey };
                let reduction = group.post(task, at(0), at(RESULT), bytes).map_err(|error| told(&error))?;
                group.wait(reduction).await.map_err(|error| told(&error))?;
                if let Ok(times) = &mut log.lock()[process.rank() as usize] {
                    times.push((begun, process.now()));
                }
            }
            Ok(())
        })
    })
}

/// The same cluster with switches that reduce as those of a part do.
fn able(topology: &str, nodes: u32, layer: &str) -> Cluster {
    let mut cluster = cluster(topology, nodes, layer, "d_mod_k");
    let catalog = Catalog::embedded().expect("the catalogue is sound");
    let part = if layer == "infiniband" { "qm9700" } else { "tomahawk-ultra" };
    let aggregation = catalog.switch(part).expect("a part").aggregation.clone();
    assert!(aggregation.is_some(), "{part}");
    if let Some(switch) = &mut cluster.parts.switch {
        switch.aggregation = aggregation;
    }
    cluster
}

fn rules(cluster: &Cluster) -> Rules {
    let part = cluster.parts.switch.as_ref().and_then(|switch| switch.aggregation.as_ref()).expect("switches that reduce");
    let mtu = Mtu::from_bytes(cluster.parts.mtu).expect("an MTU");
    part.rules(mtu, 64)
}

fn plan(cluster: &Cluster, nodes: impl IntoIterator<Item = u32>, work: &[(Task, u32)]) -> Plan {
    Plan { work: work.to_vec(), rules: rules(cluster), job: 7, nodes: nodes.into_iter().collect(), from: Time::ZERO }
}

/// What each rank noted, its memory, and the run; credits must be back at its end.
fn run(engine: &Scenario, cluster: &Cluster, plan: &Plan, memory: bool) -> (Log, Vec<Ram>, Result<Run, EngineError>) {
    let log: Log = Record::new(vec![Ok(Vec::new()); plan.nodes.len()]);
    let ram = |rank: u32| Ram(Arc::new(Mutex::new((0..8 << 20).map(|at| if at < RESULT { byte(rank, at) } else { 0xEE }).collect())));
    let rams: Vec<Ram> = if memory { (0..plan.nodes.len() as u32).map(ram).collect() } else { Vec::new() };
    let mains = (0..plan.nodes.len()).map(|rank| program(plan.clone(), rams.get(rank).cloned(), log.clone())).collect();
    let mut world = setup::world(engine, cluster, 1).expect("a world");
    let before: Vec<i64> = world.links.lanes.iter().map(Channel::settled).collect();
    let mut programs = Programs::new(&world, cluster, &plan.nodes, mains).expect("programs");
    programs.begin(&mut world);
    let ended = world.run(&mut programs).and_then(|()| programs.check(&world));
    if let Err(error) = ended {
        return (log, rams, Err(error));
    }
    world.run(&mut Idle).expect("the rest");
    let after: Vec<i64> = world.links.lanes.iter().map(Channel::settled).collect();
    assert_eq!(before, after, "credits are conserved");
    assert!(world.ext_headers.is_empty(), "no packet is forgotten");
    (log, rams, Ok(world.into_run()))
}

/// The longest of the ranks, for each operation.
fn times(log: &Log) -> Vec<Span> {
    let log = log.lock();
    let of = |rank: &Result<Vec<(Time, Time)>, Denied>| rank.clone().expect("a group");
    let ranks: Vec<Vec<(Time, Time)>> = log.iter().map(of).collect();
    let longest = |at: usize| ranks.iter().map(|times| times[at].1.since(times[at].0)).max().unwrap_or_default();
    (0..ranks[0].len()).map(longest).collect()
}

const TREE: &str = "[topology.fat_tree]\nlevels = 3\nradix = 8";
const LEAF: &str = "[topology.single_switch]";

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Every word of every rank's result is the sum of those words of all ranks: one to three levels, odd numbers of ranks, in
/// operations and in streams.
#[test]
fn sums_are_right_at_every_rank() {
    for (topology, layer, nodes, bytes) in [
        (LEAF, "infiniband", (0..2).collect::<Vec<u32>>(), 8),
        (LEAF, "infiniband", (0..3).collect(), 4100),
        (TREE, "infiniband", vec![0, 5], 1024),
        (TREE, "infiniband", (0..64).collect(), 64),
        (TREE, "infiniband", vec![1, 2, 3, 40, 70, 71, 127], 3000),
        (TREE, "infiniband", (0..37).step_by(3).collect(), 300_000),
        (TREE, "roce_v2", (0..21).collect(), 100),
        (TREE, "roce_v2", vec![0, 9, 64, 65, 127], 100_000),
    ] {
        let cluster = able(topology, 128.min(if topology == LEAF { 8 } else { 128 }), layer);
        let plan = plan(&cluster, nodes, &[(SUM, bytes)]);
        let (log, rams, run) = run(&Scenario::default(), &cluster, &plan, true);
        run.unwrap_or_else(|error| panic!("{topology} {layer} {bytes}: {error}"));
        assert!(log.lock().iter().all(Result::is_ok));
        let memories: Vec<Vec<u8>> = rams.iter().map(|ram| ram.0.lock().unwrap().clone()).collect();
        for at in (0..bytes as usize).step_by(4) {
            let wanted = memories.iter().map(|memory| word(memory, at)).fold(0, u32::wrapping_add);
            for (rank, memory) in memories.iter().enumerate() {
                assert_eq!(word(memory, RESULT as usize + at), wanted, "{topology} {layer}: word {at} of rank {rank}");
            }
        }
        assert!(memories.iter().all(|memory| memory[RESULT as usize + bytes as usize] == 0xEE), "nothing beyond");
    }
}

/// A reduction to one, a broadcast of one and a barrier, one after the other.
#[test]
fn roots_get_and_give() {
    let cluster = able(TREE, 128, "infiniband");
    for bytes in [40, 40_000] {
        for root in [0, 4] {
            let to = |collective| Task { collective, root, ..SUM };
            let work = [(to(Collective::Reduce), bytes), (Task::BARRIER, 0), (to(Collective::Bcast), bytes)];
            for count in [1, 3] {
                let nodes = vec![3, 4, 60, 61, 127];
                let plan = plan(&cluster, nodes.clone(), &work[..count]);
                let (_, rams, run) = run(&Scenario::default(), &cluster, &plan, true);
                run.expect("it ends");
                let memories: Vec<Vec<u8>> = rams.iter().map(|ram| ram.0.lock().unwrap().clone()).collect();
                for at in (0..bytes as usize).step_by(4) {
                    let sum = memories.iter().map(|memory| word(memory, at)).fold(0, u32::wrapping_add);
                    for (rank, memory) in memories.iter().enumerate() {
                        let wanted = match (rank as u32 == root, count) {
                            (true, _) => sum,
                            (false, 1) => 0xEEEE_EEEE,
                            (false, _) => word(&memories[root as usize], at),
                        };
                        assert_eq!(word(memory, RESULT as usize + at), wanted, "{count} operations, root {root}: word {at} of rank {rank}");
                    }
                }
            }
        }
    }
}

/// T = host + Σ (links up + switches that join) + (links and switches down): it grows by two cables, a join and a pass for each level,
/// and with nothing else.
#[test]
fn latency_grows_with_the_depth_of_the_tree_alone() {
    let mut cluster = able(TREE, 128, "infiniband");
    // Less than what a packet takes: else acknowledgements of a leaf may go ahead of its result.
    let part = cluster.parts.switch.as_mut().and_then(|switch| switch.aggregation.as_mut()).expect("it reduces");
    part.latency.value = Span::from_ns(150);
    let of = |nodes: Vec<u32>| {
        let plan = plan(&cluster, nodes, &[(SUM, 8), (SUM, 8)]);
        let (log, _, run) = run(&Scenario::default(), &cluster, &plan, false);
        run.expect("it ends");
        times(&log)[1]
    };
    let [pair, pod, all] = [of(vec![0, 1]), of(vec![0, 4]), of(vec![0, 127])];
    let switch = cluster.parts.switch.as_ref().expect("a switch");
    let join = *switch.aggregation.as_ref().expect("it reduces").latency;
    let cable = cluster.fabric.graph.links().last().expect("links");
    // On the way up the packet is whole at every switch that joins.
    let bytes = LinkLayer::InfiniBand.wire_bytes(Opcode::RC_WRITE_ONLY, 8);
    let whole = cable.rate.time(Bytes(bytes.into()));
    let level = cable.delay * 2 + join + whole + *switch.latency;
    assert_eq!([pod - pair, all - pod], [level, level]);
    // The whole leaf, pod and tree take as long as two of their adapters.
    assert_eq!([of((0..4).collect()), of((0..16).collect()), of((0..128).collect())], [pair, pod, all]);
    assert_eq!(of(vec![0, 1, 3, 64, 99]), all);
}

/// The rate of a stream is that of the links, whatever the number of nodes.
#[test]
fn streams_flow_at_the_rate_of_the_links() {
    let cluster = able(TREE, 128, "infiniband");
    let rate = cluster.fabric.graph.links()[0].rate;
    for nodes in [vec![0, 1], (0..16).collect::<Vec<u32>>(), vec![0, 40, 99, 127]] {
        let bytes = 4 << 20;
        let plan = plan(&cluster, nodes.clone(), &[(SUM, bytes)]);
        let (log, _, run) = run(&Scenario::default(), &cluster, &plan, false);
        run.expect("it ends");
        let taken = times(&log)[0];
        let share = rate.time(Bytes(bytes.into())).as_ps() as f64 / taken.as_ps() as f64;
        assert!((0.9..1.0).contains(&share), "{} nodes: {share}", nodes.len());
    }
}

#[test]
fn what_there_is_not_is_refused() {
    let plain = cluster(TREE, 128, "infiniband", "d_mod_k");
    let asks = |cluster: &Cluster, rules: Rules| {
        let plan = Plan { work: vec![(SUM, 8)], rules, job: 7, nodes: vec![0, 1, 90], from: Time::ZERO };
        let (log, _, run) = run(&Scenario::default(), cluster, &plan, false);
        run.expect("it ends");
        let log = log.lock();
        assert!(log.iter().all(|rank| rank.as_ref().err() == log[0].as_ref().err()), "all get the same answer");
        log[0].clone().err()
    };
    let able = able(TREE, 128, "infiniband");
    let good = rules(&able);
    assert_eq!(asks(&able, good), None);
    assert_eq!(asks(&plain, good), Some(Denied::NoUnit));
    assert_eq!(asks(&able, Rules { slots: 129, ..good }), Some(Denied::Slots));
    let mut few = able;
    let part = few.parts.switch.as_mut().and_then(|switch| switch.aggregation.as_mut()).expect("it reduces");
    part.children.value = 1;
    assert_eq!(asks(&few, good), Some(Denied::Children));
}

/// Who gives another length than the others is told so.
#[test]
fn contributions_that_do_not_fit_are_errors() {
    let cluster = able(LEAF, 8, "infiniband");
    let log: Log = Record::new(vec![Ok(Vec::new()); 2]);
    let mains = (0..2).map(|rank| program(plan(&cluster, 0..2, &[(SUM, 8 + 8 * rank)]), None, log.clone())).collect();
    let mut world = setup::world(&Scenario::default(), &cluster, 1).expect("a world");
    let mut programs = Programs::new(&world, &cluster, &[0, 1], mains).expect("programs");
    programs.begin(&mut world);
    let error = world.run(&mut programs).expect_err("lengths differ").to_string();
    assert!(error.contains("same operation, type, length and root"), "{error}");
}

/// Nobody can end what a member never began: the message says who is missing.
#[test]
fn a_member_that_stays_away_is_named() {
    let cluster = able(TREE, 128, "infiniband");
    let log: Log = Record::new(vec![Ok(Vec::new()); 3]);
    let work = |rank: u32| if rank == 2 { Vec::new() } else { vec![(SUM, 8)] };
    let mains = (0..3).map(|rank| program(plan(&cluster, [0, 1, 90], &work(rank)), None, log.clone())).collect();
    let mut world = setup::world(&Scenario::default(), &cluster, 1).expect("a world");
    let mut programs = Programs::new(&world, &cluster, &[0, 1, 90], mains).expect("programs");
    programs.begin(&mut world);
    world.run(&mut programs).expect("it stops");
    let error = programs.check(&world).expect_err("it cannot end").to_string();
    assert!(error.contains("reduction 0 of group 0 waits for switch"), "{error}");
}

/// With slots for one operation at a time a long vector takes a round for each, and still ends.
#[test]
fn few_slots_take_longer() {
    let cluster = able(TREE, 128, "infiniband");
    let of = |slots| {
        let mut plan = plan(&cluster, [0, 50], &[(SUM, 8192)]);
        plan.rules.slots = slots;
        let (log, _, run) = run(&Scenario::default(), &cluster, &plan, false);
        run.expect("it ends");
        times(&log)[0]
    };
    let (one, eight) = (of(1), of(8));
    assert!(one > eight * 5, "{one} with one slot, {eight} with eight");
}

/// The cluster of the tests of faults, with switches that reduce.
fn breaking(fault: &str) -> (Cluster, Scenario) {
    let (mut cluster, engine) = crate::faults_test::lab(crate::faults_test::TREE, "d_mod_k", fault);
    if let Some(switch) = &mut cluster.parts.switch {
        switch.aggregation = Catalog::embedded().expect("the catalogue is sound").switch("qm9700").expect("a part").aggregation.clone();
    }
    (cluster, engine)
}

/// A spine that is dead when the group is made is no root: the sum goes by another one.
#[test]
fn trees_leave_out_what_is_dead() {
    let death = |spine| format!("[[fault]]\nat = \"1 us\"\nkind.switch_death = {{ switch = \"spine {spine}\" }}");
    for fault in [death(0), format!("{}\n{}", death(0), death(1))] {
        let (cluster, engine) = breaking(&fault);
        let (log, rams, run) = run(&engine, &cluster, &plan(&cluster, 0..16, &[(SUM, 64)]), true);
        let run = run.expect("it ends");
        assert!(log.lock().iter().all(Result::is_ok));
        assert_eq!(run.breakage.expect("there were faults").failed, 0);
        let memories: Vec<Vec<u8>> = rams.iter().map(|ram| ram.0.lock().unwrap().clone()).collect();
        let sum = memories.iter().map(|memory| word(memory, 0)).fold(0, u32::wrapping_add);
        assert!(memories.iter().all(|memory| word(memory, RESULT as usize) == sum));
    }
    // Without any spine nobody is joined.
    let all: Vec<String> = (0..4).map(death).collect();
    let (cluster, engine) = breaking(&all.join("\n"));
    let (log, _, _) = run(&engine, &cluster, &plan(&cluster, 0..16, &[(SUM, 64)]), false);
    assert!(log.lock().iter().all(|rank| *rank == Err(Denied::Apart)));
}

/// A root that dies later never answers: the message says who waits for whom. A leaf that dies is noticed by its adapters.
#[test]
fn switches_that_die_under_way_are_named() {
    let dies = |switch: &str| {
        let (cluster, engine) = breaking(&format!("[[fault]]\nat = \"400 us\"\nkind.switch_death = {{ switch = \"{switch}\" }}"));
        let mut plan = plan(&cluster, 0..16, &[(SUM, 64)]);
        plan.from = Time::ZERO + Span::from_us(500);
        let (_, _, run) = run(&engine, &cluster, &plan, false);
        run.map(|_| ()).expect_err("it cannot end").to_string()
    };
    let error = dies("spine 0");
    assert!(error.contains("a reduction of group 0 waits for the result of switch 4"), "{error}");
    let error = dies("leaf 1");
    assert!(error.contains("look for a switch or a link of the tree that is down"), "{error}");
}

/// What is lost between an adapter and its switch is sent again.
#[test]
fn contributions_that_are_lost_come_again() {
    let (cluster, engine) = breaking("[[fault]]\nat = \"0 us\"\nkind.loss = { share = 0.02, link = \"node 3 -> leaf 0\" }");
    let (log, _, run) = run(&engine, &cluster, &plan(&cluster, 0..16, &[(SUM, 100_000); 6]), false);
    let breakage = run.expect("it ends").breakage.expect("there were faults");
    assert!(log.lock().iter().all(|rank| rank.as_ref().is_ok_and(|times| times.len() == 6)));
    assert!(breakage.faults[0].packets_lost > 0 && breakage.repeated > 0, "{breakage:?}");
}
