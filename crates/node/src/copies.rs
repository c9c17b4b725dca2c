//! Copies in progress and waiting in a node: engines that serve in turn, and what they share with each other and with DMA of adapters.
//!
//! Source and limits: [`crate::device`], [`crate::traffic`].

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

/// DMA of an adapter to or from a memory, as copies see it.
#[derive(Clone, Debug)]
struct Dma {
    uses: Arc<[Use]>,
    /// What the adapter's own link carries.
    own: Rate,
    /// It takes part with so much until then.
    wants: Rate,
    until: Time,
    flow: Option<FlowId>,
}

/// Copies in progress and waiting.
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
    dma: Vec<Dma>,
    /// DMA wants something else than it takes part with.
    unheard: bool,
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
            dma: Vec::new(),
            unheard: false,
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
        while let Some((at, what)) = self.next_event().filter(|(at, _)| *at <= now) {
            match what {
                Next::End => self.end(at),
                Next::Lapse => self.meet(at),
                Next::Begin(engine) => self.begin(at, engine),
            }
        }
        self.sharing.advance(now);
    }

    /// When the next copy begins or ends, as far as is known.
    pub fn next_change(&mut self) -> Option<Time> {
        [self.next_begin().map(|(at, _)| at), self.sharing.next_end()].into_iter().flatten().min()
    }

    /// Another stream of DMA, which takes so much of what there is and moves no more than `own`.
    pub fn join(&mut self, uses: Arc<[Use]>, own: Rate) {
        self.dma.push(Dma { uses, own, wants: Rate::default(), until: Time::ZERO, flow: None });
    }

    /// A stream wants so much; until `until` if nothing else is said.
    pub fn wants(&mut self, stream: usize, wants: Rate, until: Time) {
        let Some(dma) = self.dma.get_mut(stream) else { return };
        let (wants, before) = (wants.min(dma.own).as_bps(), dma.wants.as_bps());
        if wants > 0 {
            dma.until = until;
        }
        if wants.abs_diff(before) > before / NOTICED {
            (dma.wants, self.unheard) = (Rate::from_bps(wants), true);
        }
    }

    /// What is fair for each stream at `now`; nothing is said of those that meet no copies.
    pub fn fair(&mut self, now: Time) -> Vec<Option<Rate>> {
        if !self.copying() {
            return Vec::new();
        }
        if self.unheard {
            self.meet(now);
        }
        let fair = |dma: &Dma| self.sharing.fair(&dma.uses, dma.flow).filter(|fair| *fair < dma.own);
        self.dma.iter().map(fair).collect()
    }

    fn copying(&self) -> bool {
        self.running.iter().any(Option::is_some)
    }

    /// What happens next.
    fn next_event(&mut self) -> Option<(Time, Next)> {
        let ends = self.sharing.next_end().map(|at| (at, Next::End));
        let taking = self.dma.iter().filter(|dma| dma.flow.is_some() && self.copying());
        let lapses = taking.map(|dma| (dma.until, Next::Lapse)).min();
        let begins = self.next_begin().map(|(at, engine)| (at, Next::Begin(engine)));
        [ends, lapses, begins].into_iter().flatten().min()
    }

    /// Has DMA take part with what it wants.
    fn meet(&mut self, now: Time) {
        self.unheard = false;
        let wanting = |dma: &Dma| dma.wants.as_bps() > 0 && dma.until > now;
        let streams = self.dma.iter().filter(|dma| wanting(dma)).map(|dma| (Arc::clone(&dma.uses), dma.wants));
        let mut flows = self.sharing.hold(now, streams).into_iter();
        for dma in &mut self.dma {
            dma.flow = if wanting(dma) { flows.next() } else { None };
            if dma.flow.is_none() {
                dma.wants = Rate::default();
            }
        }
    }

    /// When the next copy begins, and on which engine.
    fn next_begin(&self) -> Option<(Time, usize)> {
        let idle = self.waiting.iter().enumerate().filter(|(engine, _)| self.running[*engine].is_none());
        idle.filter_map(|(engine, queue)| Some((queue.front()?.1.from, engine))).min()
    }

    fn begin(&mut self, at: Time, engine: usize) {
        let Some((id, copy)) = self.waiting[engine].pop_front() else { return };
        // While there are no copies nobody looks at what DMA wants.
        if !self.dma.is_empty() && (self.unheard || !self.copying()) {
            self.meet(at);
        }
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

    /// When a copy that has left its engine ends.
    pub fn ended(&self, id: CopyId) -> Option<Time> {
        self.ended.get(&id).copied()
    }

    /// When the first of these copies ends if no other begins before.
    pub fn first_end(&self, ids: &[CopyId]) -> Option<Time> {
        let mut open = ids.to_vec();
        let mut first = take_ended(&self.ended, &mut open);
        if open.is_empty() {
            return first;
        }
        let mut future = self.clone();
        while !open.is_empty() {
            let Some((next, _)) = future.next_event().filter(|(next, _)| first.is_none_or(|first| *next < first)) else { break };
            future.advance(next);
            first = [first, take_ended(&future.ended, &mut open)].into_iter().flatten().min();
        }
        first
    }
}

/// When the first of `open` has ended; those that have are taken out.
fn take_ended(ended: &BTreeMap<CopyId, Time>, open: &mut Vec<CopyId>) -> Option<Time> {
    open.extract_if(.., |id| ended.contains_key(id)).filter_map(|id| ended.get(&id).copied()).min()
}

/// What happens next; at equal times in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Next {
    /// A copy ends.
    End,
    /// DMA that was not heard of any more takes no part.
    Lapse,
    /// A copy begins on an engine.
    Begin(usize),
}

/// DMA that wants more or less by this part of what it wanted is heard. Basis: assumed.
const NOTICED: u64 = 16;
