//! One run in several parts, on one core or many, with the same bytes out.
//!
//! Every part of the fabric has a queue of its own and runs a window of simulated time by itself. What crosses a border
//! goes into letters that are opened at the start of the next window, part by part, in the order they were written:
//! the outcome does not depend on which core runs which part, nor on how many there are.
//!
//! Source: K. M. Chandy and J. Misra, "Distributed simulation", IEEE Trans. Software Eng. 5(5), 1979 (lookahead);
//! D. Nicol, "The cost of conservative synchronization in parallel discrete event simulations", J. ACM 40(2), 1993
//! (windows).
//!
//! How long a window may be: a packet that crosses a border arrives one propagation after its start at the earliest,
//! and a switch starts it no sooner than its latency after its head came. A packet that waited for a credit may start
//! as soon as the credit is there; credit and packet cross a border each, so between the event that frees the space
//! and the arrival lie latency + 2 × propagation, for two windows. That gives latency / 2 + propagation. Links that decide
//! packet by packet (`arbitrated.rs`) start a packet at the very event, which leaves the propagation alone; but where nothing is
//! held back, as packets are dropped instead, a packet has its place on the wire when its head comes: latency + propagation.
//! Where a border runs between a host and its switch, the host starts a packet at the very event, which leaves the propagation of its
//! cable.
//!
//! A barrier of all ranks takes no time, and the part of the last rank may be any: a part all of whose ranks are there runs no further
//! than the others surely do before theirs are ([`Plan::alone`]), and all go on from the latest.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use fabriscope_engine::EngineError;
use fabriscope_units::{Span, Time};

use crate::barrier::Barrier;
use crate::boundary::BoundaryTraffic;
use crate::workload::{Divided, Meeting, Workload};
use crate::world::World;

/// What all parts see of each other; twice, for the window that is written and the one that is read.
struct Exchange {
    /// Mail by writer and reader.
    mail: [Vec<Mutex<BoundaryTraffic>>; 2],
    /// What each part says at the end of a window.
    states: [Vec<PartState>; 2],
    /// How long a window is.
    window: Span,
    barrier: Barrier,
}

/// What a part says of itself.
struct PartState {
    /// The earliest event that it knows of, and the earliest that its letters bring to others (ps).
    next: AtomicU64,
    letters: AtomicU64,
    /// Whether it has something left to do.
    busy: AtomicBool,
    /// Whether it cannot go on: all stop after the same window.
    failed: AtomicBool,
    /// Its [`Meeting`]: when the last of its ranks came (ps), or one of the numbers below.
    meeting: AtomicU64,
}

/// [`Meeting::Expected`] and [`Meeting::Nobody`] as numbers.
const EXPECTED: u64 = u64::MAX;
const NOBODY: u64 = u64::MAX - 1;

impl PartState {
    fn new() -> PartState {
        let [next, letters, meeting] = [Time::MAX.as_ps(), Time::MAX.as_ps(), NOBODY].map(AtomicU64::new);
        PartState { next, letters, busy: AtomicBool::new(true), failed: AtomicBool::new(false), meeting }
    }
    fn write(&self, next: Time, letters: Time, meeting: Meeting) {
        self.next.store(next.as_ps(), Ordering::Relaxed);
        self.letters.store(letters.as_ps(), Ordering::Relaxed);
        let meeting = match meeting {
            Meeting::Expected => EXPECTED,
            Meeting::There(at) => at.as_ps(),
            Meeting::Nobody => NOBODY,
        };
        self.meeting.store(meeting, Ordering::Relaxed);
    }
}

/// What follows for the next window from what all parts said.
struct Plan {
    /// The earliest thing that happens anywhere.
    start: Time,
    /// Before this, nobody comes to a barrier that parts wait at.
    alone: Time,
    /// When all ranks go on from a barrier that the last one has come to.
    opening: Option<Time>,
    goes_on: bool,
}

impl Plan {
    fn of(states: &[PartState]) -> Plan {
        let mut plan = Plan { start: Time::MAX, alone: Time::MAX, opening: None, goes_on: false };
        let (mut expected, mut last, mut failed) = (false, None, false);
        for state in states {
            let [next, letters] = [&state.next, &state.letters].map(|time| Time::from_ps(time.load(Ordering::Relaxed)));
            plan.start = plan.start.min(next).min(letters);
            plan.alone = plan.alone.min(letters);
            match state.meeting.load(Ordering::Relaxed) {
                EXPECTED => {
                    expected = true;
                    plan.alone = plan.alone.min(next);
                }
                NOBODY => {}
                at => last = last.max(Some(Time::from_ps(at))),
            }
            plan.goes_on |= state.busy.load(Ordering::Relaxed);
            failed |= state.failed.load(Ordering::Relaxed);
        }
        plan.opening = last.filter(|_| !expected);
        plan.start = plan.start.min(plan.opening.unwrap_or(Time::MAX));
        plan.goes_on &= !failed && plan.start.is_known();
        plan
    }
}

/// How long parts run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    /// Until everything is done.
    Done,
    /// Until nothing is in flight either.
    #[cfg(test)]
    Settled,
}

/// Runs parts on up to `threads` cores.
pub(crate) fn advance<'a, W: Workload>(
    parts: Vec<(World<'a>, W)>,
    threads: usize,
    until: Until,
) -> Result<Vec<(World<'a>, W::WorkloadEnd)>, EngineError> {
    let count = parts.len();
    let threads = threads.clamp(1, count);
    let mailboxes = || (0..count * count).map(|_| Mutex::new(BoundaryTraffic::default())).collect();
    let states = || (0..count).map(|_| PartState::new()).collect();
    let (mail, states) = ([mailboxes(), mailboxes()], [states(), states()]);
    let exchange = Exchange { mail, states, window: parts[0].0.window(), barrier: Barrier::new(threads) };
    let mut shares: Vec<Vec<(usize, World<'a>, W)>> = (0..threads).map(|_| Vec::new()).collect();
    for (part, (world, work)) in parts.into_iter().enumerate() {
        // In turn: neighbours are often as busy as each other.
        shares[part % threads].push((part, world, work));
    }
    let results: Vec<Result<Vec<Ended<'a, W>>, Failure>> = std::thread::scope(|scope| {
        let mut shares = shares.into_iter();
        let first = shares.next();
        let others: Vec<_> = shares.map(|share| scope.spawn(|| windows(share, &exchange, until))).collect();
        let mut results = vec![first.map_or_else(|| Ok(Vec::new()), |share| windows(share, &exchange, until))];
        results.extend(others.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))));
        results
    });
    let (mut ended, mut failures) = (Vec::with_capacity(count), Vec::new());
    for result in results {
        match result {
            Ok(parts) => ended.extend(parts),
            Err(failure) => failures.push(failure),
        }
    }
    if let Some(first) = failures.into_iter().min_by_key(|failure| failure.part) {
        return Err(first.error);
    }
    ended.sort_unstable_by_key(|(number, ..)| *number);
    Ok(ended.into_iter().map(|(_, world, end)| (world, end)).collect())
}

/// A part at its end: its number, and what is left.
type Ended<'a, W> = (usize, World<'a>, <W as Workload>::WorkloadEnd);

/// Why the first part of a thread cannot go on.
struct Failure {
    part: usize,
    error: EngineError,
}

/// A part in its thread.
struct Part<'a, C> {
    number: usize,
    world: World<'a>,
    client: C,
}

/// Runs the parts of one core, window by window, until no part has anything left to do.
fn windows<'a, W: Workload>(share: Vec<(usize, World<'a>, W)>, exchange: &Exchange, until: Until) -> Result<Vec<Ended<'a, W>>, Failure> {
    let _attendance = exchange.barrier.enter();
    let (mut parts, mut failure) = (Vec::with_capacity(share.len()), Ok(()));
    for (number, mut world, work) in share {
        match work.begin(&mut world) {
            Ok(client) => {
                let next = world.queue.peek_time().unwrap_or(Time::MAX);
                exchange.states[1][number].write(next, Time::MAX, client.meeting());
                parts.push(Part { number, world, client });
            }
            Err(error) => {
                exchange.states[1][number].failed.store(true, Ordering::Relaxed);
                failure = failure.and(Err(Failure { part: number, error }));
            }
        }
    }
    let mut together = exchange.barrier.wait();
    for turn in 0usize.. {
        let (write, read) = (turn & 1, !turn & 1);
        let plan = Plan::of(&exchange.states[read]);
        if !together || !plan.goes_on {
            break;
        }
        for part in &mut parts {
            let result = part.window(exchange, &plan, write, until);
            failure = failure.and(result.map_err(|error| Failure { part: part.number, error }));
        }
        together = exchange.barrier.wait();
    }
    failure?;
    Ok(parts.into_iter().map(|part| (part.number, part.world, W::end(part.client))).collect())
}

impl<C: Divided> Part<'_, C> {
    /// One window: opens the mail of the one before, and writes what others have to know at the end.
    fn window(&mut self, exchange: &Exchange, plan: &Plan, write: usize, until: Until) -> Result<(), EngineError> {
        let (read, count) = (1 - write, exchange.states[0].len());
        let Part { number, world, client } = self;
        for writer in 0..count {
            world.open(&mut lock(&exchange.mail[read][writer * count + *number]));
        }
        if !world.links.drains.is_empty() {
            world.drain(plan.start);
        }
        if let Some(at) = plan.opening {
            client.open(world, at);
        }
        let mut end = plan.start.saturating_add(exchange.window);
        if matches!(client.meeting(), Meeting::There(_)) {
            end = end.min(plan.alone);
        }
        let result = world.is_wanted().and_then(|()| world.run_before(client, end));
        world.post_notices();
        let mut letters = Time::MAX;
        for (reader, mail) in world.outbox.iter_mut().enumerate() {
            letters = letters.min(mail.earliest());
            // What was there has been read, so both boxes keep their room.
            std::mem::swap(&mut *lock(&exchange.mail[write][*number * count + reader]), mail);
        }
        let state = &exchange.states[write][*number];
        state.write(world.queue.peek_time().unwrap_or(Time::MAX), letters, client.meeting());
        state.busy.store(until != Until::Done || !client.done(), Ordering::Relaxed);
        state.failed.store(result.is_err() || client.failed(), Ordering::Relaxed);
        result
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
