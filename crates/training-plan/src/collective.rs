//! One call of a collective: where it begins and ends at each of its GPUs, and what joins the GPUs of a node.
//!
//! Modelled: a kernel that has begun at all GPUs of a node before the first slice leaves it, and that ends everywhere when all is there.
//! Flags between GPUs of a node are messages of 8 bytes between their adapters, as the schedule knows no other way from rank to rank.

use std::collections::BTreeMap;

use fabriscope_schedule::{After, Builder, OpId, OpKind};
use fabriscope_units::{Bytes, Span};

/// A GPU in a call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Caller {
    /// Its rank of the schedule.
    pub rank: u32,
    /// The operation behind which the kernel runs.
    pub begin: OpId,
    /// The operation that waits for all of it.
    pub end: OpId,
}

/// A call while it is made.
pub(crate) struct CallBuilder<'a> {
    pub builder: &'a mut Builder,
    pub callers: &'a [Caller],
    /// GPUs of a node.
    each: u32,
    /// The first of the tags that no other call has.
    tag: u32,
    /// Where all GPUs of a node have begun, by node and rank.
    gates: BTreeMap<(u32, u32), OpId>,
    /// Where a part of it is done, by node.
    done: BTreeMap<u32, Vec<(u32, OpId)>>,
}

/// Bytes of a flag. Basis: assumed, a word.
const FLAG: Bytes = Bytes(8);

impl<'a> CallBuilder<'a> {
    pub fn new(builder: &'a mut Builder, callers: &'a [Caller], each: u32, tag: u32) -> CallBuilder<'a> {
        CallBuilder { builder, callers, each: each.max(1), tag, gates: BTreeMap::new(), done: BTreeMap::new() }
    }

    /// A tag of its own.
    pub fn tag(&mut self) -> u32 {
        let tag = self.tag;
        self.tag = self.tag.wrapping_add(1);
        tag
    }

    /// The rank of the schedule of a rank of the group.
    pub fn rank(&self, member: u32) -> u32 {
        self.callers[member as usize].rank
    }
    /// The node of a rank of the group.
    pub fn node(&self, member: u32) -> u32 {
        member / self.each
    }

    pub fn compute(&mut self, rank: u32, span: Span, after: &[OpId]) -> OpId {
        let after: Vec<After> = after.iter().copied().map(After::End).collect();
        self.builder.op_after(rank, OpKind::Compute { span }, &after)
    }
    pub fn send(&mut self, (from, to): (u32, u32), (bytes, tag): (Bytes, u32), after: &[OpId]) -> OpId {
        let after: Vec<After> = after.iter().copied().map(After::End).collect();
        self.builder.op_after(from, OpKind::Send { to, bytes, tag }, &after)
    }
    pub fn receive(&mut self, (from, to): (u32, u32), (bytes, tag): (Bytes, u32), after: &[OpId]) -> OpId {
        let after: Vec<After> = after.iter().copied().map(After::End).collect();
        self.builder.op_after(to, OpKind::Recv { from, bytes, tag }, &after)
    }
    /// What has happened at a rank is known at another one of the node.
    pub fn tell(&mut self, (from, op): (u32, OpId), to: u32, tag: u32) -> OpId {
        if from == to {
            return op;
        }
        self.send((from, to), (FLAG, tag), &[op]);
        self.receive((from, to), (FLAG, tag), &[])
    }

    /// Where all GPUs of the node of `member` have begun, at the rank of `member`.
    pub fn gate(&mut self, member: u32) -> OpId {
        let (node, rank) = (self.node(member), self.rank(member));
        if let Some(known) = self.gates.get(&(node, rank)) {
            return *known;
        }
        let tag = self.tag();
        let there: Vec<Caller> = self.callers.iter().skip((node * self.each) as usize).take(self.each as usize).copied().collect();
        let begun: Vec<OpId> = there.iter().map(|caller| self.tell((caller.rank, caller.begin), rank, tag)).collect();
        let gate = if let [only] = begun[..] { only } else { self.compute(rank, Span::ZERO, &begun) };
        self.gates.insert((node, rank), gate);
        gate
    }
    /// A part of the call is done at the rank of `member`.
    pub fn done(&mut self, member: u32, op: OpId) {
        let (node, rank) = (self.node(member), self.rank(member));
        self.done.entry(node).or_default().push((rank, op));
    }

    /// Lets all GPUs end when everything of their node is done; the next tag.
    pub fn finish(mut self) -> u32 {
        for (node, all) in std::mem::take(&mut self.done) {
            let mut by_rank: BTreeMap<u32, Vec<OpId>> = BTreeMap::new();
            for (rank, op) in all {
                by_rank.entry(rank).or_default().push(op);
            }
            let joined: Vec<(u32, OpId)> = by_rank.into_iter().map(|(rank, ops)| (rank, self.compute(rank, Span::ZERO, &ops))).collect();
            let callers = self.callers.iter().skip((node * self.each) as usize).take(self.each as usize);
            for caller in callers {
                let tag = self.tag();
                for (rank, op) in &joined {
                    let known = self.tell((*rank, *op), caller.rank, tag);
                    self.builder.requires(caller.rank, caller.end, known);
                }
            }
        }
        self.tag
    }
}
