//! What the time of a call passes with, as engines count it.
//!
//! Source: M. Geimer et al., "The Scalasca performance toolset architecture", Concurr. Comput. 22, 2010 (wait states such as the late
//! sender); M. Wagner et al., "A structured approach to performance analysis", 2019 (POP: load balance, serialisation, transfer).
//! Modelled: a core is at its own work, or waits: for a message that nobody has sent, for one that itself waits for others, for one on
//! its way. Packets tell only work and waiting apart; without packets all are.
//! Not modelled: waiting that would go on for another reason if this one ended.

use fabriscope_units::Span;

/// Why time passes in a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// The core works: it posts, looks for, and takes messages, or computes.
    Core,
    /// It copies and adds, beside other cores of the node.
    Copies,
    /// It waits for a message that nobody has sent yet.
    Late,
    /// It waits for one that waits for others: at adapters, links, and memories of nodes.
    Contention,
    /// It waits for one on its way.
    Transfer,
    /// It waits, for whatever it is.
    Waiting,
}

impl Cause {
    /// Every one.
    pub const ALL: [Cause; 6] = [Cause::Core, Cause::Copies, Cause::Late, Cause::Contention, Cause::Transfer, Cause::Waiting];

    /// What it is called.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Cause::Core => "messages on the core",
            Cause::Copies => "copies by the core",
            Cause::Late => "late sender",
            Cause::Contention => "contention",
            Cause::Transfer => "transfer",
            Cause::Waiting => "waiting",
        }
    }
}

/// The time of a phase by cause, in the order of [`Cause::ALL`].
pub type ByCause = [Span; Cause::ALL.len()];
