//! Numbers of a cluster fitted to its measurements: which of them the points tell, their values with intervals, and what that is worth on points
//! that it was not fitted to.
//!
//! Every candidate (`candidates`) is moved once, and all points are simulated again: the derivatives choose at most `MOST` numbers that the points
//! tell apart (`fit`). These are fitted by steps of Gauss and Newton, whose derivatives are brought up to date by Broyden's rule, and taken anew at
//! the end for intervals and for the error of points left out, which is that of the linear model there.
//!
//! Modelled: times, rates and shares of parts. Not modelled: choices (algorithms, thresholds, windows), counts, and what a table says of noise.

mod candidates;
mod fit;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use fabriscope_catalog::{Alteration, Catalog, Kind};
use fabriscope_report::question::Requested;
use fabriscope_report::validate::{asked, validate};
use fabriscope_report::{Measured, Terms};

use crate::error::LabError;
use crate::prediction::{Predictor, library};
use candidates::Candidate;

/// What to fit.
pub struct Calibration<'a> {
    /// Parts and clusters.
    pub catalog: &'a Catalog,
    /// The cluster, as a target.
    pub on: &'a str,
    /// The text of its file.
    pub text: String,
    /// The measurements.
    pub files: &'a [Measured],
    /// What is said beside their rows.
    pub terms: &'a Terms,
    /// At most so many numbers; [`MOST`] is the largest.
    pub most: usize,
    /// Also runs rows that take minutes.
    pub long: bool,
    /// Seed of everything random.
    pub seed: u64,
}

/// No more numbers are fitted at once.
pub const MOST: usize = 14;

/// A number that was fitted.
#[derive(Debug, Clone, PartialEq)]
pub struct Fitted {
    /// What the catalogue gets in its place.
    pub change: Alteration,
    /// What the catalogue has.
    pub before: String,
    /// The ends of the interval in which it lies with 95 %.
    pub interval: (String, String),
    /// Whether it lies at the end of what is possible.
    pub at_limit: bool,
}

/// Numbers that the points cannot tell apart: the first was not fitted, the second was.
#[derive(Debug, Clone, PartialEq)]
pub struct Alike {
    /// Part and field of the number that stays.
    pub number: String,
    /// Those of the one that was fitted in its place.
    pub like: String,
    /// How much alike both move the points: 1 for the same, −1 for the opposite.
    pub cosine: f64,
}

/// The errors of a table, in percent.
#[derive(Debug, Clone, PartialEq)]
pub struct TableErrors {
    /// The table.
    pub table: String,
    /// Its points.
    pub points: usize,
    /// Median of the absolute errors before.
    pub before: f64,
    /// After.
    pub after: f64,
    /// Of points while they were left out.
    pub held_out: f64,
}

/// What came of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Calibrated {
    /// The numbers, the most telling first.
    pub fitted: Vec<Fitted>,
    /// Those that cannot be told apart from these.
    pub alike: Vec<Alike>,
    /// Errors by table; the last is of all points.
    pub tables: Vec<TableErrors>,
    /// Candidates that there were.
    pub candidates: usize,
    /// How often all points were simulated.
    pub simulations: usize,
    /// Rows that could not be compared, with the reason.
    pub skipped: BTreeMap<String, usize>,
}

/// A point: the table, and its measured value over which the prediction is taken.
struct PointKey {
    table: String,
    line: usize,
    variant: String,
}

/// Fits; `progress` hears how many simulations of about how many are done.
///
/// # Errors
/// No such cluster; no row that can be compared; no number that moves one.
pub fn calibrate(asked: &Calibration<'_>, progress: &(dyn Fn(usize, usize) + Sync)) -> Result<Calibrated, LabError> {
    let runs = Runs { asked, done: AtomicUsize::new(0) };
    let start = runs.report(&[])?;
    let (keys, measured) = points(&start);
    if keys.is_empty() {
        let reasons: Vec<String> = start.tables.iter().flat_map(|table| &table.skipped).map(|skipped| skipped.reason.clone()).collect();
        let first = reasons.first().map_or("they have no rows", String::as_str);
        return Err(LabError::refused(
            format!("no row of the measurements can be compared: {first}"),
            "`fabriscope validate --measured` lists all reasons",
        ));
    }
    let residuals = |alterations: &[Alteration]| -> Result<Vec<f64>, LabError> {
        let (now, values) = points(&runs.report(alterations)?);
        let same = now.len() == keys.len()
            && now.iter().zip(&keys).all(|(a, b)| (&a.table, a.line) == (&b.table, b.line) && a.variant == b.variant);
        if !same {
            return Err(LabError::refused(
                "a changed number lets other rows be compared".to_owned(),
                "leave out the rows that only some clusters can run",
            ));
        }
        Ok(values)
    };
    let software = libraries(asked);
    let candidates = candidates::of(asked.catalog, std::slice::from_ref(&asked.text), &software);
    let expected = candidates.len() + 3 * MOST;
    let moved = derivatives(&candidates, &measured, &residuals, &|done| progress(done, expected.max(done)));
    let (candidates, jacobian): (Vec<Candidate>, Vec<Vec<f64>>) = moved.into_iter().unzip();
    let count = candidates.len();
    let scales: Vec<f64> = candidates.iter().map(|candidate| candidate.scale).collect();
    let chosen = fit::choose(&jacobian, &scales, asked.most.min(MOST));
    if chosen.kept.is_empty() {
        return Err(LabError::refused(
            "none of the cluster's numbers moves the measurements".to_owned(),
            "check that the measurements are of this cluster",
        ));
    }
    let own: Vec<Candidate> = chosen.kept.iter().map(|at| candidates[*at].clone()).collect();
    let jacobian: Vec<Vec<f64>> = chosen.kept.iter().map(|at| jacobian[*at].clone()).collect();
    let because = because(asked);
    let found = descend(&own, jacobian, &measured, &because, &residuals, &|| progress(runs.done.load(Ordering::Relaxed), expected))?;
    let alike = chosen.alike.iter().map(|(at, like, cosine)| Alike {
        number: candidates[*at].name(),
        like: candidates[*like].name(),
        cosine: *cosine,
    });
    let mut result = Calibrated { alike: alike.collect(), candidates: count, ..Calibrated::default() };
    tell(&mut result, &own, &found, &because, &keys, &measured);
    result.simulations = runs.done.load(Ordering::Relaxed);
    for skipped in start.tables.iter().flat_map(|table| &table.skipped) {
        *result.skipped.entry(skipped.reason.clone()).or_default() += skipped.lines.len();
    }
    Ok(result)
}

/// Simulations of all points.
struct Runs<'a> {
    asked: &'a Calibration<'a>,
    done: AtomicUsize,
}

impl Runs<'_> {
    fn report(&self, alterations: &[Alteration]) -> Result<fabriscope_report::Report, LabError> {
        let Calibration { catalog, on, files, terms, long, seed, .. } = self.asked;
        let altered;
        let catalog = if alterations.is_empty() {
            *catalog
        } else {
            altered = catalog.altered(alterations)?;
            &altered
        };
        let predictor = Predictor::new(catalog, Some(catalog.target_alike(on)?), *seed, *long, |_, _| {});
        self.done.fetch_add(1, Ordering::Relaxed);
        Ok(validate(files, &[], terms, &predictor))
    }
}

/// The points of a report with `ln(predicted / measured)`, in the order of the rows.
fn points(report: &fabriscope_report::Report) -> (Vec<PointKey>, Vec<f64>) {
    let of_table = report.plain().flat_map(|table| table.points.iter().map(move |point| (table, point)));
    let usable = of_table.filter(|(_, point)| point.point.predicted > 0.0 && point.point.measured > 0.0);
    let key = |table: &str, line, variant: &str| PointKey { table: table.to_owned(), line, variant: variant.to_owned() };
    usable
        .map(|(table, point)| (key(&table.table, point.line, &point.metric), libm::log(point.point.predicted / point.point.measured)))
        .unzip()
}

/// The parts of libraries that rows name.
fn libraries(asked_of: &Calibration<'_>) -> Vec<String> {
    let Ok(parts) = asked_of.catalog.target_alike(asked_of.on) else { return Vec::new() };
    let mut names = std::collections::BTreeSet::new();
    for requested in asked_of.files.iter().flat_map(|file| asked(file, asked_of.terms)) {
        if let Requested::Run(question, _) = requested
            && let Some(name) = question.software
        {
            names.extend(library(asked_of.catalog, &parts, &name).map(|part| part.name.clone()));
        }
    }
    names.into_iter().collect()
}

type Residuals<'a> = dyn Fn(&[Alteration]) -> Result<Vec<f64>, LabError> + Sync + 'a;

/// What each candidate moves; those that move nothing are left out, as are those of which no other value can be. Numbers of a part that
/// together move nothing do so alone, and are looked at together first: most of a part has to do with other benchmarks.
fn derivatives(
    candidates: &[Candidate],
    before: &[f64],
    residuals: &Residuals<'_>,
    progress: &dyn Fn(usize),
) -> Vec<(Candidate, Vec<f64>)> {
    let mut found = BTreeMap::new();
    let mut open: Vec<std::ops::Range<usize>> = Vec::new();
    for at in 0..candidates.len() {
        match open.last_mut() {
            Some(last) if candidates[last.start].number.part == candidates[at].number.part => last.end = at + 1,
            _ => open.push(at..at + 1),
        }
    }
    open.reverse();
    let moves = |column: &[f64]| column.iter().any(|value| value.abs() > 1e-6);
    while let Some(range) = open.pop() {
        progress(range.start);
        let moved: Vec<(&Candidate, f64)> = candidates[range.clone()].iter().map(|one| (one, moved(one))).collect();
        if let [(candidate, factor)] = moved[..] {
            if let Some(column) = column(candidate, 1.0, factor, &[], before, residuals).filter(|column| moves(column)) {
                found.insert(range.start, (candidate.clone(), column));
            }
            continue;
        }
        let together: Vec<Alteration> = moved.iter().map(|(one, factor)| one.by(*factor, "varied")).collect();
        let still = residuals(&together).is_ok_and(|after| after.iter().zip(before).all(|(after, before)| (after - before).abs() <= 1e-9));
        if !still {
            let middle = range.start + range.len() / 2;
            open.extend([middle..range.end, range.start..middle]);
        }
    }
    found.into_values().collect()
}

/// The factor by which a number is moved: up, or down where there is no room.
fn moved(candidate: &Candidate) -> f64 {
    let up = candidate.clamped(1.0 + STEP);
    if up > 1.0 { up } else { candidate.clamped(1.0 - STEP) }
}

/// How far the points move for each part that a number's logarithm grows.
fn column(candidate: &Candidate, from: f64, to: f64, others: &[Alteration], before: &[f64], residuals: &Residuals<'_>) -> Option<Vec<f64>> {
    let mut alterations = others.to_vec();
    alterations.push(candidate.by(to, "varied"));
    let after = residuals(&alterations).ok()?;
    let by = libm::log(to / from);
    Some(after.iter().zip(before).map(|(after, before)| (after - before) / by).collect())
}

/// Where the descent ended.
struct Found {
    /// Logarithms of the factors.
    at: Vec<f64>,
    residuals: Vec<f64>,
    covariance: Vec<Vec<f64>>,
    jacobian: Vec<Vec<f64>>,
    weights: Vec<f64>,
    noise: f64,
}

fn descend(
    own: &[Candidate],
    mut jacobian: Vec<Vec<f64>>,
    start: &[f64],
    because: &str,
    residuals: &Residuals<'_>,
    progress: &dyn Fn(),
) -> Result<Found, LabError> {
    let scales: Vec<f64> = own.iter().map(|candidate| candidate.scale).collect();
    let (mut at, mut now) = (vec![0.0; own.len()], start.to_vec());
    let changed = |at: &[f64]| -> Vec<Alteration> { own.iter().zip(at).map(|(one, at)| one.by(libm::exp(*at), because)).collect() };
    for _ in 0..STEPS {
        let (weights, noise) = (fit::weights(&now), fit::noise_of(&now));
        let (step, _) = fit::step(&jacobian, &now, &weights, &at, &scales, noise);
        let cost = fit::cost(&now, &weights, &at, &scales, noise);
        let mut share = 1.0;
        let better = loop {
            let next: Vec<f64> = own
                .iter()
                .zip(at.iter().zip(&step))
                .map(|(one, (at, step))| libm::log(one.clamped(libm::exp(at + share * step))))
                .collect();
            let there = residuals(&changed(&next))?;
            progress();
            let made: Vec<f64> = next.iter().zip(&at).map(|(next, at)| next - at).collect();
            broyden(&mut jacobian, &made, &now, &there);
            if fit::cost(&there, &weights, &next, &scales, noise) < cost {
                break Some((next, there));
            }
            share /= 3.0;
            if share < 0.1 {
                break None;
            }
        };
        let Some((next, there)) = better else { break };
        let gain = 1.0 - fit::cost(&there, &weights, &next, &scales, noise) / cost;
        (at, now) = (next, there);
        if gain < ENOUGH {
            break;
        }
    }
    // The derivatives at the end: one number at a time, in the direction that has room.
    let others = changed(&at);
    for (index, one) in own.iter().enumerate() {
        let from = libm::exp(at[index]);
        let up = one.clamped(from * (1.0 + STEP));
        let to = if up > from * (1.0 + STEP / 4.0) { up } else { one.clamped(from / (1.0 + STEP)) };
        let mut rest = others.clone();
        rest.remove(index);
        if let Some(column) = column(one, from, to, &rest, &now, residuals) {
            jacobian[index] = column;
        }
        progress();
    }
    let (weights, noise) = (fit::weights(&now), fit::noise_of(&now));
    let (_, covariance) = fit::step(&jacobian, &now, &weights, &at, &scales, noise);
    Ok(Found { at, residuals: now, covariance, jacobian, weights, noise })
}

/// The least change of the derivatives that agrees with what a step did.
fn broyden(jacobian: &mut [Vec<f64>], step: &[f64], before: &[f64], after: &[f64]) {
    let length: f64 = step.iter().map(|step| step * step).sum();
    if length < 1e-12 {
        return;
    }
    for point in 0..before.len() {
        let told: f64 = jacobian.iter().zip(step).map(|(column, step)| column[point] * step).sum();
        let missing = after[point] - before[point] - told;
        jacobian.iter_mut().zip(step).for_each(|(column, step)| column[point] += missing * step / length);
    }
}

/// Residuals of points while each fifth of them is left out, by the linear model at the end.
fn held_out(own: &[Candidate], found: &Found) -> Vec<f64> {
    let scales: Vec<f64> = own.iter().map(|candidate| candidate.scale).collect();
    let mut held = found.residuals.clone();
    for fold in 0..FOLDS {
        let weights: Vec<f64> =
            found.weights.iter().enumerate().map(|(at, weight)| if at % FOLDS == fold { 0.0 } else { *weight }).collect();
        let (step, _) = fit::step(&found.jacobian, &found.residuals, &weights, &found.at, &scales, found.noise);
        for at in (fold..held.len()).step_by(FOLDS) {
            held[at] += found.jacobian.iter().zip(&step).map(|(column, step)| column[at] * step).sum::<f64>();
        }
    }
    held
}

fn tell(result: &mut Calibrated, own: &[Candidate], found: &Found, because: &str, keys: &[PointKey], before: &[f64]) {
    for (index, one) in own.iter().enumerate() {
        let factor = libm::exp(found.at[index]);
        let spread = 1.96 * found.noise * found.covariance[index][index].max(0.0).sqrt();
        let value = |factor: f64| candidates::scaled(&one.number.value, one.clamped(factor));
        result.fitted.push(Fitted {
            change: one.by(factor, because),
            before: one.number.value.clone(),
            interval: (value(factor * libm::exp(-spread)), value(factor * libm::exp(spread))),
            at_limit: factor <= one.limits.0 * 1.001 || factor >= one.limits.1 * 0.999,
        });
    }
    let held = held_out(own, found);
    let mut tables: Vec<&str> = keys.iter().map(|key| key.table.as_str()).collect();
    tables.dedup();
    let median = |values: &[f64], of: &dyn Fn(usize) -> bool| {
        let mut errors: Vec<f64> =
            values.iter().enumerate().filter(|(at, _)| of(*at)).map(|(_, value)| 100.0 * (libm::exp(*value) - 1.0).abs()).collect();
        errors.sort_by(f64::total_cmp);
        let middle = errors.len() / 2;
        if errors.len() % 2 == 1 { errors[middle] } else { (errors[middle.max(1) - 1] + errors[middle]) / 2.0 }
    };
    let mut row = |table: &str, of: &dyn Fn(usize) -> bool| {
        let points = (0..keys.len()).filter(|at| of(*at)).count();
        let errors = TableErrors {
            table: table.to_owned(),
            points,
            before: median(before, of),
            after: median(&found.residuals, of),
            held_out: median(&held, of),
        };
        result.tables.push(errors);
    };
    tables.iter().for_each(|table| row(table, &|at| keys[at].table == *table));
    row("all", &|_| true);
}

/// Where the fitted numbers come from.
fn because(asked: &Calibration<'_>) -> String {
    let files: Vec<&str> = asked.files.iter().map(|file| file.name().rsplit('/').next().unwrap_or_default()).collect();
    format!("fitted to {}", files.join(", "))
}

/// The text of a cluster file with these numbers: the cluster's own text, or a few lines that rest on it.
#[must_use]
pub fn overlay(catalog: &Catalog, on: &str, text: &str, calibrated: &Calibrated) -> String {
    let (name, nodes) = match on.rsplit_once(':').filter(|(_, nodes)| nodes.parse::<u32>().is_ok()) {
        Some((name, nodes)) => (name, Some(nodes)),
        None => (on, None),
    };
    let mut out = if catalog.text_of(Kind::Cluster, name).is_some() {
        let nodes = nodes.map(|nodes| format!("nodes = {nodes}\n")).unwrap_or_default();
        format!("name = \"{name}-calibrated\"\ntitle = \"{name} with numbers fitted to measurements\"\nbase = \"{name}\"\n{nodes}")
    } else {
        format!("{}\n", text.trim_end())
    };
    for Fitted { change, before, interval, at_limit } in &calibrated.fitted {
        let word = |text: &str| toml::Value::String(text.to_owned()).to_string();
        let edge = if *at_limit { ", at the end of what is possible" } else { "" };
        let note = format!("{} before; 95 %: {} to {}{edge}", before, interval.0, interval.1);
        out += &format!(
            "\n[[change]]\nkind = {}\npart = {}\nfield = {}\nvalue = {}\nbasis = \"fitted\"\nsource = {}\nnote = {}\n",
            word(change.kind.folder()),
            word(&change.part),
            word(&change.field),
            word(&change.value),
            word(&change.because),
            word(&note),
        );
    }
    out
}

/// By how much a number is moved for a derivative. Basis: assumed; large against rounding, small against bends.
const STEP: f64 = 0.08;
/// At most so many steps.
const STEPS: usize = 6;
/// A step that gains less ends the descent.
const ENOUGH: f64 = 0.01;
/// Parts of the points of which each is left out once.
const FOLDS: usize = 5;
