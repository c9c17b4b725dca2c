//! Parts that clusters share until one of them changes a number.
//!
//! A cluster holds its adapters, processors and libraries; what-if runs, sweeps and searches copy clusters by the thousand and change one number.
//! A copy of a shared part is a count; whoever changes it gets a part of his own then.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use serde::{Serialize, Serializer};

/// A part that copies share; read like the part itself, and copied when it is changed while others have it.
pub struct Shared<T>(Arc<T>);

impl<T> Shared<T> {
    /// A part that nobody else has.
    pub fn new(part: T) -> Shared<T> {
        Shared(Arc::new(part))
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Shared<T> {
        Shared(Arc::clone(&self.0))
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Clone> DerefMut for Shared<T> {
    // Rare, and the copy of a part is long: once in a program is enough.
    #[inline(never)]
    fn deref_mut(&mut self) -> &mut T {
        Arc::make_mut(&mut self.0)
    }
}

impl<T> From<T> for Shared<T> {
    fn from(part: T) -> Shared<T> {
        Shared::new(part)
    }
}

impl<T: PartialEq> PartialEq for Shared<T> {
    fn eq(&self, other: &Shared<T>) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl<T: fmt::Debug> fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T: Serialize> Serialize for Shared<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}
