//! Drawing a few of many, always the same ones.

use crate::routing::hash;

/// `count` different numbers below `of` in ascending order, or all of them where there are no more.
///
/// Source: R. Floyd's sampling (Bentley and Floyd, Communications of the ACM 30(9), 1987) with hashed draws.
pub(super) fn sample(count: u32, of: u32, salt: u32) -> Vec<u32> {
    if count >= of {
        return (0..of).collect();
    }
    let mut drawn = std::collections::BTreeSet::new();
    for last in of - count..of {
        let number = hash::below(hash::hash(u64::from(last), salt), last + 1);
        if !drawn.insert(number) {
            drawn.insert(last);
        }
    }
    drawn.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_ones_and_always_the_same() {
        for (count, of) in [(0, 5), (5, 5), (9, 5), (40, 1000)] {
            let drawn = sample(count, of, 7);
            assert_eq!(drawn.len() as u32, count.min(of));
            assert!(drawn.windows(2).all(|pair| pair[0] < pair[1]) && drawn.iter().all(|&number| number < of));
            assert_eq!(drawn, sample(count, of, 7));
        }
        assert_ne!(sample(40, 1000, 7), sample(40, 1000, 8));
    }
}
