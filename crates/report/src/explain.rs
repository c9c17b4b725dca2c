//! Where the time of one message went: stages that add up exactly, what binds, what a change would save.

use fabriscope_units::Span;

use crate::figure::{Bar, Bars, Figure, Panel, Unit, Waterfall};
use crate::grid::{Cell, Column, Grid};
use crate::outcome::Outcome;

/// The stages of one message in the order in which they passed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stages {
    rows: Vec<(String, Span)>,
    total: Span,
}

/// The stages do not make up the whole.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the stages add up to {sum}, the message took {total}: please report this with the command that showed it")]
pub struct Unaccounted {
    sum: Span,
    total: Span,
}

/// One change and the time of the message with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The change in words.
    pub what: String,
    /// The time of the message with the change, or why it cannot be made.
    pub total: Result<Span, String>,
}

impl Stages {
    /// Takes the stages of a message that took `total`; equal names that follow each other are one stage.
    ///
    /// # Errors
    /// The stages do not add up to `total`.
    pub fn new(stages: impl IntoIterator<Item = (String, Span)>, total: Span) -> Result<Stages, Unaccounted> {
        let mut rows: Vec<(String, Span)> = Vec::new();
        for (name, span) in stages {
            match rows.last_mut() {
                Some((last, sum)) if *last == name => *sum += span,
                _ => rows.push((name, span)),
            }
        }
        let sum: Span = rows.iter().map(|(_, span)| *span).sum();
        if sum != total {
            return Err(Unaccounted { sum, total });
        }
        Ok(Stages { rows, total })
    }
    /// The time from the first stage to the last.
    #[must_use]
    pub fn total(&self) -> Span {
        self.total
    }
    /// The stage that takes longest, over all its occurrences.
    #[must_use]
    pub fn longest(&self) -> Option<(&str, Span)> {
        let mut sums: Vec<(&str, Span)> = Vec::new();
        for (name, span) in &self.rows {
            match sums.iter_mut().find(|(n, _)| n == name) {
                Some((_, sum)) => *sum += *span,
                None => sums.push((name, *span)),
            }
        }
        // The first of equals, so that the text does not depend on the search.
        sums.into_iter().fold(None, |best, (name, span)| match best {
            Some((_, longest)) if longest >= span => best,
            _ => Some((name, span)),
        })
    }
    /// The stages as rows `name, span`.
    pub fn rows(&self) -> impl Iterator<Item = (&str, Span)> {
        self.rows.iter().map(|(name, span)| (name.as_str(), *span))
    }
    /// The table of stages; the last line is the exact sum.
    #[must_use]
    pub fn grid(&self) -> Grid {
        let mut grid = Grid::new([
            Column::words("stage", "stage"),
            Column::number("time (ns)", "ps").unit("ps"),
            Column::shown("share (%)"),
            Column::shown("since start (ns)"),
        ]);
        let shown = |text: String| Cell::told(text, serde_json::Value::Null);
        let row = |name: &str, span: Span, elapsed: Span| {
            let time = Cell::told(nanoseconds(span), span.as_ps());
            [Cell::word(name), time, shown(share(span, self.total)), shown(nanoseconds(elapsed))]
        };
        let mut elapsed = Span::ZERO;
        for (name, span) in &self.rows {
            elapsed += *span;
            grid.push(row(name, *span, elapsed));
        }
        grid.foot(row("total", self.total, elapsed));
        grid.named("stages")
    }
}

/// The picture of one message: its stages, and what changes save of `measure`, the time that they are judged by.
#[must_use]
pub fn figure(title: &str, what: &str, stages: &Stages, measure: Span, changes: &[Change]) -> Figure {
    let seconds = |span: Span| span.as_us_f64() * 1e-6;
    let rows = stages.rows().map(|(name, span)| (name.to_owned(), seconds(span))).collect();
    let waterfall = Waterfall { label: what.to_owned(), unit: Unit::Seconds, stages: rows };
    let mut made: Vec<(&Change, Span)> = changes.iter().filter_map(|c| c.total.as_ref().ok().map(|total| (c, *total))).collect();
    made.sort_by_key(|(_, changed)| *changed);
    let saved = |total: Span| 100.0 * (measure.as_ps() as f64 - total.as_ps() as f64) / measure.as_ps().max(1) as f64;
    let bar = |(place, (change, total)): (usize, (&Change, Span))| Bar {
        name: change.what.clone(),
        value: saved(total),
        loud: place == 0 && saved(total) >= 1.0,
        ..Bar::default()
    };
    let rows = made.into_iter().enumerate().map(bar).collect();
    let bars = Bars { label: "what one change saves of the time".to_owned(), unit: Unit::Percent, mark: None, limit: None, rows };
    Figure::new(title, [Panel::Waterfall(waterfall), Panel::Bars(bars)])
}

/// Adds the table of changes, the largest saving first, and why some cannot be made.
pub fn show_changes(outcome: &mut Outcome, total: Span, changes: &[Change]) {
    let mut grid = Grid::new([
        Column::words("change", "change"),
        Column::number("time (ns)", "ps").unit("ps"),
        Column::shown("saves (ns)"),
        Column::shown("saves (%)"),
    ]);
    let mut made: Vec<(&Change, Span)> = changes.iter().filter_map(|c| c.total.as_ref().ok().map(|t| (c, *t))).collect();
    made.sort_by_key(|(_, changed)| *changed);
    for (change, changed) in made {
        let saved = total.as_ps() as f64 - changed.as_ps() as f64;
        let share = if total == Span::ZERO { 0.0 } else { 100.0 * saved / total.as_ps() as f64 };
        let time = Cell::told(nanoseconds(changed), changed.as_ps());
        grid.push([Cell::word(change.what.clone()), time, Cell::number(saved / 1e3, 3), Cell::number(share, 1)]);
    }
    outcome.table(grid.named("changes"));
    for change in changes {
        if let Err(reason) = &change.total {
            outcome.note(format!("{}: {reason}", change.what));
        }
    }
}

/// Nanoseconds with all three decimals that picoseconds have, so that a column adds up as printed.
#[must_use]
pub fn nanoseconds(span: Span) -> String {
    format!("{}.{:03}", span.as_ps() / 1000, span.as_ps() % 1000)
}

fn share(part: Span, whole: Span) -> String {
    if whole == Span::ZERO {
        return "-".to_owned();
    }
    format!("{:.1}", 100.0 * part.as_ps() as f64 / whole.as_ps() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::{Renderer, Text};

    fn stages(total: u64) -> Result<Stages, Unaccounted> {
        let rows = [("post", 80_000), ("switch", 90_000), ("switch", 5), ("wire", 100_000), ("switch", 90_000)];
        Stages::new(rows.map(|(n, ps)| (n.to_owned(), Span::from_ps(ps))), Span::from_ps(total))
    }

    #[test]
    fn the_printed_column_adds_up_exactly() {
        let stages = stages(360_005).unwrap();
        let text = stages.grid().text();
        let mut times: Vec<f64> = text.lines().skip(1).filter_map(|l| l.split_whitespace().nth(1)?.parse().ok()).collect();
        let total = times.pop().unwrap();
        assert_eq!(times.iter().map(|t| (t * 1000.0).round() as u64).sum::<u64>(), (total * 1000.0).round() as u64);
        assert_eq!(stages.rows().count(), 4);
    }

    #[test]
    fn a_gap_is_an_error() {
        assert!(stages(360_006).unwrap_err().to_string().contains("360.006 ns"));
    }

    #[test]
    fn the_longest_stage_counts_all_its_occurrences() {
        assert_eq!(stages(360_005).unwrap().longest(), Some(("switch", Span::from_ps(180_005))));
    }

    #[test]
    fn changes_are_sorted_and_refusals_kept() {
        let change = |what: &str, total| Change { what: what.to_owned(), total };
        let changes = [
            change("a smaller MTU", Ok(Span::from_ns(1100))),
            change("one hop less", Ok(Span::from_ns(900))),
            change("inline", Err("256 B do not fit".to_owned())),
        ];
        let mut outcome = Outcome::new();
        show_changes(&mut outcome, Span::from_ns(1000), &changes);
        let text = Text.render(&outcome).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].starts_with("one hop less") && lines[1].ends_with("10.0"), "{text}");
        assert!(lines[2].ends_with("-10.0") && lines[3].contains("do not fit"), "{text}");
    }
}
