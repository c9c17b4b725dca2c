//! Which send meets which receive, when the rounds of all ranks are looked at side by side, round by round.
//!
//! Messages from one rank to another are received in the order of sending. Most are received in the round with the same number; those
//! are found by looking at the two rounds. Others wait in a list by pair of ranks.

use std::collections::VecDeque;

use fabriscope_collectives::{Message, Round};
use rustc_hash::FxHashMap;

/// The other side of a message of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Partner {
    /// In this place of the other rank's round of the same number.
    At(u32),
    /// In another round: told when both have been seen.
    Late,
}

/// A message of which the two sides are in different rounds, or in long ones: rank, round and place of either.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pair {
    pub sent: (u32, u32, u32),
    pub received: (u32, u32, u32),
    pub bytes: u64,
}

/// What has been seen of one pair of ranks and not of the other.
#[derive(Debug, Default)]
struct Open {
    sends: VecDeque<(u32, u32, u64)>,
    receives: VecDeque<(u32, u32)>,
}

/// Sends and receives that have not met.
#[derive(Debug, Default)]
pub(crate) struct Matching {
    open: FxHashMap<(u32, u32), Open>,
    /// Of the last step: of each rank the partners of its receives, and of its sends.
    pub partners: Vec<[Vec<Partner>; 2]>,
    /// Of the last step: messages whose partners were found at last.
    pub late: Vec<Pair>,
}

impl Matching {
    /// Round `number` of all ranks.
    pub fn step(&mut self, number: u32, rounds: &[Round]) {
        self.partners.resize_with(rounds.len(), Default::default);
        for (partners, round) in self.partners.iter_mut().zip(rounds) {
            for (partners, messages) in partners.iter_mut().zip([&round.receives, &round.sends]) {
                partners.clear();
                partners.resize(messages.len(), Partner::Late);
            }
        }
        for (rank, round) in (0u32..).zip(rounds) {
            if round.receives.len() > LONG {
                continue;
            }
            for (place, receive) in round.receives.iter().enumerate() {
                let from = receive.peer;
                let sends = &rounds[from as usize].sends;
                if sends.len() > LONG || (!self.open.is_empty() && self.open.contains_key(&(from, rank))) {
                    continue;
                }
                // The n-th receive from a rank has its n-th send.
                let before = round.receives[..place].iter().filter(|other| other.peer == from).count();
                let found = (0u32..).zip(sends).filter(|(_, send)| send.peer == rank).nth(before);
                if let Some((at, _)) = found {
                    self.partners[rank as usize][0][place] = Partner::At(at);
                    self.partners[from as usize][1][at as usize] = Partner::At(place as u32);
                }
            }
        }
        for (rank, round) in (0u32..).zip(rounds) {
            self.keep(rank, number, &round.receives, false);
            self.keep(rank, number, &round.sends, true);
        }
    }

    /// What has no partner yet meets who waits for it, or waits.
    fn keep(&mut self, rank: u32, number: u32, messages: &[Message], sends: bool) {
        for (place, message) in (0u32..).zip(messages) {
            if self.partners[rank as usize][usize::from(sends)][place as usize] != Partner::Late {
                continue;
            }
            let pair = if sends { (rank, message.peer) } else { (message.peer, rank) };
            let open = self.open.entry(pair).or_default();
            if sends {
                open.sends.push_back((number, place, message.piece.bytes.0));
            } else {
                open.receives.push_back((number, place));
            }
            if let (Some((sent, at, bytes)), Some((received, there))) = (open.sends.front().copied(), open.receives.front().copied()) {
                open.sends.pop_front();
                open.receives.pop_front();
                if open.sends.is_empty() && open.receives.is_empty() {
                    self.open.remove(&pair);
                }
                self.late.push(Pair { sent: (pair.0, sent, at), received: (pair.1, received, there), bytes });
            }
        }
    }
}

/// Rounds with more messages are not searched. Basis: assumed.
const LONG: usize = 16;
