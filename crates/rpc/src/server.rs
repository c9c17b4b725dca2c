//! A thread of a server that reads requests, hands them to workers, and writes replies.
//!
//! Modelled: an event loop for messages, workers with a queue for all loops of a server; a worker reads the fields of the request, does what is
//! asked for, and writes those of the reply.
//! Not modelled: work on the event loop itself, streams of replies.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use fabriscope_node::{Process, ProgramError};
use fabriscope_units::{Span, Time};

use crate::channel::{Arrival, ConnectionEnd, Header, Port};
use crate::job::{END, Job, REPLY, Stack};

/// A reply that a worker will have done: when, in which order it was asked for, where to, which call.
type Done = Reverse<(Time, u64, usize, u64)>;

struct Server<'j> {
    job: &'j Job,
    stack: &'j Stack,
    number: u32,
    process: Process,
    clients: Vec<u32>,
    replies: BinaryHeap<Done>,
    asked: u64,
}

/// Serves until all loads over one transport are over.
pub async fn run(process: Process, job: &Job, stack: &Stack, (number, thread): (u32, u32)) -> Result<(), ProgramError> {
    let clients: Vec<u32> = job.clients_of(thread).collect();
    let peers: Vec<u32> = clients.iter().map(|client| job.rank_of_client(*client)).collect();
    let mut port = Port::open(&process, (stack.over, ConnectionEnd::Called), &peers, &job.contacts, stack.terms).await?;
    let mut server = Server { job, stack, number, process, clients, replies: BinaryHeap::new(), asked: 0 };
    for _ in &job.settings.loads {
        server.serve(&mut port).await?;
        server.process.barrier().await;
    }
    Ok(())
}

impl Server<'_> {
    async fn serve(&mut self, port: &mut Port) -> Result<(), ProgramError> {
        let mut ended = 0;
        while ended < self.clients.len() || !self.replies.is_empty() {
            let next = self.replies.peek().map_or(Time::MAX, |Reverse((done, ..))| *done);
            if next <= self.process.now() {
                if let Some(Reverse((_, _, connection, call))) = self.replies.pop() {
                    self.reply(port, connection, call).await?;
                }
                continue;
            }
            match port.next(&self.process, next).await? {
                Some(arrival) if arrival.header.kind == END => ended += 1,
                Some(arrival) => self.request(&arrival).await,
                None => {}
            }
        }
        Ok(())
    }

    async fn request(&mut self, arrival: &Arrival) {
        let taken = self.process.now();
        let (library, request, reply) = (&self.stack.library, self.stack.request, self.stack.reply);
        self.process.compute(request.framing);
        // Threads hand over in the order of time.
        self.process.catch_up().await;
        let handed = self.process.now();
        let service = Span::from_ps(arrival.header.extra);
        let span = *library.handle + request.parse + service + reply.serialise;
        let turn = self.job.pools[self.number as usize].lock().take(handed, span);
        let client = self.clients[arrival.connection] as usize;
        let mut of_client = self.job.moments[client].lock();
        if let Some(moments) = of_client.get_mut(self.place(arrival.header.call)) {
            moments.there = [arrival.visible, arrival.begun, arrival.read];
            (moments.taken, moments.handed, moments.service) = (taken, handed, service);
            moments.worker = [turn.free, turn.begun, turn.done];
        }
        self.replies.push(Reverse((turn.done, self.asked, arrival.connection, arrival.header.call)));
        self.asked += 1;
    }

    async fn reply(&mut self, port: &mut Port, connection: usize, call: u64) -> Result<(), ProgramError> {
        let (process, cost) = (&self.process, self.stack.reply);
        let begun = process.now();
        process.compute(cost.framing);
        let framed = process.now();
        port.send(process, connection, Header { kind: REPLY, call, bytes: cost.bytes.0, extra: 0 }, cost.bytes).await?;
        let client = self.clients[connection] as usize;
        if let Some(moments) = self.job.moments[client].lock().get_mut(self.place(call)) {
            moments.reply = [begun, framed, process.now()];
        }
        Ok(())
    }

    fn place(&self, call: u64) -> usize {
        (call >> 8) as usize * self.job.settings.fan_out as usize + (call & 0xFF) as usize
    }
}
