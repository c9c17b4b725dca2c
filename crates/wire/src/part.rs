//! Which part of its message a packet carries.

/// Which part of its message a packet carries; opcodes differ by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// All of it.
    Only,
    /// Its beginning.
    First,
    /// What lies between.
    Middle,
    /// Its end.
    Last,
}

impl From<(bool, bool)> for Part {
    /// The part that begins the message or not, and ends it or not.
    fn from(begins_ends: (bool, bool)) -> Part {
        match begins_ends {
            (true, true) => Part::Only,
            (true, false) => Part::First,
            (false, false) => Part::Middle,
            (false, true) => Part::Last,
        }
    }
}
