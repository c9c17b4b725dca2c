//! A thread that fetches blocks for the reduce tasks of some cores of its executor.
//!
//! Source: Spark, `ShuffleBlockFetcherIterator`, `OneForOneBlockFetcher`; SparkUCX.
//! Modelled: tasks taken from the driver when a core is free; blocks of the own executor, requests to others by [`Fetcher`], the handle and the
//! request of each block over Netty, READs of index and block, messages of blocks; a task works on a block while others come, and what it waits.
//! Not modelled: one connection for all tasks of an executor: a thread has its own, and there are as many threads as such connections.

use std::collections::VecDeque;

use fabriscope_node::{Process, ProgramError};
use fabriscope_rpc::channel::{Arrival, ConnectionEnd, Header, Port};
use fabriscope_streams::Streams;
use fabriscope_units::{Bytes, Time};

use crate::fetcher::{Fetcher, Request};
use crate::job::{BLOCK, CHUNK, END, HANDLE, INDEX, Job, OPEN, Role, Stack};
use crate::options::Fetch;
use crate::task::TaskRecord;

/// A task on a core.
#[derive(Debug)]
struct Task {
    record: TaskRecord,
    partition: u32,
    fetcher: Fetcher,
    /// Blocks that are here: since when, their bytes, and whether they came from elsewhere.
    here: VecDeque<(Time, Bytes, bool)>,
    /// Blocks of this executor that its drive reads.
    local: VecDeque<(Time, Bytes)>,
    /// Blocks that the task has not taken yet.
    left: u32,
    /// It has worked, or works, until then.
    busy: Time,
}

#[derive(Debug)]
enum Core {
    /// Since then.
    Free(Time),
    Starting(u32, Time),
    Running(Box<Task>),
    Writing(TaskRecord, Time),
    /// The driver has no more tasks.
    Over,
}

struct Reducer<'j> {
    process: &'j Process,
    job: &'j Job,
    stack: &'j Stack,
    number: usize,
    executor: u32,
    port: Port,
    cores: Vec<Core>,
}

/// Runs the tasks of some cores over one transport.
pub async fn run(process: &Process, job: &Job, number: usize, (executor, thread): (u32, u32)) -> Result<(), ProgramError> {
    let stack = &job.stacks[number];
    let peers = job.peers(executor, Role::Fetches(thread));
    let port = Port::open(process, (stack.over, ConnectionEnd::Caller), &peers, &job.contacts, stack.terms).await?;
    if process.rank() == 0 {
        job.begin();
    }
    process.barrier().await;
    let now = process.now();
    job.stages[number].lock().begin.get_or_insert(now);
    let cores = (thread..job.settings.cores).step_by(job.threads as usize).map(|_| Core::Free(now)).collect();
    let mut reducer = Reducer { process, job, stack, number, executor, port, cores };
    loop {
        process.catch_up().await;
        let mut next = Time::MAX;
        for core in 0..reducer.cores.len() {
            next = next.min(reducer.advance(core).await?);
        }
        if reducer.cores.iter().all(|core| matches!(core, Core::Over)) {
            break;
        }
        if let Some(arrival) = reducer.port.next(process, next).await? {
            reducer.arrived(&arrival).await?;
        }
    }
    for connection in 0..peers.len() {
        let header = Header { kind: END, bytes: stack.library.request.0, ..Header::default() };
        reducer.port.send(process, connection, header, *stack.library.request).await?;
    }
    Ok(())
}

impl Reducer<'_> {
    /// Does what can be done on a core by now; when there is something to do again without a message.
    async fn advance(&mut self, core: usize) -> Result<Time, ProgramError> {
        loop {
            let now = self.process.now();
            match std::mem::replace(&mut self.cores[core], Core::Over) {
                Core::Over => return Ok(Time::MAX),
                Core::Free(since) => {
                    let Some(partition) = self.job.waiting.lock().pop_front() else { return Ok(Time::MAX) };
                    self.cores[core] = Core::Starting(partition, since + *self.stack.library.task_start);
                }
                Core::Starting(partition, at) if at > now => {
                    self.cores[core] = Core::Starting(partition, at);
                    return Ok(at);
                }
                Core::Starting(partition, at) => {
                    self.cores[core] = Core::Running(Box::new(self.begin(partition, at)));
                    self.ask(core).await?;
                }
                Core::Writing(record, at) if at > now => {
                    self.cores[core] = Core::Writing(record, at);
                    return Ok(at);
                }
                Core::Writing(record, at) => {
                    self.job.stages[self.number].lock().tasks.push(TaskRecord { finish: at, ..record });
                    self.cores[core] = Core::Free(at);
                }
                Core::Running(mut task) => {
                    while task.local.front().is_some_and(|(at, _)| *at <= now) {
                        task.here.extend(task.local.pop_front().map(|(at, bytes)| (at, bytes, false)));
                    }
                    if task.busy > now {
                        let at = task.busy;
                        self.cores[core] = Core::Running(task);
                        return Ok(at);
                    }
                    // The task has a thread of its own, which goes on whatever this one does.
                    if let Some((since, bytes, remote)) = task.here.pop_front() {
                        task.record.fetch_wait += since.since(task.busy);
                        task.busy = task.busy.max(since) + self.stack.reduce_rate.time(bytes);
                        task.left -= 1;
                        if remote {
                            task.fetcher.handle_taken(bytes);
                        }
                        self.cores[core] = Core::Running(task);
                        self.ask(core).await?;
                    } else if task.left == 0 {
                        let drive = &mut *self.job.drives[self.executor as usize].lock();
                        let output = task.record.remote_bytes + task.record.local_bytes;
                        let written = drive.as_mut().filter(|_| self.stack.writes_output);
                        let written = written.map_or(task.busy, |drive| drive.write(now, output));
                        self.cores[core] = Core::Writing(task.record, written);
                    } else {
                        let at = task.local.front().map_or(Time::MAX, |(at, _)| *at);
                        self.cores[core] = Core::Running(task);
                        return Ok(at);
                    }
                }
            }
        }
    }

    /// A task for a partition that runs since `at`, with the blocks of its own executor.
    fn begin(&self, partition: u32, at: Time) -> Task {
        let (job, now) = (self.job, self.process.now());
        let size = job.blocks[partition as usize];
        let count = |executor: u32| if size == Bytes::ZERO { 0 } else { job.maps_of(executor) };
        let others: Vec<(u32, u32)> =
            (0..job.executors).filter(|other| *other != self.executor).map(|other| (other, count(other))).collect();
        let mut order = Streams::new(job.settings.seed).stream("order of requests", partition.into());
        let fetcher = Fetcher::new(&others, size, self.stack.limits, &mut order);
        let (remote, own) = (others.iter().map(|(_, blocks)| blocks).sum::<u32>(), count(self.executor));
        let drive = &mut *job.drives[self.executor as usize].lock();
        let local = (0..own).map(|_| (drive.as_mut().map_or(at, |drive| drive.read(now, size)), size)).collect();
        let record = TaskRecord {
            stage: 1,
            index: partition,
            executor: self.executor,
            launch: at.saturating_sub(*self.stack.library.task_start),
            remote_blocks: remote,
            local_blocks: own,
            remote_bytes: size * u64::from(remote),
            local_bytes: size * u64::from(own),
            ..TaskRecord::default()
        };
        Task { record, partition, fetcher, here: VecDeque::new(), local, left: remote + own, busy: at }
    }

    /// Sends what the task on a core may ask for.
    async fn ask(&mut self, core: usize) -> Result<(), ProgramError> {
        loop {
            let Core::Running(task) = &mut self.cores[core] else { return Ok(()) };
            let Some(request) = task.fetcher.poll_request() else { return Ok(()) };
            task.record.requests += 1;
            let partition = task.partition;
            self.request(core, partition, request).await?;
        }
    }

    async fn request(&mut self, core: usize, partition: u32, request: Request) -> Result<(), ProgramError> {
        let library = &self.stack.library;
        let connection = self.connection(request.executor);
        let call = (core as u64) << 32 | u64::from(request.number);
        if let (Fetch::Get, Some(one_sided)) = (self.stack.fetch, &library.one_sided) {
            for _ in 0..request.blocks {
                self.process.compute(*one_sided.post);
                let header =
                    Header { kind: INDEX, call, bytes: one_sided.index_entry.0, extra: request.bytes.0 / u64::from(request.blocks) };
                self.port.get(self.process, connection, header, *one_sided.index_entry).await?;
            }
            return Ok(());
        }
        self.process.compute(self.message());
        let bytes = *library.request + *library.block_name * u64::from(request.blocks);
        let extra = u64::from(partition) << 32 | u64::from(request.blocks);
        self.port.send(self.process, connection, Header { kind: OPEN, call, bytes: bytes.0, extra }, bytes).await
    }

    async fn arrived(&mut self, arrival: &Arrival) -> Result<(), ProgramError> {
        let library = &self.stack.library;
        let header = arrival.header;
        let (core, number) = ((header.call >> 32) as usize, header.call as u32);
        match header.kind {
            HANDLE => {
                self.process.compute(*library.message);
                for _ in 0..header.extra & 0xFFFF_FFFF {
                    self.process.compute(*library.message);
                    let one = Header { kind: CHUNK, bytes: library.block_header.0, ..header };
                    self.port.send(self.process, arrival.connection, one, *library.block_header).await?;
                }
            }
            INDEX => {
                self.process.compute(self.message());
                let block = Header { kind: BLOCK, bytes: header.extra, ..header };
                self.port.get(self.process, arrival.connection, block, Bytes(header.extra)).await?;
            }
            BLOCK => {
                self.process.compute(self.message());
                if let Some(Core::Running(task)) = self.cores.get_mut(core) {
                    task.fetcher.handle_block(number);
                    task.here.push_back((self.process.now(), Bytes(header.extra), true));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Core time of a message.
    fn message(&self) -> fabriscope_units::Span {
        let library = &self.stack.library;
        match (&library.one_sided, self.stack.fetch) {
            (Some(one_sided), Fetch::Get | Fetch::ActiveMessage) => *one_sided.post,
            _ => *library.message,
        }
    }
    fn connection(&self, executor: u32) -> usize {
        (executor - u32::from(executor > self.executor)) as usize
    }
}
