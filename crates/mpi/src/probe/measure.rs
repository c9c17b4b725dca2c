//! The ranks of a measurement: one message after the other, with all ranks together between them.

use fabriscope_node::{Process, ProgramError};
use fabriscope_units::Span;

use super::{Notes, Probe, Probing, Sample};
use crate::buffer::Buffer;
use crate::rank::Rank;
use crate::world::World;

/// What the receiver does while the message comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Receiver {
    /// The first messages between two, which are not looked at.
    Warms,
    /// It waits.
    Waits,
    /// It has posted its receive and is outside of the library.
    Computes,
    /// It posts its receive when the message is there.
    IsLate,
    /// The same, and the library has looked at the message before.
    HasLooked,
    /// It waits, and the sender is outside of the library after its call.
    MeetsBusySender,
}

/// Who sends many messages at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Window {
    pub to: Reach,
    /// All ranks; else one pair.
    pub all: bool,
}

/// To whom ranks send many messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// To the other node.
    OneWay,
    /// To the other node and back.
    BothWays,
    /// Within the node between domains that are so far apart, and back.
    Local(Span),
}

/// One step of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    One { from: u32, to: u32, size: u32, receiver: Receiver },
    Many { size: u32, window: Window },
}

/// Where pairs of ranks are, in the order of the measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PairPlace {
    /// In one node, this much apart.
    Local(Span),
    /// On the nearest nodes, both in this domain.
    Near(u32),
    /// On the farthest ones.
    Far(u32),
}

/// The pairs of ranks that are looked at: one for each way between domains of a node, one of each domain for other nodes.
pub(super) fn pairs(probe: &Probe, notes: &Notes) -> Vec<(PairPlace, u32, u32)> {
    let (each, domains) = (probe.per_node, &notes.domains);
    let mut found: Vec<(PairPlace, u32, u32)> = Vec::new();
    let mut add = |place, from, to| {
        if !found.iter().any(|(known, ..)| *known == place) {
            found.push((place, from, to));
        }
    };
    for (from, to) in (0..each).flat_map(|from| (0..each).map(move |to| (from, to))).filter(|(from, to)| from != to) {
        add(PairPlace::Local(crossing(&notes.crossings, domains[from as usize], domains[to as usize])), from, to);
    }
    for rank in (0..each).filter(|_| probe.nodes > 1) {
        add(PairPlace::Near(domains[rank as usize]), rank, each + rank);
    }
    for rank in (0..each).filter(|_| probe.nodes > 2) {
        add(PairPlace::Far(domains[rank as usize]), rank, 2 * each + rank);
    }
    found
}

/// What a line takes longer from one domain to another.
pub(super) fn crossing(crossings: &[(u32, u32, Span)], from: u32, to: u32) -> Span {
    crossings.iter().find(|(one, other, _)| (*one, *other) == (from, to)).map_or(Span::ZERO, |(.., span)| *span)
}

/// The receivers of the messages that are looked at, in order.
pub(super) const RECEIVERS: [Receiver; 6] =
    [Receiver::Warms, Receiver::Waits, Receiver::Computes, Receiver::IsLate, Receiver::HasLooked, Receiver::MeetsBusySender];

/// The windows of a measurement.
pub(super) fn windows(probe: &Probe, pairs: &[(PairPlace, u32, u32)]) -> Vec<Window> {
    let remote = [Reach::OneWay, Reach::BothWays].into_iter().filter(|_| probe.nodes > 1);
    let local = pairs.iter().filter_map(|(place, ..)| if let PairPlace::Local(apart) = place { Some(Reach::Local(*apart)) } else { None });
    remote.chain(local).flat_map(|to| [false, true].map(|all| Window { to, all })).collect()
}

/// Pairs of ranks of a node that are so far apart, each rank once.
pub(super) fn matched(probe: &Probe, notes: &Notes, apart: Span) -> Vec<(u32, u32)> {
    let mut taken = vec![false; probe.per_node as usize];
    let mut pairs = Vec::new();
    for from in 0..probe.per_node {
        let fits = |to: &u32| {
            !taken[*to as usize] && crossing(&notes.crossings, notes.domains[from as usize], notes.domains[*to as usize]) == apart
        };
        if taken[from as usize] {
            continue;
        }
        if let Some(to) = (from + 1..probe.per_node).find(fits) {
            (taken[from as usize], taken[to as usize]) = (true, true);
            pairs.push((from, to));
        }
    }
    pairs
}

/// Everything that is measured, in order. Windows come last: buffers of many messages at a time stay out of the caches.
pub(super) fn steps(probe: &Probe, notes: &Notes) -> Vec<Step> {
    let pairs = pairs(probe, notes);
    let mut steps = Vec::new();
    for &size in &probe.sizes {
        for (_, from, to) in &pairs {
            steps.extend(RECEIVERS.map(|receiver| Step::One { from: *from, to: *to, size, receiver }));
        }
    }
    for &size in &probe.sizes {
        steps.extend(windows(probe, &pairs).into_iter().map(|window| Step::Many { size, window }));
    }
    steps
}

/// Messages of each rank of a window.
pub(super) fn depth(size: u32) -> u32 {
    match size {
        0..=8192 => 16,
        8193..=65_536 => 6,
        _ => 3,
    }
}

pub(super) async fn run(process: Process, world: World, probing: Probing) -> Result<(), ProgramError> {
    let (me, probe) = (process.rank(), &*probing.probe);
    let each = probe.per_node;
    let local = |rank: u32| rank % each;
    let peers = |rank: u32| -> Vec<u32> {
        let others = (1..probe.nodes).map(|node| node * each + local(rank));
        match rank / each {
            0 => (0..each).filter(|other| *other != rank).chain(others).collect(),
            _ => vec![local(rank)],
        }
    };
    let rank = Rank::init(process, world, &peers(me)).await?;
    rank.goes_through(probe.footprint);
    {
        let notes = &mut *probing.notes.lock();
        notes.domains.resize(each as usize, 0);
        if me < each {
            notes.domains[me as usize] = rank.process.domain();
        }
    }
    rank.synchronise().await?;
    if me < each {
        let notes = &mut *probing.notes.lock();
        let from = rank.process.domain();
        let mut known: Vec<u32> = notes.crossings.iter().filter(|(one, ..)| *one == from).map(|(_, to, _)| *to).collect();
        for to in notes.domains.clone() {
            if !known.contains(&to) {
                known.push(to);
                notes.crossings.push((from, to, rank.process.crossing(to)));
            }
        }
    }
    rank.synchronise().await?;
    let steps = steps(probe, &probing.notes.lock());
    if me == 0 {
        probing.notes.lock().samples = vec![Sample::default(); steps.len()];
    }
    for (at, step) in steps.into_iter().enumerate() {
        rank.synchronise().await?;
        match step {
            Step::One { from, to, size, receiver } if me == from || me == to => {
                one(&rank, &probing, at, (from, to, size), receiver).await?
            }
            Step::One { .. } => {}
            Step::Many { size, window } => many(&rank, &probing, at, size, window).await?,
        }
    }
    rank.synchronise().await
}

async fn one(rank: &Rank, probing: &Probing, at: usize, (from, to, size): (u32, u32, u32), receiver: Receiver) -> Result<(), ProgramError> {
    let long = LONG + PER_BYTE * u64::from(size);
    let note = |write: &dyn Fn(&mut Sample)| write(&mut probing.notes.lock().samples[at]);
    if receiver == Receiver::Warms {
        for _ in 0..WARM_UPS {
            if rank.rank() == from {
                rank.send(to, TAG, size).await?;
                rank.recv(Some(to), Some(TAG), size).await?;
            } else {
                rank.recv(Some(from), Some(TAG), size).await?;
                rank.send(from, TAG, size).await?;
            }
        }
        return Ok(());
    }
    if rank.rank() == from {
        if receiver == Receiver::Waits {
            rank.work(long).await;
        }
        let call = rank.now();
        // Most rounds are exchanges, whose sends are waited for.
        let waits = rank.world.0.protocol.tells_waiting();
        let request = rank.isend_saying(Buffer::Host, (to, TAG, size), None, waits)?;
        let back = rank.now();
        if receiver == Receiver::MeetsBusySender {
            rank.work(long).await;
        }
        rank.wait(request).await?;
        let done = rank.now();
        note(&|sample| (sample.call, sample.back, sample.done) = (call, back, done));
        return Ok(());
    }
    if matches!(receiver, Receiver::IsLate | Receiver::HasLooked) {
        rank.work(long).await;
    }
    if receiver == Receiver::HasLooked {
        for _ in 0..LOOKS {
            rank.look().await?;
        }
    }
    let mut begin = rank.now();
    let request = rank.irecv(Some(from), Some(TAG), size)?;
    let posted = rank.now();
    let posting = posted.since(begin);
    if receiver == Receiver::Computes {
        rank.work(long).await;
        begin = rank.now();
    }
    rank.wait(request).await?;
    let end = rank.now();
    note(&|sample| (sample.begin, sample.posted, sample.end) = (begin, begin + posting, end));
    Ok(())
}

/// With whom a rank of a window exchanges messages: to whom it sends, from whom it receives.
fn partners(probing: &Probing, me: u32, window: Window) -> (Option<u32>, Option<u32>) {
    let each = probing.probe.per_node;
    if let Reach::Local(apart) = window.to {
        let mut pairs = matched(&probing.probe, &probing.notes.lock(), apart);
        pairs.truncate(if window.all { pairs.len() } else { 1 });
        let found = pairs.iter().find_map(|(one, other)| match me {
            me if me == *one => Some(*other),
            me if me == *other => Some(*one),
            _ => None,
        });
        return (found, found);
    }
    if me >= 2 * each || (!window.all && !me.is_multiple_of(each)) {
        return (None, None);
    }
    let other = if me < each { me + each } else { me - each };
    match (me < each, window.to) {
        (true, Reach::OneWay) => (Some(other), None),
        (false, Reach::OneWay) => (None, Some(other)),
        _ => (Some(other), Some(other)),
    }
}

async fn many(rank: &Rank, probing: &Probing, at: usize, size: u32, window: Window) -> Result<(), ProgramError> {
    let (to, from) = partners(probing, rank.rank(), window);
    let mut requests = Vec::new();
    let call = rank.now();
    for _ in 0..depth(size) {
        requests.extend(from.map(|from| rank.irecv(Some(from), Some(TAG), size)).transpose()?);
    }
    for _ in 0..depth(size) {
        requests.extend(to.map(|to| rank.isend(to, TAG, size)).transpose()?);
    }
    if requests.is_empty() {
        return Ok(());
    }
    rank.wait_all(requests).await?;
    let end = rank.now();
    let sample = &mut probing.notes.lock().samples[at];
    if sample.end.as_ps() == 0 {
        sample.call = call;
    }
    sample.call = sample.call.min(call);
    sample.end = sample.end.max(end);
    Ok(())
}

/// The tag of all messages. Basis: assumed.
const TAG: u32 = 1;
/// Round trips before a measurement: buffers are mapped, credits are back. Basis: assumed.
const WARM_UPS: u32 = 2;
/// Turns of progress that find a message. Basis: assumed.
const LOOKS: u32 = 3;
/// Longer than any message takes. Basis: assumed; a millisecond, and bytes at 50 MB/s.
const LONG: Span = Span::from_us(1000);
const PER_BYTE: Span = Span::from_ns(20);
