//! What is in the memory of a node, for programs that look at it.
//!
//! Modelled: regions that its ranks expose; adapters of the node read and write them ([`fabriscope_verbs::Memory`]), cores too.
//! Not modelled: everything else: it reads as zero, and what is written there is forgotten.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use fabriscope_verbs::{Memory, PdId};

/// Bytes by address; the addresses of all ranks differ. Clones are the same memory.
#[derive(Debug, Clone, Default)]
pub(crate) struct Contents(Arc<Mutex<BTreeMap<u64, Vec<u8>>>>);

impl Contents {
    /// From now on `length` bytes from `addr` on are kept; they begin as zero. Regions do not overlap.
    pub fn expose(&self, addr: u64, length: usize) {
        self.regions().entry(addr).or_insert_with(|| vec![0; length]);
    }
    /// Fills `into` from `addr` on.
    pub fn load(&self, addr: u64, into: &mut [u8]) {
        into.fill(0);
        let regions = self.regions();
        if let Some((start, region)) = regions.range(..=addr).next_back() {
            let kept = usize::try_from(addr - start).ok().and_then(|at| region.get(at..)).unwrap_or(&[]);
            let length = kept.len().min(into.len());
            into[..length].copy_from_slice(&kept[..length]);
        }
    }
    /// Stores `bytes` from `addr` on.
    pub fn store(&self, addr: u64, bytes: &[u8]) {
        let mut regions = self.regions();
        if let Some((start, region)) = regions.range_mut(..=addr).next_back() {
            let kept = usize::try_from(addr - start).ok().and_then(|at| region.get_mut(at..)).unwrap_or(&mut []);
            let length = kept.len().min(bytes.len());
            kept[..length].copy_from_slice(&bytes[..length]);
        }
    }
    /// The 64 bits at `addr`.
    pub fn word(&self, addr: u64) -> u64 {
        let mut bytes = [0; 8];
        self.load(addr, &mut bytes);
        u64::from_ne_bytes(bytes)
    }
    /// Copies `length` bytes.
    pub fn copy(&self, from: u64, to: u64, length: usize) {
        let mut bytes = vec![0; length];
        self.load(from, &mut bytes);
        self.store(to, &bytes);
    }

    fn regions(&self) -> MutexGuard<'_, BTreeMap<u64, Vec<u8>>> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Memory for Contents {
    fn read(&self, _: PdId, addr: u64, into: &mut [u8]) {
        self.load(addr, into);
    }
    fn write(&mut self, _: PdId, addr: u64, from: &[u8]) {
        self.store(addr, from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_exposed_is_zero() {
        let memory = Contents::default();
        memory.expose(100, 16);
        memory.store(96, &[1; 8]);
        memory.store(112, &[7; 8]);
        memory.store(120, &[9; 8]);
        assert_eq!((memory.word(96), memory.word(100), memory.word(120)), (0, 0, 0));
        let mut both = [5; 8];
        memory.load(112, &mut both);
        assert_eq!(both, [7, 7, 7, 7, 0, 0, 0, 0]);
        memory.copy(112, 100, 4);
        assert_eq!(memory.word(100), 0x0707_0707);
    }
}
