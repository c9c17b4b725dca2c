//! What a step is made of adds up to it; uneven ranks wait as order statistics say; shares of some ranks; memory by stage.

use std::collections::BTreeMap;

use fabriscope_catalog::{Catalog, Model, Transformer};
use fabriscope_training::account::account;
use fabriscope_training::memory::{fullest, memory, of_stage};
use fabriscope_training::roofline::Roofline;
use fabriscope_training::stragglers::{Unevenness, steps};
use fabriscope_training::{Attention, Group, Layout, Operation, Recompute, Schedule, Sharding, Step, step};
use fabriscope_units::{Bytes, Rate, Span};

use crate::plain::Plain;

fn model(name: &str) -> Transformer {
    Model::clone(Catalog::embedded().unwrap().model(name).unwrap()).transformer.unwrap()
}

fn a100() -> Roofline {
    Roofline::of(Catalog::embedded().unwrap().gpu("a100-sxm4-80").unwrap()).unwrap()
}

fn made(name: &str, layout: &Layout, gbps: u64) -> Step {
    step(&model(name), layout, &a100(), &mut Plain { rate: Rate::from_gbps(gbps), processors: 16 }).unwrap()
}

/// To the picosecond, with everything that layouts can have.
#[test]
fn what_a_step_is_made_of_adds_up() {
    let base = Layout { tensor: 4, pipeline: 4, data: 4, global_batch: 64, sharding: Sharding::Optimizer, ..Layout::default() };
    let experts = Layout { data: 16, expert: 8, tensor: 2, pipeline: 2, global_batch: 64, ..Layout::default() };
    let cases = [
        ("llama3-8b", base.clone()),
        ("llama3-8b", Layout { interleave: 2, ..base.clone() }),
        ("llama3-8b", Layout { schedule: Schedule::GPipe, overlap_pipeline: true, ..base.clone() }),
        ("llama3-8b", Layout { schedule: Schedule::ZeroBubble, ..base.clone() }),
        ("llama3-8b", Layout { recompute: Recompute::Full, attention: Attention::Unfused, overlap_gradients: false, ..base.clone() }),
        ("llama3-8b", Layout { sequence_parallel: true, overlap_tensor: true, context: 2, ..base.clone() }),
        ("llama3-8b", Layout { sharding: Sharding::Parameters, pipeline: 1, ..base.clone() }),
        ("llama3-8b", Layout { sharding: Sharding::Parameters, pipeline: 1, shard: Some(2), prefetch: 0, ..base.clone() }),
        ("gpt-1.7b", Layout { pipeline: 3, ..base.clone() }),
        ("mixtral-8x7b", experts.clone()),
        ("mixtral-8x7b", Layout { sharding: Sharding::Parameters, recompute: Recompute::Full, ..experts }),
    ];
    for (name, layout) in cases {
        // A slow network, so that much is exposed.
        let (made, mut plain) = (made(name, &layout, 50), Plain { rate: Rate::from_gbps(50), processors: 16 });
        let told = account(&made, &layout, &a100(), &mut plain).unwrap();
        assert_eq!(told.total(), made.parts.total(), "{name} {layout:?}");
        let exposed: Span = told.operations.iter().map(|row| row.exposed).sum();
        assert_eq!(exposed + told.slowed, made.parts.communication(), "{name} {layout:?}");
        assert!(told.operations.iter().all(|row| row.exposed <= row.total), "{name} {layout:?}: {:?}", told.operations);
        for row in &told.kernels {
            assert_eq!(row.ideal + row.waves + row.gaps, row.total, "{row:?}");
        }
    }
}

fn uneven(made: &Step, layout: &Layout, share: f64, steps_: u32) -> fabriscope_training::stragglers::Uneven {
    steps(made, layout, &Unevenness { share, steps: steps_, seed: 7, ..Unevenness::default() })
}

#[test]
fn even_ranks_take_the_step_itself() {
    for layout in [
        Layout { tensor: 2, pipeline: 4, data: 2, global_batch: 16, ..Layout::default() },
        Layout { data: 8, global_batch: 16, sharding: Sharding::Parameters, ..Layout::default() },
        Layout { pipeline: 4, data: 2, global_batch: 16, schedule: Schedule::ZeroBubble, ..Layout::default() },
    ] {
        let made = made("llama3-8b", &layout, 800);
        let found = uneven(&made, &layout, 0.0, 3);
        assert_eq!(found.steps, [made.parts.total(); 3], "{layout:?}");
        assert_eq!((found.alone, found.in_groups), (made.parts.total(), made.parts.total()));
    }
}

/// The expected maximum of n exponentials of mean 1 is H(n) = 1 + 1/2 + … + 1/n: a tensor group of 8 computes longer by
/// 2.717857 times the share, where a rank alone computes longer by the share.
#[test]
fn a_tensor_group_waits_for_the_largest_of_exponentials() {
    let layout = Layout { tensor: 8, global_batch: 16, overlap_gradients: false, ..Layout::default() };
    let made = made("llama3-8b", &layout, 800);
    let found = uneven(&made, &layout, 0.02, 400);
    let computing = (made.parts.matrix + made.parts.attention + made.parts.memory).as_s_f64();
    let longer = |span: Span| (span.as_s_f64() - made.parts.total().as_s_f64()) / computing;
    let harmonic: f64 = (1..=8).map(|rank| 1.0 / f64::from(rank)).sum();
    // 400 steps of 32 passes: the maximum of a pass spreads by √(Σ 1/k²) = 1.24 shares, the mean of all by 1 % of that.
    assert!((longer(found.mean()) / (0.02 * harmonic) - 1.0).abs() < 0.02, "{}", longer(found.mean()) / 0.02);
    assert!((longer(found.alone) / 0.02 - 1.0).abs() < 0.02, "{}", longer(found.alone) / 0.02);
}

/// Four copies of 64 micro-batches: the sum of 128 exponentials is nearly normal, and the expected maximum of four normals is 1.02938 of
/// their deviation above the mean: share · √(64 (f² + b²)).
#[test]
fn copies_wait_for_the_largest_of_normals() {
    let layout = Layout { data: 4, global_batch: 256, overlap_gradients: false, ..Layout::default() };
    let made = made("llama3-8b", &layout, 800);
    let [forward, backward] = [true, false].map(|forward| {
        let passes = made.lines[0].passes.iter().filter(|timed| timed.pass.forward == forward);
        passes.map(|timed| timed.to.since(timed.from).as_s_f64()).next().unwrap()
    });
    let share = 0.1;
    let deviation = share * (64.0 * (forward * forward + backward * backward)).sqrt();
    let found = uneven(&made, &layout, share, 600);
    let above = (found.mean().as_s_f64() - found.in_groups.as_s_f64()) / deviation;
    // Of 600 steps the mean of the maximum, which spreads by 0.70, is known to 0.03; the sum is a little skewed.
    assert!((above - 1.029_38).abs() < 0.09, "{above}");
    assert_eq!(found.in_groups, found.alone, "nobody waits within a group of one");
    assert!(found.percentile(50) <= found.mean() + Span::from_us(1000) && found.percentile(99) > found.mean());
}

/// A rank that takes half as long again holds up its tensor group, its pipeline and all copies: without a pipeline the step is longer by half
/// of what it computes; in a pipeline of many micro-batches by nearly that, where it is at the stage that has most to do, the last.
#[test]
fn one_slow_rank_holds_up_all() {
    let slow = Unevenness { slow: BTreeMap::from([(5, 1.5)]), steps: 1, ..Unevenness::default() };
    let layout = Layout { tensor: 2, data: 4, global_batch: 16, overlap_gradients: false, ..Layout::default() };
    let of = made("llama3-8b", &layout, 800);
    let found = steps(&of, &layout, &slow);
    let computing = of.parts.matrix + of.parts.attention + of.parts.memory;
    let longer = found.mean().saturating_sub(of.parts.total()).as_s_f64() / computing.as_s_f64();
    assert!((longer - 0.5).abs() < 1e-6, "{longer}");
    // The others of its copy and the other copies wait for it: a quarter of the copies, one of two ranks.
    let alone = found.alone.saturating_sub(of.parts.total()).as_s_f64() / computing.as_s_f64();
    assert!((alone - 0.5 / 8.0).abs() < 1e-6, "{alone}");
    let piped = Layout { pipeline: 4, global_batch: 256, ..layout };
    let of = made("llama3-8b", &piped, 100_000);
    let found = steps(&of, &piped, &Unevenness { slow: BTreeMap::from([(25, 1.5)]), ..slow });
    let ratio = found.mean().as_s_f64() / of.parts.total().as_s_f64();
    assert!((1.4..1.5).contains(&ratio), "{ratio}");
}

/// The same seed gives the same steps, another one others.
#[test]
fn seeds_decide() {
    let layout = Layout { tensor: 2, pipeline: 2, data: 2, global_batch: 8, ..Layout::default() };
    let made = made("llama3-8b", &layout, 800);
    let with = |seed| steps(&made, &layout, &Unevenness { share: 0.05, steps: 4, seed, ..Unevenness::default() }).steps;
    assert_eq!(with(1), with(1));
    assert_ne!(with(1), with(2));
}

/// Sharing among 8 of 64: parameters and optimizer are those of 8, and the sum over the copies of a share is an eighth of the bytes.
#[test]
fn shares_of_some_ranks_have_copies() {
    let all = Layout { data: 64, global_batch: 64, sharding: Sharding::Parameters, ..Layout::default() };
    let some = Layout { shard: Some(8), ..all.clone() };
    let of = model("llama3-8b");
    assert_eq!(memory(&of, &some).parameters, memory(&of, &Layout { data: 8, global_batch: 8, ..all.clone() }).parameters);
    let made = made("llama3-8b", &some, 800);
    let (gather, scatter) = (made.pieces.plain.gather.unwrap(), &made.pieces.plain.scatter);
    assert_eq!(gather.group, Group { size: 8, stride: 1 });
    let summed = scatter[1];
    assert_eq!((summed.operation, summed.group), (Operation::AllReduce, Group { size: 8, stride: 8 }));
    assert_eq!(summed.bytes.0, gather.bytes.0 / 8);
    let told = Layout { shard: Some(7), ..all.clone() }.check(&of).unwrap_err().to_string();
    assert_eq!(told, "7 ranks of a share do not divide 64 ranks of copies");
    assert!(Layout { sharding: Sharding::None, ..some }.check(&of).is_err());
}

/// The first stage has the embedding and as many micro-batches in flight as there are stages, the last the output and one.
#[test]
fn stages_keep_what_is_theirs() {
    let of = model("llama3-70b");
    let layout = Layout { tensor: 8, pipeline: 4, data: 1, global_batch: 16, sequence_parallel: true, ..Layout::default() };
    let kept: Vec<_> = (0..4).map(|stage| of_stage(&of, &layout, stage)).collect();
    assert_eq!(kept.iter().map(|stage| stage.in_flight).collect::<Vec<_>>(), [4, 3, 2, 1]);
    assert!(kept[0].parameters > kept[1].parameters && kept[3].parameters > kept[2].parameters);
    assert!(kept[3].output > Bytes::ZERO && kept[0].output == Bytes::ZERO);
    let all: u64 = kept.iter().map(|stage| stage.parameters).sum();
    let counted = fabriscope_training::shape::parameters(&of) / 8;
    assert!((all as f64 / counted as f64 - 1.0).abs() < 1e-4, "{all} for {counted}");
    assert_eq!(fullest(&of, &layout).stage, 0);
}
