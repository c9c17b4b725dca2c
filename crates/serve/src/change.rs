//! Parts in the place of those that a cluster has: what "what if" changes.
//!
//! One line of [`CHANGES`] is one choice of the page, one key of a question and one key of the cluster's file.

use fabriscope_catalog::{Catalog, Kind};
use fabriscope_fabric::Routing;
use toml::Value;

use crate::refused::Refused;

/// Something that can be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// The key of a question.
    pub name: &'static str,
    /// The keys in a file of a cluster.
    pub keys: &'static [&'static str],
    /// What people read.
    pub title: &'static str,
    /// What can stand there.
    pub values: Values,
}

/// What can stand in the place of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Values {
    /// Parts of this kind.
    Parts(Kind),
    /// Routing algorithms.
    Routings,
    /// These words.
    Words(&'static [&'static str]),
    /// Slots of PCI Express: generation and lanes.
    Slots(&'static [(&'static str, i64, i64)]),
}

/// What can be changed, in the order of the page.
pub const CHANGES: [Change; 8] = [
    Change { name: "link", keys: &["link"], title: "Link", values: Values::Parts(Kind::Link) },
    Change { name: "nic", keys: &["node", "nic"], title: "Adapter", values: Values::Parts(Kind::Nic) },
    Change { name: "slot", keys: &["node", "pcie"], title: "Slot of the adapter", values: Values::Slots(&SLOTS) },
    Change { name: "switch", keys: &["switch"], title: "Switch", values: Values::Parts(Kind::Switch) },
    Change { name: "software", keys: &["software"], title: "MPI library", values: Values::Parts(Kind::Software) },
    Change { name: "routing", keys: &["routing"], title: "Routing", values: Values::Routings },
    Change { name: "congestion", keys: &["congestion"], title: "Congestion control", values: Values::Parts(Kind::Congestion) },
    Change { name: "mtu", keys: &["mtu"], title: "Largest packet (MTU)", values: Values::Words(&MTUS) },
];

/// Sizes of InfiniBand, and the usual ones of Ethernet. Source: InfiniBand Architecture Specification, volume 1, 9.4.2.
const MTUS: [&str; 7] = ["256 B", "512 B", "1024 B", "1500 B", "2048 B", "4096 B", "9000 B"];
/// Slots that adapters are in.
const SLOTS: [(&str, i64, i64); 8] = [
    ("2.0 x8", 2, 8),
    ("3.0 x4", 3, 4),
    ("3.0 x8", 3, 8),
    ("3.0 x16", 3, 16),
    ("4.0 x8", 4, 8),
    ("4.0 x16", 4, 16),
    ("5.0 x8", 5, 8),
    ("5.0 x16", 5, 16),
];

impl Change {
    /// What can stand there, in the order of a list for people.
    #[must_use]
    pub fn choices<'c>(&self, catalog: &'c Catalog) -> Vec<&'c str> {
        match self.values {
            Values::Parts(kind) => catalog.names(kind),
            Values::Routings => Routing::ALL.iter().map(|routing| routing.name()).collect(),
            Values::Words(words) => words.to_vec(),
            Values::Slots(slots) => slots.iter().map(|slot| slot.0).collect(),
        }
    }

    /// The value in a file of a cluster.
    fn value(&self, word: &str) -> Result<Value, Refused> {
        let Values::Slots(slots) = self.values else { return Ok(Value::String(word.to_owned())) };
        let slot = slots.iter().find(|slot| slot.0 == word).ok_or_else(|| {
            let known: Vec<&str> = slots.iter().map(|slot| slot.0).collect();
            Refused::told(format!("there is no slot `{word}`"), format!("choose {}", known.join(", ")))
        })?;
        let keys = [("generation".to_owned(), Value::Integer(slot.1)), ("lanes".to_owned(), Value::Integer(slot.2))];
        Ok(Value::Table(keys.into_iter().collect()))
    }
}

/// The changes of a question, in the order of [`CHANGES`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes([Option<String>; CHANGES.len()]);

impl Changes {
    /// Takes a key of a question, if it is one of a change.
    pub(crate) fn take(&mut self, key: &str, value: &str) -> Result<bool, Refused> {
        let Some(place) = CHANGES.iter().position(|change| change.name == key) else { return Ok(false) };
        CHANGES[place].value(value)?;
        self.0[place] = Some(value.to_owned());
        Ok(true)
    }

    /// Whether nothing is changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }

    /// What is changed to what.
    pub fn iter(&self) -> impl Iterator<Item = (&'static Change, &str)> {
        CHANGES.iter().zip(&self.0).filter_map(|(change, value)| Some((change, value.as_deref()?)))
    }

    /// The changes in words, `link fdr, MTU 2048 B`.
    #[must_use]
    pub fn words(&self) -> String {
        self.iter().map(|(change, value)| format!("{} {value}", change.name)).collect::<Vec<_>>().join(", ")
    }

    /// The file of a cluster that rests on `base` and has the changes.
    ///
    /// # Errors
    /// A value that stands for nothing.
    pub fn file(&self, base: &str) -> Result<String, Refused> {
        let mut file = toml::Table::new();
        for (key, text) in [("base", base.to_owned()), ("name", format!("{base}-changed"))] {
            file.insert(key.to_owned(), Value::String(text));
        }
        for (change, value) in self.iter() {
            set(&mut file, change.keys, change.value(value)?);
        }
        Ok(file.to_string())
    }
}

/// Puts a value where the keys lead to; tables on the way are made.
fn set(table: &mut toml::Table, keys: &[&str], value: Value) {
    match keys {
        [] => {}
        [key] => drop(table.insert((*key).to_owned(), value)),
        [key, rest @ ..] => {
            if let Value::Table(inner) = table.entry(*key).or_insert_with(|| Value::Table(toml::Table::new())) {
                set(inner, rest, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_a_file_that_rests_on_the_cluster() {
        let mut changes = Changes::default();
        assert_eq!(changes.take("link", "fdr"), Ok(true));
        assert_eq!(changes.take("slot", "3.0 x8"), Ok(true));
        assert_eq!(changes.take("colour", "red"), Ok(false));
        assert!(changes.take("slot", "9.0 x1").is_err());
        assert_eq!(changes.words(), "link fdr, slot 3.0 x8");
        let file = changes.file("ri2").unwrap();
        assert_eq!(file, "base = \"ri2\"\nlink = \"fdr\"\nname = \"ri2-changed\"\n\n[node.pcie]\ngeneration = 3\nlanes = 8\n");
        let catalog = fabriscope::embedded().unwrap();
        let parts = catalog.cluster_from_text("changed.toml", &file, None).unwrap();
        assert_eq!(parts.name, "ri2-changed");
        // Every choice of the page is one that the question takes.
        for change in CHANGES {
            let choices = change.choices(catalog);
            assert!(!choices.is_empty());
            for choice in choices {
                assert_eq!(Changes::default().take(change.name, choice), Ok(true), "{choice}");
            }
        }
    }
}
