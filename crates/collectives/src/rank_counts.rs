//! Numbers of ranks with which tests prove every algorithm.

/// 1 to 33 and those around 48 and 64, where trees and rounds change their shape; all up to 64 in a build without debug assertions, as
/// `make test-long` tests them: proofs take time in the third power of the number.
pub(crate) fn rank_counts() -> impl Iterator<Item = u32> + Clone {
    (1..=64).filter(|ranks| !cfg!(debug_assertions) || *ranks <= 33 || [47, 48, 49, 63, 64].contains(ranks))
}
