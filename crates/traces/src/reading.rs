//! What was read, used, left out and assumed, so that nobody has to guess.

use std::collections::BTreeMap;

use crate::clocks::Clock;

/// The account of a reading. Every record of the files is either used or left out for a reason.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reading {
    /// Files (members of archives each for itself).
    pub files: u32,
    /// Records in them: nodes, events, calls, rows, log lines.
    pub records: u64,
    /// Those that became part of the trace.
    pub used: u64,
    /// Those left out, by reason.
    pub left_out: BTreeMap<String, u64>,
    /// What the files do not say and was assumed, each with the number of records it concerns (0 for the whole file).
    pub assumed: BTreeMap<String, u64>,
    /// What looks wrong or deserves a look, each with its number.
    pub notes: BTreeMap<String, u64>,
    /// How far the clocks of ranks were apart, where they could be compared; times are those of the clocks that count.
    pub clocks: Vec<Clock>,
}

impl Reading {
    /// A record was read and used.
    pub(crate) fn used(&mut self) {
        self.records += 1;
        self.used += 1;
    }
    /// A record was read and left out.
    pub(crate) fn left(&mut self, reason: impl Into<String>) {
        self.records += 1;
        *self.left_out.entry(reason.into()).or_default() += 1;
    }
    /// Several records were read and left out.
    pub(crate) fn left_many(&mut self, reason: impl Into<String>, count: u64) {
        if count > 0 {
            self.records += count;
            *self.left_out.entry(reason.into()).or_default() += count;
        }
    }
    /// Something was assumed for one record.
    pub(crate) fn assume(&mut self, what: impl Into<String>) {
        *self.assumed.entry(what.into()).or_default() += 1;
    }
    /// Something was assumed for a whole file.
    pub(crate) fn assume_all(&mut self, what: impl Into<String>) {
        self.assumed.entry(what.into()).or_default();
    }
    /// Something was noticed.
    pub(crate) fn note(&mut self, what: impl Into<String>) {
        *self.notes.entry(what.into()).or_default() += 1;
    }
    /// Records left out for all reasons together.
    #[must_use]
    pub fn left_out_in_all(&self) -> u64 {
        self.left_out.values().sum()
    }
    /// Takes the account of another file into this one.
    pub(crate) fn add(&mut self, other: Reading) {
        self.files += other.files;
        self.records += other.records;
        self.used += other.used;
        for (mine, theirs) in [(&mut self.left_out, other.left_out), (&mut self.assumed, other.assumed), (&mut self.notes, other.notes)] {
            for (what, count) in theirs {
                *mine.entry(what).or_default() += count;
            }
        }
    }
}
