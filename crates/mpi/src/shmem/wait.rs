//! `shmem_wait_until`: spinning on a word that other PEs write.
//!
//! Source: OpenSHMEM 1.5, §9.10.
//! Modelled: the word is read when everything that the adapters have taken for it can be seen; between two looks the PE is inside its
//! library. A job has to keep contents for it.
//! Not modelled: puts that were on their way when a PE first waited for the word: those are seen when the adapter has them.

use fabriscope_node::{Awaited, ProgramError};
use fabriscope_verbs::WatchId;

use super::pe::Pe;

/// How the word is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    /// `SHMEM_CMP_EQ`.
    Equal,
    /// `SHMEM_CMP_NE`.
    NotEqual,
    /// `SHMEM_CMP_GE`.
    AtLeast,
}

impl Relation {
    fn holds(self, word: u64, value: u64) -> bool {
        match self {
            Relation::Equal => word == value,
            Relation::NotEqual => word != value,
            Relation::AtLeast => word >= value,
        }
    }
    fn words(self) -> &'static str {
        match self {
            Relation::Equal => "equal to",
            Relation::NotEqual => "other than",
            Relation::AtLeast => "at least",
        }
    }
}

impl Pe {
    /// `shmem_wait_until` on the 64 bits at `offset` of the own heap; gives what is there.
    ///
    /// # Errors
    /// A word beyond the heap; a job that keeps no contents.
    pub async fn wait_until(&self, offset: u64, relation: Relation, value: u64) -> Result<u64, ProgramError> {
        self.check(self.me(), offset, 8)?;
        if self.rank.contents().is_none() {
            return Err(ProgramError(format!("PE {}: a job that keeps no contents has no words to wait for", self.me())));
        }
        let watches = self.watches_of(offset)?;
        let process = self.rank.process();
        process.catch_up().await;
        loop {
            let now = process.now();
            let next = |&(nic, watch): &(usize, WatchId)| (nic, watch, process.nic(nic, |n| n.watch_count(watch, now)) + 1);
            let next: Vec<(usize, WatchId, u64)> = watches.iter().map(next).collect();
            let coming = next.iter().any(|&(nic, watch, count)| process.nic(nic, |n| n.watch_reaches(watch, count)).is_some());
            let mut word = [0; 8];
            self.rank.load(offset, &mut word)?;
            let word = u64::from_ne_bytes(word);
            if !coming && relation.holds(word, value) {
                process.awaits(Awaited::Unsaid);
                return Ok(word);
            }
            process.awaits(Awaited::Word { offset, relation: relation.words(), value, now: word });
            self.rank.turn_for(&next).await?;
        }
    }

    fn watches_of(&self, offset: u64) -> Result<Vec<(usize, WatchId)>, ProgramError> {
        if let Some(watches) = self.watched.borrow().get(&offset) {
            return Ok(watches.clone());
        }
        let watches = self.rank.watch(offset, 8)?;
        self.watched.borrow_mut().insert(offset, watches.clone());
        Ok(watches)
    }
}
