//! Copies under way and waiting in a node: engines that serve in turn, and what they share.
//!
//! Source and limits: [`crate::device`].

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use fabriscope_machine::{FlowId, Sharing, Use};
use fabriscope_units::{Bytes, Rate, Span, Time};

/// The number of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CopyId(u64);

/// Towards the GPU, from it, and within it or to its peers: an engine each; and the kernels of one stream.
pub(crate) const ENGINES: usize = 4;

/// A copy that an engine is asked for.
#[derive(Clone, Debug)]
pub(crate) struct Copy {
    /// The engine does not begin before.
    pub from: Time,
    /// How much.
    pub bytes: Bytes,
    /// What it takes on its way.
    pub uses: Arc<[Use]>,
    /// The most that its engine moves.
    pub most: Rate,
    /// From the last byte leaving to its being there.
    pub latency: Span,
}

/// A copy that an engine is at.
#[derive(Clone, Debug)]
struct Running {
    id: CopyId,
    flow: FlowId,
    latency: Span,
}

/// Copies under way and waiting.
#[derive(Clone, Debug)]
pub(crate) struct Copies {
    sharing: Sharing,
    /// By engine, in the order of asking.
    waiting: Vec<VecDeque<(CopyId, Copy)>>,
    running: Vec<Option<Running>>,
    ended: BTreeMap<CopyId, Time>,
    /// Copies that nobody asks about any more.
    forgotten: BTreeSet<CopyId>,
    next: u64,
}

impl Copies {
    /// No copies, by the engines of so many GPUs, which share this.
    pub fn new(sharing: Sharing, gpus: usize) -> Copies {
        let engines = gpus * ENGINES;
        Copies {
            sharing,
            waiting: vec![VecDeque::new(); engines],
            running: vec![None; engines],
            ended: BTreeMap::new(),
            forgotten: BTreeSet::new(),
            next: 0,
        }
    }

    /// Has `engine` make a copy after those that it was asked for before.
    pub fn ask(&mut self, engine: usize, copy: Copy) -> CopyId {
        let id = CopyId(self.next);
        self.next += 1;
        self.waiting[engine].push_back((id, copy));
        id
    }

    /// Nobody will ask about a copy again.
    pub fn forget(&mut self, id: CopyId) {
        if self.ended.remove(&id).is_none() {
            self.forgotten.insert(id);
        }
    }

    /// Goes on to `now`.
    pub fn advance(&mut self, now: Time) {
        loop {
            let begins = self.next_begin();
            let ends = self.sharing.next_end();
            match (begins, ends) {
                (_, Some(end)) if end <= now && begins.is_none_or(|(begin, _)| end <= begin) => self.end(end),
                (Some((begin, engine)), _) if begin <= now => self.begin(begin, engine),
                _ => break,
            }
        }
        self.sharing.advance(now);
    }

    /// When the next copy begins, and on which engine.
    fn next_begin(&self) -> Option<(Time, usize)> {
        let idle = self.waiting.iter().enumerate().filter(|(engine, _)| self.running[*engine].is_none());
        idle.filter_map(|(engine, queue)| Some((queue.front()?.1.from, engine))).min()
    }

    fn begin(&mut self, at: Time, engine: usize) {
        let Some((id, copy)) = self.waiting[engine].pop_front() else { return };
        let flow = self.sharing.start(at, copy.bytes, copy.uses, copy.most);
        self.running[engine] = Some(Running { id, flow, latency: copy.latency });
        self.end(at);
    }

    /// Takes out what has ended by `now`.
    fn end(&mut self, now: Time) {
        self.sharing.advance(now);
        for place in &mut self.running {
            if let Some(running) = place
                && let Some(at) = self.sharing.take_ended(running.flow)
            {
                if !self.forgotten.remove(&running.id) {
                    self.ended.insert(running.id, at + running.latency);
                }
                *place = None;
            }
        }
        // The engine goes on with the next one, not before now.
        for (engine, queue) in self.waiting.iter_mut().enumerate() {
            if self.running[engine].is_none()
                && let Some((_, next)) = queue.front_mut()
            {
                next.from = next.from.max(now);
            }
        }
    }

    /// When a copy ends if no other begins before.
    pub fn end_of(&self, id: CopyId) -> Option<Time> {
        if let Some(at) = self.ended.get(&id) {
            return Some(*at);
        }
        let mut future = self.clone();
        loop {
            let next = [future.next_begin().map(|(at, _)| at), future.sharing.next_end()].into_iter().flatten().min()?;
            future.advance(next);
            if let Some(at) = future.ended.get(&id) {
                return Some(*at);
            }
        }
    }
}
