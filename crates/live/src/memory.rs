//! The memory of processes, as an adapter of their host reads and writes it.
//!
//! Every protection domain is of one process, and its memory is `/proc/PID/mem`: an ancestor may open that without any privilege, also where
//! `ptrace_scope` is 1, and pages that a process may not touch right now are written all the same.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fabriscope_verbs::{Lid, Memory, PdId};

use crate::address;

/// Whose memory the protection domains of an adapter stand for; clones are the same.
#[derive(Clone, Default)]
pub(crate) struct HostMemory(Arc<Mutex<Domains>>);

#[derive(Default)]
struct Domains {
    memory: BTreeMap<PdId, Arc<File>>,
    /// Bytes of a request that were copied when it was posted.
    posted: Vec<u8>,
    taken: usize,
    ethernet: bool,
    /// Names of multicast groups.
    groups: BTreeMap<Lid, [u8; 16]>,
}

impl HostMemory {
    /// Of an adapter whose ports are Ethernet or not.
    pub fn new(ethernet: bool) -> HostMemory {
        HostMemory(Arc::new(Mutex::new(Domains { ethernet, ..Domains::default() })))
    }
    /// A process has made a domain.
    pub fn give(&self, pd: PdId, memory: Arc<File>) {
        self.domains().memory.insert(pd, memory);
    }
    /// The domain is gone, or its process is.
    pub fn take(&self, pd: PdId) {
        self.domains().memory.remove(&pd);
    }
    /// The group at an address has this GID.
    pub fn name_group(&self, at: Lid, gid: [u8; 16]) {
        self.domains().groups.insert(at, gid);
    }
    /// What is read next was copied by the program that posts.
    pub fn stage(&self, bytes: Vec<u8>) {
        let domains = &mut *self.domains();
        (domains.posted, domains.taken) = (bytes, 0);
    }

    fn domains(&self) -> MutexGuard<'_, Domains> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Memory for HostMemory {
    fn read(&self, pd: PdId, addr: u64, into: &mut [u8]) {
        let domains = &mut *self.domains();
        let staged = &domains.posted[domains.taken..];
        if !staged.is_empty() {
            let part = staged.len().min(into.len());
            into[..part].copy_from_slice(&staged[..part]);
            domains.taken += part;
            return;
        }
        if let Some(memory) = domains.memory.get(&pd) {
            // A process that died in the meantime has nothing to read.
            drop(memory.read_exact_at(into, addr));
        }
    }
    fn write(&mut self, pd: PdId, addr: u64, from: &[u8]) {
        if let Some(memory) = self.domains().memory.get(&pd) {
            drop(memory.write_all_at(from, addr));
        }
    }
    fn global_header(&self, from: Lid, to: Lid, bytes: u32) -> Option<[u8; 40]> {
        let domains = self.domains();
        let mut header = address::global_header(domains.ethernet, from, to, bytes);
        if let Some(gid) = domains.groups.get(&to) {
            header[24..].copy_from_slice(gid);
        }
        Some(header)
    }
}
