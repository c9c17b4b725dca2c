//! Requests go through copies of a model, iteration by iteration.
//!
//! Source: vLLM's engine (a batch in progress for each stage of the pipeline) and its balance of copies (who has the fewest requests); DistServe
//! and SGLang for pools: the second pool makes room before keys and values are sent, and its answer is the first that the client hears.
//! Modelled: arrivals, queues, iterations one behind the other in each stage, copies that share experts in step, transfers between pools.
//! Not modelled: the way between clients and servers, and the time of tokenisers.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use fabriscope_catalog::Transformer;
use fabriscope_units::{Bytes, Span, Time};

use crate::copy::{Batch, Copy, Next, Sequence};
use crate::iteration::{Costs, Parts};
use crate::layer::Load;
use crate::measures::Spread;
use crate::request::Request;
use crate::serving::{Serving, ServingError, Transfer};
use crate::times::ServingTimes;
use crate::transfer::{self, Transfers};

/// Where a model is served.
pub struct Pools<'c, 'a, T> {
    /// The model.
    pub model: &'a Transformer,
    /// Copies that read prompts and generate; that only read prompts where there is a second pool.
    pub first: &'c mut Costs<'a, T>,
    /// Blocks of each of their copies.
    pub blocks: u64,
    /// Copies that only generate, with blocks of each.
    pub second: Option<(&'c mut Costs<'a, T>, u64)>,
    /// When keys and values leave for them.
    pub transfer: Transfer,
}

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Answer {
    /// When it came.
    pub arrival: Time,
    /// Tokens of its prompt.
    pub input: u64,
    /// When it was first in an iteration.
    pub begun: Option<Time>,
    /// When its first token came.
    pub first: Option<Time>,
    /// When its last token came.
    pub last: Time,
    /// Tokens that came.
    pub tokens: u64,
    /// How often it gave its room up.
    pub preempted: u32,
}

/// How a pool was used.
#[derive(Debug, Clone, Default)]
pub struct Use {
    /// Iterations.
    pub iterations: u64,
    /// All of them, part by part.
    pub parts: Parts,
    /// Sequences that generated, summed over iterations, each as often as a copy was in one.
    pub generating: u64,
    /// Iterations of copies in which any generated.
    pub generations: u64,
    /// Tokens whose keys and values those read.
    pub context: u64,
    /// Blocks times picoseconds.
    used: u128,
    /// Blocks at most, of one copy.
    pub peak: u64,
    /// Blocks of a copy.
    pub blocks: u64,
    copies: u64,
}

impl Use {
    /// Share of the cache in use over all of the time, at the mean [0..1].
    #[must_use]
    pub fn occupancy(&self, whole: Span) -> f64 {
        let all = u128::from(self.blocks) * u128::from(self.copies) * u128::from(whole.as_ps());
        self.used as f64 / all.max(1) as f64
    }
}

/// What happened.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// Of each request, in the order of requests.
    pub answers: Vec<Answer>,
    /// Between tokens of a request.
    pub between: Spread,
    /// From the first arrival to the last token.
    pub whole: Span,
    /// The first pool.
    pub first: Use,
    /// The second.
    pub second: Option<Use>,
    /// Keys and values on their way, each from its start to its end.
    pub transfers: Spread,
    /// Bytes of them.
    pub moved: u64,
}

/// What happens at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A request comes.
    Arrive(u32),
    /// The oldest iteration of an engine ends.
    End(bool, u32),
    /// The first stage of an engine is free.
    Free(bool, u32),
    /// Keys and values of a request may leave.
    Ready(u32),
    /// A transfer ends, unless there was a change since.
    Moved(u64),
    /// Keys and values are there, at a copy.
    There(u32, u32),
}

/// Copies that go in step, with the iterations in progress.
struct Engine {
    first: u32,
    free: Vec<Time>,
    flying: VecDeque<(Vec<Batch>, Time)>,
}

/// A pool as it runs.
struct Pool<'c, 'a, T> {
    costs: &'c mut Costs<'a, T>,
    serving: &'a Serving,
    copies: Vec<Copy>,
    changed: Vec<Time>,
    engines: Vec<Engine>,
    used: Use,
}

impl<'c, 'a, T: ServingTimes> Pool<'c, 'a, T> {
    fn new(costs: &'c mut Costs<'a, T>, blocks: u64) -> Pool<'c, 'a, T> {
        let serving = costs.serving();
        let engine = |first| Engine { first, free: vec![Time::ZERO; serving.pipeline as usize], flying: VecDeque::new() };
        Pool {
            costs,
            serving,
            copies: vec![Copy::new(blocks); serving.copies as usize],
            changed: vec![Time::ZERO; serving.copies as usize],
            engines: (0..serving.copies).step_by(serving.together() as usize).map(engine).collect(),
            used: Use { blocks, copies: u64::from(serving.copies), ..Use::default() },
        }
    }
    fn engine_of(&self, copy: u32) -> u32 {
        copy / self.serving.together()
    }
    /// Counts what a copy has used since its last change.
    fn account(&mut self, copy: u32, now: Time) {
        let at = copy as usize;
        let used = self.copies[at].used();
        self.used.used += u128::from(used) * u128::from(now.since(self.changed[at]).as_ps());
        self.used.peak = self.used.peak.max(used);
        self.changed[at] = now;
    }
    /// Who has the fewest requests.
    fn least(&self) -> u32 {
        (0..).zip(&self.copies).min_by_key(|(number, copy)| (copy.outstanding, *number)).map_or(0, |(number, _)| number)
    }
}

struct Run<'c, 'a, T> {
    model: &'a Transformer,
    requests: &'c [Request],
    sequences: Vec<Sequence>,
    last: Vec<Time>,
    copy_of: Vec<u32>,
    second: Option<Pool<'c, 'a, T>>,
    first: Pool<'c, 'a, T>,
    transfers: Transfers,
    /// When the last layer of a request is where it was made, and how long its keys and values take alone.
    not_before: Vec<Time>,
    transfer: Transfer,
    queue: BinaryHeap<Reverse<(Time, u64, Event)>>,
    posted: u64,
    next: u32,
    closed: bool,
    outcome: Outcome,
}

/// Lets all requests be answered; at most `most` are outstanding where that is said.
///
/// # Errors
/// Requests that no copy can hold, none at all, what the cluster cannot do.
pub fn simulate<T>(requests: &[Request], most: Option<u32>, pools: Pools<'_, '_, T>) -> Result<Outcome, T::Error>
where
    T: ServingTimes,
    T::Error: From<ServingError>,
{
    check(requests, &pools)?;
    let count = requests.len();
    let second = pools.second.map(|(costs, blocks)| Pool::new(costs, blocks));
    let mut run = Run {
        model: pools.model,
        requests,
        sequences: requests.iter().map(Sequence::from).collect(),
        last: vec![Time::ZERO; count],
        copy_of: vec![0; count],
        second,
        transfers: Transfers::new(pools.first.serving().copies),
        first: Pool::new(pools.first, pools.blocks),
        not_before: vec![Time::ZERO; count],
        transfer: pools.transfer,
        queue: BinaryHeap::new(),
        posted: 0,
        next: 0,
        closed: most.is_some(),
        outcome: Outcome { answers: vec![Answer::default(); count], ..Outcome::default() },
    };
    let begun = most.map_or(count, |most| count.min(most.max(1) as usize));
    for (number, request) in (0..).zip(requests.iter().take(begun)) {
        run.post(request.arrival, Event::Arrive(number));
    }
    run.next = u32::try_from(begun).unwrap_or(u32::MAX);
    while let Some(Reverse((now, _, event))) = run.queue.pop() {
        run.handle(now, event)?;
    }
    Ok(run.done())
}

/// Whether each request can be answered.
fn check<T: ServingTimes>(requests: &[Request], pools: &Pools<'_, '_, T>) -> Result<(), ServingError> {
    if requests.iter().all(|request| request.input == 0 || request.output == 0) {
        return Err(ServingError::Nothing);
    }
    let serving = pools.first.serving();
    let whole = pools.second.as_ref().map_or((serving, pools.blocks), |(costs, blocks)| (costs.serving(), *blocks));
    for (number, request) in (1..).zip(requests) {
        let (input, output) = (request.input, request.output);
        let most = u64::from(whole.0.block) * whole.1;
        let first = u64::from(serving.block) * pools.blocks;
        let read = if pools.second.is_some() { input } else { 0 };
        if input + output > most || read > first {
            return Err(ServingError::TooLong { number, input, output, room: if read > first { first } else { most } });
        }
        for serving in [serving, whole.0] {
            // A request that lost its room reads what it had generated as well.
            if !serving.chunked && input + output > u64::from(serving.batched_tokens) {
                return Err(ServingError::Whole { number, input: input + output, most: serving.batched_tokens });
            }
        }
    }
    Ok(())
}

impl<T: ServingTimes> Run<'_, '_, T> {
    fn post(&mut self, at: Time, event: Event) {
        self.queue.push(Reverse((at, self.posted, event)));
        self.posted += 1;
    }

    fn handle(&mut self, now: Time, event: Event) -> Result<(), T::Error> {
        match event {
            Event::Arrive(request) => {
                let at = request as usize;
                if self.requests[at].input == 0 || self.requests[at].output == 0 {
                    // Failed ones of traces.
                    return Ok(());
                }
                self.outcome.answers[at].arrival = now;
                self.outcome.answers[at].input = self.requests[at].input;
                let copy = self.first.least();
                self.copy_of[at] = copy;
                self.first.copies[copy as usize].outstanding += 1;
                self.first.copies[copy as usize].post(request);
                self.start(false, self.first.engine_of(copy), now)
            }
            Event::End(second, engine) => self.end(second, engine, now),
            Event::Free(second, engine) => self.start(second, engine, now),
            Event::Ready(request) => {
                self.transfers.post(self.copy_of[request as usize], request);
                self.send(now)
            }
            Event::Moved(epoch) if epoch == self.transfers.epoch => {
                for moving in self.transfers.ended(now) {
                    self.outcome.transfers.add(now.since(moving.since));
                    let there = now.max(self.not_before[moving.request as usize]);
                    self.post(there, Event::There(moving.request, moving.to));
                }
                self.change(now)?;
                self.send(now)
            }
            Event::Moved(_) => Ok(()),
            Event::There(request, copy) => self.there(request, copy, now),
        }
    }

    /// An iteration, where the engine has room for one more in progress and anything to do.
    fn start(&mut self, second: bool, number: u32, now: Time) -> Result<(), T::Error> {
        let Some(pool) = pool(&mut self.first, &mut self.second, second) else { return Ok(()) };
        let engine = &pool.engines[number as usize];
        if engine.flying.len() >= pool.serving.pipeline as usize || engine.free[0] > now {
            return Ok(());
        }
        let copies = engine.first..engine.first + pool.serving.together();
        let mut batches = Vec::new();
        for copy in copies {
            pool.account(copy, now);
            let batch = pool.copies[copy as usize].schedule(&mut self.sequences, pool.serving);
            pool.account(copy, now);
            batches.push(batch.unwrap_or_default());
        }
        if batches.iter().all(|batch| batch.entries.is_empty()) {
            return Ok(());
        }
        let loads: Vec<Load> = batches.iter().map(|batch| batch.load).collect();
        let iteration = pool.costs.iteration(&loads)?;
        let used = &mut pool.used;
        used.iterations += 1;
        used.parts.add_all(&iteration.parts, 1);
        for load in loads.iter().filter(|load| load.generating > 0) {
            used.generating += load.generating;
            used.context += load.context;
            used.generations += 1;
        }
        let engine = &mut pool.engines[number as usize];
        let mut at = now;
        for (stage, span) in iteration.stages.iter().enumerate() {
            at = at.max(engine.free[stage]) + *span;
            engine.free[stage] = at;
            at += if stage + 1 < iteration.stages.len() { iteration.hop } else { pool.serving.host };
        }
        let free = engine.free[0];
        let pipelined = pool.serving.pipeline > 1;
        for batch in &batches {
            for request in &batch.begun {
                self.outcome.answers[*request as usize].begun.get_or_insert(now);
            }
        }
        if self.second.is_some() && !second {
            self.announce(&batches, (now, at))?;
        }
        let pool = if second { self.second.as_mut() } else { Some(&mut self.first) };
        if let Some(pool) = pool {
            pool.engines[number as usize].flying.push_back((batches, now));
        }
        self.post(at, Event::End(second, number));
        if pipelined {
            self.post(free, Event::Free(second, number));
        }
        Ok(())
    }

    /// Prompts that an iteration completes: from when on their keys and values leave, and when the last of them can be there.
    fn announce(&mut self, batches: &[Batch], (from, to): (Time, Time)) -> Result<(), T::Error> {
        let layers = u64::from(self.model.layers);
        for (request, tokens) in batches.iter().flat_map(|batch| batch.entries.iter().copied()) {
            let sequence = self.sequences[request as usize];
            if sequence.computed + tokens < sequence.input || sequence.output == 1 {
                continue;
            }
            let (leaves, last) = match self.transfer {
                Transfer::End => (to, Span::ZERO),
                Transfer::Layers => {
                    let bytes = self.bytes(request);
                    let alone = self.first.costs.times().transfers(&[(self.copy_of[request as usize], 0)])?;
                    let whole = alone.first().map_or(Span::ZERO, |rate| rate.time(bytes));
                    (from + to.since(from) / layers, whole / layers)
                }
            };
            self.not_before[request as usize] = to + last;
            self.post(leaves, Event::Ready(request));
        }
        Ok(())
    }

    fn bytes(&self, request: u32) -> Bytes {
        let to = self.second.as_ref().map_or(self.first.serving, |pool| pool.serving);
        transfer::moved(self.model, to, self.requests[request as usize].input)
    }

    /// The oldest iteration of an engine is over.
    fn end(&mut self, second: bool, number: u32, now: Time) -> Result<(), T::Error> {
        let moves = self.second.is_some() && !second;
        let Some(pool) = pool(&mut self.first, &mut self.second, second) else { return Ok(()) };
        let engine = &mut pool.engines[number as usize];
        let (first, done) = (engine.first, engine.flying.pop_front());
        let Some((batches, _)) = done else { return Ok(()) };
        let mut finished = 0;
        for (copy, batch) in (first..).zip(&batches) {
            pool.account(copy, now);
            let (outcome, last) = (&mut self.outcome, &mut self.last);
            let mut left = 0;
            pool.copies[copy as usize].end(batch, &mut self.sequences, |request, sequence| {
                if moves && sequence.output > 1 {
                    return Next::Moves;
                }
                let answer = &mut outcome.answers[request as usize];
                told(answer, &mut outcome.between, &mut last[request as usize], now);
                answer.preempted = sequence.preempted;
                if sequence.generated < sequence.output {
                    return Next::Generates;
                }
                left += 1;
                Next::Done
            });
            pool.copies[copy as usize].outstanding -= left;
            finished += left;
            pool.account(copy, now);
        }
        for _ in 0..finished {
            self.follow(now);
        }
        if second && finished > 0 {
            self.send(now)?;
        }
        self.start(second, number, now)
    }

    /// The next request, where each answer lets one go.
    fn follow(&mut self, now: Time) {
        if self.closed && (self.next as usize) < self.requests.len() {
            let next = self.next;
            self.next += 1;
            self.post(now, Event::Arrive(next));
        }
    }

    /// Transfers that can start.
    fn send(&mut self, now: Time) -> Result<(), T::Error> {
        let mut begun = false;
        for (sender, request) in self.transfers.ready() {
            let bytes = self.bytes(request);
            let Some(pool) = self.second.as_mut() else { return Ok(()) };
            let sequence = self.sequences[request as usize];
            let fitting = (0..).zip(&pool.copies).filter(|(_, copy)| copy.has_room(pool.serving, &sequence));
            let Some(to) = fitting.min_by_key(|(number, copy)| (copy.outstanding, *number)).map(|(number, _): (u32, _)| number) else {
                continue;
            };
            pool.account(to, now);
            // The sequence has the blocks of the sender until all is there.
            pool.copies[to as usize].take_room(pool.serving, &sequence);
            pool.copies[to as usize].outstanding += 1;
            pool.account(to, now);
            self.transfers.start(now, (sender, to), bytes);
            self.outcome.moved += bytes.0;
            begun = true;
        }
        if begun { self.change(now) } else { Ok(()) }
    }

    /// Other transfers than before: new rates.
    fn change(&mut self, now: Time) -> Result<(), T::Error> {
        let active = self.transfers.active();
        let rates = if active.is_empty() { Vec::new() } else { self.first.costs.times().transfers(&active)? };
        if let Some(end) = self.transfers.set_rates(&rates) {
            let epoch = self.transfers.epoch;
            self.post(end.max(now), Event::Moved(epoch));
        }
        Ok(())
    }

    /// Keys and values are where tokens are generated: the client hears the first token.
    fn there(&mut self, request: u32, to: u32, now: Time) -> Result<(), T::Error> {
        let (at, from) = (request as usize, self.copy_of[request as usize]);
        let sequence = &mut self.sequences[at];
        self.first.account(from, now);
        self.first.copies[from as usize].give_back(sequence.blocks);
        self.first.copies[from as usize].outstanding -= 1;
        self.first.account(from, now);
        told(&mut self.outcome.answers[at], &mut self.outcome.between, &mut self.last[at], now);
        self.copy_of[at] = to;
        let Some(pool) = self.second.as_mut() else { return Ok(()) };
        sequence.arrive(pool.serving);
        pool.copies[to as usize].post(request);
        let engine = pool.engine_of(to);
        let reader = self.first.engine_of(from);
        self.start(true, engine, now)?;
        self.start(false, reader, now)
    }

    fn done(mut self) -> Outcome {
        let begun = self.outcome.answers.iter().filter(|answer| answer.tokens > 0).map(|answer| answer.arrival).min().unwrap_or_default();
        let end = self.outcome.answers.iter().map(|answer| answer.last).max().unwrap_or_default();
        self.outcome.whole = end.since(begun);
        self.outcome.first = self.first.used;
        self.outcome.second = self.second.map(|pool| pool.used);
        self.outcome
    }
}

fn pool<'p, 'c, 'a, T>(
    first: &'p mut Pool<'c, 'a, T>,
    second: &'p mut Option<Pool<'c, 'a, T>>,
    of_second: bool,
) -> Option<&'p mut Pool<'c, 'a, T>> {
    if of_second { second.as_mut() } else { Some(first) }
}

/// A token for the client.
fn told(answer: &mut Answer, between: &mut Spread, last: &mut Time, now: Time) {
    match answer.first {
        None => answer.first = Some(now),
        Some(_) => between.add(now.since(*last)),
    }
    answer.tokens += 1;
    answer.last = now;
    *last = now;
}
