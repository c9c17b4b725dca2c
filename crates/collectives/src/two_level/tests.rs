use std::sync::Arc;

use super::*;
use crate::proof::{Proof, prove};
use crate::rank_counts::rank_counts;
use crate::round::Rounds;
use crate::{Operation, Vector, allgather, alltoall, bcast, gather, received, scatter};

/// Ranks that fill nodes of `per_node`, the last one with what is left; that go around the nodes; and nodes of all sizes, mixed.
fn nodes(ranks: u32) -> impl Iterator<Item = Nodes> {
    let list = |node: &dyn Fn(u32) -> u32| Nodes::new(&(0..ranks).map(node).collect::<Vec<_>>());
    let filled = [1, 3, 8, 64].map(|per_node| Nodes::filled(ranks, per_node));
    let around = list(&|rank| rank % 5);
    let mixed = list(&|rank| (7 * rank * rank + rank / 3) % 11);
    filled.into_iter().chain([around, mixed])
}

pub(super) fn layouts() -> impl Iterator<Item = (u32, Nodes)> {
    rank_counts().flat_map(|ranks| nodes(ranks).map(move |nodes| (ranks, nodes)))
}

fn proof(operation: &Operation, ranks: u32, what: &dyn std::fmt::Display, rounds: impl Fn(u32) -> Rounds) -> Proof {
    prove(operation, ranks, rounds).unwrap_or_else(|flaw| panic!("{what}, {ranks} ranks: {flaw}"))
}

#[test]
fn nobody_leaves_a_barrier_early() {
    for (ranks, nodes) in layouts() {
        for form in ["two_level(tree(2), dissemination)", "two_level", "two_level(recursive_doubling, tree(3))"] {
            let barrier = Barrier::named(form).unwrap();
            proof(&Operation::Barrier, ranks, &barrier, |rank| barrier.rounds(rank, &nodes));
        }
    }
    // Eight nodes of eight: three levels up, three rounds of leaders, three levels down.
    let nodes = nodes(64).nth(2).unwrap();
    let rounds = |form: &str| {
        let barrier = Barrier::named(form).unwrap();
        proof(&Operation::Barrier, 64, &barrier, |rank| barrier.rounds(rank, &nodes)).rounds
    };
    assert_eq!(
        [rounds("two_level(tree(2), dissemination)"), rounds("two_level(dissemination, dissemination)"), rounds("two_level")],
        [9, 9, 5]
    );
}

#[test]
fn a_broadcast_comes_to_every_node() {
    let forms = [
        "two_level(k_nomial(4), binomial, 0 B)",
        "two_level(tree(linear, 0 B), scatter_ring, 0 B)",
        "two_level(split_binary(4 B), pipeline(4 B), 8 B)",
        "two_level(scatter_doubling, scatter_doubling, 12 B)",
    ];
    for ((ranks, nodes), form) in layouts().flat_map(|layout| forms.map(|form| (layout.clone(), form))) {
        let bcast = Bcast::named(form).unwrap();
        for (root, count, width) in [(0, 0, 1), (ranks - 1, 1, 4), (ranks / 2, u64::from(ranks) + 1, 1)] {
            let vector = Vector { count, width: Bytes(width) };
            let operation = Operation::Bcast { root, blocks: vector.blocks(1) };
            proof(&operation, ranks, &bcast, |rank| bcast.rounds(rank, &nodes, root, vector));
        }
    }
}

/// Four nodes of two, four segments, a round each way: a segment travels among leaders while the one before travels in the nodes.
#[test]
fn segments_of_a_broadcast_overlap() {
    let nodes = Nodes::new(&[0, 0, 1, 1, 2, 2, 3, 3]);
    let vector = Vector { count: 16, width: Bytes(1) };
    let operation = Operation::Bcast { root: 0, blocks: vector.blocks(1) };
    let rounds = |form: &str| {
        let bcast = Bcast::named(form).unwrap();
        proof(&operation, 8, &bcast, |rank| bcast.rounds(rank, &nodes, 0, vector))
    };
    let (whole, cut) = (rounds("two_level(linear, linear, 0 B)"), rounds("two_level(linear, linear, 4 B)"));
    assert_eq!((whole.rounds, whole.messages), (2, 7));
    assert_eq!((cut.rounds, cut.messages), (4 + 1, 4 * 7));
    assert_eq!((whole.most_sent, cut.most_sent), (Bytes(16 * 4), Bytes(16 * 4)));
}

#[test]
fn every_block_comes_to_everybody() {
    let forms = [
        Allgather::named("two_level").unwrap(),
        Allgather::named("two_level(k_nomial(3), bruck, scatter_ring)").unwrap(),
        Allgather::named("two_level(linear_sync(2 B), recursive_doubling, binary)").unwrap(),
        Allgather { outer: allgather::Algorithm::named("gather_bcast").unwrap(), ..Allgather::named("two_level").unwrap() },
    ];
    for ((ranks, nodes), form) in layouts().flat_map(|layout| forms.map(|form| (layout.clone(), form))) {
        for blocks in [Blocks::Even { ranks, block: Bytes(3) }, Blocks::uneven(ranks), Vector { count: 37, width: Bytes(4) }.blocks(ranks)]
        {
            let operation = Operation::Allgather { blocks: blocks.clone() };
            proof(&operation, ranks, &form, |rank| form.rounds(rank, &nodes, blocks.clone()));
        }
    }
}

#[test]
fn blocks_come_to_the_root_and_from_it() {
    let gathers = ["two_level", "two_level(k_nomial(2), linear_sync(2 B))", "two_level(linear_sync(0 B), k_nomial(3))"];
    let scatters = ["two_level", "two_level(k_nomial(2), linear(2))", "two_level(linear(1), k_nomial(3))"];
    for (ranks, nodes) in layouts() {
        for blocks in [Blocks::Even { ranks, block: Bytes(3) }, Blocks::uneven(ranks)] {
            for (root, (gather, scatter)) in [0, ranks / 3, ranks - 1].into_iter().zip(gathers.into_iter().zip(scatters)) {
                let (gather, scatter) = (Gather::named(gather).unwrap(), Scatter::named(scatter).unwrap());
                let operation = Operation::Gather { root, blocks: blocks.clone() };
                proof(&operation, ranks, &gather, |rank| gather.rounds(rank, &nodes, root, blocks.clone()));
                let operation = Operation::Scatter { root, blocks: blocks.clone() };
                proof(&operation, ranks, &scatter, |rank| scatter.rounds(rank, &nodes, root, blocks.clone()));
            }
        }
    }
}

#[test]
fn anybody_can_be_root() {
    for nodes in nodes(13) {
        for root in 0..13 {
            let (blocks, vector) = (Blocks::uneven(13), Vector { count: 11, width: Bytes(2) });
            let (gather, scatter) = (Gather::named("two_level").unwrap(), Scatter::named("two_level").unwrap());
            let bcast = Bcast::named("two_level").unwrap();
            let operation = Operation::Gather { root, blocks: blocks.clone() };
            proof(&operation, 13, &gather, |rank| gather.rounds(rank, &nodes, root, blocks.clone()));
            let operation = Operation::Scatter { root, blocks: blocks.clone() };
            proof(&operation, 13, &scatter, |rank| scatter.rounds(rank, &nodes, root, blocks.clone()));
            let operation = Operation::Bcast { root, blocks: vector.blocks(1) };
            proof(&operation, 13, &bcast, |rank| bcast.rounds(rank, &nodes, root, vector));
        }
    }
}

#[test]
fn every_block_for_everybody_goes_by_the_leaders() {
    let forms = ["two_level", "two_level(k_nomial(2), bruck, k_nomial(2))", "two_level(linear_sync(2 B), posted, linear(1))"];
    for (at, (ranks, nodes)) in layouts().enumerate() {
        let form = Alltoall::named(forms[at % 3]).unwrap();
        let size = Bytes(if ranks < 20 { 3 } else { 1 });
        let operation = Operation::Alltoall { sends: vec![Blocks::Even { ranks, block: size }; ranks as usize] };
        proof(&operation, ranks, &form, |rank| form.rounds(rank, &nodes, size));

        // Rank r has ((3 r + 5 to) mod 4) bytes for rank `to`.
        let row = |rank: u32| Blocks::varying(&(0..ranks).map(|to| Bytes(u64::from((3 * rank + 5 * to) % 4))).collect::<Vec<_>>());
        let sends: Arc<[Blocks]> = (0..ranks).map(row).collect();
        let receives: Arc<[Blocks]> = (0..ranks).map(|rank| received(&sends, rank)).collect();
        let operation = Operation::Alltoall { sends: sends.to_vec() };
        let of = |blocks: &Arc<[Blocks]>| {
            let blocks = blocks.clone();
            move |rank: u32| blocks[rank as usize].clone()
        };
        proof(&operation, ranks, &form, |rank| form.rounds_of(rank, &nodes, of(&sends), of(&receives)));
        proof(&operation, ranks, &"partners", |rank| Alltoall::Partners.rounds_of(rank, &nodes, of(&sends), of(&receives)));
    }
}

/// Eight nodes of eight: a message to each other node, of the blocks that the node's ranks have for its partner; all other messages stay
/// in the node. A round to collect and one to exchange for each other node, one for the own.
#[test]
fn a_rank_sends_one_message_to_each_other_node() {
    let nodes = nodes(64).nth(2).unwrap();
    let operation = Operation::Alltoall { sends: vec![Blocks::Even { ranks: 64, block: Bytes(1) }; 64] };
    let rounds = |rank| Alltoall::Partners.rounds(rank, &nodes, Bytes(1));
    let proof = proof(&operation, 64, &Alltoall::Partners, rounds);
    assert_eq!((proof.rounds, proof.messages), (2 * 7 + 1, 64 * (7 + 8 * 7)));
    assert_eq!(proof.most_sent, Bytes(8 * 7 + 7 * 8));
    let sends = rounds(29).flat_map(|round| round.sends);
    let far: Vec<Bytes> = sends.filter(|message| message.peer / 8 != 3).map(|message| message.piece.bytes).collect();
    assert_eq!(far, [Bytes(8); 7]);
}

#[test]
fn an_exchange_of_leaders_has_few_rounds() {
    let form = Alltoall::named("two_level(linear, bruck, linear)").unwrap();
    let nodes = nodes(64).nth(2).unwrap();
    let operation = Operation::Alltoall { sends: vec![Blocks::Even { ranks: 64, block: Bytes(1) }; 64] };
    let proof = proof(&operation, 64, &form, |rank| form.rounds(rank, &nodes, Bytes(1)));
    assert_eq!((proof.rounds, proof.most_sent), (3 + 2, Bytes(3 * 4 * 64 + 7 * 64)));
    assert_eq!(proof.messages, 8 * (7 + 3 + 7));
}

#[test]
fn names_are_read_as_they_are_written() {
    fn same<T: PartialEq + std::fmt::Debug + std::fmt::Display>(named: impl Fn(&str) -> Option<T>, text: &str) {
        let form = named(text).unwrap_or_else(|| panic!("{text}"));
        assert_eq!(named(&form.to_string()), Some(form));
    }
    same(Barrier::named, "two_level(tree(4), recursive_doubling)");
    same(Bcast::named, "two_level(k_nomial(8), tree(chain(2), 4 KiB), 64 KiB)");
    same(Allgather::named, "two_level(linear(4), gather_bcast(binomial, pipeline), scatter_ring)");
    same(Gather::named, "two_level(linear_sync(1 KiB), k_nomial(4))");
    same(Scatter::named, "two_level(linear(2), k_nomial(4))");
    same(Alltoall::named, "two_level(linear, posted, k_nomial(4))");
    assert_eq!(Gather::named("two_level").unwrap().inner, gather::Algorithm::Linear { at_a_time: 0 });
    assert_eq!(Scatter::named("two_level").unwrap().outer, scatter::Algorithm::KNomial { radix: 2 });
    assert_eq!(Bcast::named("two_level").unwrap().outer, bcast::Algorithm::KNomial { radix: 2 });
    let Alltoall::Leaders(leaders) = Alltoall::named("two_level(linear, bruck)").unwrap() else { panic!("no leaders") };
    assert_eq!(leaders.outer, alltoall::Algorithm::Bruck);
    same(Alltoall::named, "partners");
    assert_eq!(Barrier::named("tree"), None);
    assert_eq!(Bcast::named("two_level(ring)"), None);
}
