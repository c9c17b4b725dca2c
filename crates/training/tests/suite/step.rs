//! A step adds up, and its parts are those of the formulas, with messages whose times are plain.

use fabriscope_catalog::{Catalog, Model, Transformer};
use fabriscope_training::memory::memory;
use fabriscope_training::roofline::{Kernel, Roofline};
use fabriscope_training::{Attention, Layout, LayoutError, Operation, Precision, Recompute, Schedule, Sharding, shape, step};
use fabriscope_units::{Bytes, Rate, Span};

use crate::plain::Plain;

fn catalog() -> Catalog {
    Catalog::embedded().unwrap()
}

fn model(name: &str) -> Transformer {
    Model::clone(catalog().model(name).unwrap()).transformer.unwrap()
}

fn a100() -> Roofline {
    Roofline::of(catalog().gpu("a100-sxm4-80").unwrap()).unwrap()
}

/// Parameters in 10⁹, and what the source of the part says.
#[test]
fn models_have_the_parameters_that_are_published() {
    let published = [
        ("gpt-1.7b", 1.7),
        ("gpt-3.6b", 3.6),
        ("gpt-7.5b", 7.5),
        ("gpt-18b", 18.4),
        ("gpt-39b", 39.1),
        ("gpt-76b", 76.1),
        ("gpt-145b", 145.6),
        ("gpt-310b", 310.1),
        ("gpt-530b", 529.6),
        ("gpt-1t", 1008.0),
        ("gpt3-13b", 13.0),
        ("gpt3-175b", 174.6),
        ("llama2-70b", 69.0),
        ("llama3-8b", 8.03),
        ("llama3-70b", 70.6),
        ("llama3-405b", 405.9),
        ("mixtral-8x7b", 46.7),
        ("deepseek-v3", 671.0),
        ("mpt-7b", 6.6589),
        ("mpt-30b", 29.9752),
        ("mpt-70b", 64.8624),
    ];
    for (name, billions) in published {
        let counted = shape::parameters(&model(name)) as f64 / 1e9;
        assert!((counted / billions - 1.0).abs() < 0.03, "{name}: {counted:.3} for {billions}");
    }
}

/// `96 B s l h² (1 + s / 6h + V / 16lh)`, of Narayanan et al., §5.1, with the biases and norms that it leaves out.
#[test]
fn operations_are_those_of_the_formula() {
    for name in ["gpt-1.7b", "gpt-39b", "gpt-1t"] {
        let of = model(name);
        let [s, l, h, v] = [of.sequence, of.layers, of.hidden, of.vocabulary].map(f64::from);
        let formula = 96.0 * 512.0 * s * l * h * h * (1.0 + s / (6.0 * h) + v / (16.0 * l * h));
        let counted = shape::operations(&of, 512, true);
        assert!((counted / formula - 1.0).abs() < 0.001, "{name}: {counted:e} for {formula:e}");
    }
}

/// 8192³ on 108 processors: 32 · 64 tiles of 256 × 128 in 19 waves of 108; each 2 · 256 · 128 · 8192 operations at 1/108 of 77 % of 312
/// TFLOP/s and a tile of 64 KiB to memory at 1/108 of its rate.
#[test]
fn a_multiplication_takes_its_waves() {
    let kernel = Kernel::Matrix { m: 8192, n: 8192, k: 8192, batch: 1, precision: Precision::Bits16 };
    let time = a100().time(&kernel);
    let summing = 19.0 * 2.0 * 256.0 * 128.0 * 8192.0 * 108.0 / (0.77 * 312e12);
    let gpu = catalog();
    let gpu = gpu.gpu("a100-sxm4-80").unwrap();
    let writing = 19.0 * 108.0 * 65536.0 / gpu.memory.copy_rate().as_bytes_per_s_f64();
    let expected = summing + writing + 3e-6;
    assert!((time.as_s_f64() / expected - 1.0).abs() < 1e-3, "{time} for {expected}");
}

/// Every layout's parts add up to the end of the stage that ends last, to the picosecond.
#[test]
fn parts_add_up() {
    let base = Layout { tensor: 4, pipeline: 4, data: 4, global_batch: 64, sharding: Sharding::Optimizer, ..Layout::default() };
    let layouts = [
        base.clone(),
        Layout { interleave: 2, ..base.clone() },
        Layout { schedule: Schedule::GPipe, overlap_pipeline: true, ..base.clone() },
        Layout { schedule: Schedule::ZeroBubble, ..base.clone() },
        Layout { recompute: Recompute::Full, attention: Attention::Unfused, overlap_gradients: false, ..base.clone() },
        Layout { sequence_parallel: true, overlap_tensor: true, context: 2, ..base.clone() },
        Layout { sharding: Sharding::Parameters, pipeline: 1, ..base.clone() },
    ];
    for layout in layouts {
        let made = step(&model("llama3-8b"), &layout, &a100(), &mut Plain { rate: Rate::from_gbps(800), processors: 16 }).unwrap();
        let line = &made.lines[made.stage as usize];
        let behind = made.parts.total().saturating_sub(line.end.since(fabriscope_units::Time::ZERO));
        let exchanged = made.parts.data + made.parts.slowed + made.parts.optimizer;
        assert!(behind <= exchanged, "{layout:?}");
        let passes = made.parts.matrix + made.parts.attention + made.parts.memory + made.parts.bubble;
        assert!(passes <= line.end.since(fabriscope_units::Time::ZERO), "{layout:?}");
        assert_eq!(made.parts.parts().into_iter().map(|(_, span)| span).sum::<Span>(), made.parts.total());
    }
}

/// 126 layers with embedding and output are 128; all layers are somewhere, none of the parts is empty.
#[test]
fn layers_that_do_not_come_out_even_make_room_at_the_ends() {
    let of = |name: &str, pipeline, interleave| Layout { pipeline, interleave, ..Layout::default() }.layers_of_parts(&model(name));
    assert_eq!(of("llama3-405b", 8, 1), [15, 16, 16, 16, 16, 16, 16, 15]);
    assert_eq!(of("llama3-405b", 4, 2), of("llama3-405b", 8, 1));
    assert_eq!(of("gpt-1t", 64, 2), [1; 128]);
    for (name, pipeline, interleave) in [("deepseek-v3", 16, 1), ("deepseek-v3", 4, 4), ("deepseek-v3", 61, 1), ("llama3-8b", 5, 3)] {
        let parts = of(name, pipeline, interleave);
        assert_eq!(parts.iter().sum::<u32>(), model(name).layers, "{name} {parts:?}");
        assert!(parts.iter().all(|layers| *layers > 0), "{name} {parts:?}");
    }
}

/// Zero bubble waits less than 1F1B, 1F1B as long as GPipe; interleaved stages wait about a v-th.
#[test]
fn schedules_wait_as_they_should() {
    let bubble = |schedule, interleave| {
        let layout = Layout { pipeline: 8, global_batch: 16, schedule, interleave, overlap_pipeline: true, ..Layout::default() };
        let made = step(&model("gpt3-175b"), &layout, &a100(), &mut Plain { rate: Rate::from_gbps(100_000), processors: 16 }).unwrap();
        made.parts.bubble.as_s_f64()
    };
    let plain = bubble(Schedule::OneForwardOneBackward, 1);
    assert!((bubble(Schedule::GPipe, 1) / plain - 1.0).abs() < 0.1);
    assert!(bubble(Schedule::ZeroBubble, 1) < 0.8 * plain);
    assert!(bubble(Schedule::OneForwardOneBackward, 4) < 0.6 * plain);
}

/// 16 bytes of a parameter and gradient in 16 bits (Rajbhandari et al., §3.1: 2 + 2 + 12), a share of them with ZeRO.
#[test]
fn zero_shares_its_states() {
    let of = model("gpt-7.5b");
    let parameters = shape::parameters(&of) as f64;
    let kept = |sharding| {
        let layout = Layout { data: 64, global_batch: 64, wide_gradients: false, sharding, ..Layout::default() };
        let memory = memory(&of, &layout);
        (memory.parameters + memory.gradients + memory.optimizer).0 as f64 / parameters
    };
    let expected = [
        (Sharding::None, 16.0),
        (Sharding::Optimizer, 4.0 + 12.0 / 64.0),
        (Sharding::Gradients, 2.0 + 14.0 / 64.0),
        (Sharding::Parameters, 16.0 / 64.0),
    ];
    for (sharding, bytes) in expected {
        assert!((kept(sharding) / bytes - 1.0).abs() < 0.001, "{sharding:?}: {} for {bytes}", kept(sharding));
    }
}

#[test]
fn what_does_not_divide_is_told() {
    let of = model("llama3-8b");
    let told = |layout: Layout| layout.check(&of).unwrap_err();
    let layout = || Layout { global_batch: 8, ..Layout::default() };
    assert_eq!(told(Layout { tensor: 5, ..layout() }).to_string(), "5 tensor-parallel GPUs do not divide 32 heads of attention");
    assert_eq!(
        told(Layout { pipeline: 64, ..layout() }).to_string(),
        "64 parts of the pipeline for 34 layers, embedding and output among them"
    );
    assert_eq!(told(Layout { data: 3, ..layout() }).to_string(), "3 copies do not divide 8 sequences of a step");
    assert_eq!(told(Layout { expert: 2, ..layout() }), LayoutError::NoExperts { expert: 2 });
    let interleaved = Layout { pipeline: 4, interleave: 2, global_batch: 6, ..layout() };
    assert_eq!(told(interleaved), LayoutError::Interleaved { micro_batches: 6, stages: 4 });
}

/// Experts: what leaves a rank is each token's copies, as many as experts it takes.
#[test]
fn tokens_go_to_their_experts() {
    let of = model("deepseek-v3");
    let layout = Layout { data: 64, expert: 64, global_batch: 64, ..Layout::default() };
    let work = fabriscope_training::layer::forward(&of, &layout, true);
    let sent: Vec<Bytes> = work
        .iter()
        .filter_map(|each| match each {
            fabriscope_training::layer::Work::Together(_, Operation::AllToAll, bytes) => Some(*bytes),
            _ => None,
        })
        .collect();
    assert_eq!(sent, [Bytes(4096 * 8 * 7168 * 2); 2]);
}
