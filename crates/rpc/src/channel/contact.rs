//! How programs find each other before they are connected: out of band, as a resolver of names tells them.

use std::collections::BTreeMap;

use fabriscope_node::Record;
use fabriscope_verbs::{Lid, QpNum, Rkey};

/// What a program tells the one at the other end of a connection of queue pairs.
#[derive(Debug, Clone, Copy)]
pub(super) struct QpContact {
    pub lid: Lid,
    pub qp: QpNum,
    pub rkey: Rkey,
    /// Where its ring for this connection ends.
    pub ring_end: u64,
    /// Where its buffers begin.
    pub buffers: u64,
}

#[derive(Debug, Default)]
struct Known {
    /// Where programs listen.
    listeners: BTreeMap<u32, Lid>,
    /// Who called from which port of which interface.
    callers: BTreeMap<(u32, u16), u32>,
    /// From whom, to whom.
    queue_pairs: BTreeMap<(u32, u32), QpContact>,
}

/// What the programs of a job know of each other; clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Contacts(Record<Known>);

impl Contacts {
    pub(super) fn listens(&self, rank: u32, address: Lid) {
        self.0.lock().listeners.insert(rank, address);
    }
    pub(super) fn listener(&self, rank: u32) -> Option<Lid> {
        self.0.lock().listeners.get(&rank).copied()
    }
    pub(super) fn calls(&self, rank: u32, address: Lid, port: u16) {
        self.0.lock().callers.insert((address.0, port), rank);
    }
    pub(super) fn caller(&self, address: u32, port: u16) -> Option<u32> {
        self.0.lock().callers.get(&(address, port)).copied()
    }
    pub(super) fn tell(&self, from: u32, to: u32, contact: QpContact) {
        self.0.lock().queue_pairs.insert((from, to), contact);
    }
    pub(super) fn told(&self, from: u32, to: u32) -> Option<QpContact> {
        self.0.lock().queue_pairs.get(&(from, to)).copied()
    }
}
