//! A thread of an executor that serves blocks to others.
//!
//! Source: Spark, `TransportRequestHandler` and `ChunkFetchRequestHandler`.
//! Modelled: an event loop; core time of each message and block; the drive, which all threads of a node share.
//! Not modelled: a loop that stands still while a drive reads, files sent without a copy (`sendfile`): the kernel copies.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use fabriscope_node::{Process, ProgramError};
use fabriscope_rpc::channel::{Arrival, ConnectionEnd, Header, Port};
use fabriscope_units::{Bytes, Time};

use crate::job::{BLOCK, CHUNK, END, HANDLE, Job, OPEN, Role, Stack};
use crate::options::Fetch;

/// A block that is to be sent: when it is read, in which order it was asked for, where to, for which request, how long.
type Read = Reverse<(Time, u64, usize, u64, u64)>;

/// Serves until all tasks over one transport are done.
pub async fn run(process: &Process, job: &Job, stack: &Stack, (executor, thread): (u32, u32)) -> Result<(), ProgramError> {
    let peers = job.peers(executor, Role::Serves(thread));
    let mut port = Port::open(process, (stack.over, ConnectionEnd::Called), &peers, &job.contacts, stack.terms).await?;
    process.barrier().await;
    let mut server = Server { process, job, stack, executor, read: BinaryHeap::new(), number: 0 };
    let mut ended = 0;
    while ended < peers.len() || !server.read.is_empty() {
        let next = server.read.peek().map_or(Time::MAX, |Reverse((at, ..))| *at);
        if next <= process.now() {
            if let Some(Reverse((_, _, connection, call, bytes))) = server.read.pop() {
                server.block(&mut port, connection, call, Bytes(bytes)).await?;
            }
            continue;
        }
        match port.next(process, next).await? {
            Some(arrival) if arrival.header.kind == END => ended += 1,
            Some(arrival) => server.request(&mut port, &arrival).await?,
            None => {}
        }
    }
    Ok(())
}

struct Server<'j> {
    process: &'j Process,
    job: &'j Job,
    stack: &'j Stack,
    executor: u32,
    read: BinaryHeap<Read>,
    number: u64,
}

impl Server<'_> {
    async fn request(&mut self, port: &mut Port, arrival: &Arrival) -> Result<(), ProgramError> {
        let library = &self.stack.library;
        let (partition, blocks) = ((arrival.header.extra >> 32) as usize, arrival.header.extra & 0xFFFF_FFFF);
        let bytes = self.job.blocks.get(partition).copied().unwrap_or_default();
        let (connection, call) = (arrival.connection, arrival.header.call);
        match (arrival.header.kind, &library.one_sided) {
            (OPEN, None) => {
                self.process.compute(*library.message * 2 + *library.open_block * blocks);
                let header = Header { kind: HANDLE, call, bytes: library.request.0, extra: arrival.header.extra };
                port.send(self.process, connection, header, *library.request).await
            }
            (OPEN, Some(one_sided)) => {
                self.process.compute(*one_sided.post + *library.open_block * blocks);
                for _ in 0..blocks {
                    self.fetch(connection, call, bytes).await;
                }
                Ok(())
            }
            (CHUNK, _) => {
                self.process.compute(*library.message);
                self.fetch(connection, call, bytes).await;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Has the drive read a block, if it lies there.
    async fn fetch(&mut self, connection: usize, call: u64, bytes: Bytes) {
        if self.job.drive.is_some() {
            self.process.catch_up().await;
        }
        let now = self.process.now();
        let at = self.job.drives[self.executor as usize].lock().as_mut().map_or(now, |drive| drive.read(now, bytes));
        self.read.push(Reverse((at, self.number, connection, call, bytes.0)));
        self.number += 1;
    }

    async fn block(&self, port: &mut Port, connection: usize, call: u64, bytes: Bytes) -> Result<(), ProgramError> {
        let library = &self.stack.library;
        let whole = match (&library.one_sided, self.stack.fetch) {
            (Some(one_sided), Fetch::Get | Fetch::ActiveMessage) => {
                self.process.compute(*one_sided.post);
                bytes
            }
            _ => {
                self.process.compute(*library.message);
                bytes + *library.block_header
            }
        };
        port.send(self.process, connection, Header { kind: BLOCK, call, bytes: whole.0, extra: bytes.0 }, whole).await
    }
}
