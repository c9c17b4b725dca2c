//! Operations of sends and receives: everybody to everybody, by nodes, and around.
//!
//! Modelled: a kernel that sends to all at once (`ncclGroup`); what goes round in as many messages as there are others.
//! Not modelled: parts of an all-to-all that stay within the node, which are there sooner; limits of channels of such kernels.

use fabriscope_schedule::OpId;
use fabriscope_units::{Bytes, Span};

use crate::collective::CallBuilder;

/// Adds a message from everybody to everybody on another node, each of an equal share of `bytes`.
pub(crate) fn all_to_all(call: &mut CallBuilder<'_>, bytes: Bytes, proxies: Span) {
    let size = call.callers.len() as u32;
    let share = Bytes(bytes.0.div_ceil(u64::from(size.max(1))));
    let tag = call.tag();
    for member in 0..size {
        let own = call.callers[member as usize];
        let ready = call.compute(own.rank, proxies, &[own.begin]);
        let mut left = vec![ready];
        for step in 1..size {
            let (to, from) = ((member + step) % size, (member + size - step) % size);
            if call.node(to) != call.node(member) {
                left.push(call.send((own.rank, call.rank(to)), (share, tag), &[ready]));
            }
            if call.node(from) != call.node(member) {
                left.push(call.receive((call.rank(from), own.rank), (share, tag), &[own.begin]));
            }
        }
        left.into_iter().for_each(|op| call.builder.requires(own.rank, own.end, op));
    }
}

/// Adds messages from everybody to those of the same number on other nodes, `bytes` in all; when they are there, it takes `local` until the
/// others of the node have what is theirs.
pub(crate) fn by_nodes(call: &mut CallBuilder<'_>, (bytes, local): (Bytes, Span), each: u32) {
    let size = call.callers.len() as u32;
    let nodes = size.div_ceil(each.max(1)).max(1);
    let share = Bytes(bytes.0.div_ceil(u64::from((nodes - 1).max(1))));
    let tag = call.tag();
    for member in 0..size {
        let own = call.callers[member as usize];
        let mut there = vec![own.begin];
        for step in 1..nodes {
            let (to, from) = ((member + step * each) % size, (member + (nodes - step) * each) % size);
            let left = call.send((own.rank, call.rank(to)), (share, tag), &[own.begin]);
            call.builder.requires(own.rank, own.end, left);
            there.push(call.receive((call.rank(from), own.rank), (share, tag), &[own.begin]));
        }
        let handed = call.compute(own.rank, local, &there);
        call.builder.requires(own.rank, own.end, handed);
    }
}

/// Adds messages that go round: each rank sends to the next what it got from the one before, `bytes` in all. A message within a node takes
/// `local`.
pub(crate) fn around(call: &mut CallBuilder<'_>, bytes: Bytes, (proxies, local): (Span, Span)) {
    let size = call.callers.len() as u32;
    let rounds = size.saturating_sub(1);
    let share = Bytes(bytes.0.div_ceil(u64::from(rounds.max(1))));
    let (tag, flags) = (call.tag(), call.tag());
    for member in 0..size {
        let own = call.callers[member as usize];
        let (to, from) = ((member + 1) % size, (member + size - 1) % size);
        let mut last: OpId = own.begin;
        for _ in 0..rounds {
            if call.node(to) == call.node(member) {
                let moved = call.compute(own.rank, local, &[last]);
                if call.rank(to) != own.rank {
                    call.send((own.rank, call.rank(to)), (Bytes(8), flags), &[moved]);
                }
            } else {
                let ready = call.compute(own.rank, proxies, &[last]);
                call.send((own.rank, call.rank(to)), (share, tag), &[ready]);
            }
            last = if call.node(from) != call.node(member) {
                call.receive((call.rank(from), own.rank), (share, tag), &[last])
            } else if call.rank(from) != own.rank {
                call.receive((call.rank(from), own.rank), (Bytes(8), flags), &[last])
            } else {
                call.compute(own.rank, local, &[last])
            };
        }
        call.builder.requires(own.rank, own.end, last);
    }
}
