//! Which packet numbers of a window arrived: a ring of bits.

use fabriscope_wire::Psn;

/// A bit for each packet number of a window; sized once.
#[derive(Default)]
pub(crate) struct Bitmap {
    words: Box<[u64]>,
    mask: u32,
}

impl Bitmap {
    /// A window of `packets`, a power of two of at least 64.
    pub(crate) fn new(packets: u32) -> Bitmap {
        debug_assert!(packets.is_power_of_two() && packets >= 64);
        Bitmap { words: vec![0; (packets / 64) as usize].into_boxed_slice(), mask: packets - 1 }
    }

    /// The same, where it has none yet.
    #[inline]
    pub(crate) fn size(&mut self, packets: u32) {
        if self.words.is_empty() {
            *self = Bitmap::new(packets);
        }
    }

    /// Sets the bit of `psn`; true if it was set before.
    #[inline]
    pub(crate) fn set(&mut self, psn: Psn) -> bool {
        let bit = psn.as_u32() & self.mask;
        let word = &mut self.words[(bit / 64) as usize];
        let before = *word >> (bit % 64) & 1 == 1;
        *word |= 1 << (bit % 64);
        before
    }

    /// Clears the bit of `psn`; true if it was set before.
    #[inline]
    pub(crate) fn take(&mut self, psn: Psn) -> bool {
        let bit = psn.as_u32() & self.mask;
        let word = &mut self.words[(bit / 64) as usize];
        let before = *word >> (bit % 64) & 1 == 1;
        *word &= !(1 << (bit % 64));
        before
    }

    /// The bits of the 64 numbers from `psn` on, that of `psn` lowest.
    #[inline]
    pub(crate) fn ahead(&self, psn: Psn) -> u64 {
        let bit = psn.as_u32() & self.mask;
        let (word, shift) = ((bit / 64) as usize, bit % 64);
        let low = self.words[word] >> shift;
        if shift == 0 { low } else { low | self.words[(word + 1) & (self.mask / 64) as usize] << (64 - shift) }
    }

    /// Whether no bit is set.
    pub(crate) fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// Whether the bit of `psn` is set.
    #[inline]
    pub(crate) fn has(&self, psn: Psn) -> bool {
        let bit = psn.as_u32() & self.mask;
        self.words[(bit / 64) as usize] >> (bit % 64) & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_wrap_with_the_packet_numbers() {
        let mut bitmap = Bitmap::new(64);
        let (last, zero, one) = (Psn::new(0xff_ffff), Psn::new(0), Psn::new(1));
        assert!(!bitmap.set(last) && bitmap.set(last));
        assert!(!bitmap.set(zero) && bitmap.has(zero) && !bitmap.has(one));
        assert!(bitmap.take(zero) && !bitmap.take(zero));
        assert!(bitmap.has(last));
        bitmap.set(one);
        assert_eq!([last, one, Psn::new(0xff_fffe)].map(|psn| bitmap.ahead(psn)), [0b101, 1 | 1 << 62, 0b1010]);
    }
}
