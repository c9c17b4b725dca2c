//! What was measured, as costs of messages by size and place.

use fabriscope_units::Span;

use super::measure::{PairPlace, RECEIVERS, Receiver, Step, Window, crossing, depth, pairs, steps};
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
    /// From the sender's call until it may use its buffer, where the receiver waits.
    pub sent: Span,
    /// Where both ends meet before the bytes move: from the call of a late receiver until the sender may use its buffer.
    pub released: Option<Span>,
}

/// What ranks of a node share: the time between two messages of all of them. Nothing where the cores are slower.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Gaps {
    /// Messages to another node, in one direction.
    pub remote: Span,
    /// The same in both directions at once, for one message each way.
    pub both: Span,
    /// Messages within the node.
    pub local: Span,
    /// Core time of a message sent and one received, in a row of many.
    pub turn: Span,
    /// The same within the node.
    pub local_turn: Span,
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
        let mut costs = Costs {
            sizes: probe.sizes.clone(),
            domains: notes.domains.clone(),
            crossings: notes.crossings.clone(),
            ..Costs::default()
        };
        for &size in &probe.sizes {
            let (mut nearest, mut within) = (MessageCosts::default(), MessageCosts::default());
            for (index, (place, ..)) in pairs.iter().enumerate() {
                let four: Vec<Sample> = samples.by_ref().take(RECEIVERS.len()).map(|(_, sample)| *sample).collect();
                let message = message(&four);
                match place {
                    PairPlace::Local(_) if index == 0 => within = message,
                    PairPlace::Near(_) if nearest == MessageCosts::default() => nearest = message,
                    _ => {}
                }
                match place {
                    PairPlace::Local(apart) => push(&mut costs.local, *apart, message),
                    PairPlace::Near(domain) => push(&mut costs.near, *domain, message),
                    PairPlace::Far(domain) => push(&mut costs.far, *domain, message),
                }
            }
            let mut spans: Vec<(Window, Span)> = Vec::new();
            for _ in super::measure::windows(probe) {
                if let Some((Step::Many { window, .. }, sample)) = samples.next() {
                    spans.push((*window, sample.end.since(sample.call)));
                }
            }
            costs.gaps.push(gaps(probe, size, &spans, (nearest.ready, within.ready)));
        }
        costs
    }

    /// What a line takes longer from one domain to another.
    #[must_use]
    pub fn crossing(&self, from: u32, to: u32) -> Span {
        let notes = Notes { crossings: self.crossings.clone(), ..Notes::default() };
        crossing(&notes, from, to)
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
    let released = (late.done > late.begin).then(|| late.done.since(late.begin));
    MessageCosts {
        post: waits.back.since(waits.call),
        receive: waits.posted.since(waits.begin),
        take: computes.end.since(computes.begin),
        ready: waits.end.since(waits.call),
        late: late.end.since(late.begin),
        sent: waits.done.since(waits.call),
        released,
    }
}

fn gaps(probe: &Probe, size: u32, spans: &[(Window, Span)], (near, within): (Span, Span)) -> Gaps {
    let (each, count) = (u64::from(probe.per_node), u64::from(depth(size)));
    let span = |remote: bool, all: bool, both: bool| {
        let found = spans.iter().find(|(window, _)| *window == Window { remote, all, both });
        found.map_or(Span::ZERO, |(_, span)| *span)
    };
    let between = |whole: Span, first: Span, messages: u64| whole.saturating_sub(first) / (messages - 1).max(1);
    // What all together take longer than one alone, they share.
    let shared = |one: Span, all: Span, of: u64| if all * of > one + one / SEEN { all } else { Span::ZERO };
    let one = between(span(true, false, false), near, count);
    let one_both = between(span(true, false, true), near, count);
    let all = between(span(true, true, false), near, count * each);
    let all_both = between(span(true, true, true), near, count * each);
    let remote = shared(one, all, each);
    let both = shared(one_both, all_both, each);
    let inside = between(span(false, false, true), within, count);
    let pairs = each / 2 * 2;
    let all_inside = between(span(false, true, true), within, count * pairs.max(1));
    Gaps {
        remote,
        both: if both > remote + remote / SEEN { both } else { Span::ZERO },
        local: shared(inside, all_inside, pairs.max(1)),
        turn: one_both,
        local_turn: inside,
    }
}

/// A twentieth more counts as seen. Basis: assumed.
const SEEN: u64 = 20;
