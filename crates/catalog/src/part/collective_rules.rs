//! Which algorithm an MPI library takes for a collective operation: rows, of which the first that fits counts.
//!
//! Source: the libraries' decision functions and tables; each part says which.
//! Modelled: size, ranks, nodes, ranks of a node, powers of two, elements that are too few to give each rank one.
//! Not modelled: decisions by measured tables that come with a machine, by operator.

use std::collections::BTreeMap;

use fabriscope_collectives::{Algorithm, Kind as Operation};
use fabriscope_units::{Bytes, Remedy};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::Problem;
use crate::sourced::Sourced;

/// The decisions of a library for one operation, in order.
pub type CollectiveRules = Sourced<Vec<CollectiveRule>>;

/// One row; what it leaves out, it does not ask for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CollectiveRule {
    /// The algorithm and its parameters: `ring`, `k_nomial(4)`, `two_level(binomial, ring)`.
    pub algorithm: String,
    /// Largest buffer; of an operation on blocks, the largest block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up_to: Option<Bytes>,
    /// The largest sum of the blocks of all ranks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_up_to: Option<Bytes>,
    /// Fewest ranks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ranks_from: Option<u32>,
    /// Most ranks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ranks_up_to: Option<u32>,
    /// Fewest ranks of a node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_node_from: Option<u32>,
    /// Most ranks of a node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_node_up_to: Option<u32>,
    /// Most nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes_up_to: Option<u32>,
    /// The ranks have to be fewer than the first number, for each byte of the size, and the second: a line of Open MPI's decisions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ranks_below_line: Option<[f64; 2]>,
    /// Whether the number of ranks has to be a power of two, or must not be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_of_two: Option<bool>,
    /// Whether the number of ranks has to be even, or must not be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub even: Option<bool>,
    /// Whether the buffer has to have fewer elements than there are ranks, or must not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fewer_elements_than_ranks: Option<bool>,
}

/// What a library decides by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Occasion {
    /// Ranks of the communicator.
    pub ranks: u32,
    /// Of them on each node.
    pub per_node: u32,
    /// The buffer, or a block.
    pub size: Bytes,
    /// An element of it.
    pub width: Bytes,
    /// Whether all data is in the memory of hosts, where slots of shared memory can hold it.
    pub in_hosts: bool,
}

impl Occasion {
    fn nodes(&self) -> u32 {
        self.ranks.div_ceil(self.per_node.max(1))
    }
}

impl CollectiveRule {
    fn fits_always(&self) -> bool {
        *self == CollectiveRule { algorithm: self.algorithm.clone(), ..CollectiveRule::default() }
    }
    /// Whether its algorithm goes through slots of memory that the ranks of a node share.
    #[must_use]
    pub fn has_slots(&self) -> bool {
        self.algorithm.split(['(', ')', ',', ' ']).any(|word| word == "slots")
    }
    /// Whether it speaks of this occasion.
    #[must_use]
    pub fn fits(&self, occasion: Occasion) -> bool {
        let Occasion { ranks, per_node, size, width, in_hosts } = occasion;
        (in_hosts || !self.has_slots())
            && self.up_to.is_none_or(|most| size <= most)
            && self.total_up_to.is_none_or(|most| size.0.saturating_mul(ranks.into()) <= most.0)
            && self.ranks_from.is_none_or(|least| ranks >= least)
            && self.ranks_up_to.is_none_or(|most| ranks <= most)
            && self.per_node_from.is_none_or(|least| per_node >= least)
            && self.per_node_up_to.is_none_or(|most| per_node <= most)
            && self.nodes_up_to.is_none_or(|most| occasion.nodes() <= most)
            && self.ranks_below_line.is_none_or(|[slope, start]| f64::from(ranks) < slope * size.0 as f64 + start)
            && self.power_of_two.is_none_or(|asked| ranks.is_power_of_two() == asked)
            && self.even.is_none_or(|asked| ranks.is_multiple_of(2) == asked)
            && self.fewer_elements_than_ranks.is_none_or(|asked| (size.0 / width.0.max(1) < u64::from(ranks)) == asked)
    }
}

/// The name of the algorithm for this occasion: of the `hierarchical` rows where there are several nodes with several ranks each, else of
/// the `flat` ones.
#[must_use]
pub fn select<'r>(hierarchical: &'r [CollectiveRule], flat: &'r [CollectiveRule], occasion: Occasion) -> Option<&'r str> {
    let levels = if occasion.per_node > 1 && occasion.nodes() > 1 { hierarchical } else { &[] };
    levels.iter().chain(flat).find(|rule| rule.fits(occasion)).map(|rule| rule.algorithm.as_str())
}

/// Known operations and algorithms, and a last row that fits whatever comes, unless other rows come after.
pub(super) fn check(table: &str, all: &BTreeMap<String, CollectiveRules>, complete: bool) -> Result<(), Problem> {
    check_in("mpi", table, all, complete)
}

/// The same of rules that stand in the table `parent`.
pub(super) fn check_in(parent: &str, table: &str, all: &BTreeMap<String, CollectiveRules>, complete: bool) -> Result<(), Problem> {
    for (word, rules) in all {
        let at = [parent, table, word.as_str()];
        let Some(operation) = Operation::of_word(word) else {
            let words: Vec<&str> = Operation::ALL.iter().map(|kind| kind.word()).collect();
            return Err(Problem::at(&at, format!("no collective operation `{word}`"), format!("use one of {}", words.join(", "))));
        };
        for rule in &rules.value {
            Algorithm::named(operation, &rule.algorithm)
                .map_err(|unknown| Problem::at(&at, unknown.to_string(), unknown.remedy().unwrap_or_default()))?;
        }
        if complete && !rules.value.last().is_some_and(CollectiveRule::fits_always) {
            return Err(Problem::at(&at, "rules that leave something out", "add a last row with an algorithm and no conditions"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(algorithm: &str) -> CollectiveRule {
        CollectiveRule { algorithm: algorithm.to_owned(), ..CollectiveRule::default() }
    }

    #[test]
    fn the_first_row_that_fits_counts() {
        let rules = [
            CollectiveRule { up_to: Some(Bytes(2048)), ..row("recursive_doubling") },
            CollectiveRule { power_of_two: Some(true), ranks_from: Some(4), ..row("rabenseifner") },
            row("ring"),
        ];
        let at =
            |ranks, size| select(&[], &rules, Occasion { ranks, per_node: 1, size: Bytes(size), width: Bytes(1), in_hosts: true }).unwrap();
        assert_eq!([at(7, 2048), at(8, 2049), at(2, 2049), at(7, 4096)], ["recursive_doubling", "rabenseifner", "ring", "ring"]);
    }

    /// 8 elements of 4 bytes for 8 ranks and for 9.
    #[test]
    fn elements_are_counted() {
        let few = CollectiveRule { fewer_elements_than_ranks: Some(true), ..row("recursive_doubling") };
        let rules = [few, row("ring")];
        let at = |ranks| select(&[], &rules, Occasion { ranks, per_node: 1, size: Bytes(32), width: Bytes(4), in_hosts: true }).unwrap();
        assert_eq!([at(8), at(9)], ["ring", "recursive_doubling"]);
    }

    /// Two levels need several nodes and several ranks on each.
    #[test]
    fn levels_come_first_where_there_are_any() {
        let two = [CollectiveRule { nodes_up_to: Some(4), per_node_up_to: Some(16), ..row("two_level") }];
        let flat = [row("ring")];
        let at =
            |ranks, per_node| select(&two, &flat, Occasion { ranks, per_node, size: Bytes(8), width: Bytes(1), in_hosts: true }).unwrap();
        assert_eq!([at(16, 16), at(17, 16), at(4, 1), at(80, 16), at(34, 17)], ["ring", "two_level", "ring", "ring", "ring"]);
    }

    /// What is on GPUs lies in no slot.
    #[test]
    fn slots_are_for_hosts() {
        let two = [row("two_level(slots, ring, slots(4))")];
        let flat = [row("ring")];
        let at = |in_hosts| select(&two, &flat, Occasion { ranks: 8, per_node: 4, size: Bytes(8), width: Bytes(1), in_hosts }).unwrap();
        assert_eq!([at(true), at(false)], ["two_level(slots, ring, slots(4))", "ring"]);
    }
}
