//! Random numbers in streams keyed by (seed, purpose, id).
//!
//! Source: PCG XSL RR 128/64 (M. O'Neill, HMC-CS-2014-0905) for the numbers, FNV-1a and the finaliser of
//! SplitMix64 for the keys, Lemire's multiply-and-reject (ACM TOMACS 29(1), 2019) for bounded numbers.
//! Modelled: independent streams, so that a new consumer of randomness shifts no other.
//! Not modelled: cryptographic strength.

use rand::RngCore;
use rand_pcg::Pcg64;

/// The source of all streams of one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Streams {
    seed: u64,
}

impl Streams {
    /// The streams of the run with this seed.
    #[must_use]
    pub fn new(seed: u64) -> Streams {
        Streams { seed }
    }
    /// The seed given to [`new`](Self::new).
    #[must_use]
    pub fn seed(self) -> u64 {
        self.seed
    }
    /// The stream for one consumer: the same arguments always give the same numbers, on every machine.
    ///
    /// `purpose` names what the numbers decide, `id` which instance asks (a port, a rank).
    #[must_use]
    pub fn stream(self, purpose: &'static str, id: u64) -> Stream {
        let name = fnv1a(purpose.as_bytes());
        let mut mixer = mix(self.seed) ^ mix(name.rotate_left(17)) ^ id;
        let mut word = || {
            mixer = mixer.wrapping_add(GOLDEN);
            mix(mixer)
        };
        let state = u128::from(word()) << 64 | u128::from(word());
        // The increment also holds the three parts unmixed: two consumers never share a sequence.
        let increment = u128::from(name ^ self.seed.rotate_left(32)) << 64 | u128::from(id);
        let mut stream = Stream { generator: Pcg64::new(state, increment) };
        stream.next_u64();
        stream
    }
}

/// One stream of random numbers.
#[derive(Debug, Clone)]
pub struct Stream {
    generator: Pcg64,
}

impl Stream {
    /// 32 random bits.
    #[inline]
    pub fn next_u32(&mut self) -> u32 {
        (self.next_u64() >> 32) as u32
    }
    /// 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.generator.next_u64()
    }
    /// A number in `0..n`, each equally likely; 0 when `n` is 0.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        let mut product = u128::from(self.next_u64()) * u128::from(n);
        if (product as u64) < n {
            let reject = n.wrapping_neg() % n;
            while (product as u64) < reject {
                product = u128::from(self.next_u64()) * u128::from(n);
            }
        }
        (product >> 64) as u64
    }
    /// A number in [0, 1) with 53 random bits.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }
    /// A number of the exponential distribution with mean 1, in units of 2⁻³²; by comparisons alone, so that it is the same on every machine
    /// (J. von Neumann, "Various techniques used in connection with random digits", 1951): of descending runs of numbers those of odd length
    /// count.
    pub fn exponential(&mut self) -> u64 {
        let mut whole = 0u64;
        loop {
            let first = self.next_u32();
            let (mut last, mut length) = (first, 1u32);
            loop {
                let next = self.next_u32();
                if next > last {
                    break;
                }
                (last, length) = (next, length + 1);
            }
            if length % 2 == 1 {
                return (whole << 32) | u64::from(first);
            }
            whole += 1;
        }
    }
    /// Puts `items` into random order, all orders equally likely (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
    /// The numbers `0..n` in random order.
    #[must_use]
    pub fn permutation(&mut self, n: u32) -> Vec<u32> {
        let mut order: Vec<u32> = (0..n).collect();
        self.shuffle(&mut order);
        order
    }
    /// A permutation of `0..n` that is one cycle, so that nobody maps to itself (Sattolo); for `n` = 1 there is none.
    #[must_use]
    pub fn cyclic_permutation(&mut self, n: u32) -> Vec<u32> {
        let mut order: Vec<u32> = (0..n).collect();
        for last in (1..order.len()).rev() {
            order.swap(last, self.below(last as u64) as usize);
        }
        order
    }
}

impl RngCore for Stream {
    fn next_u32(&mut self) -> u32 {
        Stream::next_u32(self)
    }
    fn next_u64(&mut self) -> u64 {
        Stream::next_u64(self)
    }
    fn fill_bytes(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next_u64().to_le_bytes()[..chunk.len()]);
        }
    }
}

/// FNV-1a, 64 bits: <https://datatracker.ietf.org/doc/html/draft-eastlake-fnv>.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): a number without pattern for each number.
#[must_use]
pub const fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// 2⁶⁴ divided by the golden ratio, the step of SplitMix64.
pub const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn take(stream: &mut Stream, n: usize) -> Vec<u64> {
        (0..n).map(|_| stream.next_u64()).collect()
    }

    #[test]
    fn a_new_consumer_shifts_no_other() {
        let streams = Streams::new(42);
        let alone = take(&mut streams.stream("spray", 7), 100);
        let mut spray = streams.stream("spray", 7);
        let mut newcomer = streams.stream("jitter", 7);
        let beside: Vec<u64> = (0..100)
            .map(|_| {
                newcomer.next_u64();
                spray.next_u64()
            })
            .collect();
        assert_eq!(alone, beside);
    }

    #[test]
    fn seed_purpose_and_id_each_make_another_stream() {
        let mut firsts = BTreeSet::new();
        for seed in 0..20 {
            for purpose in ["", "a", "b", "ab", "ba", "spray", "sprax"] {
                for id in 0..50 {
                    firsts.insert(take(&mut Streams::new(seed).stream(purpose, id), 2));
                }
            }
        }
        assert_eq!(firsts.len(), 20 * 7 * 50);
    }

    #[test]
    fn the_hash_is_the_published_one() {
        // Test vectors of the FNV draft, appendix C.
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn numbers_stay_the_same_for_ever() {
        // A change here changes the result of every seeded run.
        assert_eq!(take(&mut Streams::new(1).stream("golden", 0), 2), GOLDEN_NUMBERS);
    }
    const GOLDEN_NUMBERS: [u64; 2] = [9_155_935_241_103_502_733, 11_172_308_570_469_195_117];

    #[test]
    fn bounded_numbers_are_in_range_and_even() {
        let mut stream = Streams::new(3).stream("test", 0);
        let mut counts = [0u32; 7];
        for _ in 0..70_000 {
            counts[stream.below(7) as usize] += 1;
        }
        // 10 000 expected, standard deviation 93: five of them.
        assert!(counts.iter().all(|count| count.abs_diff(10_000) < 465), "{counts:?}");
        assert_eq!((stream.below(0), stream.below(1)), (0, 0));
        assert!((0..1000).map(|_| stream.unit()).all(|x| (0.0..1.0).contains(&x)));
        let mean = (0..10_000).map(|_| stream.unit()).sum::<f64>() / 1e4;
        assert!((mean - 0.5).abs() < 0.02, "{mean}");
    }

    #[test]
    fn permutations_are_permutations() {
        let mut stream = Streams::new(9).stream("test", 1);
        for n in [0, 1, 2, 3, 100] {
            let mut order = stream.permutation(n);
            order.sort_unstable();
            assert!(order.iter().copied().eq(0..n));
        }
        let order = stream.cyclic_permutation(100);
        let mut at = 0;
        let mut cycle = BTreeSet::new();
        while cycle.insert(at) {
            at = order[at as usize];
        }
        assert_eq!((cycle.len(), at), (100, 0));
    }
}
