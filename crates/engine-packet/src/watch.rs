//! What looks at a run, and what disturbs it.

use fabriscope_engine::{Control, Stats, Timeline};

use crate::faults::Faults;
use crate::observe::Observer;
use crate::trace::Tracer;

/// Statistics, traces, taps and counters, and faults.
pub(crate) struct Watch {
    pub stats: Stats,
    pub trace: Tracer,
    /// What watches the links.
    pub observer: Option<Box<Observer>>,
    /// What breaks, where anything does.
    pub faults: Option<Box<Faults>>,
    pub arrivals: Arrivals,
    /// Who manages the fabric, where a program does.
    pub control: Option<Control>,
}

/// Whether arrivals are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrivals {
    /// They are as they were sent.
    Trusted,
    /// They may be damaged, refused, or are counted.
    Inspected,
}

impl Watch {
    /// Nothing is watched yet.
    pub fn new(arrivals: Arrivals, timeline: Option<Timeline>) -> Watch {
        Watch { stats: Stats::default(), trace: Tracer::new(timeline), observer: None, faults: None, arrivals, control: None }
    }

    /// Whether arrivals are looked at.
    #[inline(always)]
    pub fn inspects(&self) -> bool {
        self.arrivals == Arrivals::Inspected
    }
}
