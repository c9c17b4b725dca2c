//! A step, explained: what it is made of, down to each kind of kernel and of operation; what binds it; what changes would give.
//!
//! The rows of the tree add up to the step to the picosecond. Each change is a run of its own ([`changes`](super::changes)).

use fabriscope_catalog::Catalog;
use fabriscope_report::figure::{Bar, Bars, Figure, Panel, Unit};
use fabriscope_report::{Cell, Column, Grid, Outcome};
use fabriscope_training::account::{Account, KernelRow, OperationRow, Role, account};
use fabriscope_training::{Bound, Layout, Step};
use fabriscope_units::{Bytes, Span};

use super::changes::{self, CHANGES};
use super::search::{Ranked, ranked};
use crate::error::Error;
use fabriscope_lab::training::job::{Job, made};
use fabriscope_lab::training::shown::{achieved, change, laid, ms, percent};
use fabriscope_lab::training::times::ClusterTimes;

/// What is asked beside the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Extent {
    /// Changes are run.
    pub changes: bool,
    /// Other layouts of as many GPUs are looked for.
    pub layouts: bool,
}

/// Explains the step of a job on `gpus` GPUs.
pub(super) fn explain(
    catalog: &Catalog,
    job: &Job,
    layout: &Layout,
    gpus: u32,
    asked: Extent,
    heard: &dyn Fn(usize, usize),
) -> Result<Outcome, Error> {
    let mut times = ClusterTimes::new(catalog, job.parts.clone(), gpus)?;
    let step = made(job, layout, &mut times)?;
    let told = account(&step, layout, &job.roofline, &mut times)?;
    let total = step.parts.total();
    let mut outcome = Outcome::new();
    outcome.note(format!("{} on {}: {}", job.model.title, job.parts.name, laid(layout)));
    outcome.note(format!(
        "a step takes {:.3} ms, {:.1} TFLOP/s for each GPU; the rows are those of stage {} of {}, which ends last, and add up to it",
        ms(total),
        achieved(job, layout, total) / 1e12,
        step.stage,
        layout.pipeline
    ));
    outcome.text("\n").keyed_table("tree", tree(&told, total));
    let resources = resources(&told);
    let mut grid =
        Grid::new([Column::words("what the step waits for", "resource"), Column::number("ms", "ms"), Column::number("%", "percent")]);
    for (name, span) in &resources {
        grid.push([Cell::word(*name), Cell::number(ms(*span), 3), Cell::number(percent(*span, total), 2)]);
    }
    outcome.text("\n").keyed_table("resources", grid);
    if let Some((name, span)) = resources.first() {
        outcome.note(format!("what binds: {name}, {:.1} % of the step", percent(*span, total)));
        outcome.set("bound", *name);
    }
    if asked.changes {
        changes(catalog, (job, layout, gpus), (&step, &times), heard, &mut outcome)?;
    }
    if asked.layouts {
        layouts(catalog, (job, layout, gpus), &step, heard, &mut outcome)?;
    }
    outcome.set("step_s", total.as_s_f64()).set("tflops_per_gpu", achieved(job, layout, total) / 1e12);
    Ok(outcome)
}

/// Runs each change, and tells what it gives.
fn changes(
    catalog: &Catalog,
    (job, layout, gpus): (&Job, &Layout, u32),
    (step, known): (&Step, &ClusterTimes<'_>),
    heard: &dyn Fn(usize, usize),
    outcome: &mut Outcome,
) -> Result<(), Error> {
    let total = step.parts.total();
    let mut grid = Grid::new([
        Column::words("with", "with"),
        Column::number("step ms", "step_ms"),
        Column::number("%", "change_percent"),
        Column::number("exposed ms", "exposed_ms"),
        Column::words("", "note").left(),
    ]);
    let mut bars = Vec::new();
    for (number, change_) in CHANGES.iter().enumerate() {
        heard(number, CHANGES.len());
        let row = match change_.run(catalog, job, layout, known, gpus)? {
            changes::Outcome::Left(why) => [Cell::word(change_.what), Cell::none(), Cell::none(), Cell::none(), Cell::word(why)],
            changes::Outcome::Step(other) => {
                let longer = change(other.parts.total(), total);
                bars.push((change_.what, -longer));
                [
                    Cell::word(change_.what),
                    Cell::number(ms(other.parts.total()), 3),
                    Cell::number(longer, 2),
                    Cell::number(ms(other.parts.communication()), 3),
                    Cell::word(moved(step, &other)),
                ]
            }
        };
        grid.push(row);
    }
    bars.sort_by(|a, b| b.1.total_cmp(&a.1));
    let rows = bars.iter().enumerate().map(|(place, (name, value))| Bar {
        name: (*name).to_owned(),
        value: *value,
        loud: place == 0 && *value >= 1.0,
        ..Bar::default()
    });
    let label = "what one change saves of the step".to_owned();
    let bars = Bars { label, unit: Unit::Percent, mark: None, limit: None, rows: rows.collect() };
    outcome.text("\n").keyed_table("changes", grid);
    outcome.draw(Figure::new(format!("{} on {}", job.model.title, job.parts.name), [Panel::Bars(bars)]));
    Ok(())
}

/// The part of a step that is most other than it was.
fn moved(step: &Step, other: &Step) -> String {
    let pairs = step.parts.parts().into_iter().zip(other.parts.parts());
    let differences = pairs.map(|((name, was), (_, is))| (name, ms(is) - ms(was)));
    match differences.max_by(|a, b| a.1.abs().total_cmp(&b.1.abs())) {
        Some((name, difference)) if difference.abs() >= 0.0005 => format!("{name} {difference:+.3} ms"),
        _ => "nothing is otherwise".to_owned(),
    }
}

/// The best layouts of as many GPUs.
fn layouts(
    catalog: &Catalog,
    (job, layout, gpus): (&Job, &Layout, u32),
    step: &Step,
    heard: &dyn Fn(usize, usize),
    outcome: &mut Outcome,
) -> Result<(), Error> {
    let Ranked { ranked, .. } = match ranked(catalog, job, layout, gpus, heard) {
        Ok(found) => found,
        // No layout of the search has room: there is nothing to set beside this one.
        Err(Error::Training { message, .. }) => {
            outcome.note(format!("other layouts: {message}"));
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    let mut grid = Grid::new([
        Column::words("other layouts of as many GPUs", "layout"),
        Column::number("step ms", "step_ms"),
        Column::number("%", "change_percent"),
        Column::words("", "note").left(),
    ]);
    let total = step.parts.total();
    for (other, found) in ranked.iter().filter(|(other, _)| other != layout).take(LAYOUTS) {
        let span = found.parts.total();
        grid.push([
            Cell::word(laid(other)),
            Cell::number(ms(span), 3),
            Cell::number(change(span, total), 2),
            Cell::word(moved(step, found)),
        ]);
    }
    outcome.text("\n").keyed_table("other_layouts", grid);
    Ok(())
}

/// Layouts that are shown.
const LAYOUTS: usize = 5;

/// A row of the tree.
struct Row {
    depth: usize,
    name: String,
    count: Option<u64>,
    /// Operations or bytes of all.
    amount: String,
    by_rate: Option<Span>,
    besides: Option<Span>,
    hidden: Option<Span>,
    own: Span,
    bound: &'static str,
}

impl Row {
    fn sum(depth: usize, name: impl Into<String>, own: Span) -> Row {
        let name = name.into();
        Row { depth, name, count: None, amount: String::new(), by_rate: None, besides: None, hidden: None, own, bound: "" }
    }
}

fn tree(told: &Account, total: Span) -> Grid {
    let mut rows = Vec::new();
    let kernels: Span = told.kernels.iter().map(|row| row.total).sum();
    rows.push(Row::sum(0, "computing", kernels + told.host + told.slowed + told.optimizer.0));
    rows.extend(told.kernels.iter().map(kernel));
    if told.host > Span::ZERO {
        rows.push(Row { bound: "host", ..Row::sum(1, "waits for the host", told.host) });
    }
    rows.push(Row::sum(1, "slower beside operations", told.slowed));
    let optimizer = told.optimizer;
    rows.push(Row { amount: amount(optimizer.1), bound: "memory of the GPU", ..Row::sum(1, "optimizer", optimizer.0) });
    let exposed: Span = told.operations.iter().map(|row| row.exposed).sum();
    rows.push(Row::sum(0, "communication", exposed));
    for role in Role::ALL {
        let of_role: Vec<&OperationRow> = told.operations.iter().filter(|row| row.role == role).collect();
        if of_role.is_empty() {
            continue;
        }
        let hidden = Some(of_role.iter().map(|row| row.hidden()).sum());
        rows.push(Row { hidden, ..Row::sum(1, role.name(), of_role.iter().map(|row| row.exposed).sum()) });
        rows.extend(of_role.into_iter().map(operation));
    }
    rows.push(Row::sum(0, "waits for other stages", told.bubble.into_iter().sum()));
    for (name, span) in ["before the first pass", "between passes", "behind the last pass"].into_iter().zip(told.bubble) {
        rows.push(Row::sum(1, name, span));
    }
    rows.retain(|row| row.own > Span::ZERO || row.hidden.is_some_and(|hidden| hidden > Span::ZERO));
    rows.push(Row::sum(0, "step", total));
    let mut grid = Grid::new([
        Column::words("part", "part"),
        Column::data("depth"),
        Column::number("count", "count"),
        Column::number("amount", "amount"),
        Column::number("by rate ms", "by_rate_ms"),
        Column::number("besides ms", "besides_ms"),
        Column::number("hidden ms", "hidden_ms"),
        Column::number("ms", "ms"),
        Column::data("ps"),
        Column::number("%", "percent"),
        Column::words("bound by", "bound").left(),
    ]);
    let span = |span: Option<Span>| span.map_or_else(Cell::none, |span| Cell::number(ms(span), 3));
    for row in rows {
        grid.push([
            Cell::told(format!("{}{}", "  ".repeat(row.depth), row.name), row.name),
            Cell::data(row.depth),
            row.count.map_or_else(Cell::none, Cell::count),
            if row.amount.is_empty() { Cell::none() } else { Cell::word(row.amount) },
            span(row.by_rate),
            span(row.besides),
            span(row.hidden),
            Cell::number(ms(row.own), 3),
            Cell::data(row.own.as_ps()),
            Cell::number(percent(row.own, total), 2),
            Cell::word(row.bound),
        ]);
    }
    grid
}

fn kernel(row: &KernelRow) -> Row {
    let name = format!("{}{}", row.kind.name(), if row.again { ", again" } else { "" });
    let by_memory = row.by_memory * 2 > row.total;
    let gaps = (row.gaps + row.waves) * 2 > row.total;
    let bound = match () {
        () if gaps && row.gaps > row.waves => "starts of kernels",
        () if gaps => "tiles and waves",
        () if by_memory => "memory of the GPU",
        () => "processors",
    };
    let amount =
        if row.operations > 0.0 { format!("{:.1} TFLOP", row.operations / 1e12) } else { format!("{:.1} GB", row.bytes as f64 / 1e9) };
    Row {
        count: Some(row.count),
        amount,
        by_rate: Some(row.ideal),
        besides: Some(row.waves + row.gaps),
        bound,
        ..Row::sum(1, name, row.total)
    }
}

fn operation(row: &OperationRow) -> Row {
    let again = if row.again { ", again" } else { "" };
    let latency = row.latency();
    Row {
        count: Some(row.count),
        amount: amount(row.bytes),
        by_rate: Some(row.total.saturating_sub(latency)),
        besides: Some(latency),
        hidden: Some(row.hidden()),
        bound: bound_name(row.cost.bound),
        ..Row::sum(2, format!("{} among {}{again}", row.operation, row.group.size), row.exposed)
    }
}

/// Bytes as people read them, of one operation.
fn amount(bytes: Bytes) -> String {
    let of = bytes.0 as f64;
    match bytes.0 {
        1_000_000_000.. => format!("{:.2} GB", of / 1e9),
        1_000_000.. => format!("{:.2} MB", of / 1e6),
        _ => format!("{:.2} kB", of / 1e3),
    }
}

const fn bound_name(bound: Bound) -> &'static str {
    match bound {
        Bound::Latency => "latency",
        Bound::ScaleUp => "links between GPUs",
        Bound::PciExpress => "PCI Express",
        Bound::Adapters => "adapters",
        Bound::Uplinks => "cables between switches",
        Bound::Blocks => "blocks of NCCL's kernels",
        Bound::Unknown => "",
    }
}

/// What a step waits for, by the resource that decides, the most first: all of the step.
fn resources(told: &Account) -> Vec<(&'static str, Span)> {
    let mut found: std::collections::BTreeMap<&'static str, Span> = std::collections::BTreeMap::new();
    let mut add = |name, span| *found.entry(name).or_default() += span;
    for row in &told.kernels {
        // Kernels of a kind that wait for memory do so but for their gaps.
        let busy = row.ideal + row.waves;
        let memory = row.by_memory.min(busy);
        let waves = row.waves.min(busy - memory);
        add("memory of the GPU", memory);
        add("tiles and waves of multiplications", waves);
        add("processors of the GPU", busy - memory - waves);
        add("starts of kernels", row.gaps);
    }
    add("memory of the GPU", told.optimizer.0);
    add("launches by the host", told.host);
    add("slower computing beside operations", told.slowed);
    for row in &told.operations {
        let share = u128::from(row.latency().as_ps()) * u128::from(row.exposed.as_ps()) / u128::from(row.total.as_ps().max(1));
        let latency = Span::from_ps(share as u64).min(row.exposed);
        add("latency of operations", latency);
        let by = if row.cost.bound == Bound::Latency { "latency of operations" } else { bound_name(row.cost.bound) };
        add(by, row.exposed - latency);
    }
    add("other stages of the pipeline", told.bubble.into_iter().sum());
    let mut list: Vec<_> = found.into_iter().filter(|(_, span)| *span > Span::ZERO).collect();
    list.sort_by_key(|(name, span)| (std::cmp::Reverse(*span), *name));
    list
}
