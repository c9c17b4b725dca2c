//! The loops of the latency tests.
//!
//! Source: perftest 6.29. `ib_write_lat` spins on memory for the peer's write, `ib_send_lat` on its receive queue,
//! `ib_read_lat` and `ib_atomic_lat` on the completion of the request. Time stamps are taken before each post.
//! Modelled: the order of posts, polls and reposts of the tool.
//! Not modelled: what the tool does with wrong contents of the buffer.

use fabriscope_node::ProgramError;

use super::endpoint::{Endpoint, Role};
use super::iterations::{Clock, Quota};
use super::statistics::Stamps;
use super::test::Verb;

/// What one end measured.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    pub stamps: Stamps,
    pub clock: Clock,
}

/// Runs the latency test of `end` for one size.
pub(crate) async fn run(end: &Endpoint, size: u32, quota: &Quota, landed: &mut u64) -> Result<Outcome, ProgramError> {
    let mut outcome = Outcome { stamps: Stamps::default(), clock: Clock::start(end.settings.length, end.process.now()) };
    match end.settings.test.verb {
        Verb::Write => write(end, size, quota, landed, &mut outcome).await?,
        Verb::Send | Verb::Raw => send(end, size, quota, &mut outcome).await?,
        Verb::Read | Verb::Atomic if end.role == Role::Client => request(end, size, quota, &mut outcome).await?,
        Verb::Read | Verb::Atomic => {}
    }
    if let Some(iterations) = end.settings.iterations().filter(|_| end.settings.may_end(size)) {
        outcome.stamps.repeat(iterations, size);
    }
    Ok(outcome)
}

/// Both ends: wait for the peer's write, then write.
async fn write(end: &Endpoint, size: u32, quota: &Quota, landed: &mut u64, outcome: &mut Outcome) -> Result<(), ProgramError> {
    let (mut sent, mut received, mut completed) = (0, 0, 0);
    while sent < quota.of(0) || received < quota.of(0) || completed < quota.of(0) {
        if received < quota.of(0) && !(sent == 0 && end.role == Role::Client) {
            received += 1;
            *landed += 1;
            end.process.wait_watch(end.settings.nic, end.watch, *landed).await;
        }
        if sent < quota.of(0) {
            stamp(end, (quota, size), sent, outcome);
            end.post(0, &end.request(0, sent, size).signaled())?;
            sent += 1;
        }
        if completed < quota.of(0) {
            end.wait(end.send_cq, 1).await?;
            completed += 1;
        }
        end.process.compute(end.settings.loop_overhead);
    }
    Ok(())
}

/// Both ends: wait for the peer's message, post its receive again, then send.
async fn send(end: &Endpoint, size: u32, quota: &Quota, outcome: &mut Outcome) -> Result<(), ProgramError> {
    let s = &end.settings;
    let (mut sent, mut received, mut unsignaled) = (0, 0, 0);
    let mut posted = u64::from(s.rx_depth);
    while sent < quota.of(0) || received < quota.of(0) {
        if received < quota.of(0) && !(sent == 0 && end.role == Role::Client) {
            end.wait(end.recv_cq, 1).await?;
            received += 1;
            if posted < quota.of(0) {
                end.post_receive(0, size)?;
                posted += 1;
            }
        }
        if sent < quota.of(0) {
            stamp(end, (quota, size), sent, outcome);
            sent += 1;
            unsignaled += 1;
            let signal = unsignaled == s.cq_mod || sent == quota.of(0);
            let wr = end.request(0, sent, size);
            end.post(0, &if signal { wr.signaled() } else { wr })?;
            if signal {
                end.wait(end.send_cq, 1).await?;
                unsignaled = 0;
            }
        }
        end.process.compute(s.loop_overhead);
    }
    Ok(())
}

/// The client alone: request and wait for its completion.
async fn request(end: &Endpoint, size: u32, quota: &Quota, outcome: &mut Outcome) -> Result<(), ProgramError> {
    let mut sent = 0;
    while sent < quota.of(0) {
        stamp(end, (quota, size), sent, outcome);
        end.post(0, &end.request(0, sent, size).signaled())?;
        sent += 1;
        end.counts.set([sent, sent - 1]);
        end.wait(end.send_cq, 1).await?;
        end.process.compute(end.settings.loop_overhead);
    }
    Ok(())
}

/// Takes the time of the next post; the client ends the test when the time of `-D` is over, or exchanges repeat.
fn stamp(end: &Endpoint, (quota, size): (&Quota, u32), sent: u64, outcome: &mut Outcome) {
    let now = end.process.now();
    if end.settings.iterations().is_some() {
        outcome.stamps.posted.push(now);
    }
    outcome.clock.count(now, 1);
    let repeats = || end.settings.may_end(size) && outcome.stamps.are_alike(size);
    if end.role == Role::Client && (outcome.clock.is_over(now) || repeats()) {
        quota.close(&[sent]);
    }
}
