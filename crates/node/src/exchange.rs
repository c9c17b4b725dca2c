//! What the ranks of a job tell each other out of band: a store of keys and values.
//!
//! Source: PMIx Standard 5.0, chapters 5 and 6 (`PMIx_Put`, `PMIx_Commit`, `PMIx_Fence`, `PMIx_Get`).
//! Modelled: what a rank puts can be got after the next fence of both, and not before, so that nothing depends on the order in which ranks
//! run between two fences. Not modelled: the time that it takes; connecting takes none.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use crate::process::Process;
use crate::record::Record;

/// The store of a job, with tables `T`: [`exchange_keys!`](crate::exchange_keys) declares them. Clones are the same store.
pub struct Exchange<T>(Record<Entries<T>>);

/// A key, with what is kept under it.
pub trait Key<T>: Copy + Ord {
    /// What is kept.
    type Value: Copy;
    /// Where.
    fn table(tables: &mut T) -> &mut BTreeMap<Self, Entry<Self::Value>>;
}

/// A value, how many fences its writer had passed when it was put, and what was there before: who has not passed the fence behind the
/// newer one still finds the older.
#[derive(Debug, Clone, Copy)]
pub struct Entry<V> {
    fences: u64,
    value: V,
    before: Option<(u64, V)>,
}

impl<V: Copy> Entry<V> {
    /// What somebody finds who has passed so many fences.
    fn seen(&self, passed: u64) -> Option<V> {
        let newest = (self.fences < passed).then_some(self.value);
        newest.or_else(|| self.before.filter(|(fences, _)| *fences < passed).map(|(_, value)| value))
    }
}

#[derive(Default)]
struct Entries<T> {
    tables: T,
    /// Fences that each rank has passed.
    fences: BTreeMap<u32, u64>,
}

impl<T> Entries<T> {
    /// Fences that rank `me` has passed.
    fn passed(&self, me: u32) -> u64 {
        self.fences.get(&me).copied().unwrap_or(0)
    }
}

/// Declares the tables of a store: each has a type for its keys.
#[macro_export]
macro_rules! exchange_keys {
    ($($(#[$doc:meta])* $table:ident: $key:ident { $($field:ident: $type:ty),* } => $value:ty;)*) => {
        $($(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) struct $key { $(pub $field: $type),* }

        impl $crate::exchange::Key<Tables> for $key {
            type Value = $value;
            fn table(tables: &mut Tables) -> &mut std::collections::BTreeMap<$key, $crate::exchange::Entry<$value>> {
                &mut tables.$table
            }
        })*

        /// What was put, by kind.
        #[derive(Debug, Default)]
        pub(crate) struct Tables { $($table: std::collections::BTreeMap<$key, $crate::exchange::Entry<$value>>),* }
    };
}

impl<T> Exchange<T> {
    /// Rank `me` puts a value, in place of what it put there before.
    pub fn put<K: Key<T>>(&self, me: u32, key: K, value: K::Value) {
        let entries = &mut *self.0.lock();
        let fences = entries.passed(me);
        let table = K::table(&mut entries.tables);
        let before = table.get(&key).and_then(|entry| if entry.fences < fences { Some((entry.fences, entry.value)) } else { entry.before });
        table.insert(key, Entry { fences, value, before });
    }
    /// What rank `me` finds under a key.
    pub fn get<K: Key<T>>(&self, me: u32, key: K) -> Option<K::Value> {
        let entries = &mut *self.0.lock();
        let passed = entries.passed(me);
        K::table(&mut entries.tables).get(&key).and_then(|entry| entry.seen(passed))
    }
    /// Everything that it finds under keys of a kind, in their order.
    pub fn all<K: Key<T>>(&self, me: u32) -> Vec<(K, K::Value)> {
        let entries = &mut *self.0.lock();
        let passed = entries.passed(me);
        let table = K::table(&mut entries.tables);
        table.iter().filter_map(|(key, entry)| Some((*key, entry.seen(passed)?))).collect()
    }
    /// How many keys of a range have something for it.
    pub fn count<K: Key<T>>(&self, me: u32, keys: Range<K>) -> usize {
        let entries = &mut *self.0.lock();
        let passed = entries.passed(me);
        K::table(&mut entries.tables).range(keys).filter(|(_, entry)| entry.seen(passed).is_some()).count()
    }
    /// Waits until all ranks are here: then each finds what the others have put.
    pub async fn fence(&self, process: &Process) {
        process.barrier().await;
        self.pass(process.rank());
    }

    /// Rank `starter` starts `me`, which knows what that one knows.
    pub fn start(&self, starter: u32, me: u32) {
        let entries = &mut *self.0.lock();
        let passed = entries.passed(starter);
        entries.fences.insert(me, passed);
    }

    /// Rank `me` finds what the others have put by now: who calls this has met them in another way than at a barrier of all ranks.
    pub fn pass(&self, me: u32) {
        *self.0.lock().fences.entry(me).or_default() += 1;
    }
}

impl<T> Clone for Exchange<T> {
    fn clone(&self) -> Exchange<T> {
        Exchange(self.0.clone())
    }
}
impl<T: Default> Default for Exchange<T> {
    fn default() -> Exchange<T> {
        Exchange(Record::default())
    }
}
impl<T> fmt::Debug for Exchange<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "what {} ranks have put", self.0.lock().fences.len())
    }
}

#[cfg(test)]
mod tests {
    exchange_keys! {
        nodes: NodeOf { rank: u32 } => u32;
        domains: DomainOf { rank: u32 } => u32;
    }
    type Exchange = super::Exchange<Tables>;

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
        let count = |ranks: std::ops::Range<u32>| exchange.count(1, NodeOf { rank: ranks.start }..NodeOf { rank: ranks.end });
        assert_eq!((count(0..1), count(1..4)), (1, 0));
        exchange.put(1, NodeOf { rank: 1 }, 8);
        assert_eq!(exchange.all::<NodeOf>(0).len(), 1);
        // What is put in the place of something else is found behind its own fence, and the older until then.
        exchange.put(0, NodeOf { rank: 0 }, 9);
        exchange.put(0, NodeOf { rank: 0 }, 10);
        assert_eq!(exchange.get(1, NodeOf { rank: 0 }), Some(7));
        exchange.pass(1);
        assert_eq!((exchange.get(0, NodeOf { rank: 0 }), exchange.get(1, NodeOf { rank: 0 })), (Some(7), Some(10)));
    }

    #[test]
    fn who_is_started_knows_what_its_starter_knows() {
        let exchange = Exchange::default();
        exchange.put(0, NodeOf { rank: 0 }, 7);
        exchange.pass(0);
        exchange.put(0, NodeOf { rank: 1 }, 8);
        exchange.start(0, 5);
        assert_eq!((exchange.get(5, NodeOf { rank: 0 }), exchange.get(5, NodeOf { rank: 1 })), (Some(7), None));
    }
}
