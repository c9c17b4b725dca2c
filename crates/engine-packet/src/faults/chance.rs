//! How likely a packet is lost, by its length.

use fabriscope_engine::Chance;
use fabriscope_units::Bytes;
use rustc_hash::FxHashMap;

/// The odds of losing a packet, in 2⁻⁶⁴.
#[derive(Debug)]
pub(crate) enum Odds {
    /// The same for all.
    Packet(u64),
    /// By length, from the odds of losing a bit. Looked up, never iterated.
    Bit(f64, FxHashMap<Bytes, u64>),
}

impl Odds {
    pub fn new(chance: Chance) -> Odds {
        match chance {
            Chance::Packet(share) => Odds::Packet(scaled(share)),
            Chance::Bit(rate) => Odds::Bit(rate, FxHashMap::default()),
        }
    }

    /// The odds of losing a packet of `amount`.
    pub fn of(&mut self, amount: Bytes) -> u64 {
        match self {
            Odds::Packet(odds) => *odds,
            Odds::Bit(rate, known) => *known.entry(amount).or_insert_with(|| scaled(any_of(*rate, 8 * amount.0))),
        }
    }
}

/// The probability that one of `count` things happens, each with probability `p`: 1 − (1 − p)ⁿ, by doubling, which keeps small
/// ones exact: two of probability q give 2q − q².
fn any_of(p: f64, mut count: u64) -> f64 {
    let (mut all, mut power) = (0.0, p);
    while count > 0 {
        if count & 1 == 1 {
            all = all + power - all * power;
        }
        power = 2.0 * power - power * power;
        count >>= 1;
    }
    all
}

fn scaled(share: f64) -> u64 {
    // 2⁶⁴ − 1 and all above it is certainty.
    (share * 18_446_744_073_709_551_616.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bit_errors_hit_long_packets_more_often() {
        // 1 − (1 − 10⁻⁶)^(8 · 4178) = 1 − e^(−0.033424) = 0.032871…
        let got = any_of(1e-6, 8 * 4178);
        assert!((got - 0.032_871_6).abs() < 1e-6, "{got}");
        // So small that 1 − p is 1 in floating point.
        assert!((any_of(1e-18, 1000) - 1e-15).abs() < 1e-20);
        assert_eq!(any_of(0.5, 2), 0.75);
        let mut odds = Odds::new(Chance::Bit(1e-9));
        assert!(odds.of(Bytes(4096)) > 60 * odds.of(Bytes(64)));
        assert_eq!(Odds::new(Chance::Packet(1.0)).of(Bytes(1)), u64::MAX);
    }
}
