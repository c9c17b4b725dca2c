//! An algorithm that the program around this library brings along, such as a class in a notebook.
//!
//! It stands where one of [`Algorithm`](super::Algorithm) stands and is told and asked the same; each call goes through a pointer. What
//! has proved itself becomes a file beside this one (docs/research.md).
//!
//! Modelled: all of [`Control`] and [`Signals`] but credit, which receivers give by a [`Granter`](super::Granter) of their own.

use std::fmt;
use std::sync::Arc;

use super::{Control, Line, Signals};

/// Makes the control of one sender behind a line.
type Make = dyn Fn(Line) -> Box<dyn Control + Send> + Send + Sync;

/// An algorithm from outside. Copies are the same one; two that were made apart are never equal.
#[derive(Clone)]
pub struct Prototype {
    signals: Signals,
    make: Arc<Make>,
}

impl Prototype {
    /// An algorithm that needs `signals` of receivers and links; `make` gives the control of one sender.
    #[must_use]
    pub fn new(signals: Signals, make: impl Fn(Line) -> Box<dyn Control + Send> + Send + Sync + 'static) -> Prototype {
        Prototype { signals, make: Arc::new(make) }
    }
    /// The control of a sender behind `line`.
    #[must_use]
    pub fn control(&self, line: Line) -> Box<dyn Control + Send> {
        (self.make)(line)
    }
    /// What it needs of receivers and links.
    #[must_use]
    pub fn signals(&self) -> Signals {
        self.signals
    }
}

impl PartialEq for Prototype {
    fn eq(&self, other: &Prototype) -> bool {
        Arc::ptr_eq(&self.make, &other.make)
    }
}

impl fmt::Debug for Prototype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prototype").field("signals", &self.signals).finish_non_exhaustive()
    }
}
