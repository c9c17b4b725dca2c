//! Rings: every message of a loop goes on to the next node when it has come from the one before.
//!
//! A ring of R ranks, `each` of them on a node, makes M = R − 1 steps in a loop of an all-gather or reduce-scatter, 2 (R − 1) in one of an
//! all-reduce. What a node sends in step t came `each` steps before; the first `each` messages are its own.
//!
//! Source: NCCL, src/device/all_gather.h, reduce_scatter.h, all_reduce.h (`runRing`).

use fabriscope_schedule::OpId;
use fabriscope_units::{Bytes, Span};

use crate::choice::{Channel, Chosen, copied, on_wire};
use crate::collective::CallBuilder;

/// Adds the messages of a call around its rings.
pub(crate) fn add(call: &mut CallBuilder<'_>, chosen: &Chosen, steps: u32, proxies: Span) {
    for channel in &chosen.channels {
        add_channel(call, channel, (chosen.each, steps), proxies);
    }
}

fn add_channel(call: &mut CallBuilder<'_>, channel: &Channel, (each, steps): (u32, u32), proxies: Span) {
    let tag = call.tag();
    let flags = call.tag();
    let pace = &channel.paces[0];
    for (exit, entry_of_next) in &channel.edges {
        let node = call.node(*exit);
        let Some((before, entry)) = channel.edges.iter().find(|(_, to)| call.node(*to) == node).copied() else { continue };
        let (own, previous, next) = (call.rank(*exit), call.rank(before), call.rank(*entry_of_next));
        let at_entry = call.rank(entry);
        let mut last = call.gate(*exit);
        let opened = call.gate(entry);
        let mut sends: Vec<OpId> = Vec::new();
        let mut receives: Vec<OpId> = Vec::new();
        for slices in &channel.loops {
            // What has come in this loop, by step and slice.
            let mut come: Vec<OpId> = Vec::with_capacity(steps as usize * slices.len());
            for slice in (0..steps).flat_map(|_| slices.iter()) {
                let after = receives.len().checked_sub(RECEIVES).map_or(opened, |earlier| receives[earlier]);
                let received = call.receive((previous, at_entry), (on_wire(pace, *slice), tag), &[after]);
                receives.push(received);
                come.push(call.tell((at_entry, received), own, flags));
            }
            for step in 0..steps + each {
                for (number, slice) in slices.iter().enumerate() {
                    let source = step.checked_sub(each).map(|from| come[from as usize * slices.len() + number]);
                    last = copy(call, own, (last, source), *slice, (channel, each));
                    if step < steps {
                        let ready = if proxies > Span::ZERO { call.compute(own, proxies, &[last]) } else { last };
                        let full = sends.len().checked_sub(channel.window).map(|earlier| sends[earlier]);
                        let after: Vec<OpId> = [Some(ready), full].into_iter().flatten().collect();
                        sends.push(call.send((own, next), (on_wire(pace, *slice), tag), &after));
                    }
                }
            }
        }
        call.done(*exit, last);
    }
}

/// The block's copy of a slice, behind that of the slice before, and behind the hops within the node of one that has come.
fn copy(
    call: &mut CallBuilder<'_>,
    rank: u32,
    (last, source): (OpId, Option<OpId>),
    slice: Bytes,
    (channel, each): (&Channel, u32),
) -> OpId {
    let span = copied(&channel.paces[0], slice);
    match source {
        None => call.compute(rank, span, &[last]),
        Some(source) if each > 1 => {
            let hops = call.compute(rank, span * u64::from(each - 1), &[source]);
            call.compute(rank, span, &[last, hops])
        }
        Some(source) => call.compute(rank, span, &[last, source]),
    }
}

/// Receives that a proxy has posted ahead. Basis: assumed, more than the slots of a connection.
pub(crate) const RECEIVES: usize = 16;
