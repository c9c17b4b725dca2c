//! How far predictions may lie from measurements: promises by kind of benchmark, and the tables that are known to miss them.
//!
//! `validation/tolerances.toml` has the promises and what is known of tables beside their rows; `validation/off.toml` pins how far those are off
//! that miss a promise, so that they are shown as missing it and still cannot get worse unseen.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Deserialize;

use crate::question::Kind;
use crate::settings::{Settings, SettingsError};
use crate::statistics::Summary;

/// Promises, what is known of tables, and which are off.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tolerances {
    /// What is promised of each table and metric, by kind of benchmark.
    #[serde(default)]
    goals: BTreeMap<Kind, Limits>,
    /// What is known of single tables.
    #[serde(default)]
    table: BTreeMap<String, Known>,
    /// How far tables that miss their promise are off, by metric.
    #[serde(skip)]
    off: BTreeMap<String, BTreeMap<String, Limits>>,
}

/// Limits of the absolute errors, in percent of the measured values.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Of their median [%].
    pub median: f64,
    /// Of their 90th percentile [%].
    pub p90: f64,
}

/// What is known of a table beside its rows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Known {
    /// What its publication says of the run: part of what was measured.
    pub said: Option<Said>,
    /// What was chosen because its values came out with it: a fit, shown beside the figures without it.
    pub chosen: Option<Chosen>,
    /// Rows that contradict others of the same machine. They count as all others.
    #[serde(default)]
    pub doubts: Vec<Doubt>,
}

/// Settings that a publication states.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Said {
    /// The settings.
    pub set: Settings,
    /// The words of the publication.
    pub words: String,
}

/// Settings that were chosen after the table had been seen.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chosen {
    /// The settings.
    pub set: Settings,
    /// What speaks for them.
    pub because: String,
}

/// Rows that contradict others.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Doubt {
    /// What their variant contains.
    pub variant: String,
    /// In what they contradict.
    pub because: String,
}

/// How a table stands to its promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// Within it.
    Ok,
    /// Over it, as is known, and no farther than that.
    Off,
    /// Over it, which is not known, or farther than is known.
    Worse,
    /// Nothing could be compared.
    Empty,
}

impl Standing {
    /// The word of the verdict.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Standing::Ok => "ok",
            Standing::Off => "off",
            Standing::Worse => "WORSE",
            Standing::Empty => "EMPTY",
        }
    }
    /// Whether nothing got worse.
    #[must_use]
    pub const fn holds(self) -> bool {
        matches!(self, Standing::Ok | Standing::Off)
    }
}

impl Tolerances {
    /// Reads a file's text; `file` is the name that messages give it.
    ///
    /// # Errors
    /// Not TOML, an unknown key, or a limit that is not a number; the message shows the line.
    pub fn parse(file: &str, text: &str) -> Result<Tolerances, SettingsError> {
        toml::from_str(text).map_err(|cause| SettingsError { file: file.to_owned(), cause })
    }
    /// The same with the tables that are known to miss their promises, from the text of a file.
    ///
    /// # Errors
    /// As [`Tolerances::parse`].
    pub fn with_off(mut self, file: &str, text: &str) -> Result<Tolerances, SettingsError> {
        self.off = toml::from_str(text).map_err(|cause| SettingsError { file: file.to_owned(), cause })?;
        Ok(self)
    }
    /// What is known of `table`.
    #[must_use]
    pub fn of(&self, table: &str) -> Option<&Known> {
        self.table.get(table)
    }
    /// What is promised of a kind of benchmark.
    #[must_use]
    pub fn goal(&self, kind: Kind) -> Option<Limits> {
        self.goals.get(&kind).copied()
    }
    /// Whether anything is promised at all.
    #[must_use]
    pub fn promises(&self) -> bool {
        !self.goals.is_empty()
    }
    /// How far a metric of a table is known to be off.
    #[must_use]
    pub fn off(&self, table: &str, metric: &str) -> Option<Limits> {
        self.off.get(table)?.get(metric).copied()
    }
    /// The tables that anything is said about, in the order of their names.
    pub fn tables(&self) -> impl Iterator<Item = &str> {
        self.table.keys().map(String::as_str)
    }
    /// The tables that are known to miss a promise, in the order of their names.
    pub fn tables_off(&self) -> impl Iterator<Item = &str> {
        self.off.keys().map(String::as_str)
    }
    /// How `summary` of a metric of a table stands to what is promised; nothing where nothing is.
    #[must_use]
    pub fn standing(&self, table: &str, metric: &str, kind: Kind, summary: Option<&Summary>) -> Option<Standing> {
        let goal = self.goal(kind)?;
        let Some(summary) = summary else { return Some(Standing::Empty) };
        Some(if goal.hold(summary) {
            Standing::Ok
        } else if self.off(table, metric).is_some_and(|off| off.or(goal).hold(summary)) {
            Standing::Off
        } else {
            Standing::Worse
        })
    }
}

impl Limits {
    /// The wider of two limits each: what keeps within a goal is no loss, wherever it was pinned.
    #[must_use]
    fn or(self, other: Limits) -> Limits {
        Limits { median: self.median.max(other.median), p90: self.p90.max(other.p90) }
    }
    /// Whether `summary` keeps within them.
    #[must_use]
    pub fn hold(&self, summary: &Summary) -> bool {
        summary.median <= self.median && summary.p90 <= self.p90
    }
    /// The pin of a table that is so far off: whole percents above it.
    #[must_use]
    pub fn pinned(summary: &Summary) -> Limits {
        Limits { median: summary.median.ceil(), p90: summary.p90.ceil() }
    }
}

/// The text of a file of the tables that miss their promises: table, metric, its errors.
pub(crate) fn pins<'a>(found: impl Iterator<Item = (&'a str, &'a str, Summary)>) -> String {
    let mut text = PINS.to_owned();
    let mut last = "";
    for (table, metric, summary) in found {
        if table != last {
            // Writing to a text cannot fail.
            let _ = write!(text, "\n[{table}]\n");
            last = table;
        }
        let Limits { median, p90 } = Limits::pinned(&summary);
        let _ = writeln!(text, "{} = {{ median = {median}, p90 = {p90} }}", toml::Value::String(metric.to_owned()));
    }
    text
}

const PINS: &str = "\
# How far tables are off that miss the promise of their kind (tolerances.toml), in percent of the measured values. They are shown as `off`; over
# what stands here they are `WORSE`, and `fabriscope validate` ends with exit status 1. Written by `fabriscope validate -o validation/off.toml`;
# a number that rises needs a line under *Model changes* in CHANGELOG.md. README.md says why they miss.
";

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(median: f64, p90: f64) -> Summary {
        Summary { median, p90, max: p90, bias: 0.0 }
    }

    const TEXT: &str = "[goals]\npoint_to_point = { median = 10, p90 = 25 }\n";

    #[test]
    fn both_limits_count() {
        let tolerances =
            Tolerances::parse("t.toml", TEXT).unwrap().with_off("o.toml", "[a]\nlatency = { median = 40, p90 = 25 }\n").unwrap();
        let standing = |table: &str, median, p90| tolerances.standing(table, "latency", Kind::PointToPoint, Some(&summary(median, p90)));
        assert_eq!(standing("a", 10.0, 25.0), Some(Standing::Ok));
        assert_eq!((standing("a", 10.1, 25.0), standing("a", 40.0, 25.0)), (Some(Standing::Off), Some(Standing::Off)));
        assert_eq!((standing("a", 40.1, 25.0), standing("a", 40.0, 25.1)), (Some(Standing::Worse), Some(Standing::Worse)));
        // A median that stays within the goal may move there.
        let off = "[a]\nlatency = { median = 3, p90 = 99 }\n";
        let moved = Tolerances::parse("t.toml", TEXT).unwrap().with_off("o.toml", off).unwrap();
        assert_eq!(moved.standing("a", "latency", Kind::PointToPoint, Some(&summary(9.0, 99.0))), Some(Standing::Off));
        assert_eq!(moved.standing("a", "latency", Kind::PointToPoint, Some(&summary(10.1, 99.0))), Some(Standing::Worse));
        // Not known to be off, another metric, nothing compared, nothing promised.
        assert_eq!(standing("b", 10.1, 25.0), Some(Standing::Worse));
        assert_eq!(tolerances.standing("a", "bandwidth", Kind::PointToPoint, Some(&summary(30.0, 1.0))), Some(Standing::Worse));
        assert_eq!(tolerances.standing("a", "latency", Kind::PointToPoint, None), Some(Standing::Empty));
        assert_eq!(tolerances.standing("a", "latency", Kind::Perftest, Some(&summary(99.0, 99.0))), None);
    }

    #[test]
    fn what_is_written_is_read_again() {
        let found =
            [("a", "latency", summary(12.3, 44.7)), ("a", "message rate", summary(12.0, 20.0)), ("b", "latency", summary(1.0, 99.01))];
        let text = pins(found.into_iter());
        let tolerances = Tolerances::parse("t.toml", TEXT).unwrap().with_off("o.toml", &text).unwrap();
        assert_eq!(tolerances.off("a", "latency"), Some(Limits { median: 13.0, p90: 45.0 }));
        assert_eq!(tolerances.off("a", "message rate"), Some(Limits { median: 12.0, p90: 20.0 }));
        assert_eq!(tolerances.off("b", "latency"), Some(Limits { median: 1.0, p90: 100.0 }));
        assert_eq!(tolerances.off("b", "bandwidth"), None);
    }

    #[test]
    fn an_unknown_key_is_refused_with_its_line() {
        let told = |text: &str| Tolerances::parse("t.toml", text).unwrap_err().to_string();
        let message = told("[goals]\nperftest = { median = 3, p90 = 8, mean = 2 }\n");
        assert!(message.contains("t.toml") && message.contains("line 2") && message.contains("mean"), "{message}");
        assert!(told("[goals]\nperftests = { median = 3, p90 = 8 }\n").contains("perftests"));
        assert!(told("[table.a]\nexcept = 1\n").contains("except"));
    }
}
