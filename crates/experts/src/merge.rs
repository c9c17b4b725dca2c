//! Items in an order that each wait for a part from some lanes: tokens whose parts come from several GPUs or nodes.
//!
//! Every lane brings its parts in the order of the items. Sans-I/O.

/// Items that wait for their parts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Merge {
    /// Which lanes bring a part of each item.
    lanes: Vec<u64>,
    /// The first item that is not complete.
    next: usize,
    /// Parts that came on each lane, and those that went into complete items.
    came: Vec<u32>,
    used: Vec<u32>,
}

impl Merge {
    /// Items with the lanes of each.
    pub fn new(lanes: Vec<u64>, count: usize) -> Merge {
        Merge { lanes, next: 0, came: vec![0; count], used: vec![0; count] }
    }
    /// So many parts came on a lane; how many items are complete by that.
    pub fn come(&mut self, lane: usize, parts: u32) -> u32 {
        self.came[lane] += parts;
        let before = self.next;
        while let Some(lanes) = self.lanes.get(self.next).copied() {
            let ready = |lane: &usize| self.used[*lane] < self.came[*lane];
            if !set(lanes).all(|lane| ready(&lane)) {
                break;
            }
            set(lanes).for_each(|lane| self.used[lane] += 1);
            self.next += 1;
        }
        (self.next - before) as u32
    }
    /// Parts of a lane that went into complete items.
    pub fn used(&self, lane: usize) -> u32 {
        self.used[lane]
    }
    /// Whether all are.
    pub fn is_complete(&self) -> bool {
        self.next == self.lanes.len()
    }
}

/// The numbers of the bits that are set.
pub(crate) fn set(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lane = bits.trailing_zeros();
        bits &= bits.wrapping_sub(1);
        (lane < 64).then_some(lane as usize)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_waits_for_all_its_lanes() {
        let mut merge = Merge::new(vec![0b01, 0b11, 0b10], 2);
        assert_eq!(merge.come(0, 2), 1);
        assert_eq!((merge.used(0), merge.used(1)), (1, 0));
        assert_eq!(merge.come(1, 1), 1);
        assert!(!merge.is_complete());
        assert_eq!(merge.come(1, 1), 1);
        assert!(merge.is_complete());
        assert_eq!(set(0b1010_0001).collect::<Vec<_>>(), [0, 5, 7]);
    }
}
