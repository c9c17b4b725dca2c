//! Do two engines say the same? Small cases in which they should, each with the tolerance that follows from what they model.
//!
//! The end of the run is compared, relative to the slower one. Where nothing is shared, an engine of fluids and one of
//! packets differ by what a fluid does not know: how the last packet is cut, and that an acknowledgement takes the wire
//! now and then. Where links are shared, packets take turns that a fluid shares evenly: flows of the same length end
//! within a packet of each other, in whatever order.

use fabriscope_schedule::{After, Builder, OpKind, Schedule};
use fabriscope_units::{Bytes, Span};

use crate::{Cluster, Connections, Engine, EngineError, Job, RunOptions};

/// A case that two engines have to agree on.
#[derive(Debug, Clone)]
pub struct Case {
    /// What it is.
    pub name: &'static str,
    /// What happens.
    pub schedule: Schedule,
    /// By how much the ends may differ, as a share of the later one.
    pub tolerance: f64,
    /// Why that much.
    pub because: &'static str,
}

/// What two engines said of a case.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Agreement {
    /// The end by the first.
    pub one: Span,
    /// The end by the second.
    pub other: Span,
    /// Their difference, as a share of the later one.
    pub difference: f64,
}

/// The cases, for clusters of at least eight nodes.
#[must_use]
pub fn cases() -> Vec<Case> {
    let case = |name, tolerance, because, fill: &dyn Fn(&mut Builder)| {
        let mut builder = Builder::new(8);
        fill(&mut builder);
        builder.build().ok().map(|schedule| Case { name, schedule, tolerance, because })
    };
    let message = |builder: &mut Builder, from: u32, to: u32, bytes: u64, tag: u32| {
        let send = builder.send(from, to, Bytes(bytes), tag);
        (send, builder.recv(to, from, Bytes(bytes), tag))
    };
    let alone = "one message on idle parts: the stages are the same, but for the cutting into packets";
    let shared = "packets take turns where fluids share: flows end within a packet or two of each other";
    let all = [
        case("8 B, one way", 0.01, alone, &|b| {
            let _ = message(b, 0, 1, 8, 0);
        }),
        case("4 KiB, one way", 0.03, alone, &|b| {
            let _ = message(b, 0, 1, 4096, 0);
        }),
        case("1 MiB, one way", 0.03, alone, &|b| {
            let _ = message(b, 0, 7, 1 << 20, 0);
        }),
        case("ping and pong of 64 KiB, four times", 0.03, alone, &|b| {
            let mut last = None;
            for turn in 0..8 {
                let (from, to) = if turn % 2 == 0 { (0, 5) } else { (5, 0) };
                let after: &[After] = last.as_slice();
                let _ = b.op_after(from, OpKind::Send { to, bytes: Bytes(65_536), tag: turn }, after);
                last = Some(After::End(b.recv(to, from, Bytes(65_536), turn)));
            }
        }),
        case("put of 256 KiB", 0.03, alone, &|b| {
            let _ = b.put(2, 3, Bytes(262_144));
        }),
        case("get of 256 KiB", 0.03, alone, &|b| {
            let _ = b.get(2, 3, Bytes(262_144));
        }),
        case("shift by one, 256 KiB", 0.03, alone, &|b| {
            (0..8).for_each(|rank| {
                let _ = message(b, rank, (rank + 1) % 8, 262_144, 0);
            })
        }),
        case("incast of seven, 256 KiB", 0.05, shared, &|b| {
            (1..8).for_each(|rank| {
                let _ = message(b, rank, 0, 262_144, 0);
            })
        }),
        case("two into one, 64 KiB and 1 MiB", 0.05, shared, &|b| {
            let _ = message(b, 1, 0, 65_536, 0);
            let _ = message(b, 2, 0, 1 << 20, 0);
        }),
        case("all to all, 64 KiB", 0.05, shared, &|b| {
            for from in 0..8 {
                for step in 1..8 {
                    let _ = message(b, from, (from + step) % 8, 65_536, 0);
                }
            }
        }),
        case("compute, then send", 0.01, alone, &|b| {
            let wait = b.compute(4, Span::from_us(50));
            let (send, _) = message(b, 4, 6, 8192, 0);
            b.requires(4, send, wait);
        }),
    ];
    all.into_iter().flatten().collect()
}

/// Runs a case on both engines.
///
/// # Errors
/// What either of them refuses.
pub fn compare(
    cluster: &Cluster,
    connections: &Connections,
    (one, other): (&dyn Engine, &dyn Engine),
    case: &Case,
) -> Result<Agreement, EngineError> {
    let job = || Job::schedule(case.schedule.clone(), connections.clone());
    let options = RunOptions::default();
    let end = |engine: &dyn Engine| engine.run(cluster, job(), &options, 1).map(|run| run.end - fabriscope_units::Time::ZERO);
    let (one, other) = (end(one)?, end(other)?);
    let (less, more) = (one.min(other).as_ps() as f64, one.max(other).as_ps().max(1) as f64);
    Ok(Agreement { one, other, difference: 1.0 - less / more })
}
