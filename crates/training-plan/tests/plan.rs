//! Groups between nodes send the bytes of the formulas, over as many adapters as they have GPUs, and what a GPU spent adds up.

use std::collections::BTreeMap;

use fabriscope_catalog::Catalog;
use fabriscope_platform::nccl::Library;
use fabriscope_schedule::{Builder, OpKind, Schedule};
use fabriscope_training::operations::{Action, KERNELS, Task, Use};
use fabriscope_training::{CommunicationTimes, Group, Layout, Operation};
use fabriscope_training_plan::{Planner, Seats, Spent};
use fabriscope_units::{Bytes, Span, Time};

struct Nothing;

impl CommunicationTimes for Nothing {
    type Error = std::convert::Infallible;
    fn time(&mut self, _: Operation, _: Bytes, _: Group) -> Result<Span, Self::Error> {
        Ok(Span::ZERO)
    }
    fn processors(&mut self, _: Operation, _: Bytes, _: Group) -> Result<u32, Self::Error> {
        Ok(0)
    }
}

fn task(part: Use, action: Action, stream: u32, after: Vec<u32>) -> Task {
    Task { action, part, stream, after, name: "one".to_owned() }
}

/// A schedule of one operation of a group on nodes of 8 H100 and 8 adapters.
fn one(operation: Operation, bytes: Bytes, layout: &Layout, group: Group) -> Schedule {
    let catalog = Catalog::embedded().unwrap();
    let library = Library::of(&catalog.resolve(catalog.cluster("azure-ndh100v5").unwrap(), None).unwrap()).unwrap();
    let nodes = layout.gpus().div_ceil(8) as u32;
    let seats = Seats::new((0..nodes).collect(), 8, (0..8).collect());
    let mut builder = Builder::new(nodes * 8);
    let stages = vec![vec![task(Use::Data, Action::Together(operation, bytes, group), KERNELS, Vec::new())]];
    let mut planner = Planner::new(&library, &seats, 8).unwrap();
    let placed = planner.add(&mut builder, layout, &stages, &mut Nothing).unwrap();
    assert_eq!(placed.collectives, layout.gpus() / u64::from(group.size));
    builder.build().unwrap()
}

/// What each rank sends in messages that are more than flags.
fn sent(schedule: &Schedule) -> BTreeMap<u32, u64> {
    let mut sent = BTreeMap::new();
    for rank in 0..schedule.ranks() {
        for op in schedule.ops(rank) {
            if let OpKind::Send { bytes, .. } = op.kind
                && bytes > Bytes(8)
            {
                *sent.entry(rank).or_default() += bytes.0;
            }
        }
    }
    sent
}

/// R − 1 of R blocks around the ring of an all-gather or reduce-scatter; groups of one GPU a node.
#[test]
fn rings_send_all_blocks_but_one() {
    let bytes = 64 << 20;
    for copies in [2u32, 4, 8] {
        let layout = Layout { tensor: 8, data: copies, global_batch: copies, ..Layout::default() };
        for operation in [Operation::AllGather, Operation::ReduceScatter] {
            let sent = sent(&one(operation, Bytes(bytes), &layout, layout.data_group()));
            assert_eq!(sent.len() as u64, layout.gpus(), "each adapter sends");
            let expected = bytes * u64::from(copies - 1) / u64::from(copies);
            assert!(sent.values().all(|bytes| *bytes == expected), "{operation} of {copies}: {sent:?} for {expected}");
        }
    }
}

/// All bytes go once along each of the n − 1 edges of a tree up, and once down; twice (R − 1) / R of them over each of the n edges of a ring
/// between nodes.
#[test]
fn all_reduces_send_what_their_edges_carry() {
    for (bytes, copies) in [(1u64 << 20, 2u32), (16 << 20, 4), (512 << 20, 8)] {
        let layout = Layout { tensor: 8, data: copies, global_batch: copies, ..Layout::default() };
        let all: u64 = sent(&one(Operation::AllReduce, Bytes(bytes), &layout, layout.data_group())).values().sum();
        let groups = 8 * bytes;
        let tree = 2 * groups * u64::from(copies - 1);
        // Both are 2 (n − 1) times the message, over lines with their flags at most twice that.
        let close = |factor: f64| (all as f64 / (tree as f64 * factor) - 1.0).abs() < 0.01;
        assert!(close(1.0) || close(128.0 / 120.0) || close(2.0), "{copies} copies of {bytes} B: {all} for {tree}");
    }
}

/// Two GPUs of a group on each of two nodes: the ring crosses once each way in each channel, with 3 of 4 blocks.
#[test]
fn rings_of_several_gpus_a_node_cross_once_a_channel() {
    let bytes = 64 << 20;
    let layout = Layout { tensor: 4, data: 4, global_batch: 4, ..Layout::default() };
    let sent = sent(&one(Operation::ReduceScatter, Bytes(bytes), &layout, layout.data_group()));
    let all: u64 = sent.values().sum();
    assert_eq!(all, 4 * 2 * bytes * 3 / 4, "{sent:?}");
}

#[test]
fn everybody_sends_to_all_other_nodes() {
    let bytes = 8 << 20;
    let layout = Layout { data: 32, expert: 32, global_batch: 32, ..Layout::default() };
    let sent = sent(&one(Operation::AllToAll, Bytes(bytes), &layout, layout.expert_group()));
    assert!(sent.len() == 32 && sent.values().all(|own| *own == bytes * 24 / 32), "{sent:?}");
}

/// A kernel of 10, a wait of 5 for gradients, a kernel of 20; then gradients that nothing waits for, 3 longer: 38 in all.
#[test]
fn what_a_gpu_spent_adds_up() {
    let group = Group { size: 2, stride: 8 };
    let data = Action::Together(Operation::AllReduce, Bytes(1), group);
    let tasks = [
        task(Use::Computing, Action::Compute(Span::from_us(10)), KERNELS, vec![]),
        task(Use::Data, data, 1, vec![0]),
        task(Use::Computing, Action::Compute(Span::from_us(20)), KERNELS, vec![0, 1]),
        task(Use::Data, data, 1, vec![1]),
    ];
    let at = |us: u64| Time::ZERO + Span::from_us(us);
    let spent = Spent::of(&tasks, &[(at(0), at(10)), (at(10), at(15)), (at(15), at(35)), (at(15), at(38))]);
    assert_eq!((spent.computing, spent.data, spent.total()), (Span::from_us(30), Span::from_us(8), Span::from_us(38)));
}
