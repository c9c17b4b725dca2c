//! A diagnosis as an outcome: the verdict, the causes by rank, the points beside what is expected and what the best cause gives.

use fabriscope_catalog::Catalog;
use fabriscope_report::{Cell, Column, Grid, Outcome, Verdict};

use crate::causes::ALL;
use crate::change::{Compared, DOUBT};
use crate::curve::TablePoint;
use crate::diagnosis::{Diagnosis, Finding, Standing, Suspect};
use crate::next::{Next, next};

/// Causes that are shown; programs read all.
const SHOWN: usize = 6;

/// The outcome of a diagnosis; `catalog` is where candidates for a next measurement are run.
#[must_use]
pub fn diagnosis(found: &Diagnosis, file: &str, catalog: &Catalog) -> Outcome {
    let mut outcome = Outcome::new();
    let (tables, share) = found.rarity;
    let off = 100.0 * (libm::exp(found.median) - 1.0);
    let word = found.standing.word();
    outcome.note(format!("{file} on {}: {word}", found.setup.parts.name));
    outcome.note(format!(
        "{} points, the middle one {off:.1} % off what is expected; of {tables} published tables of {}, {:.0} % are as far off or farther",
        found.points.len(),
        found.kind.name(),
        100.0 * share
    ));
    outcome.set("verdict", word).set("normal", found.normal).set("median_percent", off);
    let best = found.findings.first().filter(|_| matches!(found.standing, Standing::Explained | Standing::Doubtful));
    if let Some(best) = best {
        let first = &best.suspects[0];
        let most = match found.standing {
            Standing::Doubtful => "tables of sound machines are off as well; if something is wrong, most probable",
            _ => "most probable",
        };
        outcome.note(format!("{most}, {}: {}", percent(best.probability), in_words(first)));
        told_apart(&mut outcome, best, found.findings.get(1), |a, b| next(catalog, &found.setup, a, b));
    }
    if found.standing == Standing::Unexplained {
        outcome
            .note("none of the causes that are modelled explains it: look at the description of the cluster, and at what is not modelled");
    }
    if found.thinned > 0 {
        outcome.note(format!("{} more points were left out, evenly: so many are not weighed together", found.thinned));
    }
    left(&mut outcome, &found.left);
    if !found.unseen.is_empty() {
        let names: Vec<&str> = found.unseen.iter().map(|cause| ALL[*cause].name).collect();
        outcome.note(format!("what this table cannot see here: {}", names.join(", ")));
    }
    outcome.keyed_table("causes", ranked(&found.findings, "")).text("\n");
    outcome.keyed_table("points", points(&found.points, found.findings.first().map(|finding| &finding.suspects[0])));
    if found.standing.is_alarm() {
        outcome.judge(Verdict::Bad);
    }
    outcome
}

/// The outcome of a comparison of two tables.
#[must_use]
pub fn compared(found: &Compared, before: &str, after: &str, catalog: &Catalog) -> Outcome {
    let mut outcome = Outcome::new();
    let changed = found.same < DOUBT;
    let word = if changed { "changed" } else { "the same" };
    outcome.note(format!("{after} after {before} on {}: {word}", found.setup.parts.name));
    outcome.set("verdict", word).set("same", found.same);
    let probability = |findings: &[Finding]| findings.first().map_or(0.0, |finding| finding.probability);
    let gone = probability(&found.went) > probability(&found.came);
    let (findings, what) = if gone { (&found.went, "gone") } else { (&found.came, "came") };
    outcome.set("direction", what);
    if let Some(best) = findings.first().filter(|_| changed) {
        let first = &best.suspects[0];
        outcome.note(format!("most probable, {}: {what}: {}", percent(best.probability), in_words(first)));
        told_apart(&mut outcome, best, findings.get(1), |a, b| next(catalog, &found.setup, a, b));
    }
    if found.unmatched > 0 {
        outcome.note(format!("{} points are in the first table only", found.unmatched));
    }
    outcome.keyed_table("causes", ranked(findings, what)).text("\n");
    let mut grid = Grid::new([
        Column::words("metric", "metric"),
        Column::words("unit", "unit"),
        Column::number("bytes", "bytes"),
        Column::number("before", "before"),
        Column::number("after", "after"),
        Column::number("ratio", "ratio"),
        Column::number("best cause", "best"),
    ]);
    let best = findings.first().map(|finding| &finding.suspects[0]);
    for (place, (point, after)) in found.points.iter().zip(&found.after).enumerate() {
        let ratio = best.map(|best| if gone { point.expected / best.curve[place] } else { best.curve[place] / point.expected });
        grid.push([
            Cell::word(point.metric.clone()),
            Cell::word(point.unit.clone()),
            size(point),
            Cell::number(point.measured, 2),
            Cell::number(*after, 2),
            Cell::number(after / point.measured, 3),
            ratio.map_or_else(Cell::none, |ratio| Cell::number(ratio, 3)),
        ]);
    }
    outcome.keyed_table("points", grid);
    if changed {
        outcome.judge(Verdict::Bad);
    }
    outcome
}

/// The cause and its amount, which is not said twice.
fn in_words(suspect: &Suspect) -> String {
    let (title, what) = (suspect.cause().title, &suspect.what);
    if title.split(' ').any(|word| word.trim_end_matches(':') == what) { title.to_owned() } else { format!("{title}, {what}") }
}

/// What tells the first causes apart: within their group, or from the next one.
fn told_apart(outcome: &mut Outcome, best: &Finding, second: Option<&Finding>, find: impl Fn(&Suspect, &Suspect) -> Option<Next>) {
    let first = &best.suspects[0];
    let within = best.suspects.get(1);
    if within.is_some() {
        let names: Vec<&str> = best.suspects.iter().map(|suspect| suspect.cause().name).collect();
        outcome.note(format!("cannot be told apart by this table: {}", names.join(", ")));
    }
    let Some(other) = within.or(second.map(|finding| &finding.suspects[0])) else {
        outcome.note(format!("to be sure: {}", first.cause().check));
        return;
    };
    match find(first, other) {
        Some(Next { run, first: one, second: two, unit }) => {
            let names = (first.cause().name, other.cause().name);
            outcome.note(format!("next, `{run}`: {one:.2} {unit} with {}, {two:.2} {unit} with {}", names.0, names.1));
            outcome.set("next", run);
        }
        None => {
            outcome.note(format!("no run of the usual tools tells {} from {}", first.cause().name, other.cause().name));
            outcome.set("next", None::<String>);
        }
    }
    outcome.note(format!("to be sure of {}: {}", first.cause().name, first.cause().check));
    outcome.note(format!("to be sure of {}: {}", other.cause().name, other.cause().check));
}

fn left(outcome: &mut Outcome, left: &[(usize, String)]) {
    let mut reasons: Vec<(&str, usize)> = Vec::new();
    for (_, reason) in left {
        match reasons.iter_mut().find(|(known, _)| known == reason) {
            Some((_, count)) => *count += 1,
            None => reasons.push((reason, 1)),
        }
    }
    for (reason, count) in reasons {
        outcome.note(format!("{count} rows not weighed: {reason}"));
    }
}

fn percent(probability: f64) -> String {
    // Probabilities of a model that knows not every cause are worth no more digits.
    if probability > 0.99 { "more than 99 %".to_owned() } else { format!("{:.0} %", 100.0 * probability) }
}

fn size(point: &TablePoint) -> Cell {
    point.bytes.map_or_else(|| Cell::word("all"), Cell::count)
}

fn ranked(findings: &[Finding], direction: &str) -> Grid {
    let mut grid = Grid::new([
        Column::number("rank", "rank"),
        Column::number("probability", "probability").unit("1"),
        Column::words("cause", "cause"),
        Column::words("amount", "amount"),
        Column::number("gain (ln)", "gain"),
        Column::words("what", "title"),
        Column::data("direction"),
    ]);
    let rows = findings.iter().enumerate().flat_map(|(rank, finding)| finding.suspects.iter().map(move |suspect| (rank + 1, suspect)));
    for (rank, suspect) in rows.take_while(|(rank, _)| *rank <= SHOWN) {
        grid.push([
            Cell::count(rank),
            Cell::number(suspect.probability, 3),
            Cell::word(suspect.cause().name),
            Cell::word(suspect.what.clone()),
            Cell::number(suspect.gain, 1),
            Cell::word(suspect.cause().title),
            Cell::data(direction),
        ]);
    }
    grid
}

fn points(points: &[TablePoint], best: Option<&Suspect>) -> Grid {
    let mut grid = Grid::new([
        Column::words("metric", "metric"),
        Column::words("unit", "unit"),
        Column::number("bytes", "bytes"),
        Column::number("measured", "measured"),
        Column::number("expected", "expected"),
        Column::number("off (%)", "off").unit("%"),
        Column::number("best cause", "best"),
        Column::data("variant"),
        Column::data("lines"),
    ]);
    for (place, point) in points.iter().enumerate() {
        grid.push([
            Cell::word(point.metric.clone()),
            Cell::word(point.unit.clone()),
            size(point),
            Cell::number(point.measured, 2),
            Cell::number(point.expected, 2),
            Cell::number(100.0 * (point.measured / point.expected - 1.0), 1),
            best.map_or_else(Cell::none, |best| Cell::number(best.curve[place], 2)),
            Cell::data(point.variant.clone()),
            Cell::data(point.lines.clone()),
        ]);
    }
    grid
}
