use super::tests::layouts;
use super::*;
use crate::proof::Proof;
use crate::reduction::tests::{proved, vectors};
use crate::round::Rounds;
use crate::{Operation, Vector};

fn allreduced(ranks: u32, vector: Vector, rounds: impl Fn(u32) -> Rounds) -> Proof {
    proved(&Operation::Allreduce { blocks: vector.blocks(1) }, ranks, vector.width, rounds)
}

#[test]
fn every_contribution_counts_once() {
    let two_level = [
        "two_level",
        "two_level(linear, ring, pipeline(12 B), 16 B)",
        "two_level(rabenseifner, rabenseifner, scatter_doubling, 8 B)",
        "two_level(tree(binary, 12 B), reduce_bcast(linear, linear), split_binary(8 B), 40 B)",
        "two_level(in_order_binary(12 B), reduce_bcast(pipeline(8 B), binomial), binary, 8 B)",
    ]
    .map(|form| Allreduce::named(form).unwrap());
    let leaders = ["multi_leader", "multi_leader(1, ring)", "multi_leader(3, rabenseifner)", "multi_leader(16, reduce_bcast)"]
        .map(|form| MultiLeader::named(form).unwrap());
    for (index, (ranks, nodes)) in layouts().enumerate() {
        for vector in vectors(ranks).skip(index % 3).step_by(3) {
            for (form, keeps_order) in two_level.iter().zip([true, false, true, false, true]) {
                let proof = allreduced(ranks, vector, |rank| form.rounds(rank, &nodes, vector));
                assert!(proof.ordered || !keeps_order || !nodes.in_order(), "{form}, {ranks} ranks");
            }
            for (form, keeps_order) in leaders.iter().zip([true, false, true, true]) {
                let proof = allreduced(ranks, vector, |rank| form.rounds(rank, &nodes, vector));
                assert!(proof.ordered || !keeps_order || !nodes.in_order(), "{form}, {ranks} ranks");
            }
        }
    }
}

#[test]
fn a_reduction_comes_to_any_root() {
    let forms = ["two_level", "two_level(linear, pipeline(8 B))", "two_level(rabenseifner, in_order_binary(8 B))"];
    for (ranks, nodes) in layouts() {
        let vector = Vector { count: u64::from(ranks) + 1, width: Bytes(4) };
        for (form, root) in forms.into_iter().flat_map(|form| [0, ranks / 3, ranks - 1].map(|root| (form, root))) {
            let form = Reduce::named(form).unwrap();
            let operation = Operation::Reduce { root, blocks: vector.blocks(1) };
            let proof = proved(&operation, ranks, vector.width, |rank| form.rounds(rank, &nodes, root, vector));
            assert!(proof.ordered || root > 0 || !nodes.in_order(), "{form}, {ranks} ranks to {root}");
        }
    }
}

/// Eight nodes of eight, m bytes. One leader: two children of each of two levels (radix 4) and three exchanges of leaders take in
/// 3 + 1 + 3 vectors; it sends three to leaders, and four down. Four leaders: each takes in seven parts of m / 4, exchanges three, sends
/// three parts up and its own to seven.
#[test]
fn leaders_share_the_work() {
    let nodes = Nodes::filled(64, 8);
    let vector = Vector { count: 64, width: Bytes(4) };
    let (one, four) = (Allreduce::named("two_level").unwrap(), MultiLeader::named("multi_leader").unwrap());
    let proof = allreduced(64, vector, |rank| one.rounds(rank, &nodes, vector));
    assert_eq!((proof.rounds, proof.most_reduced, proof.most_sent), (2 + 3 + 2, vector.bytes() * 7, vector.bytes() * 7));
    // In four segments: two steps of seven rounds up, two with one down after them, three among leaders, one down.
    let cut = Allreduce::named("two_level(linear, recursive_doubling, linear, 64 B)").unwrap();
    let proof = allreduced(64, vector, |rank| cut.rounds(rank, &nodes, vector));
    assert_eq!((proof.rounds, proof.most_reduced, proof.most_sent), (2 * 7 + 2 * 8 + 3 + 1, vector.bytes() * 10, vector.bytes() * 10));
    let part = Bytes(vector.bytes().0 / 4);
    let proof = allreduced(64, vector, |rank| four.rounds(rank, &nodes, vector));
    assert_eq!((proof.rounds, proof.most_reduced, proof.most_sent), (1 + 3 + 1, part * (7 + 3), part * (3 + 3 + 7)));
}

#[test]
fn names_are_read_as_they_are_written() {
    for form in ["two_level(k_nomial(4), ring, scatter_ring)", "two_level(linear, reduce_bcast(linear, binary), binary, 8 KiB)"] {
        let read = Allreduce::named(form).unwrap();
        assert_eq!(Allreduce::named(&read.to_string()), Some(read));
    }
    let read = MultiLeader::named("multi_leader(16, recursive_multiplying(8))").unwrap();
    assert_eq!(MultiLeader::named(&read.to_string()), Some(read));
    let read = Reduce::named("two_level(linear, pipeline(8 KiB))").unwrap();
    assert_eq!(Reduce::named(&read.to_string()), Some(read));
    assert_eq!(MultiLeader::named("multi_leader(0)").or(MultiLeader::named("multi_leader(256)")).or(MultiLeader::named("two_level")), None);
    assert!(Allreduce::named("two_level(ring)").is_none() && Reduce::named("multi_leader").is_none());
}
