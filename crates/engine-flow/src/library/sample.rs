//! Which rounds of a long operation run: all, or windows of them that stand for the others.
//!
//! A pairwise exchange among 32,768 ranks is 1,073,709,056 messages in 32,767 rounds, each like those beside it. Of an operation of too many
//! messages, windows of consecutive rounds run, one in the middle of each of equally long stretches, and the whole takes as much longer
//! as it has more rounds. Of a round with too many messages every so manieth runs.
//!
//! Modelled: only operations of which each message is sent and received in the same round (or the same place of it), so that what is left
//! out is missed by nobody. Not modelled: how far ranks drift apart between windows.

use fabriscope_collectives::{Algorithm, Call, Outline, Outlines, Round, Rounds};

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
    pub fn rounds(&self, algorithm: &Algorithm, call: &Call, rank: u32) -> Outlines {
        if self.stride > 1 {
            let stride = self.stride as usize;
            return Box::new(algorithm.rounds(call, rank).map(move |round| thinned(round, stride).into()));
        }
        if self.windows.is_empty() {
            return algorithm.outlines(call, rank);
        }
        let windows = Windows { rounds: algorithm.rounds(call, rank), windows: self.windows.clone().into_iter(), now: (0, 0), at: 0 };
        Box::new(windows.map(Outline::from))
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
        for Outline { round, .. } in algorithm.outlines(call, rank) {
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

#[cfg(test)]
mod tests {
    use fabriscope_collectives::Kind;
    use fabriscope_units::Bytes;

    use super::*;

    fn call(operation: Kind, ranks: u32) -> Call {
        Call { operation, ranks, per_node: 4, root: 0, size: Bytes(4096), width: Bytes(1) }
    }

    fn of(name: &str, ranks: u32, most: u64) -> Option<Excerpt> {
        excerpt(&call(Kind::Alltoall, ranks), &Algorithm::named(Kind::Alltoall, name).unwrap(), most)
    }

    #[test]
    fn what_is_not_too_much_runs_whole() {
        let whole = of("pairwise(shift)", 64, 64 * 63).unwrap();
        assert_eq!((whole.is_part(), whole.factor(), whole.messages.0), (false, 1.0, 64 * 63));
    }

    /// Each rank has 1,023 rounds of one message and one without; eight windows of eight, each in the middle of its eighth.
    #[test]
    fn windows_of_rounds_stand_for_all() {
        let (call, algorithm) = (call(Kind::Alltoall, 1024), Algorithm::named(Kind::Alltoall, "pairwise(shift)").unwrap());
        let part = excerpt(&call, &algorithm, 1024 * 64).unwrap();
        let rounds: Vec<Outline> = part.rounds(&algorithm, &call, 3).collect();
        assert_eq!(rounds.len(), 64);
        assert_eq!(part.messages, (1024 * 1024, 1024 * 64));
        // The first window of eight stretches of 128 begins four before its middle: round 60, to the rank 60 ahead.
        assert_eq!(rounds[0].round.sends[0].peer, 63);
        assert_eq!(rounds[8].round.sends[0].peer, 3 + 128 + 60);
    }

    #[test]
    fn a_long_round_is_thinned() {
        let (call, algorithm) = (call(Kind::Alltoall, 4096), Algorithm::named(Kind::Alltoall, "posted(0)").unwrap());
        let part = excerpt(&call, &algorithm, 4096 * 128).unwrap();
        let round = part.rounds(&algorithm, &call, 5).next().unwrap().round;
        assert_eq!((round.sends.len(), round.receives.len()), (128, 128));
        assert_eq!(part.messages, (4095 * 4096, 128 * 4096));
        // What a rank sends is received: by whom, at the same place.
        let theirs = part.rounds(&algorithm, &call, round.sends[7].peer).next().unwrap().round;
        assert_eq!(theirs.receives[7].peer, 5);
    }

    /// Ranks of a tree do unlike things: nothing can be left out, up to a limit.
    #[test]
    fn what_has_no_rounds_in_common_is_not_cut() {
        let bcast = Algorithm::named(Kind::Bcast, "binomial").unwrap();
        assert!(!excerpt(&call(Kind::Bcast, 64), &bcast, 40).unwrap().is_part());
        assert_eq!(excerpt(&call(Kind::Bcast, 64), &bcast, 1), None);
    }
}
