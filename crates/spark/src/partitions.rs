//! How much of each map task's output belongs to each reduce task.
//!
//! Modelled: partitions that are all alike, or whose sizes fall as a power of their rank (Zipf), in an order by chance.
//! Not modelled: map tasks that differ.

use fabriscope_streams::Streams;
use fabriscope_units::Bytes;

/// How sizes of partitions differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Skew {
    /// Not at all.
    Even,
    /// The partition of rank k has a share of `1 / k^(halves / 2)`.
    Zipf {
        /// Twice the exponent.
        halves: u32,
    },
}

impl Skew {
    /// The one of this name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Skew> {
        let halves = match name {
            "even" => return Some(Skew::Even),
            "zipf-0.5" => 1,
            "zipf-1" => 2,
            "zipf-1.5" => 3,
            "zipf-2" => 4,
            _ => return None,
        };
        Some(Skew::Zipf { halves })
    }
}

/// The blocks of a map task by partition: all map tasks have the same.
#[must_use]
pub fn blocks(output: Bytes, partitions: u32, skew: Skew, seed: u64) -> Vec<Bytes> {
    let partitions = partitions.max(1);
    let Skew::Zipf { halves } = skew else {
        let (each, rest) = (output.0 / u64::from(partitions), output.0 % u64::from(partitions));
        return (0..u64::from(partitions)).map(|at| Bytes(each + u64::from(at < rest))).collect();
    };
    let order = Streams::new(seed).stream("sizes of partitions", 0).permutation(partitions);
    // Square roots are exact to the last bit on every machine, which powers are not.
    let weight = |rank: u32| (0..halves).fold(1.0, |weight, _| weight / f64::from(rank + 1).sqrt());
    let sum: f64 = (0..partitions).map(weight).sum();
    order.into_iter().map(|rank| Bytes((output.as_u64() as f64 * weight(rank) / sum) as u64)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_even_or_fall_by_rank() {
        assert_eq!(blocks(Bytes(10), 4, Skew::Even, 1), [3, 3, 2, 2].map(Bytes));
        let mut sizes = blocks(Bytes(25_000), 4, Skew::Zipf { halves: 2 }, 1);
        assert_ne!(sizes, blocks(Bytes(25_000), 4, Skew::Zipf { halves: 2 }, 2));
        sizes.sort_unstable();
        // 1 + 1/2 + 1/3 + 1/4 = 25/12.
        assert!(sizes.iter().zip([3000, 4000, 6000, 12_000]).all(|(size, expected)| size.0.abs_diff(expected) <= 1), "{sizes:?}");
    }
}
