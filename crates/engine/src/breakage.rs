//! What faults did to a run.

use fabriscope_units::{Span, Time};

/// What faults did to a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Breakage {
    /// Each fault, in the order of the plan.
    pub faults: Vec<FaultReport>,
    /// Tables of sweeps that began within the run, in the order of time.
    pub tables: Vec<NewTables>,
    /// Packets sent more than once.
    pub repeated: u64,
    /// Ends of connections that took their alternate path.
    pub migrated: u64,
    /// Messages that ended in an error, as their sender was told.
    pub failed: u64,
    /// Operations of a schedule that never began or never ended because a message that they need ended in an error.
    pub cut_off: u64,
}

/// What one fault did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FaultReport {
    /// What a person calls it.
    pub what: String,
    /// When it began.
    pub from: Time,
    /// When it ended; `None` for never.
    pub until: Option<Time>,
    /// It took links down, so that tables had to change.
    pub cuts: bool,
    /// Packets that it lost.
    pub packets_lost: u64,
    /// Of those with payload, how many arrived in the end, sent once more.
    pub repaired: u64,
    /// For how many no repetition arrived: it was not needed, the first one having got there, or the sender gave up.
    pub never_repaired: u64,
    /// The longest time from a loss to its repair.
    pub slowest_repair: Span,
    /// When all switches had, or would have had, tables that were made after it began, if that sweep began within the run.
    pub new_tables: Option<Time>,
}

/// Tables that a manager wrote.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NewTables {
    /// When its sweep began.
    pub started: Time,
    /// When the last switch had them.
    pub written: Time,
    /// They are those of the whole fabric: nothing is down any more.
    pub whole: bool,
}
