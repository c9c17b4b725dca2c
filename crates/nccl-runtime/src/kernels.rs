//! The kernels of one node: blocks that move slices through the FIFOs between GPUs, and to and from proxies.
//!
//! ```text
//! launch ─▶ stream ─▶ kernel ─▶ block of channel 0:  wait for slice and slots ─ copy ─ flag and credit ─ …
//!                               block of channel 1:  …
//! ```
//! Source: NCCL, src/device/prims_simple.h, prims_ll.h, prims_ll128.h.
//! Modelled: one copy for a slice, bound by what its block moves and by the links of the node, which all blocks share max-min fairly;
//! lines of LL and LL128 that another block of the node takes on while later ones of the slice are written; FIFOs with slots; what a step
//! costs by protocol; kernels of a stream in turn, and behind those of other streams where that is said.
//! Not modelled: receivers of lines that are faster than the sender, warps of a block that run apart, caches of the GPU, other kernels on it,
//! room on it: kernels of several streams run side by side, however many blocks they have.
//!
//! Sans-I/O: the caller says how far time has come ([`advance`](Kernels::advance)), and is told when somebody should look again.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use fabriscope_machine::{FlowId, Sharing, Use};
use fabriscope_platform::nccl::Pace;
use fabriscope_units::{Bytes, Span, Time};
use rustc_hash::FxHashMap;

use super::contents::Contents;
use super::fifo::{Fifo, FifoEnd, FifoId, Filled};

/// A slice's step of a block: it takes a slice of each FIFO of `from` and fills slots of each of `to`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Move {
    /// FIFOs that it empties.
    pub from: Rc<[FifoId]>,
    /// FIFOs that it fills.
    pub to: Rc<[FifoId]>,
    /// Payload.
    pub bytes: Bytes,
    /// Slots that the slice takes of each.
    pub slots: u32,
    /// The bytes are in place already: the peer wrote them into the user's buffer, and only flags pass.
    pub in_place: bool,
    /// What it adds to what it takes, and what that has to be then.
    pub contents: Contents,
    /// Where each of `from`, or of `to`, has bytes of its own (scatter, gather: one wait for all peers, one copy after the other, one flag
    /// to each): these, in their order. `bytes` is their sum then.
    pub pieces: Rc<[Piece]>,
}

/// What a step that scatters or gathers moves to or from one of its peers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Payload.
    pub bytes: Bytes,
    /// As those of a [`Move`].
    pub contents: Contents,
}

impl Move {
    /// Payload and contents of the slice for a peer that it sends to, where all have the same `contents` otherwise.
    fn sent(&self, peer: usize, contents: u64) -> (Bytes, u64) {
        self.pieces.get(peer).map_or((self.bytes, contents), |piece| (piece.bytes, piece.contents.adds))
    }
}

/// The steps of one block of a kernel.
pub struct BlockPlan {
    /// How it moves.
    pub pace: Pace,
    /// What it moves, in order.
    pub moves: Box<dyn Iterator<Item = Move>>,
}

/// The number of a kernel in its stream, from 0.
pub type Turn = u64;

/// Kernels of a GPU that run one behind the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId {
    /// The GPU of the node.
    pub gpu: u32,
    /// Which of its streams: each communicator has its own.
    pub stream: u32,
}

impl From<u32> for StreamId {
    /// The first stream of a GPU.
    fn from(gpu: u32) -> StreamId {
        StreamId { gpu, stream: 0 }
    }
}

struct Block {
    stream: StreamId,
    pace: Pace,
    moves: Box<dyn Iterator<Item = Move>>,
    current: Option<Move>,
    /// When it can go on with `current`.
    idle: Time,
    under_way: bool,
    /// What the slice that moves has in it.
    contents: u64,
}

struct Launch {
    at: Time,
    /// Kernels of other streams that have to end before.
    after: Vec<(StreamId, Turn)>,
    plans: Vec<BlockPlan>,
}

#[derive(Default)]
struct Stream {
    waiting: VecDeque<Launch>,
    /// Blocks of the running kernel that have not ended, and the last end of those that have.
    open: usize,
    latest: Time,
    ended: Vec<Time>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Start(StreamId),
    Begin(u32),
}

/// What decides which resources a step uses: its GPU, its protocol, the FIFOs that it empties and fills, and whether all have the same bytes.
type StepUse = (u32, (u64, u64), Rc<[FifoId]>, Rc<[FifoId]>, bool);

/// The kernels of a node with everything between them.
pub struct Kernels {
    sharing: Sharing,
    /// What a byte takes of steps that were carried out before.
    known_uses: FxHashMap<StepUse, Arc<[Use]>>,
    /// Reading and writing a byte of each GPU's own memory.
    own: Vec<Vec<Use>>,
    fifos: Vec<Fifo>,
    /// Who waits for slices and for slots of each FIFO.
    waits: Vec<[Option<u32>; 2]>,
    blocks: FxHashMap<u32, Block>,
    next_block: u32,
    streams: BTreeMap<StreamId, Stream>,
    /// Those whose next kernel waits for one of another stream.
    behind: BTreeSet<StreamId>,
    copies: FxHashMap<FlowId, u32>,
    agenda: BinaryHeap<Reverse<(Time, u64, Event)>>,
    order: u64,
    now: Time,
    notices: Vec<(u32, Time)>,
    /// Bytes that were kept with other contents than they should have.
    wrong: Bytes,
}

impl Kernels {
    /// A node whose resources `sharing` has; `own` says what copying a byte within the memory of each GPU takes.
    #[must_use]
    pub fn new(sharing: Sharing, own: Vec<Vec<Use>>) -> Kernels {
        Kernels {
            sharing,
            known_uses: FxHashMap::default(),
            own,
            fifos: Vec::new(),
            waits: Vec::new(),
            blocks: FxHashMap::default(),
            next_block: 0,
            streams: BTreeMap::new(),
            behind: BTreeSet::new(),
            copies: FxHashMap::default(),
            agenda: BinaryHeap::new(),
            order: 0,
            now: Time::ZERO,
            notices: Vec::new(),
            wrong: Bytes::ZERO,
        }
    }

    /// Adds a FIFO.
    pub fn add_fifo(&mut self, fifo: Fifo) -> FifoId {
        self.fifos.push(fifo);
        self.waits.push([None; 2]);
        FifoId(self.fifos.len() as u32 - 1)
    }

    /// A kernel in a stream: it runs from `at` on, when all before it have ended. Its number in the stream.
    pub fn launch(&mut self, stream: impl Into<StreamId>, at: Time, plans: Vec<BlockPlan>) -> Turn {
        self.launch_after(stream.into(), at, Vec::new(), plans)
    }

    /// The same, when these kernels of other streams have ended as well, which were launched before.
    pub fn launch_after(&mut self, id: StreamId, at: Time, after: Vec<(StreamId, Turn)>, plans: Vec<BlockPlan>) -> Turn {
        let stream = self.streams.entry(id).or_default();
        let turn = (stream.ended.len() + stream.waiting.len() + usize::from(stream.open > 0)) as Turn;
        stream.waiting.push_back(Launch { at, after, plans });
        if stream.open == 0 && stream.waiting.len() == 1 {
            self.plan_start(id);
        }
        turn
    }

    /// Plans the start of the next kernel of a stream that is idle, if it is known when that can be.
    fn plan_start(&mut self, id: StreamId) {
        let Some(stream) = self.streams.get(&id) else { return };
        let Some(next) = stream.waiting.front() else { return };
        let free = stream.ended.last().copied().unwrap_or_default();
        let mut ends = next.after.iter().map(|(other, turn)| self.ended(*other, *turn));
        let Some(from) = ends.try_fold(next.at.max(free), |from, end| Some(from.max(end?))) else {
            self.behind.insert(id);
            return;
        };
        self.behind.remove(&id);
        self.plan(from, Event::Start(id));
    }

    /// When a kernel ended, if it has by now.
    #[must_use]
    pub fn ended(&self, stream: impl Into<StreamId>, turn: Turn) -> Option<Time> {
        self.streams.get(&stream.into())?.ended.get(turn as usize).copied()
    }

    /// Ends all kernels of a stream at `at`, whatever they wait for; what they have moved by then stays.
    pub fn abort(&mut self, id: StreamId, at: Time) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        let count = stream.waiting.len() + usize::from(stream.open > 0);
        stream.waiting.clear();
        stream.open = 0;
        self.blocks.retain(|_, block| block.stream != id);
        for _ in 0..count {
            self.end_kernel(id, at.max(self.now));
        }
    }

    /// Whether there is a slice in a FIFO that was not taken, seen or not.
    #[must_use]
    pub fn has_filled(&self, fifo: FifoId) -> bool {
        self.fifos[fifo.0 as usize].front().is_some()
    }
    /// Whether slots of a FIFO are free, at once or from some time on.
    #[must_use]
    pub fn has_room(&self, fifo: FifoId) -> bool {
        self.fifos[fifo.0 as usize].room(1).is_some()
    }

    /// The oldest slice for a proxy that can be seen at `now`, which stays.
    #[must_use]
    pub fn first_filled(&self, fifo: FifoId, now: Time) -> Option<Filled> {
        self.fifos[fifo.0 as usize].front().filter(|filled| filled.seen <= now)
    }
    /// The same, taken.
    pub fn take_filled(&mut self, fifo: FifoId, now: Time) -> Option<Filled> {
        let fifo = &mut self.fifos[fifo.0 as usize];
        fifo.front().filter(|filled| filled.seen <= now)?;
        fifo.take()
    }
    /// A proxy has emptied slots.
    pub fn release(&mut self, id: FifoId, at: Time, slots: u32) {
        self.fifos[id.0 as usize].release(at, slots);
        self.wake(id, SENDER);
    }
    /// A proxy takes slots if they are free at `now`.
    pub fn occupy(&mut self, id: FifoId, now: Time, slots: u32) -> bool {
        let fifo = &mut self.fifos[id.0 as usize];
        let free = fifo.room(slots).is_some_and(|at| at <= now);
        if free {
            fifo.occupy(slots);
        }
        free
    }
    /// A proxy has filled slots.
    pub fn fill(&mut self, id: FifoId, at: Time, bytes: Bytes, slots: u32, contents: u64) {
        self.fifos[id.0 as usize].fill(at, bytes, slots, contents);
        self.wake(id, RECEIVER);
    }

    /// All slots of a FIFO are empty, or about to be.
    #[must_use]
    pub fn is_empty(&self, fifo: FifoId) -> bool {
        self.fifos[fifo.0 as usize].is_empty()
    }

    /// GPUs whose ranks should look again, and when: their proxies have work, or a kernel of theirs has ended.
    #[must_use]
    pub fn take_notices(&mut self) -> Vec<(u32, Time)> {
        std::mem::take(&mut self.notices)
    }

    /// Bytes that were kept by now with other contents than they should have.
    #[must_use]
    pub fn wrong(&self) -> Bytes {
        self.wrong
    }

    /// When something happens next by itself.
    #[must_use]
    pub fn next_event(&mut self) -> Option<Time> {
        self.agenda.peek().map(|Reverse((at, ..))| *at).into_iter().chain(self.sharing.next_end()).min()
    }

    /// Goes on to `now`.
    pub fn advance(&mut self, now: Time) {
        while let Some(at) = self.next_event().filter(|at| *at <= now) {
            self.now = self.now.max(at);
            self.sharing.advance(at);
            self.end_copies();
            while let Some(Reverse((_, _, event))) = self.agenda.peek().copied().filter(|Reverse((due, ..))| *due <= at) {
                self.agenda.pop();
                match event {
                    Event::Start(stream) => self.start(stream),
                    Event::Begin(block) => self.begin(block),
                }
            }
            self.end_copies();
        }
        self.now = self.now.max(now);
        self.sharing.advance(self.now);
    }

    /// Blocks that wait, for messages about a job that does not end: GPU and FIFOs.
    #[must_use]
    pub fn stuck(&self) -> Vec<(u32, Move)> {
        let mut waiting: Vec<_> = self.blocks.iter().filter(|(_, block)| !block.under_way).collect();
        waiting.sort_unstable_by_key(|(number, _)| **number);
        waiting.into_iter().filter_map(|(_, block)| Some((block.stream.gpu, block.current.clone()?))).collect()
    }

    fn plan(&mut self, at: Time, event: Event) {
        self.order += 1;
        self.agenda.push(Reverse((at.max(self.now), self.order, event)));
    }

    fn start(&mut self, id: StreamId) {
        let idle = self.now;
        let Some(stream) = self.streams.get_mut(&id) else { return };
        let Some(launch) = stream.waiting.pop_front() else { return };
        stream.open = launch.plans.len();
        if stream.open == 0 {
            self.end_kernel(id, idle);
            return;
        }
        for BlockPlan { pace, moves } in launch.plans {
            let number = self.next_block;
            self.next_block = self.next_block.wrapping_add(1);
            let block = Block { stream: id, pace, moves, current: None, idle: idle + pace.step.start, under_way: false, contents: 0 };
            self.blocks.insert(number, block);
            self.next_move(number);
        }
    }

    /// The block takes up its next step, or ends.
    fn next_move(&mut self, number: u32) {
        let Some(block) = self.blocks.get_mut(&number) else { return };
        (block.current, block.under_way) = (block.moves.next(), false);
        if block.current.is_some() {
            return self.try_begin(number);
        }
        let (id, end) = (block.stream, block.idle);
        self.blocks.remove(&number);
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.open -= 1;
            stream.latest = stream.latest.max(end);
            if stream.open == 0 {
                let latest = stream.latest;
                self.end_kernel(id, latest);
            }
        }
    }

    fn end_kernel(&mut self, id: StreamId, at: Time) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        stream.ended.push(at);
        self.notices.push((id.gpu, at));
        self.plan_start(id);
        for other in std::mem::take(&mut self.behind) {
            self.plan_start(other);
        }
    }

    /// Plans the step of a block, if everything that it waits for is known.
    fn try_begin(&mut self, number: u32) {
        let Some(block) = self.blocks.get(&number).filter(|block| !block.under_way) else { return };
        let Some(step) = &block.current else { return };
        let (mut ready, mut known) = (block.idle, true);
        for (fifos, side) in [(&step.from, RECEIVER), (&step.to, SENDER)] {
            for id in fifos.iter() {
                let fifo = &self.fifos[id.0 as usize];
                let at = if side == RECEIVER { fifo.front().map(|filled| filled.seen) } else { fifo.room(step.slots) };
                match at {
                    Some(at) => ready = ready.max(at),
                    None => {
                        self.waits[id.0 as usize][side] = Some(number);
                        known = false;
                    }
                }
            }
        }
        if known {
            // What is read from elsewhere begins to come after a way there and back.
            let far = step.from.iter().map(|id| &self.fifos[id.0 as usize].way).filter(|way| !way.takes.is_empty());
            let asked = far.map(|way| way.latency + way.back).max().unwrap_or(Span::ZERO);
            let begin = ready + block.pace.step.begin + asked;
            if let Some(block) = self.blocks.get_mut(&number) {
                block.under_way = true;
            }
            self.plan(begin, Event::Begin(number));
        }
    }

    fn wake(&mut self, id: FifoId, side: usize) {
        let fifo = &self.fifos[id.0 as usize];
        let end = if side == RECEIVER { fifo.receiver } else { fifo.sender };
        match end {
            FifoEnd::Block => {
                if let Some(number) = self.waits[id.0 as usize][side].take() {
                    self.try_begin(number);
                }
            }
            FifoEnd::Proxy(rank) => {
                let seen = if side == RECEIVER { fifo.front().map(|filled| filled.seen) } else { fifo.room(1) };
                self.notices.extend(seen.map(|at| (rank, at.max(self.now))));
            }
        }
    }

    /// The bytes of a step begin to move.
    fn begin(&mut self, number: u32) {
        let Some(block) = self.blocks.get_mut(&number) else { return };
        let Some(step) = &block.current else { return };
        block.contents = step.contents.adds;
        for (peer, id) in step.from.iter().enumerate() {
            let came = self.fifos[id.0 as usize].take().map_or(0, |filled| filled.contents);
            match step.pieces.get(peer) {
                None => block.contents = block.contents.wrapping_add(came),
                Some(piece) if piece.contents.expects.is_some_and(|expected| expected != came) => self.wrong += piece.bytes,
                Some(_) => {}
            }
        }
        if step.contents.expects.is_some_and(|expected| expected != block.contents) {
            self.wrong += step.bytes;
        }
        let Some(block) = self.blocks.get(&number) else { return };
        let Some(step) = &block.current else { return };
        for id in step.to.iter() {
            self.fifos[id.0 as usize].occupy(step.slots);
        }
        let (flows, at, contents) = (block.pace.flows(), self.now + block.pace.step.end, block.contents);
        if flows {
            let step = step.clone();
            for (peer, id) in step.to.iter().enumerate() {
                // Lines have their flags: the receiver follows with the first of them.
                let fifo = &mut self.fifos[id.0 as usize];
                if fifo.receiver == FifoEnd::Block {
                    let (bytes, contents) = step.sent(peer, contents);
                    fifo.fill(at, bytes, step.slots, contents);
                    self.wake(*id, RECEIVER);
                }
            }
        }
        let Some(block) = self.blocks.get(&number) else { return };
        let Some(step) = &block.current else { return };
        let bytes = if step.in_place { Bytes::ZERO } else { step.bytes };
        let known = (block.stream.gpu, block.pace.taken, Rc::clone(&step.from), Rc::clone(&step.to), step.pieces.is_empty());
        let uses = match self.known_uses.get(&known) {
            _ if step.in_place => Arc::from([]),
            Some(uses) => Arc::clone(uses),
            None => {
                let uses: Arc<[Use]> = self.uses(block, step).into();
                self.known_uses.insert(known, Arc::clone(&uses));
                uses
            }
        };
        let flow = self.sharing.start(self.now, bytes, uses, block.pace.most(bytes));
        self.copies.insert(flow, number);
    }

    /// What a byte of a step takes: what is written to each peer, and what is read and written in the own memory besides.
    fn uses(&self, block: &Block, step: &Move) -> Vec<Use> {
        let (taken, payload) = block.pace.taken;
        let mut all: Vec<Use> = Vec::new();
        let mut add = |used: &Use, weight| match all.iter_mut().find(|other| other.resource == used.resource) {
            Some(other) => other.weight = other.weight.plus(weight),
            None => all.push(Use { resource: used.resource, weight }),
        };
        let written = step.to.iter().flat_map(|id| &self.fifos[id.0 as usize].way.uses);
        let read = step.from.iter().flat_map(|id| &self.fifos[id.0 as usize].way.takes);
        // A byte of a scatter or a gather goes one of the ways only.
        let ways = step.pieces.len().max(1) as u64;
        for used in written.chain(read) {
            add(used, used.weight.times(taken, payload * ways));
        }
        if step.to.is_empty() || !step.from.is_empty() {
            for used in self.own.get(block.stream.gpu as usize).into_iter().flatten() {
                add(used, used.weight);
            }
        }
        all
    }

    fn end_copies(&mut self) {
        while let Some(flow) = self.sharing.take_first_ended() {
            if let Some(number) = self.copies.remove(&flow) {
                self.end_move(number);
            }
        }
    }

    fn end_move(&mut self, number: u32) {
        let now = self.now;
        let Some(block) = self.blocks.get_mut(&number) else { return };
        let Some(step) = block.current.take() else { return };
        let (pace, contents) = (block.pace, block.contents);
        block.idle = now + pace.step.end;
        for id in step.from.iter() {
            self.fifos[id.0 as usize].release(now + pace.step.end, step.slots);
            self.wake(*id, SENDER);
        }
        for (peer, id) in step.to.iter().enumerate() {
            let fifo = &mut self.fifos[id.0 as usize];
            if pace.flows() && fifo.receiver == FifoEnd::Block {
                continue;
            }
            let fence = if pace.fenced { fifo.way.latency + fifo.way.back } else { Span::ZERO };
            let (bytes, contents) = step.sent(peer, contents);
            fifo.fill(now + pace.step.end + fence, bytes, step.slots, contents);
            self.wake(*id, RECEIVER);
        }
        self.next_move(number);
    }
}

/// Places in the pair of those who wait at a FIFO.
const SENDER: usize = 0;
const RECEIVER: usize = 1;

#[cfg(test)]
#[path = "kernels_test.rs"]
mod tests;
