//! The queue of a copy of a model, its running batch, and the blocks of its cache.
//!
//! Source: vLLM, v1/core/sched/scheduler.py (running requests first, then waiting ones while tokens, sequences and blocks last; the last one
//! that came is preempted and computed again); v0 for prompts that are read whole and first; TensorRT-LLM's `GUARANTEED_NO_EVICT`.
//! Modelled: one queue in the order of arrival, blocks taken as tokens are computed or all at once.
//! Not modelled: priorities, blocks that requests share, swapping to the host.

use std::collections::VecDeque;

use crate::layer::Load;
use crate::request::Request;
use crate::serving::{Admission, Serving};

/// A request at a copy.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sequence {
    /// Tokens of its prompt.
    pub input: u64,
    /// Tokens to generate.
    pub output: u64,
    /// Generated ones.
    pub generated: u64,
    /// Those whose keys and values are there.
    pub computed: u64,
    /// Blocks that it has.
    pub blocks: u64,
    /// In an iteration that goes on.
    flying: bool,
    /// Not at the copy any more.
    gone: bool,
    /// How often it gave its blocks up.
    pub preempted: u32,
}

impl From<&Request> for Sequence {
    fn from(request: &Request) -> Sequence {
        Sequence { input: request.input, output: request.output, ..Sequence::default() }
    }
}

impl Sequence {
    /// At a copy where its prompt was not read, with the room taken there.
    pub fn arrive(&mut self, serving: &Serving) {
        self.blocks = first_blocks(serving, self, self.input + 1);
        self.gone = false;
    }
    /// Tokens that there are.
    const fn there(&self) -> u64 {
        self.input + self.generated
    }
}

/// What a copy does in an iteration.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    /// Requests, and tokens of each.
    pub entries: Vec<(u32, u64)>,
    /// All of it.
    pub load: Load,
    /// Requests that run for the first time.
    pub begun: Vec<u32>,
}

/// A copy.
#[derive(Debug, Clone)]
pub struct Copy {
    waiting: VecDeque<u32>,
    running: Vec<u32>,
    blocks: u64,
    free: u64,
    /// Requests that are here or on their way.
    pub outstanding: u32,
}

impl Copy {
    /// One with an empty cache of so many blocks.
    #[must_use]
    pub const fn new(blocks: u64) -> Copy {
        Copy { waiting: VecDeque::new(), running: Vec::new(), blocks, free: blocks, outstanding: 0 }
    }
    /// Blocks in use.
    #[must_use]
    pub const fn used(&self) -> u64 {
        self.blocks - self.free
    }
    /// A request that waits to run.
    pub fn post(&mut self, request: u32) {
        self.waiting.push_back(request);
    }
    /// Whether there is room for a request with its prompt computed elsewhere.
    #[must_use]
    pub fn has_room(&self, serving: &Serving, sequence: &Sequence) -> bool {
        first_blocks(serving, sequence, sequence.input + 1) <= self.free
    }
    /// Takes that room.
    pub fn take_room(&mut self, serving: &Serving, sequence: &Sequence) {
        self.free -= first_blocks(serving, sequence, sequence.input + 1);
    }
    /// Gives back so many blocks, those of a request that left for another copy.
    pub const fn give_back(&mut self, blocks: u64) {
        self.free += blocks;
    }

    /// What to do next; nothing where nobody can run.
    pub fn schedule(&mut self, sequences: &mut [Sequence], serving: &Serving) -> Option<Batch> {
        let mut batch = Batch::default();
        let mut budget = u64::from(serving.batched_tokens);
        let prompts_first = !serving.chunked && self.admit(sequences, serving, &mut budget, &mut batch);
        if !prompts_first {
            let preempted = self.continue_running(sequences, serving, &mut budget, &mut batch);
            if serving.chunked && !preempted {
                self.admit(sequences, serving, &mut budget, &mut batch);
            }
        }
        (!batch.entries.is_empty()).then_some(batch)
    }

    /// Tokens of those that run; whether somebody lost its blocks.
    fn continue_running(&mut self, sequences: &mut [Sequence], serving: &Serving, budget: &mut u64, batch: &mut Batch) -> bool {
        let (mut at, mut preempted) = (0, false);
        while at < self.running.len() && *budget > 0 {
            let request = self.running[at];
            let sequence = sequences[request as usize];
            if sequence.flying {
                at += 1;
                continue;
            }
            let tokens = (sequence.there() - sequence.computed).min(*budget);
            while !self.grow(&mut sequences[request as usize], serving, sequence.computed + tokens) {
                // Those behind are in no batch yet.
                let Some(last) = (at..self.running.len()).rev().find(|at| !sequences[self.running[*at] as usize].flying) else { break };
                let victim = self.running.remove(last);
                self.preempt(victim, sequences);
                preempted = true;
                if victim == request {
                    break;
                }
            }
            if self.running.get(at) == Some(&request) && has(serving, &sequences[request as usize], sequence.computed + tokens) {
                enter(request, tokens, sequences, batch);
                *budget -= tokens;
                at += 1;
            } else if self.running.get(at) == Some(&request) {
                at += 1;
            }
        }
        preempted
    }

    fn preempt(&mut self, victim: u32, sequences: &mut [Sequence]) {
        let sequence = &mut sequences[victim as usize];
        self.free += sequence.blocks;
        (sequence.blocks, sequence.computed) = (0, 0);
        sequence.preempted += 1;
        self.waiting.push_front(victim);
    }

    /// Waiting requests while there is room; whether any came in with a prompt.
    fn admit(&mut self, sequences: &mut [Sequence], serving: &Serving, budget: &mut u64, batch: &mut Batch) -> bool {
        let before = batch.entries.len();
        while let Some(request) = self.waiting.front().copied() {
            let sequence = sequences[request as usize];
            let left = sequence.there() - sequence.computed;
            // Computed elsewhere: it only joins those that run.
            let joins = sequence.computed > 0 && !serving.chunked;
            let tokens = left.min(*budget);
            if self.running.len() >= serving.sequences as usize || (!joins && (tokens == 0 || (!serving.chunked && tokens < left))) {
                break;
            }
            if !joins && !self.grow_first(&mut sequences[request as usize], serving, sequence.computed + tokens) {
                break;
            }
            self.waiting.pop_front();
            self.running.push(request);
            if sequence.preempted == 0 {
                batch.begun.push(request);
            }
            if !joins {
                enter(request, tokens, sequences, batch);
                *budget -= tokens;
            }
        }
        batch.entries.len() > before
    }

    fn grow_first(&mut self, sequence: &mut Sequence, serving: &Serving, tokens: u64) -> bool {
        let wanted = first_blocks(serving, sequence, tokens).max(sequence.blocks);
        self.grow_to(sequence, wanted)
    }
    fn grow(&mut self, sequence: &mut Sequence, serving: &Serving, tokens: u64) -> bool {
        let wanted = tokens.div_ceil(u64::from(serving.block)).max(sequence.blocks);
        self.grow_to(sequence, wanted)
    }
    const fn grow_to(&mut self, sequence: &mut Sequence, wanted: u64) -> bool {
        let more = wanted - sequence.blocks;
        if more > self.free {
            return false;
        }
        self.free -= more;
        sequence.blocks = wanted;
        true
    }

    /// The end of an iteration. `token` hears of each request that has one more, and says what becomes of it.
    pub fn end(&mut self, batch: &Batch, sequences: &mut [Sequence], mut token: impl FnMut(u32, &Sequence) -> Next) {
        let mut left = false;
        for (request, tokens) in &batch.entries {
            let sequence = &mut sequences[*request as usize];
            sequence.flying = false;
            sequence.computed += tokens;
            if sequence.computed < sequence.there() {
                continue;
            }
            sequence.generated += 1;
            let next = token(*request, sequence);
            if next == Next::Done {
                self.free += sequence.blocks;
                sequence.blocks = 0;
            }
            sequence.gone = next != Next::Generates;
            left |= sequence.gone;
        }
        if left {
            self.running.retain(|request| !sequences[*request as usize].gone);
        }
    }
}

/// What becomes of a request that has one more token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// It goes on.
    Generates,
    /// It goes on elsewhere; its blocks stay until they are sent.
    Moves,
    /// It has all.
    Done,
}

/// Blocks that a request needs to start.
fn first_blocks(serving: &Serving, sequence: &Sequence, tokens: u64) -> u64 {
    let tokens = match serving.admission {
        Admission::Preempt => tokens,
        Admission::Reserve => sequence.input + sequence.output,
    };
    tokens.div_ceil(u64::from(serving.block))
}

fn has(serving: &Serving, sequence: &Sequence, tokens: u64) -> bool {
    sequence.blocks * u64::from(serving.block) >= tokens
}

/// A request into a batch.
fn enter(request: u32, tokens: u64, sequences: &mut [Sequence], batch: &mut Batch) {
    let sequence = &mut sequences[request as usize];
    sequence.flying = true;
    let last = sequence.computed + tokens == sequence.there();
    if sequence.generated > 0 && tokens == 1 && last {
        batch.load.generate(sequence.computed);
    } else {
        batch.load.read(tokens, sequence.computed, last);
    }
    batch.entries.push((request, tokens));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sequences(of: &[(u64, u64)]) -> Vec<Sequence> {
        of.iter().map(|(input, output)| Sequence { input: *input, output: *output, ..Sequence::default() }).collect()
    }

    fn run(copy: &mut Copy, sequences: &mut [Sequence], serving: &Serving) -> Vec<Load> {
        let mut loads = Vec::new();
        while let Some(batch) = copy.schedule(sequences, serving) {
            copy.end(&batch, sequences, |_, sequence| if sequence.generated == sequence.output { Next::Done } else { Next::Generates });
            loads.push(batch.load);
            assert!(loads.len() < 1000, "nobody ends");
        }
        loads
    }

    /// 10 tokens an iteration: the first prompt of 12 goes in two pieces, and the second begins beside the rest of it.
    #[test]
    fn prompts_go_in_pieces_beside_tokens() {
        let serving = Serving { batched_tokens: 10, block: 4, ..Serving::default() };
        let mut all = sequences(&[(12, 2), (7, 1)]);
        let mut copy = Copy::new(100);
        copy.post(0);
        copy.post(1);
        let loads = run(&mut copy, &mut all, &serving);
        assert_eq!(loads.iter().map(|load| (load.prompt, load.generating)).collect::<Vec<_>>(), [(10, 0), (9, 0), (0, 1)]);
        assert_eq!(copy.used(), 0, "all blocks are given back");
    }

    /// Whole prompts come first, in iterations of their own.
    #[test]
    fn whole_prompts_stand_alone() {
        let serving = Serving { batched_tokens: 12, chunked: false, block: 4, ..Serving::default() };
        let mut all = sequences(&[(12, 2), (7, 1)]);
        let mut copy = Copy::new(100);
        copy.post(0);
        copy.post(1);
        let loads = run(&mut copy, &mut all, &serving);
        assert_eq!(loads.iter().map(|load| (load.prompt, load.generating)).collect::<Vec<_>>(), [(12, 0), (7, 0), (0, 1)]);
    }

    /// Four blocks of 4 tokens: two prompts of 8 fill them, so the ninth token of the first takes the blocks of the second.
    #[test]
    fn who_came_last_is_computed_again() {
        let serving = Serving { block: 4, ..Serving::default() };
        let mut all = sequences(&[(8, 4), (8, 4)]);
        let mut copy = Copy::new(4);
        copy.post(0);
        copy.post(1);
        let loads = run(&mut copy, &mut all, &serving);
        assert_eq!((all[0].preempted, all[1].preempted), (0, 1));
        assert_eq!(loads.iter().map(|load| load.outputs).sum::<u64>(), 8, "nobody generates a token twice");
        // 16 tokens of prompts, and the second once more with the token that it had.
        assert_eq!(loads.iter().map(|load| load.prompt).sum::<u64>(), 16 + 9);
        assert_eq!(copy.used(), 0);
    }

    /// Where room is kept for all tokens, the second waits for the first, and nothing is computed twice.
    #[test]
    fn reserved_room_preempts_nobody() {
        let serving = Serving { block: 4, admission: Admission::Reserve, ..Serving::default() };
        let mut all = sequences(&[(8, 4), (8, 4)]);
        let mut copy = Copy::new(4);
        copy.post(0);
        copy.post(1);
        let loads = run(&mut copy, &mut all, &serving);
        assert_eq!(loads.iter().map(|load| load.prompt).sum::<u64>(), 16);
        assert_eq!(loads.len(), 8);
    }
}
