//! The text form: one statement per line, in the words of GOAL and with units.

use std::fmt;

use crate::{After, Schedule};

impl fmt::Display for Schedule {
    /// Text that [`Schedule::parse`] reads back into an equal schedule.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "num_ranks {}", self.ranks())?;
        for rank in (0..self.ranks()).filter(|rank| !self.kinds(*rank).is_empty()) {
            writeln!(f, "\nrank {rank} {{")?;
            for op in self.ops(rank) {
                writeln!(f, "  {}: {}", op.id, op.kind)?;
                for after in op.after {
                    match after {
                        After::End(earlier) => writeln!(f, "  {} requires {earlier}", op.id)?,
                        After::Start(earlier) => writeln!(f, "  {} irequires {earlier}", op.id)?,
                    }
                }
            }
            writeln!(f, "}}")?;
        }
        Ok(())
    }
}
