//! A core and drives of its own node: no network.
//!
//! Modelled: the core's time by command, half before and half after; an interrupt where the software does not poll and the core was idle.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use fabriscope_node::{Process, ProgramError};
use fabriscope_units::{Span, Time};

use crate::command::{Core, Mix, Shared};
use crate::settings::Settings;

/// One core of the host.
pub(crate) async fn run(process: &Process, s: &Settings, shared: &Shared, core: u32) -> Result<(), ProgramError> {
    let half = Span::from_ps(s.host.local.as_ps() / 2);
    let begin = process.now();
    let mut mix = Mix::new(s, begin);
    let (mut done, mut waited) = (Core::default(), Span::ZERO);
    // When commands end, and when they were submitted.
    let mut outstanding: BinaryHeap<Reverse<(Time, Time)>> = BinaryHeap::new();
    loop {
        while (outstanding.len() as u32) < s.depth {
            let submitted = process.now();
            let Some(access) = mix.next(submitted) else { break };
            process.compute(half);
            let end = shared.drives.lock().submit(process.now(), access);
            outstanding.push(Reverse((end, submitted)));
        }
        let Some(Reverse((end, submitted))) = outstanding.pop() else { break };
        if end > process.now() {
            let idle = process.now();
            process.sleep_until(end).await;
            waited += process.now().since(idle);
            process.compute(*s.host.wake_up);
        }
        process.compute(half);
        done.latencies.push(process.now().since(submitted));
    }
    done.elapsed = process.now().since(begin);
    done.busy = done.elapsed.saturating_sub(waited);
    shared.hosts.lock()[core as usize] = done;
    Ok(())
}
