//! The operations of each stage compute what the time line does, send what others receive, and exchange all gradients.

use std::collections::BTreeMap;

use fabriscope_catalog::{Catalog, Model, Transformer};
use fabriscope_training::operations::{Action, Neighbour, Task, Use, operations};
use fabriscope_training::roofline::Roofline;
use fabriscope_training::{Layout, Operation, Recompute, Schedule, Sharding, step};
use fabriscope_units::{Bytes, Rate, Span};

use crate::plain::Plain;

const RATE: Rate = Rate::from_gbps(1600);

fn model(name: &str) -> Transformer {
    Model::clone(Catalog::embedded().unwrap().model(name).unwrap()).transformer.unwrap()
}

fn gpu() -> Roofline {
    Roofline::of(Catalog::embedded().unwrap().gpu("a100-sxm4-80").unwrap()).unwrap()
}

fn stages(model: &Transformer, layout: &Layout, inside: bool) -> Vec<Vec<Task>> {
    operations(model, layout, &gpu(), &mut Plain { rate: RATE, processors: 0 }, &|_| inside).unwrap()
}

fn layouts() -> Vec<(&'static str, Layout)> {
    let tensor = Layout { tensor: 4, pipeline: 4, global_batch: 8, sequence_parallel: true, ..Layout::default() };
    vec![
        ("gpt-7.5b", tensor.clone()),
        ("gpt-7.5b", Layout { recompute: Recompute::Full, schedule: Schedule::GPipe, sequence_parallel: false, ..tensor.clone() }),
        ("gpt-7.5b", Layout { interleave: 3, overlap_pipeline: true, ..tensor.clone() }),
        ("gpt-7.5b", Layout { schedule: Schedule::ZeroBubble, ..tensor.clone() }),
        ("llama3-8b", Layout { context: 2, pipeline: 2, global_batch: 4, ..Layout::default() }),
        (
            "mixtral-8x7b",
            Layout { tensor: 2, pipeline: 4, data: 2, expert: 2, global_batch: 16, sequence_parallel: true, ..Layout::default() },
        ),
    ]
}

/// What the time line has as computing and groups of the stage that ends last is what its kernels take when groups are but times; and when
/// they are operations, those take the rest.
#[test]
fn kernels_are_those_of_the_time_line() {
    for (name, layout) in layouts() {
        let model = model(name);
        let step = step(&model, &layout, &gpu(), &mut Plain { rate: RATE, processors: 0 }).unwrap();
        let parts = step.parts;
        // Without sequences that are shared, each message that comes is gathered.
        let passes = u64::from(layout.micro_batches() * layout.interleave);
        let gathers = if layout.sequence_parallel || layout.tensor == 1 {
            0
        } else {
            // The first stage gets gradients, the last one activations, others both.
            passes * if step.stage == 0 || step.stage + 1 == layout.pipeline { 1 } else { 2 }
        };
        let tokens = u64::from(layout.micro_batch * model.sequence / layout.context);
        let gathered = RATE.time(Bytes(tokens * u64::from(model.hidden) * 2)) * gathers;
        let expected = parts.matrix + parts.attention + parts.memory + parts.tensor + parts.context + parts.expert + gathered;
        let computed = |tasks: &[Task]| -> Span {
            let of = |task: &Task| match task.action {
                Action::Compute(span) if task.part == Use::Computing => span,
                _ => Span::ZERO,
            };
            tasks.iter().map(of).sum()
        };
        let inside = stages(&model, &layout, true);
        assert_eq!(computed(&inside[step.stage as usize]), expected, "{name} {layout:?}");
        if layout.context > 1 {
            // What hides behind attention is no sum.
            continue;
        }
        let outside = stages(&model, &layout, false);
        let together: Span = outside[step.stage as usize]
            .iter()
            .filter(|task| matches!(task.part, Use::Tensor | Use::Expert))
            .map(|task| if let Action::Together(_, bytes, _) = task.action { RATE.time(bytes) } else { Span::ZERO })
            .sum();
        assert_eq!(computed(&outside[step.stage as usize]) + together, expected, "{name} {layout:?}");
    }
}

#[test]
fn what_a_stage_sends_its_neighbour_receives() {
    for (name, layout) in layouts() {
        let all = stages(&model(name), &layout, true);
        let count = all.len() as u32;
        let mut open: BTreeMap<(u32, u32, u32), i64> = BTreeMap::new();
        for (stage, tasks) in (0..count).zip(&all) {
            let of = |neighbour| if neighbour == Neighbour::Next { (stage + 1) % count } else { (stage + count - 1) % count };
            for task in tasks {
                match task.action {
                    Action::Send(to, _, number) => *open.entry((stage, of(to), number)).or_default() += 1,
                    Action::Receive(from, _, number) => *open.entry((of(from), stage, number)).or_default() -= 1,
                    _ => {}
                }
                assert!(task.after.iter().all(|before| (*before as usize) < tasks.len()), "{name}: waits for what is there");
            }
        }
        assert!(open.values().all(|left| *left == 0), "{name}: {open:?}");
        let passes = u64::from(layout.micro_batches() * (layout.pipeline * layout.interleave - 1));
        assert_eq!(open.len() as u64, 2 * passes, "{name}: a message each way between two parts for each micro-batch");
    }
}

/// Gradients of 4 bytes, and parameters of 2, of all that a rank has: layer by layer, no bytes lost but those of the division.
#[test]
fn copies_exchange_all_gradients_and_parameters() {
    let model = model("gpt-7.5b");
    for sharding in [Sharding::None, Sharding::Optimizer, Sharding::Parameters] {
        for overlap_gradients in [false, true] {
            let layout = Layout { tensor: 2, data: 4, global_batch: 8, sharding, overlap_gradients, ..Layout::default() };
            let (common, _) = fabriscope_training::memory::parameters_of_rank(&model, &layout);
            let tasks = &stages(&model, &layout, true)[0];
            let moved = |wanted: Operation| -> f64 {
                let of = |task: &Task| match task.action {
                    Action::Together(operation, bytes, _) if task.part == Use::Data && operation == wanted => bytes.0 as f64,
                    _ => 0.0,
                };
                tasks.iter().map(of).sum()
            };
            let close = |moved: f64, expected: f64| (moved / expected - 1.0).abs() < 1e-3;
            match sharding {
                Sharding::None => assert!(close(moved(Operation::AllReduce), 4.0 * common as f64), "{overlap_gradients}"),
                Sharding::Parameters => {
                    // Each layer forward and backward, in both of the two micro-batches.
                    let layers = u64::from(model.layers) * fabriscope_training::shape::layer_parameters(&model, false) / 2;
                    assert!(close(moved(Operation::AllGather), 2.0 * 2.0 * 2.0 * layers as f64), "{overlap_gradients}");
                }
                _ => {
                    assert!(close(moved(Operation::ReduceScatter), 4.0 * common as f64), "{overlap_gradients}");
                    assert!(close(moved(Operation::AllGather), 2.0 * common as f64), "{overlap_gradients}");
                }
            }
        }
    }
}
