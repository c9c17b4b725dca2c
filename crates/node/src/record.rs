//! What the programs of a job record for who started it.
//!
//! Not modelled: that takes no time, and no message.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Results of a job: programs write them, whatever threads they run in, and who started them reads them afterwards. Clones are the same
/// record.
#[derive(Debug, Default)]
pub struct Record<T>(Arc<Mutex<T>>);

impl<T> Record<T> {
    /// A record that begins so.
    pub fn new(begin: T) -> Record<T> {
        Record(Arc::new(Mutex::new(begin)))
    }
    /// What is recorded; nobody else has it meanwhile.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Takes what is recorded, and leaves an empty record.
    pub fn take(&self) -> T
    where
        T: Default,
    {
        std::mem::take(&mut *self.lock())
    }
}

impl<T> Clone for Record<T> {
    fn clone(&self) -> Record<T> {
        Record(Arc::clone(&self.0))
    }
}
