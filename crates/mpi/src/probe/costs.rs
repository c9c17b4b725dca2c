//! What was measured, as costs of messages by size and place.

use fabriscope_units::Span;

use super::measure::{PairPlace, RECEIVERS, Reach, Receiver, Step, Window, crossing, depth, matched, pairs, steps, windows};
use super::{Notes, Probe, Sample};

/// One message between two ranks, where nothing else goes on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MessageCosts {
    /// The call of the sender.
    pub post: Span,
    /// The call of the receiver.
    pub receive: Span,
    /// The receiver's core, for a message that is there.
    pub take: Span,
    /// From the sender's call until the receiver, who waits, has the message.
    pub ready: Span,
    /// From the call of a receiver for whom the message waits until it has it.
    pub late: Span,
    /// The same where the library has looked at the message before.
    pub found: Span,
    /// From the sender's call until it may use its buffer, where the receiver waits.
    pub sent: Span,
    /// Where both ends meet before the bytes move: from the call of a late receiver until the sender may use its buffer.
    pub released: Option<Span>,
    /// Bytes move only while the sender is inside the library, after its call.
    pub needs_sender: bool,
}

/// What ranks of a node share: the time between two messages of all of them. Nothing where the cores are slower.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Gaps {
    /// Messages to another node, in one direction.
    pub remote: Span,
    /// The same in both directions at once, for one message each way.
    pub both: Span,
    /// Messages within the node, by how far domains are apart, in the order of the costs.
    pub local: Vec<Span>,
}

/// Costs by size and place.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Costs {
    /// Sizes, ascending; rows below are in their order.
    pub sizes: Vec<u32>,
    /// The domain of each rank of a node.
    pub domains: Vec<u32>,
    /// What a line takes longer: (from, to, how much).
    pub crossings: Vec<(u32, u32, Span)>,
    /// Within a node, by how far domains are apart.
    pub local: Vec<(Span, Vec<MessageCosts>)>,
    /// Between the nearest nodes, by the domain at both ends.
    pub near: Vec<(u32, Vec<MessageCosts>)>,
    /// Between the farthest ones.
    pub far: Vec<(u32, Vec<MessageCosts>)>,
    /// What is shared.
    pub gaps: Vec<Gaps>,
}

impl Costs {
    pub(super) fn of(probe: &Probe, notes: &Notes) -> Costs {
        let pairs = pairs(probe, notes);
        let steps = steps(probe, notes);
        let mut samples = steps.iter().zip(&notes.samples);
        let mut costs =
            Costs { sizes: probe.sizes.clone(), domains: notes.domains.clone(), crossings: notes.crossings.clone(), ..Costs::default() };
        let mut ready: Vec<Vec<(Reach, Span)>> = Vec::new();
        for _ in &probe.sizes {
            let mut times: Vec<(Reach, Span)> = Vec::new();
            for (place, ..) in &pairs {
                let four: Vec<Sample> = samples.by_ref().take(RECEIVERS.len()).map(|(_, sample)| *sample).collect();
                let message = message(&four);
                match place {
                    PairPlace::Local(apart) => {
                        times.push((Reach::Local(*apart), message.ready));
                        push(&mut costs.local, *apart, message);
                    }
                    PairPlace::Near(domain) => {
                        times.extend([Reach::OneWay, Reach::BothWays].map(|to| (to, message.ready)));
                        push(&mut costs.near, *domain, message);
                    }
                    PairPlace::Far(domain) => push(&mut costs.far, *domain, message),
                }
            }
            ready.push(times);
        }
        for (&size, ready) in probe.sizes.iter().zip(&ready) {
            let mut spans: Vec<(Window, Span)> = Vec::new();
            for _ in windows(probe, &pairs) {
                if let Some((Step::Many { window, .. }, sample)) = samples.next() {
                    spans.push((*window, sample.end.since(sample.call)));
                }
            }
            costs.gaps.push(gaps(probe, notes, size, &spans, ready));
        }
        costs
    }

    /// What a line takes longer from one domain to another.
    #[must_use]
    pub fn crossing(&self, from: u32, to: u32) -> Span {
        crossing(&self.crossings, from, to)
    }
}

fn push<T: PartialEq>(all: &mut Vec<(T, Vec<MessageCosts>)>, place: T, message: MessageCosts) {
    match all.iter_mut().find(|(known, _)| *known == place) {
        Some((_, row)) => row.push(message),
        None => all.push((place, vec![message])),
    }
}

/// The samples in the order of [`RECEIVERS`].
fn message(samples: &[Sample]) -> MessageCosts {
    let of = |receiver: Receiver| {
        let at = RECEIVERS.iter().position(|known| *known == receiver).unwrap_or(0);
        samples.get(at).copied().unwrap_or_default()
    };
    let (waits, computes, late) = (of(Receiver::Waits), of(Receiver::Computes), of(Receiver::IsLate));
    let (looked, busy) = (of(Receiver::HasLooked), of(Receiver::MeetsBusySender));
    let released = (late.done > late.begin).then(|| late.done.since(late.begin));
    MessageCosts {
        post: waits.back.since(waits.call),
        receive: waits.posted.since(waits.begin),
        take: computes.end.since(computes.begin),
        ready: waits.end.since(waits.call),
        late: late.end.since(late.begin),
        found: looked.end.since(looked.begin),
        sent: waits.done.since(waits.call),
        released,
        // The sender turns to it again long after its call.
        needs_sender: busy.end.since(busy.call) > waits.end.since(waits.call) * 2,
    }
}

fn gaps(probe: &Probe, notes: &Notes, size: u32, spans: &[(Window, Span)], ready: &[(Reach, Span)]) -> Gaps {
    let (each, count) = (u64::from(probe.per_node), u64::from(depth(size)));
    // The time from one message to the next, of one pair and of so many.
    let between = |to: Reach, all: bool, pairs: u64| {
        let of = |known: &&(Window, Span)| known.0 == Window { to, all };
        let whole = spans.iter().find(of).map_or(Span::ZERO, |(_, span)| *span);
        let first = ready.iter().find(|(known, _)| *known == to).map_or(Span::ZERO, |(_, span)| *span);
        whole.saturating_sub(first) / (count * pairs - 1).max(1)
    };
    // What all together take longer than one alone, they share.
    let shared = |to: Reach, pairs: u64| {
        let (one, all) = (between(to, false, 1), between(to, true, pairs));
        if all * pairs > one + one / SEEN { all } else { Span::ZERO }
    };
    let (remote, both) = (shared(Reach::OneWay, each), shared(Reach::BothWays, each));
    let local = |to: Reach| {
        let Reach::Local(apart) = to else { return None };
        let pairs = (matched(probe, notes, apart).len() as u64).max(1);
        // Each of a pair sends and receives.
        Some(shared(to, pairs) / 2)
    };
    Gaps {
        remote,
        both: if both > remote + remote / SEEN { both } else { Span::ZERO },
        local: ready.iter().filter_map(|(to, _)| local(*to)).collect(),
    }
}

/// A twentieth more counts as seen. Basis: assumed.
const SEEN: u64 = 20;
