//! Steady states that a run left out, and why it left out no more.

use std::fmt;

use fabriscope_units::Span;

/// What a run left out of its steady states: [`Run::skipped`](crate::Run::skipped).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Skipped {
    /// How often the run went on at a later time.
    pub jumps: u64,
    /// Simulated time that was left out.
    pub span: Span,
    /// Packets with payload that were taken out of messages.
    pub packets: u64,
    /// Windows whose rates were compared with those before.
    pub windows: u64,
    /// Windows that were not steady, by the reason; only reasons that there were, in the order of [`Unsteady::ALL`].
    pub unsteady: Vec<(Unsteady, u64)>,
    /// Why this run could skip nothing from the start.
    pub refused: Option<String>,
}

impl Skipped {
    /// A run that could skip nothing, and why.
    #[must_use]
    pub fn refused(why: impl Into<String>) -> Skipped {
        Skipped { refused: Some(why.into()), ..Skipped::default() }
    }

    /// One more window that was not steady.
    pub fn note(&mut self, reason: Unsteady) {
        match self.unsteady.binary_search_by_key(&reason, |entry| entry.0) {
            Ok(at) => self.unsteady[at].1 += 1,
            Err(at) => self.unsteady.insert(at, (reason, 1)),
        }
    }

    /// The reason of most windows that were not steady.
    #[must_use]
    pub fn most(&self) -> Option<(Unsteady, u64)> {
        self.unsteady.iter().copied().max_by_key(|(reason, count)| (*count, std::cmp::Reverse(*reason)))
    }
}

/// Why a window of a run was no part of a steady state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unsteady {
    /// Rates of messages differed from window to window.
    Rates,
    /// What is on its way grew or shrank.
    Queues,
    /// Packets were lost, trimmed or sent again.
    Losses,
    /// Congestion control changed what senders may do, or waits to.
    Control,
    /// A READ was outstanding, or a message that its receiver does not know yet.
    Messages,
    /// A message sent so few packets that its rate is not known.
    Few,
}

impl Unsteady {
    /// All of them.
    pub const ALL: [Unsteady; 6] =
        [Unsteady::Rates, Unsteady::Queues, Unsteady::Losses, Unsteady::Control, Unsteady::Messages, Unsteady::Few];
}

impl fmt::Display for Unsteady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unsteady::Rates => "rates of messages changed from window to window",
            Unsteady::Queues => "queues grew or shrank",
            Unsteady::Losses => "packets were lost, trimmed or sent again",
            Unsteady::Control => "congestion control was at work",
            Unsteady::Messages => "READs or messages that had just begun were outstanding",
            Unsteady::Few => "messages sent too few packets",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_counted_in_their_order() {
        let mut skipped = Skipped::default();
        assert_eq!(skipped.most(), None);
        for reason in [Unsteady::Control, Unsteady::Rates, Unsteady::Control, Unsteady::Queues] {
            skipped.note(reason);
        }
        assert_eq!(skipped.unsteady, [(Unsteady::Rates, 1), (Unsteady::Queues, 1), (Unsteady::Control, 2)]);
        assert_eq!(skipped.most(), Some((Unsteady::Control, 2)));
        assert!(Unsteady::ALL.is_sorted());
    }
}
