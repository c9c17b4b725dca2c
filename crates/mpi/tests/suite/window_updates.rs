//! Contents of windows after updates: every way of every library leaves what arithmetic on paper leaves, whoever applies it.

use crate::job;
use crate::machine;
use fabriscope_catalog::{Accumulate, ResolvedCluster, SingleElement};
use fabriscope_mpi::{Datatype, Operands, Rank, Reduction, Update};
use fabriscope_node::ProgramError;
use job::Notes;
use proptest::prelude::*;

/// RI2 with the given ways of its library.
fn with_ways(nodes: u32, accumulate: Accumulate, single: SingleElement) -> ResolvedCluster {
    let mut parts = machine::ri2(nodes, 1);
    let rules = job::library(&mut parts).one_sided.as_mut().unwrap();
    (rules.accumulate.value, rules.single.value) = (accumulate, single);
    parts
}

const WAYS: [(Accumulate, SingleElement); 4] = [
    (Accumulate::ActiveMessage, SingleElement::Adapter),
    (Accumulate::ActiveMessage, SingleElement::Software),
    (Accumulate::LockGetPut, SingleElement::Adapter),
    (Accumulate::LockGetPut, SingleElement::LockedAdapter),
];

/// Where operands, old values and the elements of the target are.
const HERE: u64 = 0;
const RESULT: u64 = 8192;
const THERE: u64 = 16_384;

/// Rank 0 stays inside its library until rank 1 says that it is done, as a target has to.
async fn end(rank: &Rank) -> Result<(), ProgramError> {
    if rank.rank() == 0 {
        for origin in 1..rank.ranks() {
            rank.recv(Some(origin), Some(1), 0).await?;
        }
    } else {
        rank.send(0, 1, 0).await?;
    }
    rank.synchronise().await
}

/// Elements as bytes.
fn whole(values: &[i64], datatype: Datatype) -> Vec<u8> {
    let of = |value: &i64| match datatype {
        Datatype::Char => (*value as i8).to_ne_bytes().to_vec(),
        Datatype::Int => (*value as i32).to_ne_bytes().to_vec(),
        Datatype::LongLong => value.to_ne_bytes().to_vec(),
        Datatype::Float => (*value as f32).to_ne_bytes().to_vec(),
        Datatype::Double => (*value as f64).to_ne_bytes().to_vec(),
    };
    values.iter().flat_map(of).collect()
}

/// The operations of MPI on small whole numbers: no type of at least 4 bytes overflows.
fn on_paper(reduction: Reduction, target: i64, origin: i64) -> i64 {
    match reduction {
        Reduction::Sum => target + origin,
        Reduction::Product => target * origin,
        Reduction::Min => target.min(origin),
        Reduction::Max => target.max(origin),
        Reduction::Replace => origin,
        Reduction::Nothing => target,
    }
}

/// What is in the target's window, and in the origin's for old values, after one update of rank 0 by rank 1.
fn after(
    (parts, layout): (&ResolvedCluster, (u32, u32)),
    (update, reduction, datatype): (Update, Reduction, Datatype),
    target: &[i64],
    origin: &[i64],
) -> (Vec<u8>, Vec<u8>) {
    let notes = Notes::<(u32, Vec<u8>)>::default();
    let (found, before, operand) = (notes.clone(), whole(target, datatype), whole(origin, datatype));
    let size = before.len() as u32;
    job::ranks(parts, layout, move |rank: Rank| {
        let (found, before, operand) = (found.clone(), before.clone(), operand.clone());
        async move {
            rank.expose(0, 32_768)?;
            rank.store(if rank.rank() == 0 { THERE } else { HERE }, if rank.rank() == 0 { &before } else { &operand })?;
            rank.synchronise().await?;
            if rank.rank() == 1 {
                let operands = Operands { datatype, reduction, size, here: HERE, result: RESULT, there: THERE, compare: 0 };
                let fetch = rank.update(update, 0, operands).await?;
                rank.fetched(fetch).await?;
            }
            end(&rank).await?;
            let mut bytes = vec![0; size as usize];
            rank.load(if rank.rank() == 0 { THERE } else { RESULT }, &mut bytes)?;
            found.add((rank.rank(), bytes));
            Ok(())
        }
    })
    .unwrap_or_else(|error| panic!("{update:?} {reduction:?} {datatype:?}: {error}"));
    let mut all = notes.take();
    all.sort_unstable();
    let [target, origin] = [0, 1].map(|rank: usize| all[rank].1.clone());
    (target, origin)
}

#[test]
fn every_reduction_of_every_type_leaves_what_paper_leaves() {
    let (target, origin) = ([5, -7, 1, 11, 3], [2, 9, -4, 11, -6]);
    let reductions = [Reduction::Sum, Reduction::Product, Reduction::Min, Reduction::Max, Reduction::Replace, Reduction::Nothing];
    for (accumulate, single) in [WAYS[0], WAYS[2]] {
        let parts = with_ways(2, accumulate, single);
        for datatype in Datatype::ALL {
            for reduction in reductions {
                let expected: Vec<i64> = target.iter().zip(origin).map(|(target, origin)| on_paper(reduction, *target, origin)).collect();
                let (found, old) = after((&parts, (2, 1)), (Update::GetAccumulate, reduction, datatype), &target, &origin);
                let what = format!("{accumulate:?}, {reduction:?} of {}", datatype.name());
                assert_eq!(found, whole(&expected, datatype), "{what}");
                // MPI_Get_accumulate: the origin finds what was there before.
                assert_eq!(old, whole(&target, datatype), "{what}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    /// Vectors of any length, eager and rendezvous, on two nodes and on one.
    #[test]
    fn vectors_of_any_length(
        pairs in prop::collection::vec((-1000i64..1000, -1000i64..1000), 1..900),
        way in prop::sample::select(WAYS.to_vec()),
        one_node in any::<bool>(),
    ) {
        let (target, origin): (Vec<i64>, Vec<i64>) = pairs.into_iter().unzip();
        let layout = if one_node { (1, 2) } else { (2, 1) };
        let parts = with_ways(layout.0, way.0, way.1);
        let expected: Vec<i64> = target.iter().zip(&origin).map(|(target, origin)| target + origin).collect();
        let (found, _) = after((&parts, layout), (Update::Accumulate, Reduction::Sum, Datatype::LongLong), &target, &origin);
        prop_assert_eq!(found, whole(&expected, Datatype::LongLong));
    }

    /// One element: fetch-and-op gives what was there, whoever carries it out.
    #[test]
    fn one_element(target in -1000i64..1000, origin in -1000i64..1000, way in prop::sample::select(WAYS.to_vec()), wide in any::<bool>()) {
        let datatype = if wide { Datatype::LongLong } else { Datatype::Int };
        let parts = with_ways(2, way.0, way.1);
        for reduction in [Reduction::Sum, Reduction::Replace, Reduction::Nothing, Reduction::Max] {
            let (found, _) = after((&parts, (2, 1)), (Update::FetchAndOp, reduction, datatype), &[target], &[origin]);
            prop_assert_eq!(found, whole(&[on_paper(reduction, target, origin)], datatype), "{:?} by {:?}", reduction, way);
        }
    }
}

#[test]
fn accumulates_of_several_origins_lose_nothing() {
    // Three origins add vectors to the same elements, four times each. Accumulates are atomic element by element (MPI 4.1 §12.7.1): element i
    // ends as the sum of 4 · (origin + 10 i) over the origins: 4 · (1 + 2 + 3) + 4 · 3 · 10 i = 24 + 120 i.
    const COUNT: usize = 40;
    for (accumulate, single) in WAYS {
        let notes = Notes::default();
        let found = notes.clone();
        job::ranks(&with_ways(4, accumulate, single), (4, 1), move |rank: Rank| {
            let found = found.clone();
            async move {
                rank.expose(0, 32_768)?;
                let own: Vec<i64> = (0..COUNT as i64).map(|at| i64::from(rank.rank()) + 10 * at).collect();
                rank.store(HERE, &whole(&own, Datatype::LongLong))?;
                rank.synchronise().await?;
                if rank.rank() > 0 {
                    for _ in 0..4 {
                        let size = 8 * COUNT as u32;
                        let (datatype, reduction) = (Datatype::LongLong, Reduction::Sum);
                        let operands = Operands { datatype, reduction, size, here: HERE, result: RESULT, there: THERE, compare: 0 };
                        let fetch = rank.update(Update::Accumulate, 0, operands).await?;
                        rank.fetched(fetch).await?;
                    }
                }
                end(&rank).await?;
                if rank.rank() == 0 {
                    let mut bytes = vec![0; 8 * COUNT];
                    rank.load(THERE, &mut bytes)?;
                    found.add(bytes);
                }
                Ok(())
            }
        })
        .unwrap();
        let expected: Vec<i64> = (0..COUNT as i64).map(|at| 24 + 120 * at).collect();
        assert_eq!(notes.take(), [whole(&expected, Datatype::LongLong)], "{accumulate:?}, {single:?}");
    }
}

#[test]
fn updates_leave_their_neighbours_alone() {
    // The word before and the one behind the elements are 77 and stay 77.
    for (accumulate, single) in WAYS {
        let notes = Notes::default();
        let found = notes.clone();
        job::ranks(&with_ways(2, accumulate, single), (2, 1), move |rank: Rank| {
            let found = found.clone();
            async move {
                rank.expose(0, 32_768)?;
                rank.store(THERE - 8, &whole(&[77, 1, 2, 77], Datatype::LongLong))?;
                rank.store(HERE, &whole(&[100, 100, 100, 100], Datatype::LongLong))?;
                rank.synchronise().await?;
                if rank.rank() == 1 {
                    let (datatype, reduction) = (Datatype::LongLong, Reduction::Sum);
                    let operands = Operands { datatype, reduction, size: 16, here: HERE, result: RESULT, there: THERE, compare: 0 };
                    let fetch = rank.update(Update::Accumulate, 0, operands).await?;
                    rank.fetched(fetch).await?;
                }
                end(&rank).await?;
                if rank.rank() == 0 {
                    let mut bytes = vec![0; 32];
                    rank.load(THERE - 8, &mut bytes)?;
                    found.add(bytes);
                }
                Ok(())
            }
        })
        .unwrap();
        assert_eq!(notes.take(), [whole(&[77, 101, 102, 77], Datatype::LongLong)], "{accumulate:?}, {single:?}");
    }
}
