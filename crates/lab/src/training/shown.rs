//! A step as people and programs read it.

use fabriscope_report::{Cell, Column, Grid, Outcome};
use fabriscope_training::memory::Memory;
use fabriscope_training::{Layout, Recompute, Schedule, Sharding, Step, shape};
use fabriscope_units::{Bytes, Span};

use super::job::Job;
use super::times::Comparison;

/// A step with its parts.
#[must_use]
pub fn outcome(job: &Job, layout: &Layout, step: &Step, (others, compared): ([Span; 2], Option<Comparison>)) -> Outcome {
    let mut outcome = Outcome::new();
    let model = &job.model.transformer;
    let total = step.parts.total();
    outcome.note(format!("{} on {}: {}", job.model.title, job.parts.name, laid(layout)));
    outcome.note(format!(
        "{:.4} billion parameters; a GPU keeps at most {} of {}: {}",
        shape::parameters(model) as f64 / 1e9,
        gb(step.memory.total()),
        gb(*job.gpu.memory.size),
        by_use(&step.memory)
    ));
    let mut grid = Grid::new([Column::words("part", "part"), Column::number("ms", "ms"), Column::number("%", "percent")]);
    let share = |span| percent(span, total);
    for (name, span) in step.parts.parts().into_iter().filter(|(_, span)| *span > Span::ZERO) {
        grid.push([Cell::word(name), Cell::number(ms(span), 3), Cell::number(share(span), 2)]);
    }
    grid.push([Cell::word("step"), Cell::number(ms(total), 3), Cell::number(100.0, 2)]);
    outcome.keyed_table("parts", grid);
    let rate = achieved(job, layout, total);
    let peak = job.gpu.compute.as_ref().map_or(0.0, |compute| compute.matrix.as_f64());
    let tokens = f64::from(layout.global_batch) * f64::from(model.sequence) / total.as_s_f64();
    outcome.note(format!(
        "{:.1} TFLOP/s for each GPU, {:.1} % of the peak; {:.0} tokens/s, {:.1} for each GPU; exposed communication {:.1} %, bubble {:.1} %",
        rate / 1e12,
        100.0 * rate / peak,
        tokens,
        tokens / layout.gpus() as f64,
        share(step.parts.communication()),
        share(step.parts.bubble)
    ));
    outcome.note(format!("the parts are those of stage {}, which ends last; what is largest: {}", step.stage, largest(step)));
    let [doubled, without] = others.map(|other| change(other, total));
    outcome.note(format!("with a network twice as fast the step takes {doubled:+.2} %, with none between nodes {without:+.2} %"));
    outcome.set("network_doubled_percent", doubled);
    outcome.set("no_network_percent", without);
    if let Some(Comparison { algorithm, ranks, bytes, packets, fluids }) = compared {
        let off = change(fluids, packets);
        outcome.note(format!(
            "groups between nodes are fluids: a {algorithm} all-reduce of {bytes} of {ranks} GPUs on two nodes takes {:.2} ms so, {:.2} ms by packets ({off:+.1} %)",
            ms(fluids),
            ms(packets)
        ));
        outcome.set("fluids_off_percent", off);
    }
    outcome.set("step_s", total.as_s_f64());
    outcome.set("tflops_per_gpu", rate / 1e12);
    outcome.set("tokens_per_s", tokens);
    outcome.set("exposed_percent", share(step.parts.communication()));
    outcome.set("memory_bytes", step.memory.total().0);
    outcome
}

/// Operations per second of each GPU as publications count them.
#[must_use]
pub fn achieved(job: &Job, layout: &Layout, total: Span) -> f64 {
    let again = layout.recompute == Recompute::Full;
    let operations = shape::operations(&job.model.transformer, u64::from(layout.global_batch), again);
    operations / total.as_s_f64() / layout.gpus() as f64
}

fn largest(step: &Step) -> &'static str {
    step.parts.parts().into_iter().max_by_key(|(_, span)| *span).map_or("nothing", |(name, _)| name)
}

/// A layout in a line.
#[must_use]
pub fn laid(layout: &Layout) -> String {
    let mut words = vec![format!("tp {} pp {} dp {}", layout.tensor, layout.pipeline, layout.data)];
    let mut add = |wanted: bool, word: String| {
        if wanted {
            words.push(word);
        }
    };
    add(layout.context > 1, format!("cp {}", layout.context));
    add(layout.expert > 1, format!("ep {}", layout.expert));
    add(layout.interleave > 1, format!("{} parts a stage", layout.interleave));
    add(layout.sequence_parallel, "sequence parallel".to_owned());
    add(layout.schedule == Schedule::GPipe, "GPipe".to_owned());
    add(layout.schedule == Schedule::ZeroBubble, "zero bubble".to_owned());
    add(layout.recompute == Recompute::Full, "all computed again".to_owned());
    add(layout.recompute == Recompute::Selective, "attention computed again".to_owned());
    let shared = match layout.sharding {
        Sharding::None => "",
        Sharding::Optimizer => "optimizer shared",
        Sharding::Gradients => "optimizer and gradients shared",
        Sharding::Parameters => "parameters shared",
    };
    add(!shared.is_empty(), shared.to_owned());
    if let Some(ranks) = layout.shard {
        add(true, format!("among {ranks} each"));
    }
    add(layout.sharding == Sharding::Parameters && layout.prefetch != 1, format!("gathered {} layers ahead", layout.prefetch));
    add(true, format!("{} micro-batches of {} a copy", layout.micro_batches(), layout.micro_batch));
    words.join(", ")
}

/// What memory is for.
pub(super) fn by_use(memory: &Memory) -> String {
    let Memory { parameters, gradients, optimizer, activations, gathered } = *memory;
    let more = if gathered > Bytes::ZERO { format!(", layers gathered {}", gb(gathered)) } else { String::new() };
    let [parameters, gradients, optimizer, activations] = [parameters, gradients, optimizer, activations].map(gb);
    format!("parameters {parameters}, gradients {gradients}, optimizer {optimizer}, activations {activations}{more}")
}

/// Bytes in GB.
#[must_use]
pub fn gb(bytes: Bytes) -> String {
    format!("{:.1} GB", bytes.0 as f64 / 1e9)
}

/// A part of a step.
#[must_use]
pub fn percent(span: Span, total: Span) -> f64 {
    100.0 * span.as_s_f64() / total.as_s_f64().max(f64::MIN_POSITIVE)
}

/// What `span` is longer than `from`, in percent.
#[must_use]
pub fn change(span: Span, from: Span) -> f64 {
    100.0 * (span.as_s_f64() / from.as_s_f64().max(f64::MIN_POSITIVE) - 1.0)
}

/// A time in milliseconds.
#[must_use]
pub fn ms(span: Span) -> f64 {
    span.as_us_f64() / 1000.0
}
