//! What programs say over a socket: words at places of its stream.
//!
//! Modelled: words travel in the packet that carries the last byte of their message, and again with it; they can be read when the stream has been
//! read up to there. Not modelled: bytes of their own; the headers of a program count in what it writes.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use fabriscope_wire::AppWords;

/// The words of a socket, by the position in the stream at which their messages end.
#[derive(Debug, Default)]
pub(super) struct StreamWords {
    /// Said here, and not acknowledged yet.
    said: VecDeque<(u64, AppWords)>,
    /// Bytes of the stream posted so far.
    posted: u64,
    /// Arrived, and not read yet.
    arrived: BTreeMap<u64, AppWords>,
    /// Those up to here were read.
    read: u64,
}

impl StreamWords {
    /// The message that ends at `end` says `words`; later ones end later.
    pub fn say(&mut self, end: u64, words: AppWords) {
        self.said.push_back((end, words));
    }
    /// What is said by messages that end among these bytes.
    pub fn within(&self, bytes: Range<u64>) -> Vec<(u64, AppWords)> {
        if self.said.is_empty() || bytes.is_empty() {
            return Vec::new();
        }
        let from = self.said.partition_point(|(end, _)| *end <= bytes.start);
        self.said.range(from..).take_while(|(end, _)| *end <= bytes.end).copied().collect()
    }
    /// The connection took `bytes` more.
    pub fn posted(&mut self, bytes: u64) {
        self.posted += bytes;
    }
    /// All but `unacknowledged` bytes have arrived: what was said with them need not go again.
    pub fn acknowledged(&mut self, unacknowledged: u64) {
        let position = self.posted - unacknowledged.min(self.posted);
        while self.said.front().is_some_and(|(end, _)| *end <= position) {
            self.said.pop_front();
        }
    }
    /// A packet carried these.
    pub fn arrive(&mut self, words: &[(u64, AppWords)]) {
        self.arrived.extend(words.iter().copied().filter(|(end, _)| *end > self.read));
    }
    /// What the next message says that ends by `position`, up to which the program has read.
    pub fn read(&mut self, position: u64) -> Option<AppWords> {
        let first = self.arrived.first_entry().filter(|entry| *entry.key() <= position)?;
        self.read = *first.key();
        Some(first.remove())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_go_with_the_last_byte_and_come_once() {
        let [mut from, mut to] = [StreamWords::default(), StreamWords::default()];
        let words = |n| AppWords([n; 4]);
        [10, 20, 20 + 1500].into_iter().for_each(|end| from.say(end, words(end)));
        from.posted(1520);
        assert_eq!(from.within(0..9), []);
        assert_eq!(from.within(9..20), [(10, words(10)), (20, words(20))]);
        assert_eq!(from.within(20..20), []);
        // The packet with the last byte overtakes the first one, which comes twice.
        to.arrive(&from.within(20..1520));
        to.arrive(&from.within(0..20));
        assert_eq!([to.read(9), to.read(10), to.read(10), to.read(20)], [None, Some(words(10)), None, Some(words(20))]);
        to.arrive(&from.within(0..20));
        assert_eq!([to.read(1519), to.read(1520)], [None, Some(words(1520))]);
        from.acknowledged(1500);
        assert_eq!(from.within(0..1520), [(1520, words(1520))]);
    }
}
