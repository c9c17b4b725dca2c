//! A way to end what runs from outside: at Ctrl-C, or when nobody waits for the answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether to go on. Copies are the same one. It belongs to a question, not to a cluster, so that any two count as equal.
#[derive(Clone, Debug, Default)]
pub struct Stop(Option<Arc<AtomicBool>>);

impl Stop {
    /// One that can be set; that of [`Default`] never is.
    #[must_use]
    pub fn new() -> Stop {
        Stop(Some(Arc::default()))
    }
    /// Ends all runs that look at it, soon. Gives whether it was set before.
    pub fn set(&self) -> bool {
        self.0.as_ref().is_some_and(|flag| flag.swap(true, Ordering::Relaxed))
    }
    /// Whether it was set.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.0.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed))
    }
}

impl PartialEq for Stop {
    fn eq(&self, _: &Stop) -> bool {
        true
    }
}
