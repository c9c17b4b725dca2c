//! Memory that a NIC and a test share.

use std::sync::{Arc, Mutex};

use fabriscope_verbs::{Memory, PdId};

/// Memory shared between a NIC and the test.
#[derive(Clone)]
pub struct Ram(pub Arc<Mutex<Vec<u8>>>);

impl Ram {
    pub fn read(&self, addr: u64, into: &mut [u8]) {
        into.copy_from_slice(&self.0.lock().unwrap()[addr as usize..][..into.len()]);
    }
    pub fn write(&self, addr: u64, from: &[u8]) {
        self.0.lock().unwrap()[addr as usize..][..from.len()].copy_from_slice(from);
    }
}

impl Memory for Ram {
    fn read(&self, _: PdId, addr: u64, into: &mut [u8]) {
        Ram::read(self, addr, into);
    }
    fn write(&mut self, _: PdId, addr: u64, from: &[u8]) {
        Ram::write(self, addr, from);
    }
}
