//! Tag matching between ranks, against a matcher of a dozen lines: which receive takes which message, by the rules of MPI 4.1 §3.5.
//!
//! Every receive has exactly the length of the message that the rules give it, and no two messages are of one length. So if any receive
//! took another message, some message would be longer than its receive, which is an error.

use crate::job;
use crate::machine;
use fabriscope_mpi::Rank;
use fabriscope_node::ProgramError;
use fabriscope_units::Span;
use proptest::prelude::*;

/// A message by the tag it has; its number decides its length.
type Tags = Vec<u32>;
/// What receives accept; nothing is `MPI_ANY_TAG`.
type Patterns = Vec<Option<u32>>;

/// Lengths on both sides of the limits of MVAPICH2 (ring 8 KiB, eager 16,336 B), all different.
fn length(message: usize) -> u32 {
    [8, 9000, 40_000, 600, 17_000, 16_000][message % 6] + message as u32
}

/// The message of each receive, if all messages are there before the first receive is posted: the first one that it accepts of those that
/// are left.
fn unexpected(tags: &Tags, patterns: &Patterns) -> Vec<Option<usize>> {
    let mut left: Vec<usize> = (0..tags.len()).collect();
    let take = |pattern: &Option<u32>, left: &mut Vec<usize>| {
        let at = left.iter().position(|message| pattern.is_none_or(|tag| tag == tags[*message]))?;
        Some(left.remove(at))
    };
    patterns.iter().map(|pattern| take(pattern, &mut left)).collect()
}

/// The message of each receive, if all receives are posted before the first message is sent: each message takes the first receive that
/// accepts it.
fn posted(tags: &Tags, patterns: &Patterns) -> Vec<Option<usize>> {
    let mut of = vec![None; patterns.len()];
    for (message, tag) in tags.iter().enumerate() {
        let free = |at: &usize| of[*at].is_none() && patterns[*at].is_none_or(|wanted| wanted == *tag);
        if let Some(at) = (0..patterns.len()).find(free) {
            of[at] = Some(message);
        }
    }
    of
}

/// Rank 0 sends; rank 1 posts its receives before or after that.
fn exchange(cluster: &str, tags: &Tags, receives: Vec<(Option<u32>, u32)>, first: bool) -> Result<(), String> {
    let (tags, late) = (tags.clone(), Span::from_us(400));
    let program = move |rank: Rank| {
        let (tags, receives) = (tags.clone(), receives.clone());
        async move {
            let (mut requests, begun) = (Vec::new(), rank.now());
            if rank.rank() == 0 {
                if first {
                    rank.sleep_until(begun + late).await;
                }
                for (message, tag) in tags.iter().enumerate() {
                    requests.push(rank.isend(1, *tag, length(message))?);
                }
            } else {
                if !first {
                    rank.sleep_until(begun + late).await;
                }
                for (tag, size) in receives {
                    requests.push(rank.irecv(Some(0), tag, size)?);
                }
            }
            rank.wait_all(requests).await?;
            rank.synchronise().await
        }
    };
    job::ranks(&machine::parts(cluster), (2, 1), program).map(drop)
}

/// Pairs of tags and patterns where every receive finds a message: each pattern is made for one message, and the order is mixed.
fn cases() -> impl Strategy<Value = (Tags, Patterns)> {
    prop::collection::vec((0u32..3, prop::bool::weighted(0.3), 0u32..1000), 1..9).prop_map(|all| {
        let tags = all.iter().map(|(tag, _, _)| *tag).collect();
        let mut patterns: Vec<(u32, Option<u32>)> = all.iter().map(|(tag, any, order)| (*order, (!any).then_some(*tag))).collect();
        patterns.sort_unstable();
        (tags, patterns.into_iter().map(|(_, pattern)| pattern).collect())
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn receives_choose_among_messages_that_wait((tags, patterns) in cases(), cluster in prop::sample::select(vec!["ri2", "lumi-c", "alaska-roce25", "lab-bxi"])) {
        let taken = unexpected(&tags, &patterns);
        // A wildcard may take the message of a receive behind it, which then waits for ever; such cases are no programs.
        prop_assume!(taken.iter().all(Option::is_some));
        let receives = patterns.iter().zip(taken).map(|(pattern, message)| (*pattern, length(message.unwrap()))).collect();
        prop_assert_eq!(exchange(cluster, &tags, receives, false), Ok(()));
    }

    #[test]
    fn messages_choose_among_receives_that_wait((tags, patterns) in cases(), cluster in prop::sample::select(vec!["ri2", "lumi-c", "aws-c5n-efa", "lab-bxi"])) {
        let taken = posted(&tags, &patterns);
        prop_assume!(taken.iter().all(Option::is_some));
        let receives = patterns.iter().zip(taken).map(|(pattern, message)| (*pattern, length(message.unwrap()))).collect();
        prop_assert_eq!(exchange(cluster, &tags, receives, true), Ok(()));
    }
}

#[test]
fn the_check_finds_a_wrong_order() {
    // Messages of 8 and 9001 B with one tag. Receives in that order take them; exchanged, the second message finds 8 B. If this did not
    // fail, the properties above would say nothing.
    let tags = vec![0, 0];
    let right = vec![(Some(0), length(0)), (Some(0), length(1))];
    let wrong: Vec<(Option<u32>, u32)> = right.iter().rev().copied().collect();
    for first in [false, true] {
        assert_eq!(exchange("ri2", &tags, right.clone(), first), Ok(()), "posted first: {first}");
        assert!(exchange("ri2", &tags, wrong.clone(), first).is_err(), "posted first: {first}");
    }
}

#[test]
fn sources_are_kept_apart() {
    // Ranks 1 and 2 send with the same tag; receives that name rank 2 first find its messages although those of rank 1 came before.
    let program = |rank: Rank| async move {
        match rank.rank() {
            0 => {
                rank.sleep_until(rank.now() + Span::from_us(300)).await;
                for (source, size) in [(2, 50_000), (2, 70), (1, 60), (1, 30_000)] {
                    rank.recv(Some(source), Some(4), size).await?;
                }
            }
            1 => {
                let requests = vec![rank.isend(0, 4, 60)?, rank.isend(0, 4, 30_000)?];
                rank.wait_all(requests).await?;
            }
            _ => {
                rank.sleep_until(rank.now() + Span::from_us(50)).await;
                let requests = vec![rank.isend(0, 4, 50_000)?, rank.isend(0, 4, 70)?];
                rank.wait_all(requests).await?;
            }
        }
        Ok::<(), ProgramError>(())
    };
    assert!(job::ranks(&machine::ri2(3, 1), (3, 1), program).is_ok());
    // On one node, through its memory, the same.
    assert!(job::ranks(&machine::ri2(1, 1), (1, 3), program).is_ok());
}

#[test]
fn a_message_as_long_as_its_receive_fits_and_one_byte_more_does_not() {
    // MPI_ERR_TRUNCATE, for each way a message may go: ring, eager send, rendezvous; over the network and within a node.
    for layout in [(2, 1), (1, 2)] {
        for size in [1u32, 100, 8192, 16_336, 16_337, 200_000] {
            for short in [false, true] {
                let played = job::ranks(&machine::ri2(layout.0, 1), layout, move |rank| async move {
                    if rank.rank() == 0 { rank.send(1, 0, size).await } else { rank.recv(None, None, size - u32::from(short)).await }
                });
                assert_eq!(played.is_err(), short, "{size} B on {layout:?}: {:?}", played.err());
            }
        }
    }
}
