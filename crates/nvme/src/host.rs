//! A core of the host: commands in capsules to the target, answers back.
//!
//! Source: NVMe over RDMA Transport Specification 1.0, section 3: a capsule is a send; data of short writes travel in it, all others are
//! moved by the target.
//! Modelled: a queue of `depth` commands, the core's time half before and half after, completions by polling or by an interrupt.

use fabriscope_node::{Process, ProgramError};
use fabriscope_units::{Span, Time};
use fabriscope_verbs::WcOpcode;

use crate::command::{Command, Core, Mix, SUBMISSION, Shared};
use crate::queue_pair::{NIC, QueuePair, checked, completions};
use crate::settings::Settings;

/// One core: its connection from the first command to the last.
pub(crate) async fn run(process: &Process, s: &Settings, shared: &Shared, core: u32) -> Result<(), ProgramError> {
    let at = core as usize;
    let cq = completions(process, s, 1)?;
    let pair = QueuePair::open(process, s, cq, (core, process.place(NIC)))?;
    shared.connections.lock()[at].host = Some(pair.end(process));
    process.barrier().await;
    let peer = shared.connections.lock()[at].target;
    pair.connect(process, s, &peer.ok_or_else(|| ProgramError("the target opened no queue pair".to_owned()))?)?;
    process.barrier().await;

    let half = Span::from_ps(s.host.host.as_ps() / 2);
    let begin = process.now();
    let mut mix = Mix::new(s, begin);
    let mut submitted = vec![Time::ZERO; s.depth as usize];
    let mut free: Vec<u32> = (0..s.depth).rev().collect();
    let (mut done, mut waited, mut outstanding) = (Core::default(), Span::ZERO, 0_u32);
    loop {
        while let Some(&slot) = free.last() {
            let now = process.now();
            let Some(access) = mix.next(now) else { break };
            free.pop();
            submitted[slot as usize] = now;
            process.compute(half);
            let inside = access.write && access.bytes <= *s.target.in_capsule;
            let bytes = if inside { SUBMISSION + access.bytes } else { SUBMISSION };
            shared.connections.lock()[at].commands.push_back(Command { slot, access });
            process.post_send(NIC, pair.qp, &pair.capsule(slot, bytes))?;
            outstanding += 1;
        }
        if outstanding == 0 {
            break;
        }
        let idle = process.now();
        let found = checked(process.wait_cq(NIC, cq, MOST).await)?;
        let first = process.now().since(idle);
        if first > process.cpu().poll_hit * found.len() as u64 + process.cpu().detect {
            waited += first;
            process.compute(*s.host.wake_up);
        }
        for wc in found.iter().filter(|wc| wc.opcode == WcOpcode::Recv) {
            process.compute(half);
            pair.post_receive(process, wc.wr_id as u32)?;
            let answer = shared.connections.lock()[at].answers.pop_front();
            let slot = answer.ok_or_else(|| ProgramError("an answer to no command".to_owned()))?;
            done.latencies.push(process.now().since(submitted[slot as usize]));
            free.push(slot);
            outstanding -= 1;
        }
    }
    done.elapsed = process.now().since(begin);
    done.busy = done.elapsed.saturating_sub(waited);
    shared.hosts.lock()[at] = done;
    // The target hears that nothing more comes.
    process.post_send(NIC, pair.qp, &pair.capsule(0, SUBMISSION))?;
    checked(process.wait_cq(NIC, cq, MOST).await)?;
    Ok(())
}

/// Completions of one poll. Basis: assumed (SPDK takes up to 128 at a time).
pub(crate) const MOST: usize = 128;
