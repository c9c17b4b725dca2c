//! A message of any size is split over channels, chunks and slices without a gap.

use std::sync::LazyLock;

use fabriscope_units::{Bytes, Span};
use proptest::prelude::*;

use super::Plan;
use super::proof::communicator;
use crate::algorithm::{Algorithm, Operation, Protocol};
use crate::communicator::Communicator;
use crate::settings::Settings;
use crate::tuner::Choice;

/// Four GPUs of a node, and of each of two: what is searched once for all cases.
static ONE_NODE: LazyLock<Communicator> = LazyLock::new(|| communicator(1, 4, Settings::default()));
static TWO_NODES: LazyLock<Communicator> = LazyLock::new(|| communicator(2, 4, Settings::default()));

fn choice() -> impl Strategy<Value = Choice> {
    let operation = prop::sample::select(Operation::ALL.to_vec());
    let protocol = prop::sample::select(Protocol::ALL.to_vec());
    (operation, protocol, 1u32..=24, any::<bool>()).prop_map(|(operation, protocol, channels, tree)| {
        let algorithm = if tree && operation == Operation::AllReduce { Algorithm::Tree } else { Algorithm::Ring };
        Choice { operation, algorithm, protocol, channels, threads: 512, estimate: Span::ZERO }
    })
}

proptest! {
    #[test]
    fn parts_and_slices_cover_a_message(choice in choice(), count in 1u64..(1 << 28), element in prop::sample::select(vec![1u64, 2, 4, 8])) {
        let communicator = &*ONE_NODE;
        let plan = Plan::new(communicator, choice, count, Bytes(element), 0, false).unwrap();
        let mut at = 0;
        let mut before = None;
        for part in &plan.parts {
            prop_assert_eq!(part.offset.0, at);
            prop_assert!(part.bytes.0 > 0 && part.channel < communicator.channels());
            prop_assert!(before.is_none_or(|before| part.channel > before), "each channel once");
            prop_assert_eq!(part.chunk.0 % choice.protocol.grain(), 0);
            let room = plan.slot.0 * u64::from(plan.chunk_slots);
            prop_assert!(choice.protocol.wire(part.chunk).0 <= room, "a chunk fits its slots");
            at += part.bytes.0;
            before = Some(part.channel);
            for bytes in [0, 1, part.chunk.0 / 3, part.chunk.0] {
                let mut within = 0;
                for slice in plan.slices(Bytes(bytes)) {
                    prop_assert_eq!(slice.offset.0, within);
                    prop_assert!(slice.bytes.0 <= plan.slot.0 * u64::from(slice.slots));
                    within += slice.bytes.0;
                }
                prop_assert_eq!(within, bytes);
            }
        }
        prop_assert_eq!(at, plan.block.0);
    }
    /// Of a plan with fewer loops every lane has the first steps and what is left over at the end, and meets the same peers.
    #[test]
    fn a_plan_with_fewer_loops_keeps_chunks_and_what_is_left_over(choice in choice(), count in 1u64..(1 << 26), kept in 0u64..5) {
        let communicator = &*TWO_NODES;
        let plan = Plan::new(communicator, choice, count, Bytes(4), 0, false).unwrap();
        let loops = plan.loops(communicator);
        let short = plan.with_loops(communicator, kept);
        prop_assert_eq!(short.loops(communicator), loops.min(kept));
        prop_assert_eq!(&plan.with_loops(communicator, loops), &plan);
        for (part, cut) in plan.parts.iter().zip(&short.parts) {
            prop_assert_eq!((part.channel, part.offset, part.chunk), (cut.channel, cut.offset, cut.chunk));
            for (long, lane) in plan.lanes(communicator, 3, part).iter().zip(&short.lanes(communicator, 3, cut)) {
                prop_assert_eq!(long.steps() - lane.steps(), loops.saturating_sub(kept) * long.course().steps_of_loop());
                let sizes = |lane: &super::Lane<'_>, from: u64| (from..lane.steps()).map(|step| lane.step(step).bytes).collect::<Vec<_>>();
                let left = lane.steps() % long.course().steps_of_loop().max(1);
                let tail = lane.steps() - left;
                prop_assert_eq!(sizes(lane, tail), sizes(long, long.steps() - left));
                if loops.min(kept) > 0 {
                    prop_assert_eq!(lane.course().peers(), long.course().peers());
                }
            }
        }
    }
}
