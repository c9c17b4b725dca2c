//! The layouts of a model over all GPUs of a cluster, the best first.
//!
//! Modelled: tensor parallelism within a node, stages that divide the layers, one to four parts of a stage, micro-batches of 1 to 8
//! sequences, recomputation of nothing, of attention or of all, the optimizer shared among copies.
//! Not modelled: layouts that GPUs have no memory for; they are counted.

use fabriscope_catalog::Catalog;
use fabriscope_report::{Cell, Column, Grid, Outcome};
use fabriscope_training::memory::memory;
use fabriscope_training::{Attention, Layout, Recompute, Sharding, Step};
use fabriscope_units::Span;

use crate::error::Error;
use fabriscope_lab::training::job::{Job, gpus_of, made};
use fabriscope_lab::training::shown::{achieved, gb, laid, ms, percent};
use fabriscope_lab::training::times::ClusterTimes;

/// Layouts with their steps, the best first.
pub(super) struct Ranked {
    /// Those that GPUs have memory for. Of the steps only parts and memory are kept.
    pub ranked: Vec<(Layout, Step)>,
    /// How many there are with the others.
    pub all: usize,
}

/// The layouts of a job on so many GPUs that fit, ranked.
pub(super) fn ranked(catalog: &Catalog, job: &Job, given: &Layout, gpus: u32, heard: &dyn Fn(usize, usize)) -> Result<Ranked, Error> {
    let all = layouts(job, given, gpus);
    let room = *job.gpu.memory.size;
    let kept: Vec<Layout> = all.iter().filter(|layout| memory(&job.model.transformer, layout).total() <= room).cloned().collect();
    if kept.is_empty() {
        let least = all.iter().map(|layout| memory(&job.model.transformer, layout).total()).min();
        let told =
            least.map_or_else(|| "none divides the model".to_owned(), |least| format!("the least takes {} of {}", gb(least), gb(room)));
        return Err(Error::Training {
            message: format!("no layout of `{}` fits the {gpus} GPUs of `{}`: {told}", job.model.name, job.parts.name),
            help: "take more nodes, another --global-batch, or a shorter --sequence".to_owned(),
        });
    }
    let mut times = ClusterTimes::new(catalog, job.parts.clone(), gpus)?;
    let mut ranked: Vec<(Layout, Step)> = Vec::new();
    for (done, layout) in kept.iter().enumerate() {
        heard(done, kept.len());
        let mut step = made(job, layout, &mut times)?;
        // Of thousands of layouts the time lines would fill the memory.
        (step.lines, step.content, step.copies) = (Vec::new(), Vec::new(), Vec::new());
        ranked.push((layout.clone(), step));
    }
    ranked.sort_by_key(|(layout, step)| (step.parts.total(), laid(layout)));
    Ok(Ranked { ranked, all: all.len() })
}

/// The layouts that fit, ranked.
pub(super) fn search(catalog: &Catalog, job: &Job, given: &Layout, heard: &dyn Fn(usize, usize)) -> Result<Outcome, Error> {
    let gpus = gpus_of(job);
    let Ranked { ranked, all } = ranked(catalog, job, given, gpus, heard)?;
    let mut outcome = Outcome::new();
    outcome.note(format!(
        "{} on {}: {gpus} GPUs, {} sequences a step; {} layouts, {} of them without room",
        job.model.title,
        job.parts.name,
        given.global_batch,
        all,
        all - ranked.len()
    ));
    let mut grid = Grid::new([
        Column::number("rank", "rank"),
        Column::number("step ms", "step_ms"),
        Column::number("TFLOP/s", "tflops_per_gpu"),
        Column::number("exposed %", "exposed_percent"),
        Column::number("bubble %", "bubble_percent"),
        Column::number("GB", "memory_gb"),
        Column::words("layout", "layout"),
    ]);
    let row = |rank: usize, (layout, step): &(Layout, Step)| {
        let total = step.parts.total();
        let share = |span| percent(span, total);
        [
            Cell::count(rank),
            Cell::number(ms(total), 1),
            Cell::number(achieved(job, layout, total) / 1e12, 1),
            Cell::number(share(step.parts.communication()), 1),
            Cell::number(share(step.parts.bubble), 1),
            Cell::number(step.memory.total().0 as f64 / 1e9, 1),
            Cell::word(laid(layout)),
        ]
    };
    let shown = SHOWN.min(ranked.len());
    for (place, entry) in ranked.iter().enumerate().take(shown) {
        grid.push(row(place + 1, entry));
    }
    if let Some(worst) = ranked.last().filter(|_| ranked.len() > shown) {
        grid.push(row(ranked.len(), worst));
    }
    outcome.keyed_table("layouts", grid);
    if let (Some((_, best)), Some((_, worst))) = (ranked.first(), ranked.last()) {
        outcome.note(format!("the best: {}", told(best)));
        outcome.note(format!("the worst: {}", told(worst)));
        if ranked.len() > 1 {
            outcome.text("\n").keyed_table("best_and_worst", beside(best, worst));
        }
    }
    Ok(outcome)
}

/// What the worst layout spends more than the best, part by part, the most first.
fn beside(best: &Step, worst: &Step) -> Grid {
    let mut grid = Grid::new([
        Column::words("part", "part"),
        Column::number("best ms", "best_ms"),
        Column::number("worst ms", "worst_ms"),
        Column::number("more ms", "more_ms"),
        Column::number("% of what it loses", "percent"),
    ]);
    let mut rows: Vec<_> =
        best.parts.parts().into_iter().zip(worst.parts.parts()).map(|((name, best), (_, worst))| (name, best, worst)).collect();
    rows.retain(|(_, best, worst)| best.as_ps() + worst.as_ps() > 0);
    rows.push(("step", best.parts.total(), worst.parts.total()));
    let lost = ms(worst.parts.total()) - ms(best.parts.total());
    let more = |row: &(&str, Span, Span)| ms(row.2) - ms(row.1);
    rows.sort_by(|a, b| more(b).total_cmp(&more(a)));
    for row in &rows {
        let share = 100.0 * more(row) / lost.max(f64::MIN_POSITIVE);
        grid.push([
            Cell::word(row.0),
            Cell::number(ms(row.1), 3),
            Cell::number(ms(row.2), 3),
            Cell::number(more(row), 3),
            Cell::number(share, 1),
        ]);
    }
    grid
}

/// What a step spends most on.
fn told(step: &Step) -> String {
    let mut parts = step.parts.parts().to_vec();
    parts.sort_by_key(|(_, span)| std::cmp::Reverse(*span));
    let named = parts.iter().take(4).filter(|(_, span)| span.as_ps() > 0).map(|(name, span)| format!("{name} {:.1} ms", ms(*span)));
    named.collect::<Vec<_>>().join(", ")
}

fn layouts(job: &Job, given: &Layout, gpus: u32) -> Vec<Layout> {
    let model = &job.model.transformer;
    let per_node = gpus.min(gpus_of(job) / job.parts.nodes().max(1));
    let mut found = Vec::new();
    let experts: Vec<u32> = match model.experts {
        None => vec![1],
        Some(experts) => powers(64.min(experts.count)),
    };
    let again: &[Recompute] = match given.attention {
        Attention::Fused | Attention::Latest => &[Recompute::None, Recompute::Full],
        Attention::Unfused => &[Recompute::None, Recompute::Selective, Recompute::Full],
    };
    for tensor in powers(per_node) {
        for pipeline in (1..=gpus / tensor).filter(|stages| even(model.layers, *stages) && (gpus / tensor).is_multiple_of(*stages)) {
            for expert in &experts {
                for micro_batch in [1, 2, 4, 8] {
                    for recompute in again {
                        for interleave in [1, 2, 4].into_iter().take(if pipeline > 1 { 3 } else { 1 }) {
                            let data = gpus / tensor / pipeline / given.context;
                            let layout = Layout {
                                tensor,
                                pipeline,
                                data: data.max(1),
                                expert: *expert,
                                interleave,
                                micro_batch,
                                recompute: *recompute,
                                sequence_parallel: tensor > 1,
                                sharding: Sharding::Optimizer,
                                ..given.clone()
                            };
                            if layout.gpus() == u64::from(gpus) && layout.check(model).is_ok() {
                                found.push(layout);
                            }
                        }
                    }
                }
            }
        }
    }
    found
}

/// Whether stages have as many layers each, embedding and output counted or not.
const fn even(layers: u32, stages: u32) -> bool {
    layers.is_multiple_of(stages) || (layers + 2).is_multiple_of(stages)
}

/// 1, 2, 4 … up to `most`.
fn powers(most: u32) -> Vec<u32> {
    (0..32).map(|power| 1 << power).take_while(|count| *count <= most.max(1)).collect()
}

/// Layouts of the table, beside the worst.
const SHOWN: usize = 12;
