//! Trees: chunks go up to the root with sums, and down again with the whole, both at once.
//!
//! Source: NCCL, src/device/all_reduce.h (`runTreeSplit`): two groups of threads of a block.

use std::collections::BTreeMap;

use fabriscope_schedule::OpId;
use fabriscope_units::{Bytes, Span};

use crate::choice::{Channel, Chosen, copied, on_wire};
use crate::collective::CallBuilder;
use crate::ring::RECEIVES;

/// An edge of a tree: ranks of the group at its ends, on the way up and on the way down.
#[derive(Debug, Clone, Copy)]
struct Edge {
    up: (u32, u32),
    down: (u32, u32),
}

/// Adds the messages of a call along its trees.
pub(crate) fn add(call: &mut CallBuilder<'_>, chosen: &Chosen, proxies: Span) {
    for channel in &chosen.channels {
        let edges: Vec<Edge> = channel.edges.chunks_exact(2).map(|pair| Edge { up: pair[0], down: pair[1] }).collect();
        add_channel(call, channel, &edges, (chosen.each, proxies));
    }
}

/// A connection that is being filled.
struct Connection {
    /// Ranks of the schedule.
    ends: (u32, u32),
    tag: u32,
    sends: Vec<OpId>,
    receives: Vec<OpId>,
}

impl Connection {
    fn new(call: &mut CallBuilder<'_>, (from, to): (u32, u32)) -> Connection {
        Connection { ends: (call.rank(from), call.rank(to)), tag: call.tag(), sends: Vec::new(), receives: Vec::new() }
    }
    /// Sends a slice that `from` has at `at`.
    fn send(&mut self, call: &mut CallBuilder<'_>, (at, ready): (u32, OpId), bytes: Bytes, (window, proxies, flags): (usize, Span, u32)) {
        let there = call.tell((at, ready), self.ends.0, flags);
        let ready = if proxies > Span::ZERO { call.compute(self.ends.0, proxies, &[there]) } else { there };
        let full = self.sends.len().checked_sub(window).map(|earlier| self.sends[earlier]);
        let after: Vec<OpId> = [Some(ready), full].into_iter().flatten().collect();
        self.sends.push(call.send(self.ends, (bytes, self.tag), &after));
    }
    /// Receives a slice, and tells `at`.
    fn receive(&mut self, call: &mut CallBuilder<'_>, (at, opened): (u32, OpId), bytes: Bytes, flags: u32) -> OpId {
        let after = self.receives.len().checked_sub(RECEIVES).map_or(opened, |earlier| self.receives[earlier]);
        let received = call.receive(self.ends, (bytes, self.tag), &[after]);
        self.receives.push(received);
        call.tell((self.ends.1, received), at, flags)
    }
}

fn add_channel(call: &mut CallBuilder<'_>, channel: &Channel, edges: &[Edge], (each, proxies): (u32, Span)) {
    let mut nodes: Vec<u32> = edges.iter().flat_map(|edge| [call.node(edge.up.0), call.node(edge.up.1)]).collect();
    nodes.sort_unstable();
    nodes.dedup();
    let mut up: Vec<Connection> = edges.iter().map(|edge| Connection::new(call, edge.up)).collect();
    let mut down: Vec<Connection> = edges.iter().map(|edge| Connection::new(call, edge.down)).collect();
    let flags = call.tag();
    let slices: Vec<Bytes> = channel.loops.iter().flatten().copied().collect();
    let [pace_up, pace_down] = &channel.paces;
    for node in nodes {
        let parent = edges.iter().position(|edge| call.node(edge.up.0) == node);
        let children: Vec<usize> = (0..edges.len()).filter(|edge| call.node(edges[*edge].up.1) == node).collect();
        let own = parent.map(|edge| edges[edge].up.0).or_else(|| children.first().map(|edge| edges[*edge].up.1));
        let Some(own) = own else { continue };
        let rank = call.rank(own);
        let gate = call.gate(own);
        let opened = |call: &mut CallBuilder<'_>, member: u32| call.gate(member);
        let (mut last_up, mut last_down) = (gate, gate);
        let mut gates: BTreeMap<u32, OpId> = BTreeMap::new();
        for slice in &slices {
            let bytes = on_wire(pace_up, *slice);
            let mut sources = vec![last_up];
            for edge in &children {
                let at = *gates.entry(edges[*edge].up.1).or_insert_with_key(|member| opened(call, *member));
                let come = up[*edge].receive(call, (rank, at), bytes, flags);
                // The sum of the node's own GPUs goes on beside it.
                sources.push(come);
            }
            if each > 1 {
                let hops = copied(pace_up, *slice) * u64::from(each - 1);
                let inside = call.compute(rank, hops, &[gate]);
                sources.push(inside);
            }
            last_up = call.compute(rank, copied(pace_up, *slice), &sources);
            let mut sources = vec![last_down];
            match parent {
                None => sources.push(last_up),
                Some(edge) => {
                    up[edge].send(call, (rank, last_up), bytes, (channel.window, proxies, flags));
                    let at = *gates.entry(edges[edge].down.1).or_insert_with_key(|member| opened(call, *member));
                    sources.push(down[edge].receive(call, (rank, at), bytes, flags));
                }
            }
            last_down = call.compute(rank, copied(pace_down, *slice), &sources);
            for edge in &children {
                down[*edge].send(call, (rank, last_down), bytes, (channel.window, proxies, flags));
            }
        }
        let hops = copied(pace_down, slices.last().copied().unwrap_or_default()) * u64::from(each - 1);
        let last = if each > 1 { call.compute(rank, hops, &[last_down]) } else { last_down };
        call.done(own, last);
    }
}
