//! Which rounds of a long operation run: all, or windows of them that stand for the others.
//!
//! A pairwise exchange among 32,768 ranks is 1,073,709,056 messages in 32,767 rounds, each like those beside it. Of an operation of too many
//! messages, windows of consecutive rounds run, one in the middle of each of equally long stretches, and the whole takes as much longer
//! as it has more rounds. Of a round with too many messages every so manieth runs.
//!
//! Modelled: only operations of which each message is sent and received in the same round (or the same place of it), so that what is left
//! out is missed by nobody. Not modelled: how far ranks drift apart between windows.

use fabriscope_collectives::{Algorithm, Call, Round, Rounds};

/// What runs of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excerpt {
    /// Windows of rounds: first one, and the one after the last. Empty: all.
    windows: Vec<(u64, u64)>,
    /// Of the messages of a round every so manieth.
    stride: u64,
    /// Messages of all ranks, and of those that run.
    pub messages: (u64, u64),
}

impl Excerpt {
    /// Everything.
    fn whole(messages: u64) -> Excerpt {
        Excerpt { windows: Vec::new(), stride: 1, messages: (messages, messages) }
    }

    /// Whether something is left out.
    #[must_use]
    pub fn is_part(&self) -> bool {
        self.messages.0 > self.messages.1
    }

    /// How much longer all of it takes.
    #[must_use]
    pub fn factor(&self) -> f64 {
        self.messages.0 as f64 / self.messages.1.max(1) as f64
    }

    /// The rounds of a rank that run.
    #[must_use]
    pub fn rounds(&self, algorithm: &Algorithm, call: &Call, rank: u32) -> Rounds {
        let rounds = algorithm.rounds(call, rank);
        if self.stride > 1 {
            let stride = self.stride as usize;
            return Box::new(rounds.map(move |round| thinned(round, stride)));
        }
        if self.windows.is_empty() {
            return rounds;
        }
        Box::new(Windows { rounds, windows: self.windows.clone().into_iter(), now: (0, 0), at: 0 })
    }
}

/// Every so manieth message.
fn thinned(mut round: Round, stride: usize) -> Round {
    if round.sends.len() > stride && round.receives.len() > stride {
        round.sends = round.sends.into_iter().skip(stride / 2).step_by(stride).collect();
        round.receives = round.receives.into_iter().skip(stride / 2).step_by(stride).collect();
    }
    round
}

struct Windows {
    rounds: Rounds,
    windows: std::vec::IntoIter<(u64, u64)>,
    now: (u64, u64),
    /// The number of the round that `rounds` gives next.
    at: u64,
}

impl Iterator for Windows {
    type Item = Round;
    fn next(&mut self) -> Option<Round> {
        while self.at >= self.now.1 {
            self.now = self.windows.next()?;
        }
        let ahead = self.now.0.saturating_sub(self.at);
        self.at += ahead + 1;
        self.rounds.nth(ahead as usize)
    }
}

/// What of a call runs with about `most` messages; nothing where it has to be all of more.
#[must_use]
pub fn excerpt(call: &Call, algorithm: &Algorithm, most: u64) -> Option<Excerpt> {
    let ranks = u64::from(call.ranks);
    let of_rank = |rank: u32| {
        let (mut rounds, mut messages, mut longest) = (0u64, 0u64, 0usize);
        for round in algorithm.rounds(call, rank) {
            (rounds, messages, longest) = (rounds + 1, messages + round.sends.len() as u64, longest.max(round.sends.len()));
        }
        (rounds, messages, longest as u64)
    };
    let (rounds, messages, longest) = of_rank(call.root);
    let other = of_rank((call.root + call.ranks / 2) % call.ranks);
    let all = messages.max(other.1).saturating_mul(ranks);
    if all <= most {
        return Some(Excerpt::whole(all));
    }
    // Ranks that do unlike things have no rounds in common.
    let alike = (rounds, messages, longest) == other;
    let kept = (most / ranks).max(LEAST);
    if alike && longest > kept && rounds <= FEW && closed(call, algorithm, rounds, true) {
        let stride = longest.div_ceil(kept);
        let ran = (longest - stride / 2).div_ceil(stride);
        return Some(Excerpt { windows: Vec::new(), stride, messages: (longest * ranks, ran * ranks) });
    }
    let each = (messages / rounds.max(1)).max(1);
    let count = (kept / each / WINDOW).max(1);
    if alike && rounds > 2 * count * WINDOW && closed(call, algorithm, rounds, false) {
        let middle = |number: u64| (2 * number + 1) * rounds / (2 * count);
        let windows: Vec<(u64, u64)> =
            (0..count).map(|number| (middle(number) - WINDOW / 2, middle(number) - WINDOW / 2 + WINDOW)).collect();
        return Some(Excerpt { windows, stride: 1, messages: (rounds * each * ranks, count * WINDOW * each * ranks) });
    }
    (all <= most.saturating_mul(OVER)).then(|| Excerpt::whole(all))
}

/// Whether messages are received in the round with the number in which they are sent, or in the same place of it, as far as a few ranks and
/// rounds tell.
fn closed(call: &Call, algorithm: &Algorithm, rounds: u64, by_place: bool) -> bool {
    let ranks = call.ranks;
    let round_of = |rank: u32, number: u64| algorithm.rounds(call, rank).nth(number as usize).unwrap_or_default();
    let numbers = [1, rounds / 3, rounds / 2 + 1, rounds - 1].map(|number| number.min(rounds - 1));
    [0, ranks / 3, ranks - 1].into_iter().all(|rank| {
        numbers.iter().all(|number| {
            let round = round_of(rank, *number);
            let length = round.sends.len();
            [0, 1, length / 2, length.saturating_sub(1)].into_iter().filter(|place| *place < length).all(|place| {
                let send = round.sends[place];
                let theirs = round_of(send.peer, *number).receives;
                let fits = |receive: &fabriscope_collectives::Message| receive.peer == rank && receive.piece.bytes == send.piece.bytes;
                if by_place { theirs.get(place).is_some_and(fits) } else { theirs.iter().any(fits) }
            })
        })
    })
}

/// Rounds of a window. Basis: assumed.
const WINDOW: u64 = 8;
/// Messages of each rank that run at least. Basis: assumed.
const LEAST: u64 = 64;
/// Rounds of an operation of which messages are left out. Basis: assumed.
const FEW: u64 = 4;
/// How many more messages run where nothing can be left out. Basis: assumed.
const OVER: u64 = 16;
