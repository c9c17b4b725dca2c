//! Which algorithm an MPI library takes for a collective operation: rows, of which the first that fits counts.
//!
//! Source: the libraries' decision functions and tables; each part says which.
//! Modelled: size, ranks, ranks of a node, powers of two. Not modelled: decisions by measured tables that come with a machine, by
//! operator or data type.

use std::collections::BTreeMap;

use fabriscope_collectives::{Algorithm, Kind as Operation};
use fabriscope_units::Bytes;
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
    /// The ranks have to be fewer than the first number, for each byte of the size, and the second: a line of Open MPI's decisions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ranks_below_line: Option<[f64; 2]>,
    /// Whether the number of ranks has to be a power of two, or must not be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_of_two: Option<bool>,
    /// Whether the number of ranks has to be even, or must not be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub even: Option<bool>,
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
}

impl CollectiveRule {
    fn fits_always(&self) -> bool {
        *self == CollectiveRule { algorithm: self.algorithm.clone(), ..CollectiveRule::default() }
    }
    /// Whether it speaks of this occasion.
    #[must_use]
    pub fn fits(&self, occasion: Occasion) -> bool {
        let Occasion { ranks, per_node, size } = occasion;
        self.up_to.is_none_or(|most| size <= most)
            && self.total_up_to.is_none_or(|most| size.0.saturating_mul(ranks.into()) <= most.0)
            && self.ranks_from.is_none_or(|least| ranks >= least)
            && self.ranks_up_to.is_none_or(|most| ranks <= most)
            && self.per_node_from.is_none_or(|least| per_node >= least)
            && self.ranks_below_line.is_none_or(|[slope, start]| f64::from(ranks) < slope * size.0 as f64 + start)
            && self.power_of_two.is_none_or(|asked| ranks.is_power_of_two() == asked)
            && self.even.is_none_or(|asked| ranks.is_multiple_of(2) == asked)
    }
}

/// The name of the algorithm for this occasion.
#[must_use]
pub fn select(rules: &[CollectiveRule], occasion: Occasion) -> Option<&str> {
    rules.iter().find(|rule| rule.fits(occasion)).map(|rule| rule.algorithm.as_str())
}

/// Known operations and algorithms, and a last row that fits whatever comes.
pub(super) fn check(all: &BTreeMap<String, CollectiveRules>) -> Result<(), Problem> {
    for (word, rules) in all {
        let at = ["mpi", "collectives", word.as_str()];
        let Some(operation) = Operation::of_word(word) else {
            let words: Vec<&str> = Operation::ALL.iter().map(|kind| kind.word()).collect();
            return Err(Problem::at(&at, format!("no collective operation `{word}`"), format!("use one of {}", words.join(", "))));
        };
        for rule in &rules.value {
            Algorithm::named(operation, &rule.algorithm).map_err(|unknown| Problem::at(&at, unknown.to_string(), unknown.remedy()))?;
        }
        if !rules.value.last().is_some_and(CollectiveRule::fits_always) {
            return Err(Problem::at(&at, "rules that leave something out", "add a last row with an algorithm and no conditions"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_row_that_fits_counts() {
        let row = |algorithm: &str| CollectiveRule { algorithm: algorithm.to_owned(), ..CollectiveRule::default() };
        let rules = [
            CollectiveRule { up_to: Some(Bytes(2048)), ..row("recursive_doubling") },
            CollectiveRule { power_of_two: Some(true), ranks_from: Some(4), ..row("rabenseifner") },
            row("ring"),
        ];
        let at = |ranks, size| select(&rules, Occasion { ranks, per_node: 1, size: Bytes(size) }).unwrap();
        assert_eq!([at(7, 2048), at(8, 2049), at(2, 2049), at(7, 4096)], ["recursive_doubling", "rabenseifner", "ring", "ring"]);
    }
}
