//! Which group each global port of a group leads to.
//!
//! A group numbers its global ports through, switch after switch; peer number x stands for the x-th of the g - 1 other groups.
//!
//! ```text
//!  absolute    x leads to group x, or x + 1 from the own number on     group 3 of 9:  0 1 2 4 5 6 7 8
//!  relative    x leads x + 1 groups further                            group 3 of 9:  4 5 6 7 8 0 1 2
//!  circulant   x leads x/2 + 1 groups further, then as many back       group 3 of 9:  4 2 5 1 6 0 7 8
//! ```
//!
//! Source: E. Hastings, D. Rincon-Cruz, M. Spehlmann, S. Meyers, A. Xu, D. Bunde, V. Leung, "Comparing global link
//! arrangements for dragonfly networks", IEEE CLUSTER 2015.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// In which order the global ports of a group lead to the other groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Arrangement {
    /// By their numbers, the own left out.
    #[default]
    Absolute,
    /// From the next group on, all around.
    Relative,
    /// One further, one back, two further, two back and so on.
    Circulant,
}

impl Arrangement {
    /// The peer number that group `to` has at group `from`, among `groups` groups. The two differ.
    #[inline(always)]
    pub(crate) fn peer_number(self, from: u32, to: u32, groups: u32) -> u32 {
        let ahead = if to > from { to - from } else { to + groups - from };
        match self {
            Arrangement::Absolute => to - u32::from(to > from),
            Arrangement::Relative => ahead - 1,
            Arrangement::Circulant if 2 * ahead <= groups => 2 * (ahead - 1),
            Arrangement::Circulant => 2 * (groups - ahead - 1) + 1,
        }
    }

    /// The group that has `number` at group `from`: the other way round.
    #[inline(always)]
    pub(crate) fn peer(self, from: u32, number: u32, groups: u32) -> u32 {
        let around = |group: u32| if group >= groups { group - groups } else { group };
        match self {
            Arrangement::Absolute => number + u32::from(number >= from),
            Arrangement::Relative => around(from + number + 1),
            Arrangement::Circulant if number.is_multiple_of(2) => around(from + number / 2 + 1),
            Arrangement::Circulant => around(from + groups - (number / 2 + 1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Arrangement; 3] = [Arrangement::Absolute, Arrangement::Relative, Arrangement::Circulant];

    #[test]
    fn the_drawing_above() {
        let row = |arrangement: Arrangement| (0..8).map(|number| arrangement.peer(3, number, 9)).collect::<Vec<_>>();
        assert_eq!(row(Arrangement::Absolute), [0, 1, 2, 4, 5, 6, 7, 8]);
        assert_eq!(row(Arrangement::Relative), [4, 5, 6, 7, 8, 0, 1, 2]);
        assert_eq!(row(Arrangement::Circulant), [4, 2, 5, 1, 6, 0, 7, 8]);
    }

    #[test]
    fn every_other_group_has_one_number() {
        for groups in 2..14 {
            for (arrangement, from) in ALL.into_iter().flat_map(|arrangement| (0..groups).map(move |from| (arrangement, from))) {
                let mut peers: Vec<u32> = (0..groups - 1).map(|number| arrangement.peer(from, number, groups)).collect();
                for (number, &to) in peers.iter().enumerate() {
                    assert_eq!(arrangement.peer_number(from, to, groups), number as u32, "{arrangement:?} {from} {to} of {groups}");
                }
                peers.push(from);
                peers.sort_unstable();
                assert!(peers.into_iter().eq(0..groups), "{arrangement:?} {from} of {groups}");
            }
        }
    }
}
