//! The hash by which flows and packets are spread over paths.
//!
//! Source: the output function of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).

/// 32 well-mixed bits of `flow`, independent for different values of `salt`.
#[inline(always)]
pub(crate) fn hash(flow: u64, salt: u32) -> u32 {
    let mut x = flow.wrapping_add((u64::from(salt) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (x >> 32) as u32
}

/// A number below `count`, drawn by 32 bits of hash: each is as likely as the others to within `count` / 2³².
#[inline(always)]
pub(crate) fn below(hash: u32, count: u32) -> u32 {
    ((u64::from(hash) * u64::from(count)) >> 32) as u32
}
