//! What the programs of a job hold in common outside the model: results for who started them, the store of keys and values, what tests look at.
//!
//! Not modelled: it takes no time, and no message.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Something that all programs of a job may write and read, whatever threads they run in, and who started them afterwards. Clones are the
/// same record.
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
