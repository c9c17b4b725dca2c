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

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use fabriscope_engine::{EngineError, Run};
use fabriscope_units::{Span, Time};

use crate::barrier::Barrier;
use crate::boundary::BoundaryTraffic;
use crate::run::Ending;
use crate::transfer::Transferring;
use crate::world::World;

/// A part, and what runs on it.
type Part<'a> = (World<'a>, Transferring);

/// What all parts see of each other.
struct Exchange {
    /// Mail by window (even, odd), writer and reader.
    mail: [Vec<Mutex<BoundaryTraffic>>; 2],
    /// The earliest thing that each part knows of, by window and part (ps).
    next: [Vec<AtomicU64>; 2],
    /// Whether a part has something left to do, by window and part.
    busy: [Vec<AtomicBool>; 2],
    /// Whether a part cannot go on, by window and part: all of them stop after the same window.
    failed: [Vec<AtomicBool>; 2],
    barrier: Barrier,
}

/// Runs a schedule whose parts have been set up, on up to `threads` cores.
pub(crate) fn run(mut parts: Vec<Part<'_>>, threads: usize) -> Result<Run, EngineError> {
    for (world, transfers) in &mut parts {
        transfers.begin(world)?;
        world.begin_series();
    }
    join(advance(parts, threads, Until::Done)?)
}

/// How long parts run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    /// Until the schedule is done.
    Done,
    /// Until nothing is in flight either.
    #[cfg(test)]
    Settled,
}

/// Runs parts on up to `threads` cores.
pub(crate) fn advance(parts: Vec<Part<'_>>, threads: usize, until: Until) -> Result<Vec<Part<'_>>, EngineError> {
    let count = parts.len();
    let window = parts[0].0.window();
    let threads = threads.clamp(1, count);
    let mailboxes = || (0..count * count).map(|_| Mutex::new(BoundaryTraffic::default())).collect();
    let times = || (0..count).map(|_| AtomicU64::new(0)).collect();
    let flags = |value| (0..count).map(|_| AtomicBool::new(value)).collect();
    let exchange = Exchange {
        mail: [mailboxes(), mailboxes()],
        next: [times(), times()],
        busy: [flags(true), flags(true)],
        failed: [flags(false), flags(false)],
        barrier: Barrier::new(threads),
    };
    for (part, (world, _)) in parts.iter().enumerate() {
        exchange.next[1][part].store(world.queue.peek_time().unwrap_or(Time::MAX).as_ps(), Ordering::Relaxed);
    }
    let mut shares: Vec<Vec<(usize, Part<'_>)>> = (0..threads).map(|_| Vec::new()).collect();
    for (part, state) in parts.into_iter().enumerate() {
        shares[part * threads / count].push((part, state));
    }
    let results: Vec<Result<(), EngineError>> = std::thread::scope(|scope| {
        let mut shares = shares.iter_mut();
        let first = shares.next();
        let others: Vec<_> = shares.map(|share| scope.spawn(|| windows(share, &exchange, window, until))).collect();
        let mut results = vec![first.map_or(Ok(()), |share| windows(share, &exchange, window, until))];
        results.extend(others.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))));
        results
    });
    results.into_iter().collect::<Result<(), _>>()?;
    Ok(shares.into_iter().flatten().map(|(_, part)| part).collect())
}

/// Runs the parts of one core, window by window, until no part has anything left to do.
fn windows(share: &mut [(usize, Part<'_>)], exchange: &Exchange, window: Span, until: Until) -> Result<(), EngineError> {
    let count = exchange.next[0].len();
    let mut failure = Ok(());
    let _attendance = exchange.barrier.enter();
    for turn in 0usize.. {
        let (write, read) = (turn & 1, !turn & 1);
        let earliest = exchange.next[read].iter().map(|next| next.load(Ordering::Relaxed)).min();
        let start = earliest.map_or(Time::MAX, Time::from_ps);
        let any = |flags: &[AtomicBool]| flags.iter().any(|flag| flag.load(Ordering::Relaxed));
        if !start.is_known() || !any(&exchange.busy[read]) || any(&exchange.failed[read]) {
            break;
        }
        let end = start.saturating_add(window);
        for (part, (world, transfers)) in share.iter_mut() {
            for writer in 0..count {
                world.open(&mut lock(&exchange.mail[read][writer * count + *part]));
            }
            if !world.links.drains.is_empty() {
                world.drain(start);
            }
            let result = world.run_before(transfers, end);
            world.post_notices();
            let mut next = world.queue.peek_time().unwrap_or(Time::MAX);
            for (reader, mail) in world.outbox.iter_mut().enumerate() {
                next = next.min(mail.earliest());
                // What was there has been read, so both boxes keep their room.
                std::mem::swap(&mut *lock(&exchange.mail[write][*part * count + reader]), mail);
            }
            exchange.next[write][*part].store(next.as_ps(), Ordering::Relaxed);
            exchange.busy[write][*part].store(until != Until::Done || !transfers.done(), Ordering::Relaxed);
            exchange.failed[write][*part].store(result.is_err() || transfers.failed(), Ordering::Relaxed);
            if failure.is_ok() {
                failure = result;
            }
        }
        if !exchange.barrier.wait() {
            break;
        }
    }
    failure
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One result of all parts.
pub(crate) fn join(mut parts: Vec<Part<'_>>) -> Result<Run, EngineError> {
    let ending = Ending::of(parts.iter_mut().map(|(world, _)| world));
    let mut run = Run::default();
    let mut states = Vec::with_capacity(parts.len());
    for (world, transfers) in parts {
        let one = world.into_run_with(&ending);
        run.stats.add(&one.stats);
        run.links.extend(one.links);
        run.sightings.extend(one.sightings);
        match (&mut run.counters, one.counters) {
            (Some(all), Some(more)) => all.absorb(more),
            (all, more) => *all = more,
        }
        crate::events::faults::absorb(&mut run.breakage, one.breakage);
        match (&mut run.series, one.series) {
            (Some(all), Some(more)) => all.absorb(more),
            (all, more) => *all = more,
        }
        states.push(transfers);
    }
    run.links.sort_unstable_by_key(|load| load.link);
    crate::events::observe::sort(&mut run.sightings);
    Transferring::join(states, ending.at, run)
}
