//! A set of small numbers as bits, with a summary level that skips empty words.

/// Which of `0..size` are present.
#[derive(Debug, Clone)]
pub(crate) struct Bitmap {
    words: Vec<u64>,
    /// Bit *i* tells whether `words[i]` is not zero.
    summary: Vec<u64>,
}

impl Bitmap {
    /// An empty set for numbers below `size`.
    pub(crate) fn new(size: usize) -> Bitmap {
        let words = size.div_ceil(64).max(1);
        Bitmap { words: vec![0; words], summary: vec![0; words.div_ceil(64)] }
    }
    /// Adds `index`.
    #[inline]
    pub(crate) fn insert(&mut self, index: usize) {
        let word = index >> 6;
        self.words[word] |= 1 << (index & 63);
        self.summary[word >> 6] |= 1 << (word & 63);
    }
    /// Takes `index` out.
    #[inline]
    pub(crate) fn remove(&mut self, index: usize) {
        let word = index >> 6;
        self.words[word] &= !(1 << (index & 63));
        if self.words[word] == 0 {
            self.summary[word >> 6] &= !(1 << (word & 63));
        }
    }
    /// The first member at or after `index`, continuing from 0 behind the end.
    #[inline]
    pub(crate) fn next_circular(&self, index: usize) -> Option<usize> {
        self.next(index).or_else(|| self.next(0))
    }

    /// The first member at or after `index`.
    #[inline]
    fn next(&self, index: usize) -> Option<usize> {
        let word = index >> 6;
        let here = self.words.get(word)? & (!0 << (index & 63));
        if here != 0 {
            return Some((word << 6) + here.trailing_zeros() as usize);
        }
        let word = self.next_word(word + 1)?;
        Some((word << 6) + self.words[word].trailing_zeros() as usize)
    }
    /// The first word at or after `word` that is not zero.
    fn next_word(&self, word: usize) -> Option<usize> {
        let first = word >> 6;
        let here = self.summary.get(first)? & (!0 << (word & 63));
        if here != 0 {
            return Some((first << 6) + here.trailing_zeros() as usize);
        }
        let rest = self.summary[first + 1..].iter().position(|bits| *bits != 0)?;
        let block = first + 1 + rest;
        Some((block << 6) + self.summary[block].trailing_zeros() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn agrees_with_an_ordered_set(size in 1usize..20_000, changes in prop::collection::vec((any::<bool>(), any::<usize>(), any::<usize>()), 0..100)) {
            let (mut bitmap, mut set) = (Bitmap::new(size), BTreeSet::new());
            for (add, index, from) in changes {
                let (index, from) = (index % size, from % size);
                if add { bitmap.insert(index); set.insert(index); } else { bitmap.remove(index); set.remove(&index); }
                let expected = set.range(from..).next().or_else(|| set.iter().next()).copied();
                prop_assert_eq!(bitmap.next_circular(from), expected);
            }
        }
    }
}
