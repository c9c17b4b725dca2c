//! Dependencies of a rank put in order: numbers are unique, and each dependency names a record that is there.

use std::collections::BTreeSet;

use crate::error::{Position, Problem, TraceError};
use crate::{After, Kind, Reading, Record};

/// Drops dependencies on records that are not there, which converted traces have, and counts them.
pub(crate) fn settle(file: &str, records: &mut [Record], reading: &mut Reading) -> Result<(), TraceError> {
    let mut known = BTreeSet::new();
    for (at, record) in records.iter().enumerate() {
        if !known.insert(record.id) {
            return Err(TraceError::new(file, Position::Record(at as u64), Problem::Duplicate { id: record.id.0 }));
        }
    }
    for record in &mut *records {
        let id = record.id;
        let before = record.after.len();
        record.after.retain(|after| known.contains(&after.record()) && after.record() != id);
        for _ in record.after.len()..before {
            reading.note("dependencies on records that are not in the file were dropped");
        }
        let mut seen = BTreeSet::new();
        record.after.retain(|after| seen.insert(*after));
    }
    Ok(())
}

/// Notes collectives that wait for nothing while nothing waits for them: a simulator would start all of them at once.
pub(crate) fn note_loose_collectives(records: &[Record], reading: &mut Reading) {
    let waited_for: BTreeSet<_> = records.iter().flat_map(|record| record.after.iter().map(|after| After::record(*after))).collect();
    for record in records {
        if matches!(record.kind, Kind::Collective(_)) && record.after.is_empty() && !waited_for.contains(&record.id) && records.len() > 1 {
            reading.note("collectives that wait for nothing and that nothing waits for: all would start at once");
        }
    }
}
