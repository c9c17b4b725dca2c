//! Rounds, messages and bytes of every algorithm by the closed forms of the papers: n ranks, a vector of m bytes or blocks of b bytes each.
#![allow(missing_docs)]

use fabriscope_collectives::{Algorithm, Amount, Call, Kind};
use fabriscope_units::Bytes;

/// Elements of four bytes, so many that every power of two up to 64 divides them, and 3, 5 and 7.
const M: u64 = 4 * 64 * 105;
/// A block.
const B: u64 = 480;

/// What the ranks of one call do.
#[derive(Debug, PartialEq, Eq)]
struct Tally {
    /// Rounds with messages, and messages and bytes sent, of each rank.
    rounds: Vec<u64>,
    messages: Vec<u64>,
    bytes: Vec<u64>,
    /// Bytes that each rank reduces.
    reduced: Vec<u64>,
    /// Bytes between nodes.
    far: u64,
}

impl Tally {
    fn of(kind: Kind, name: &str, ranks: u32, per_node: u32, root: u32, size: u64) -> Tally {
        let algorithm = Algorithm::named(kind, name).unwrap_or_else(|error| panic!("{error}"));
        let call = Call { operation: kind, ranks, per_node, root, size: Bytes(size), width: Bytes(4) };
        let mut tally = Tally { rounds: vec![], messages: vec![], bytes: vec![], reduced: vec![], far: 0 };
        for rank in 0..ranks {
            let (mut rounds, mut messages, mut bytes, mut reduced) = (0, 0, 0, 0);
            for round in algorithm.rounds(&call, rank) {
                rounds += u64::from(round.peers().next().is_some());
                messages += round.sends.len() as u64;
                for message in &round.sends {
                    bytes += message.piece.bytes.0;
                    tally.far += if message.peer / per_node == rank / per_node { 0 } else { message.piece.bytes.0 };
                }
                reduced += Amount::of(&round.before).reduced.0 + Amount::of(&round.after).reduced.0;
            }
            tally.rounds.push(rounds);
            tally.messages.push(messages);
            tally.bytes.push(bytes);
            tally.reduced.push(reduced);
        }
        tally
    }
    fn flat(kind: Kind, name: &str, ranks: u32, size: u64) -> Tally {
        Tally::of(kind, name, ranks, 1, 0, size)
    }
    fn total(&self) -> u64 {
        self.bytes.iter().sum()
    }
}

fn log2(n: u32) -> u64 {
    u64::from(n.ilog2())
}
fn ceil_log2(n: u32) -> u64 {
    u64::from(n.next_power_of_two().ilog2())
}

/// Every rank the same.
fn all(n: u32, value: u64) -> Vec<u64> {
    vec![value; n as usize]
}

#[test]
fn allreduce_among_a_power_of_two() {
    // Thakur, Rabenseifner, Gropp, IJHPCA 19(1), 2005, §4.5: recursive doubling lg n · (α + mβ + mγ); Rabenseifner and what is built like it
    // 2 lg n · α + 2 m (n − 1)/n · β + m (n − 1)/n · γ; ring 2 (n − 1) · α with the same bytes.
    for n in [2, 4, 8, 16, 32, 64] {
        let share = M * u64::from(n - 1) / u64::from(n);
        let table = [
            ("recursive_doubling", log2(n), log2(n) * M, log2(n) * M),
            ("rabenseifner", 2 * log2(n), 2 * share, share),
            ("swing", 2 * log2(n), 2 * share, share),
            ("ring", 2 * u64::from(n - 1), 2 * share, share),
        ];
        for (name, rounds, bytes, reduced) in table {
            let tally = Tally::flat(Kind::Allreduce, name, n, M);
            assert_eq!((tally.rounds, tally.bytes), (all(n, rounds), all(n, bytes)), "{name} of {n}");
            assert_eq!(tally.reduced, all(n, reduced), "{name} of {n}");
        }
    }
}

#[test]
fn allreduce_by_larger_exchanges() {
    // log_k n rounds, in each of which a rank sends all it has to the k − 1 others of its group.
    for (radix, n, rounds) in [(4, 4, 1), (4, 16, 2), (4, 64, 3), (8, 8, 1), (8, 64, 2), (2, 32, 5)] {
        let tally = Tally::flat(Kind::Allreduce, &format!("recursive_multiplying({radix})"), n, M);
        let sent = rounds * (radix - 1);
        assert_eq!(
            (tally.rounds, tally.messages, tally.bytes),
            (all(n, rounds), all(n, sent), all(n, sent * M)),
            "radix {radix}, {n} ranks"
        );
    }
}

#[test]
fn trees_carry_the_vector_once_each_way() {
    // n − 1 edges, each with m up and m down; two trees with half of the data each come to the same. What comes up is reduced once per edge.
    for n in [2, 3, 5, 8, 13, 16, 31] {
        for name in ["reduce_bcast(binomial, binomial)", "reduce_bcast(linear, linear)", "double_binary_tree(1 KiB)"] {
            let tally = Tally::flat(Kind::Allreduce, name, n, M);
            assert_eq!(tally.total(), 2 * u64::from(n - 1) * M, "{name} of {n}");
            assert_eq!(tally.reduced.iter().sum::<u64>(), u64::from(n - 1) * M, "{name} of {n}");
        }
        // Sanders, Speck, Träff 2009: with two trees no rank sends more than its two halves up and twice each half down, that is 2 m and
        // not 3 m as an inner rank of one binary tree: the point of having two.
        let most = Tally::flat(Kind::Allreduce, "double_binary_tree(1 KiB)", n, M).bytes.into_iter().max().unwrap();
        assert!(most <= 2 * M, "{n} ranks: {most} of {M} bytes");
    }
}

#[test]
fn ring_of_any_number() {
    // Patarasuk, Yuan, JPDC 69(2), 2009: 2 (n − 1) rounds whatever n is; each block passes 2 (n − 1) links.
    for n in [3, 5, 6, 7, 15, 21] {
        let tally = Tally::flat(Kind::Allreduce, "ring", n, M);
        assert_eq!(tally.rounds, all(n, 2 * u64::from(n - 1)), "{n} ranks");
        assert_eq!(tally.total(), 2 * u64::from(n - 1) * M, "{n} ranks");
    }
}

#[test]
fn allgather() {
    // Every rank lacks n − 1 blocks and nobody can have them for less. Ring n − 1 rounds, neighbour exchange n/2 (Chen et al. 2005), recursive
    // doubling lg n, Bruck ⌈lg n⌉ for any n, linear in one.
    for n in [2, 4, 8, 16, 64] {
        for (name, rounds) in
            [("ring", u64::from(n - 1)), ("neighbour", u64::from(n / 2)), ("recursive_doubling", log2(n)), ("bruck", log2(n))]
        {
            let tally = Tally::flat(Kind::Allgather, name, n, B);
            assert_eq!((tally.rounds, tally.bytes), (all(n, rounds), all(n, u64::from(n - 1) * B)), "{name} of {n}");
        }
    }
    for n in [3, 5, 7, 12, 33] {
        for (name, rounds) in [("ring", u64::from(n - 1)), ("bruck", ceil_log2(n))] {
            let tally = Tally::flat(Kind::Allgather, name, n, B);
            assert_eq!((tally.rounds, tally.bytes), (all(n, rounds), all(n, u64::from(n - 1) * B)), "{name} of {n}");
        }
        let gathered = Tally::flat(Kind::Allgather, "linear", n, B);
        assert_eq!((gathered.messages, gathered.bytes), (all(n, u64::from(n - 1)), all(n, u64::from(n - 1) * B)));
    }
}

#[test]
fn reduce_scatter() {
    // Thakur et al. §4.2: recursive halving lg n rounds, m (n − 1)/n bytes sent and reduced; pairwise and ring n − 1 rounds with the same bytes;
    // recursive doubling lg n rounds and n lg n − (n − 1) blocks.
    for n in [2, 4, 8, 16, 32] {
        let blocks = u64::from(n - 1);
        for (name, rounds) in [("recursive_halving", log2(n)), ("pairwise", blocks), ("ring", blocks)] {
            let tally = Tally::flat(Kind::ReduceScatterBlock, name, n, B);
            assert_eq!(
                (tally.rounds, tally.bytes, tally.reduced),
                (all(n, rounds), all(n, blocks * B), all(n, blocks * B)),
                "{name} of {n}"
            );
        }
        // By doubling distances a rank ends up with the block of its number read backwards in bits: those for whom that is another one exchange
        // them (Träff, "An improved algorithm for (non-commutative) reduce-scatter", EuroPVM/MPI 2005).
        let butterfly = Tally::flat(Kind::ReduceScatterBlock, "butterfly", n, B);
        for rank in 0..n {
            let moved = u64::from(rank.reverse_bits() >> (32 - n.ilog2()) != rank);
            let found = (butterfly.rounds[rank as usize], butterfly.bytes[rank as usize], butterfly.reduced[rank as usize]);
            assert_eq!(found, (log2(n) + moved, (blocks + moved) * B, blocks * B), "rank {rank} of {n}");
        }
        let doubling = Tally::flat(Kind::ReduceScatterBlock, "recursive_doubling", n, B);
        let sent = u64::from(n) * log2(n) - blocks;
        assert_eq!((doubling.rounds, doubling.bytes), (all(n, log2(n)), all(n, sent * B)), "{n} ranks");
    }
}

#[test]
fn alltoall() {
    // n − 1 blocks of every rank have to leave. Pairwise one in each of n − 1 rounds; Bruck et al. 1997: ⌈lg n⌉ rounds, in round k the blocks
    // whose distance has bit k: n/2 of them for a power of two.
    for n in [2, 4, 8, 16, 32] {
        for name in ["pairwise", "pairwise(shift)"] {
            let tally = Tally::flat(Kind::Alltoall, name, n, B);
            assert_eq!((tally.rounds, tally.bytes), (all(n, u64::from(n - 1)), all(n, u64::from(n - 1) * B)), "{name} of {n}");
        }
        let tally = Tally::flat(Kind::Alltoall, "bruck", n, B);
        assert_eq!((tally.rounds, tally.bytes), (all(n, log2(n)), all(n, u64::from(n / 2) * log2(n) * B)), "{n} ranks");
    }
    for n in [3, 6, 7, 11, 25] {
        let bits: u64 = (1..n).map(|distance: u32| u64::from(distance.count_ones())).sum();
        let tally = Tally::flat(Kind::Alltoall, "bruck", n, B);
        assert_eq!((tally.rounds, tally.bytes), (all(n, ceil_log2(n)), all(n, bits * B)), "{n} ranks");
        // All at once, or so many at a time, its own among them (MPICH, alltoall_intra_scattered.c).
        for (name, rounds) in [("posted(0)", 1), ("posted(4)", u64::from(n).div_ceil(4))] {
            let tally = Tally::flat(Kind::Alltoall, name, n, B);
            assert_eq!((tally.rounds, tally.bytes), (all(n, rounds), all(n, u64::from(n - 1) * B)), "{name} of {n}");
        }
    }
}

#[test]
fn barriers() {
    // Hensgen et al. 1988: ⌈log_k n⌉ rounds of k − 1 messages; a tree has 2 (n − 1) messages in all; none has bytes.
    for n in [2u32, 3, 4, 7, 8, 27, 64] {
        for radix in [2u32, 3, 4] {
            let rounds = (0..).find(|power| radix.pow(*power) >= n).unwrap();
            let tally = Tally::flat(Kind::Barrier, &format!("dissemination({radix})"), n, 0);
            assert_eq!(tally.rounds, all(n, u64::from(rounds)), "{n} ranks, radix {radix}");
            let whole = radix.pow(rounds) == n;
            let most = u64::from(rounds * (radix - 1));
            assert!(
                tally.messages.iter().all(|sent| if whole { *sent == most } else { *sent <= most }),
                "{n}, {radix}: {:?}",
                tally.messages
            );
        }
        for name in ["tree(2)", "tree(4)", "linear"] {
            let tally = Tally::flat(Kind::Barrier, name, n, 0);
            assert_eq!(tally.messages.iter().sum::<u64>(), 2 * u64::from(n - 1), "{name} of {n}");
        }
        if n.is_power_of_two() {
            let tally = Tally::flat(Kind::Barrier, "recursive_doubling", n, 0);
            assert_eq!((tally.rounds, tally.messages), (all(n, log2(n)), all(n, log2(n))));
        }
    }
}

#[test]
fn broadcasts() {
    for n in [2, 3, 6, 8, 16, 21] {
        for root in [0, n - 1] {
            // Each of the others gets the vector once, whatever the tree; the root of a binomial tree sends ⌈lg n⌉ times, that of a flat one
            // n − 1 times, the first of a pipeline once.
            let chunks = M.div_ceil(1024);
            let table =
                [("binomial", ceil_log2(n)), ("k_nomial(16)", u64::from(n - 1).min(15 + u64::from(n > 16))), ("pipeline(1 KiB)", chunks)];
            for (name, from_root) in table {
                let tally = Tally::of(Kind::Bcast, name, n, 1, root, M);
                assert_eq!(tally.total(), u64::from(n - 1) * M, "{name} of {n}");
                assert_eq!(tally.messages[root as usize], from_root, "{name} of {n}");
            }
        }
    }
    // Thakur et al. §4.3: scattered by a binomial tree, lg n · n/2 pieces of m/n, then gathered by all: (n − 1) m.
    for n in [2, 4, 8, 16, 32] {
        let scattered = log2(n) * M / 2;
        for name in ["scatter_ring", "scatter_doubling"] {
            let tally = Tally::flat(Kind::Bcast, name, n, M);
            assert_eq!(tally.total(), scattered + u64::from(n - 1) * M, "{name} of {n}");
        }
    }
}

#[test]
fn to_and_from_a_root() {
    for n in [2, 4, 8, 16, 32] {
        for root in [0, 1, n - 1] {
            for kind in [Kind::Gather, Kind::Scatter] {
                // A binomial tree moves n/2 blocks on each of its lg n levels; a flat one each block once.
                let tree = Tally::of(kind, "binomial", n, 1, root, B);
                assert_eq!(tree.total(), u64::from(n / 2) * log2(n) * B, "{kind:?} of {n} at {root}");
                let flat = Tally::of(kind, "linear", n, 1, root, B);
                assert_eq!(flat.total(), u64::from(n - 1) * B, "{kind:?} of {n} at {root}");
            }
            // n − 1 vectors come in and are reduced, by trees; Rabenseifner's: m (n − 1)/n by every rank, then the blocks by a binomial tree.
            for name in ["k_nomial(2)", "k_nomial(4)", "linear"] {
                let tally = Tally::of(Kind::Reduce, name, n, 1, root, M);
                assert_eq!(
                    (tally.total(), tally.reduced.iter().sum()),
                    (u64::from(n - 1) * M, u64::from(n - 1) * M),
                    "{name} of {n} at {root}"
                );
            }
            let tally = Tally::of(Kind::Reduce, "rabenseifner", n, 1, root, M);
            assert_eq!(tally.total(), u64::from(n - 1) * M + log2(n) * M / 2, "{n} at {root}");
            assert_eq!(tally.reduced, all(n, M * u64::from(n - 1) / u64::from(n)));
        }
    }
}

#[test]
fn prefixes() {
    // Hillis, Steele 1986 and MPICH: lg n rounds by doubling; one after the other n − 1 messages.
    for n in [2, 4, 8, 32] {
        for kind in [Kind::Scan, Kind::Exscan] {
            assert_eq!(Tally::flat(kind, "recursive_doubling", n, M).rounds.into_iter().max(), Some(log2(n)), "{kind:?}");
            let linear = Tally::flat(kind, "linear", n, M);
            assert_eq!((linear.messages.iter().sum::<u64>(), linear.total()), (u64::from(n - 1), u64::from(n - 1) * M), "{kind:?}");
        }
    }
}

#[test]
fn leaders_spare_the_network() {
    // N nodes of p ranks: only leaders send to other nodes. A ring among leaders has 2 (N − 1) m bytes on the network; all ranks in one ring
    // that goes through the nodes in order cross N times in each of 2 (N p − 1) rounds, with blocks of m/(N p): N/p of which is saved.
    for (nodes, each) in [(2u32, 4u32), (4, 4), (8, 2), (3, 5)] {
        let n = nodes * each;
        let two = Tally::of(Kind::Allreduce, "two_level(binomial, ring, binomial)", n, each, 0, M);
        assert_eq!(two.far, 2 * u64::from(nodes - 1) * M, "{nodes} nodes of {each}");
        let one = Tally::of(Kind::Allreduce, "ring", n, each, 0, M);
        if M.is_multiple_of(4 * u64::from(n)) {
            assert_eq!(one.far, u64::from(nodes) * 2 * u64::from(n - 1) * M / u64::from(n), "{nodes} nodes of {each}");
        }
        // A broadcast enters each other node once, whoever begins.
        for root in [0, n - 1] {
            let two = Tally::of(Kind::Bcast, "two_level(binomial, binomial)", n, each, root, M);
            assert_eq!((two.far, two.total()), (u64::from(nodes - 1) * M, u64::from(n - 1) * M), "from {root}");
        }
        // Every block has to leave its node for each of the others: once, not p times.
        let gathered = Tally::of(Kind::Allgather, "two_level(binomial, ring)", n, each, 0, B);
        assert_eq!(gathered.far, u64::from(nodes - 1) * u64::from(n) * B);
    }
}

#[test]
fn nothing_is_done_for_less_than_it_takes() {
    // Lower bounds on the bytes of all ranks together. Broadcast and reduction: m for each of the n − 1 others. Allreduce: 2 (n − 1) m (Patarasuk
    // and Yuan 2009, theorem 1). Allgather, reduce-scatter and alltoall: each rank needs n − 1 blocks of others. Gather and scatter: n − 1
    // blocks. A prefix: each rank but the first needs something of the one before. And everybody hears of everybody in a barrier.
    use fabriscope_collectives::{allgather, allreduce, alltoall, barrier, bcast, gather, reduce, reduce_scatter, scan, scatter};
    for n in 2..=20u32 {
        let others = u64::from(n - 1);
        let check = |kind, algorithm: Algorithm, size: u64, least: u64| {
            let call = Call { operation: kind, ranks: n, per_node: 1, root: n / 2, size: Bytes(size), width: Bytes(4) };
            let sent = |rank| algorithm.rounds(&call, rank).flat_map(|round| round.sends).map(|message| message.piece.bytes.0).sum::<u64>();
            let total: u64 = (0..n).map(sent).sum();
            assert!(total >= least, "{algorithm} of {n}: {total} of {least} bytes");
        };
        allreduce::Algorithm::ALL.iter().for_each(|a| check(Kind::Allreduce, Algorithm::Allreduce(*a), M, 2 * others * M));
        bcast::Algorithm::ALL.iter().for_each(|a| check(Kind::Bcast, Algorithm::Bcast(*a), M, others * M));
        reduce::Algorithm::ALL.iter().for_each(|a| check(Kind::Reduce, Algorithm::Reduce(*a), M, others * M));
        allgather::Algorithm::ALL.iter().for_each(|a| check(Kind::Allgather, Algorithm::Allgather(*a), B, u64::from(n) * others * B));
        let blocks = u64::from(n) * others * B;
        reduce_scatter::Algorithm::ALL.iter().for_each(|a| check(Kind::ReduceScatterBlock, Algorithm::ReduceScatter(*a), B, blocks));
        alltoall::Algorithm::ALL.iter().for_each(|a| check(Kind::Alltoall, Algorithm::Alltoall(*a), B, blocks));
        gather::Algorithm::ALL.iter().for_each(|a| check(Kind::Gather, Algorithm::Gather(*a), B, others * B));
        scatter::Algorithm::ALL.iter().for_each(|a| check(Kind::Scatter, Algorithm::Scatter(*a), B, others * B));
        scan::Algorithm::ALL.iter().for_each(|a| check(Kind::Scan, Algorithm::Scan(*a), M, others * M));
        for algorithm in barrier::Algorithm::ALL {
            // Who hears of whom: a message tells all that its sender knows when it is posted. Rounds wait for each other.
            let rounds: Vec<Vec<_>> = (0..n).map(|rank| algorithm.rounds(rank, n).collect()).collect();
            assert!(heard_by_all(&rounds), "{algorithm:?} of {n}");
        }
    }
}

/// Whether the first round after the last of each rank comes only when every rank has begun: messages carry what their sender knows.
fn heard_by_all(rounds: &[Vec<fabriscope_collectives::Round>]) -> bool {
    let n = rounds.len();
    let mut known: Vec<u64> = (0..n).map(|rank| 1 << rank).collect();
    let mut at = vec![0; n];
    let mut posted = vec![false; n];
    let mut pipes: std::collections::BTreeMap<(usize, usize), std::collections::VecDeque<u64>> = std::collections::BTreeMap::new();
    loop {
        let mut moved = false;
        for rank in 0..n {
            let Some(round) = rounds[rank].get(at[rank]) else { continue };
            if !posted[rank] {
                for message in &round.sends {
                    pipes.entry((rank, message.peer as usize)).or_default().push_back(known[rank]);
                }
                (posted[rank], moved) = (true, true);
            }
            let there =
                |message: &fabriscope_collectives::Message| pipes.get(&(message.peer as usize, rank)).is_some_and(|pipe| !pipe.is_empty());
            if round.receives.iter().all(there) {
                for message in &round.receives {
                    known[rank] |=
                        pipes.get_mut(&(message.peer as usize, rank)).and_then(std::collections::VecDeque::pop_front).unwrap_or(0);
                }
                at[rank] += 1;
                (posted[rank], moved) = (false, true);
            }
        }
        if !moved {
            break;
        }
    }
    at.iter().zip(rounds).all(|(at, rounds)| *at == rounds.len()) && known.iter().all(|known| *known == (1 << n) - 1)
}
