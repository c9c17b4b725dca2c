//! What a program waits for in its own terms, for who asks why a run does not end.

use std::fmt;

/// What a program says that it waits for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Awaited {
    /// It did not say.
    #[default]
    Unsaid,
    /// The end of an operation on the memory of a rank.
    Answer {
        /// That rank.
        of: u32,
    },
    /// A rank that has not come to an operation in which all take part.
    Arrival {
        /// Which operation.
        at: &'static str,
        /// That rank.
        of: u32,
    },
    /// A word of the own memory that others write.
    Word {
        /// Where in the symmetric heap.
        offset: u64,
        /// How it is compared.
        relation: &'static str,
        /// With what.
        value: u64,
        /// What is there.
        now: u64,
    },
}

impl fmt::Display for Awaited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Awaited::Unsaid => Ok(()),
            Awaited::Answer { of } => write!(f, "the end of an operation on the memory of rank {of}"),
            Awaited::Arrival { at, of } => write!(f, "rank {of} in {at}"),
            Awaited::Word { offset, relation, value, now } => {
                write!(f, "the word at offset {offset} of its symmetric heap to be {relation} {value}; it is {now}, and nobody writes it")
            }
        }
    }
}
