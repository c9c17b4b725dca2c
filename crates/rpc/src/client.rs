//! A thread that makes calls: closed loops keep some outstanding, open ones call at random times whatever is outstanding.
//!
//! Modelled: one call after the other is written and sent by the thread; connections that have as many calls as they may have hold others
//! back; a call is over when the answers are there that it waits for, and late ones are read as well.
//! Not modelled: deadlines, cancelled and repeated calls.

use std::collections::VecDeque;

use fabriscope_node::{Process, ProgramError};
use fabriscope_streams::{Stream, Streams};
use fabriscope_units::{Bytes, Span, Time};

use crate::channel::{Arrival, ConnectionEnd, Header, Port};
use crate::job::{END, Job, Measured, REQUEST, Stack};
use crate::options::{Load, Service};

/// A call that is not over.
#[derive(Debug, Clone, Copy)]
struct Call {
    due: Time,
    /// The first server that it asks.
    server: u32,
    back: u32,
}

/// A request that a connection has no room for.
#[derive(Debug, Clone, Copy)]
struct Held {
    call: u32,
    leaf: u32,
}

struct Client<'j> {
    job: &'j Job,
    stack: &'j Stack,
    number: u32,
    process: Process,
    port: Port,
    calls: Vec<Call>,
    work: Vec<Span>,
    /// By connection: calls outstanding, and those that wait for their turn.
    outstanding: Vec<u32>,
    held: Vec<VecDeque<Held>>,
    /// Requests without a reply.
    open: u64,
    done: u32,
    measured: Measured,
}

/// Runs all loads over one transport.
pub async fn run(process: Process, job: &Job, stack: &Stack, number: u32) -> Result<(), ProgramError> {
    let servers = job.settings.servers;
    let peers: Vec<u32> = (0..servers).map(|server| job.rank_of_server(server, number)).collect();
    let mut port = Port::open(&process, (stack.over, ConnectionEnd::Caller), &peers, &job.contacts, stack.terms).await?;
    for load in &job.settings.loads {
        let mut client = Client {
            job,
            stack,
            number,
            process: process.clone(),
            port,
            calls: Vec::new(),
            work: Vec::new(),
            outstanding: vec![0; servers as usize],
            held: vec![VecDeque::new(); servers as usize],
            open: 0,
            done: 0,
            measured: Measured::default(),
        };
        client.point(*load).await?;
        let Client { port: used, measured, .. } = client;
        port = used;
        job.measured[number as usize].lock().push(measured);
        for connection in 0..servers as usize {
            let header = Header { kind: END, bytes: GOODBYE.0, ..Header::default() };
            port.send(&process, connection, header, GOODBYE).await?;
        }
        process.barrier().await;
    }
    Ok(())
}

impl Client<'_> {
    async fn point(&mut self, load: Load) -> Result<(), ProgramError> {
        let s = &self.job.settings;
        let all = s.warm_up + s.calls;
        let streams = Streams::new(s.seed);
        let id = u64::from(self.number);
        let (mut gaps, mut servers) = (streams.stream("times of calls", id), streams.stream("servers of calls", id));
        let mut work = streams.stream("work of calls", id);
        self.work = (0..all as usize * s.fan_out as usize).map(|_| drawn(s.service, &mut work)).collect();
        *self.job.moments[self.number as usize].lock() = vec![Default::default(); self.work.len()];
        let gap = match load {
            Load::Closed(_) => Span::ZERO,
            Load::Open(rate) => Span::from_ps((1e12 * f64::from(Job::clients(s, self.job.nodes)) / rate) as u64),
        };
        let mut next = self.process.now() + gap.scaled(gaps.exponential());
        loop {
            let made = self.calls.len() as u32;
            let due = match load {
                _ if made == all => None,
                Load::Closed(most) => (made - self.done < most).then(|| self.process.now()),
                Load::Open(_) => (next <= self.process.now()).then_some(next),
            };
            if let Some(due) = due {
                next += gap.scaled(gaps.exponential());
                self.call(due, servers.below(s.servers.into()) as u32).await?;
                continue;
            }
            if made == all && self.open == 0 {
                return Ok(());
            }
            let until = if made < all && matches!(load, Load::Open(_)) { next } else { Time::MAX };
            if let Some(arrival) = self.port.next(&self.process, until).await? {
                self.reply(&arrival).await?;
            }
        }
    }

    /// Makes the next call.
    async fn call(&mut self, due: Time, server: u32) -> Result<(), ProgramError> {
        let call = self.calls.len() as u32;
        self.calls.push(Call { due, server, back: 0 });
        for leaf in 0..self.job.settings.fan_out {
            self.open += 1;
            let connection = self.connection(call, leaf);
            if self.outstanding[connection] < *self.stack.library.outstanding {
                self.request(Held { call, leaf }).await?;
            } else {
                self.held[connection].push_back(Held { call, leaf });
            }
        }
        Ok(())
    }

    async fn request(&mut self, Held { call, leaf }: Held) -> Result<(), ProgramError> {
        let (process, cost) = (&self.process, self.stack.request);
        let connection = self.connection(call, leaf);
        self.outstanding[connection] += 1;
        let begun = process.now();
        process.compute(*self.stack.library.call / 2 + cost.serialise + cost.framing);
        let serialised = process.now();
        let at = self.place(call, leaf);
        let number = u64::from(call) << 8 | u64::from(leaf);
        let header = Header { kind: REQUEST, call: number, bytes: cost.bytes.0, extra: self.work[at].as_ps() };
        self.port.send(process, connection, header, cost.bytes).await?;
        let moments = &mut self.job.moments[self.number as usize].lock()[at];
        (moments.due, moments.begun, moments.serialised) = (self.calls[call as usize].due, begun, serialised);
        moments.sent = self.process.now();
        Ok(())
    }

    async fn reply(&mut self, arrival: &Arrival) -> Result<(), ProgramError> {
        let s = &self.job.settings;
        let taken = self.process.now();
        let cost = self.stack.reply;
        self.process.compute(cost.framing + cost.parse + *self.stack.library.call / 2);
        let now = self.process.now();
        let (call, leaf) = ((arrival.header.call >> 8) as u32, (arrival.header.call & 0xFF) as u32);
        let at = self.place(call, leaf);
        self.open -= 1;
        let of_call = &mut self.calls[call as usize];
        of_call.back += 1;
        let over = of_call.back == s.first;
        let due = of_call.due;
        if over {
            self.done += 1;
        }
        if over && call >= s.warm_up {
            let moments = &mut self.job.moments[self.number as usize].lock()[at];
            moments.back = [arrival.visible, arrival.begun, arrival.read];
            moments.read = [taken, now];
            self.measured.calls.push(now.since(due));
            for (sum, span) in self.measured.stages.iter_mut().zip(moments.stages()) {
                *sum += span;
            }
            self.measured.begin = Some(self.measured.begin.map_or(due, |begin| begin.min(due)));
            self.measured.end = self.measured.end.max(now);
        }
        self.outstanding[arrival.connection] -= 1;
        match self.held[arrival.connection].pop_front() {
            Some(held) => self.request(held).await,
            None => Ok(()),
        }
    }

    fn connection(&self, call: u32, leaf: u32) -> usize {
        ((self.calls[call as usize].server + leaf) % self.job.settings.servers) as usize
    }
    fn place(&self, call: u32, leaf: u32) -> usize {
        call as usize * self.job.settings.fan_out as usize + leaf as usize
    }
}

fn drawn((service, mean): (Service, Span), stream: &mut Stream) -> Span {
    match service {
        Service::Constant => mean,
        Service::Exponential => mean.scaled(stream.exponential()),
    }
}

/// A message that ends a connection. Basis: standard, RFC 9113 §6.8: a GOAWAY frame.
const GOODBYE: Bytes = Bytes(17);
