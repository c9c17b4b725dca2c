//! A set of processors, as masks of hexadecimal words and as lists.
//!
//! Source: Linux, Documentation/admin-guide/cputopology.rst (`local_cpus`, `local_cpulist`); hwloc, "CPU sets".

use std::fmt;

use serde::Serialize;

/// Processors by the numbers of the operating system: ranges that do not touch, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CpuSet(Vec<(u32, u32)>);

impl CpuSet {
    /// From words such as `0000ffff,00000000` or `0xf,,0x1`, the highest first.
    #[must_use]
    pub fn of_mask(text: &str) -> Option<CpuSet> {
        let mut numbers = Vec::new();
        let words: Vec<&str> = text.trim().split(',').collect();
        for (place, word) in words.iter().rev().enumerate() {
            let digits = word.strip_prefix("0x").unwrap_or(word);
            let bits = if digits.is_empty() { 0 } else { u32::from_str_radix(digits, 16).ok()? };
            let base = u32::try_from(place).ok()?.checked_mul(32).filter(|base| *base < MOST)?;
            numbers.extend((0..32).filter(|bit| bits >> bit & 1 == 1).map(|bit| base + bit));
        }
        Some(CpuSet::of(&numbers))
    }
    /// From a list such as `0-47,96-143`; nothing for an empty one.
    #[must_use]
    pub fn of_list(text: &str) -> Option<CpuSet> {
        let mut ranges = Vec::new();
        for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            let (first, last) = item.split_once('-').unwrap_or((item, item));
            let range: (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
            if range.0 > range.1 || range.1 >= MOST {
                return None;
            }
            ranges.push(range);
        }
        ranges.sort_unstable();
        let mut joined: Vec<(u32, u32)> = Vec::new();
        for (first, last) in ranges {
            match joined.last_mut() {
                Some(before) if first <= before.1 + 1 => before.1 = before.1.max(last),
                _ => joined.push((first, last)),
            }
        }
        Some(CpuSet(joined))
    }
    /// From numbers in any order.
    #[must_use]
    pub fn of(numbers: &[u32]) -> CpuSet {
        let mut sorted = numbers.to_vec();
        sorted.sort_unstable();
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        for number in sorted {
            match ranges.last_mut() {
                Some(last) if last.1 == number => {}
                Some(last) if last.1 + 1 == number => last.1 = number,
                _ => ranges.push((number, number)),
            }
        }
        CpuSet(ranges)
    }
    /// Whether it is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// Whether `number` is in it.
    #[must_use]
    pub fn contains(&self, number: u32) -> bool {
        self.0.iter().any(|(first, last)| (*first..=*last).contains(&number))
    }
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.0.iter().map(|(first, last)| last - first + 1).sum()
    }
    /// What is in either.
    #[must_use]
    pub fn union(&self, other: &CpuSet) -> CpuSet {
        CpuSet::of(&self.numbers().chain(other.numbers()).collect::<Vec<u32>>())
    }
    /// All of them, in order.
    pub fn numbers(&self) -> impl Iterator<Item = u32> {
        self.0.iter().flat_map(|(first, last)| *first..=*last)
    }
    /// As words of eight digits, the highest first.
    #[must_use]
    pub fn mask(&self) -> String {
        let words = self.0.last().map_or(1, |(_, last)| last / 32 + 1);
        let word = |place: u32| {
            let bits = (0..32).filter(|bit| self.contains(place * 32 + bit));
            format!("{:08x}", bits.fold(0u32, |word, bit| word | 1 << bit))
        };
        (0..words).rev().map(word).collect::<Vec<_>>().join(",")
    }
}

impl fmt::Display for CpuSet {
    /// As a list.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let range = |(first, last): &(u32, u32)| if first == last { first.to_string() } else { format!("{first}-{last}") };
        f.pad(&self.0.iter().map(range).collect::<Vec<_>>().join(","))
    }
}

/// No machine has so many processors.
const MOST: u32 = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_and_lists_are_the_same_sets() {
        for (mask, list, count) in [
            ("00000000,0000ffff", "0-15", 16),
            ("0x000000ff,0xff000001", "0,24-39", 17),
            ("0x1,,0x80000000", "31,64", 2),
            ("ffffffff,ffffffff", "0-63", 64),
            ("0x0", "", 0),
        ] {
            let set = CpuSet::of_mask(mask).unwrap();
            assert_eq!((set.to_string().as_str(), set.len()), (list, count), "{mask}");
            assert_eq!(CpuSet::of_list(list), Some(set.clone()));
            assert_eq!(CpuSet::of_mask(&set.mask()), Some(set));
        }
        assert_eq!(CpuSet::of_list("4-7,0-3,9").unwrap().to_string(), "0-7,9");
        assert_eq!(CpuSet::of_mask("0000ffff").unwrap().mask(), "0000ffff");
        let set = CpuSet::of_list("1-3").unwrap().union(&CpuSet::of_list("2-3,9").unwrap());
        assert_eq!((set.to_string().as_str(), set.numbers().collect::<Vec<u32>>()), ("1-3,9", vec![1, 2, 3, 9]));
    }

    #[test]
    fn what_is_no_set() {
        for text in ["x", "123456789", "0x-1"] {
            assert_eq!(CpuSet::of_mask(text), None, "{text}");
        }
        for text in ["a", "5-2", "1-99999999", "-"] {
            assert_eq!(CpuSet::of_list(text), None, "{text}");
        }
        assert_eq!(CpuSet::of_mask(&"0,".repeat(4000)), None);
    }
}
