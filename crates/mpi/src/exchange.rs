//! What ranks tell each other before their first message: a store of keys and values.
//!
//! Source: PMIx Standard 5.0, chapters 5 and 6 (`PMIx_Put`, `PMIx_Commit`, `PMIx_Fence`, `PMIx_Get`).
//! Modelled: what a rank puts can be got after the next fence of both, and not before, so that nothing depends on the order in which ranks
//! run between two fences. Not modelled: the time that it takes; connecting takes none.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fabriscope_node::Process;
use fabriscope_psm2::Address;
use fabriscope_verbs::{Lid, QpNum, Rkey};

/// The store of a job. Clones are the same store.
#[derive(Debug, Clone, Default)]
pub(crate) struct Exchange(Arc<Mutex<Entries>>);

/// A key, with what is kept under it.
pub(crate) trait Key: Copy + Ord {
    type Value: Copy;
    fn table(tables: &mut Tables) -> &mut BTreeMap<Self, Entry<Self::Value>>;
}

/// A value, and how many fences its writer had passed when it was put.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry<V> {
    fences: u64,
    value: V,
}

#[derive(Debug, Default)]
struct Entries {
    tables: Tables,
    /// Fences that each rank has passed.
    fences: BTreeMap<u32, u64>,
}

/// Declares the keys: each is a type with its table.
macro_rules! keys {
    ($($(#[$doc:meta])* $table:ident: $key:ident { $($field:ident: $type:ty),* } => $value:ty;)*) => {
        $($(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) struct $key { $(pub $field: $type),* }

        impl Key for $key {
            type Value = $value;
            fn table(tables: &mut Tables) -> &mut BTreeMap<$key, Entry<$value>> {
                &mut tables.$table
            }
        })*

        /// What was put, by kind.
        #[derive(Debug, Default)]
        pub(crate) struct Tables { $($table: BTreeMap<$key, Entry<$value>>),* }
    };
}

keys! {
    /// The node of a rank.
    nodes: NodeOf { rank: u32 } => u32;
    /// Its NUMA domain there.
    domains: DomainOf { rank: u32 } => u32;
    /// What a rank tells a peer about one rail.
    contacts: ContactOf { from: u32, to: u32, rail: usize } => Contact;
    /// Where a rank listens, over sockets.
    listeners: ListenerOf { rank: u32 } => Lid;
    /// Who calls a rank from this address and port.
    callers: CallerOf { callee: u32, address: Lid, port: u16 } => u32;
    /// Where a rank is, over PSM2.
    addresses: AddressOf { rank: u32 } => Address;
    /// Where the window of a rank begins: memory for one-sided operations.
    windows: WindowOf { rank: u32 } => u64;
}

/// What a rank tells a peer about one rail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Contact {
    pub lid: Lid,
    pub qp: QpNum,
    pub rkey: Rkey,
    pub ring: u64,
    pub user: u64,
    pub device: Option<(u64, Rkey)>,
}

impl Exchange {
    /// Rank `me` puts a value, in place of what it put there before.
    pub fn put<K: Key>(&self, me: u32, key: K, value: K::Value) {
        let entries = &mut *self.entries();
        let fences = entries.fences.get(&me).copied().unwrap_or(0);
        K::table(&mut entries.tables).insert(key, Entry { fences, value });
    }
    /// What rank `me` finds under a key.
    pub fn get<K: Key>(&self, me: u32, key: K) -> Option<K::Value> {
        let entries = &mut *self.entries();
        let passed = entries.fences.get(&me).copied().unwrap_or(0);
        K::table(&mut entries.tables).get(&key).filter(|entry| entry.fences < passed).map(|entry| entry.value)
    }
    /// Everything that it finds under keys of a kind, in their order.
    pub fn all<K: Key>(&self, me: u32) -> Vec<(K, K::Value)> {
        let entries = &mut *self.entries();
        let passed = entries.fences.get(&me).copied().unwrap_or(0);
        let table = K::table(&mut entries.tables);
        table.iter().filter(|(_, entry)| entry.fences < passed).map(|(key, entry)| (*key, entry.value)).collect()
    }
    /// Waits until all ranks are here: then each finds what the others have put.
    pub async fn fence(&self, process: &Process) {
        process.barrier().await;
        self.pass(process.rank());
    }

    fn pass(&self, me: u32) {
        *self.entries().fences.entry(me).or_default() += 1;
    }
    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_is_found_behind_the_fence() {
        let exchange = Exchange::default();
        exchange.put(0, NodeOf { rank: 0 }, 7);
        assert_eq!(exchange.get(1, NodeOf { rank: 0 }), None);
        exchange.pass(0);
        // Rank 0 has passed and puts more; rank 1 is still on its way.
        exchange.put(0, DomainOf { rank: 0 }, 1);
        assert_eq!((exchange.get(0, NodeOf { rank: 0 }), exchange.get(1, NodeOf { rank: 0 })), (Some(7), None));
        exchange.pass(1);
        assert_eq!((exchange.get(1, NodeOf { rank: 0 }), exchange.get(1, DomainOf { rank: 0 })), (Some(7), None));
        [0, 1].into_iter().for_each(|rank| exchange.pass(rank));
        assert_eq!(exchange.all::<DomainOf>(1), [(DomainOf { rank: 0 }, 1)]);
        exchange.put(1, NodeOf { rank: 1 }, 8);
        assert_eq!(exchange.all::<NodeOf>(0).len(), 1);
    }
}
