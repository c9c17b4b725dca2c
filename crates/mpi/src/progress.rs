//! The progress engine: what has arrived is handled, what can be posted is posted.

use fabriscope_catalog::{EagerChannel, TagMatching};
use fabriscope_node::{Process, ProgramError};
use fabriscope_units::Time;
use fabriscope_verbs::AppWords;

use super::active_message::{Question, Serving};
use super::buffer::Buffer;
use super::matching::{Arrival, Pattern};
use super::rank::Rank;
use super::request::RequestId;
use super::service::{FETCHES, SERVICE};
use super::sockets;
use super::state::{Awaited, Partial, State};
use super::wire::{Body, Envelope, Source};

impl Rank {
    /// One turn of the progress loop; it spins until there is something to do.
    pub(super) async fn turn(&self) -> Result<(), ProgramError> {
        self.turn_until(Time::MAX).await
    }

    /// The same, but it gives up at `until`.
    pub(super) async fn turn_until(&self, until: Time) -> Result<(), ProgramError> {
        self.look_around(until).await?;
        let served = !self.state.borrow().serving.is_empty() || !self.open.borrow().is_empty();
        if served { self.serve() } else { Ok(()) }
    }

    async fn look_around(&self, until: Time) -> Result<(), ProgramError> {
        let process = &self.process;
        if let Some(onload) = &self.onload {
            onload.turn(process, &self.world.0.protocol, until).await?;
            self.serve_copies().await?;
            return self.serve_notes().await;
        }
        let until = if self.state.borrow().has_unhandled() { process.now() } else { until };
        if self.state.borrow().protocol.eager_channel == EagerChannel::Stream {
            return self.turn_of_streams(until).await;
        }
        let Awaited { queues, mut rings } = self.state.borrow().awaited();
        rings.extend(self.word());
        rings.extend(self.counts());
        match self.network_queue() {
            None => process.wait_any_until(&queues, &rings, until).await,
            Some(network) => process.wait_any_until(&[&queues[..], &[network]].concat(), &rings, until).await,
        };
        process.compute(self.state.borrow().protocol.progress_overhead);
        for (rail, &(nic, cq)) in queues.iter().enumerate() {
            if process.earliest(&[(nic, cq)], &[]).is_none_or(|visible| visible > process.now()) {
                continue;
            }
            for wc in process.poll_cq(nic, cq, POLL_BATCH).await {
                let state = &mut *self.state.borrow_mut();
                if let Some(request) = state.complete(process, rail, &wc)? {
                    state.moved(process, request)?;
                }
            }
        }
        self.look_at_network().await?;
        self.look_at_words().await;
        self.look_at_counts();
        self.serve_copies().await?;
        self.state.borrow_mut().look_at_rings(process)?;
        self.serve_notes().await
    }

    /// Goes on where copies by the GPU have ended.
    async fn serve_copies(&self) -> Result<(), ProgramError> {
        if self.state.borrow().copies.is_empty() {
            return Ok(());
        }
        for id in self.process.take_copies().await {
            self.state.borrow_mut().copied(&self.process, id)?;
        }
        Ok(())
    }

    /// Handles what has arrived and what comes through the node's memory meanwhile, and posts what can be posted.
    pub(super) async fn serve_notes(&self) -> Result<(), ProgramError> {
        let process = &self.process;
        let mut first = true;
        loop {
            {
                let state = &mut *self.state.borrow_mut();
                // Broadcasts by multicast leave lines that say nothing to anybody else.
                let known = process.take_notes().into_iter().filter(|rank| state.connections.contains_key(rank));
                state.news.extend(known);
                if state.news.is_empty() && !first {
                    return state.flush(process);
                }
                first = false;
                state.handle_arrivals(process)?;
                if state.is_waited_for() && !state.has_copied {
                    return state.flush(process);
                }
            }
            // Cores ask for the memory and the links that they share in the order of their clocks.
            if std::mem::take(&mut self.state.borrow_mut().has_copied) {
                process.catch_up().await;
            }
        }
    }
}

impl Rank {
    /// The same over sockets.
    async fn turn_of_streams(&self, until: Time) -> Result<(), ProgramError> {
        let awaited = self.state.borrow().awaited_streams();
        if until > self.process.now() {
            sockets::wait(&self.process, &awaited).await?;
        }
        let state = &mut *self.state.borrow_mut();
        self.process.compute(state.protocol.progress_overhead);
        state.serve_streams(&self.process)?;
        state.news.extend(state.connections.keys());
        state.handle_arrivals(&self.process)?;
        state.flush(&self.process)
    }
}

impl State {
    /// Takes what the NICs have written into the rings.
    fn look_at_rings(&mut self, process: &Process) -> Result<(), ProgramError> {
        if self.protocol.eager_channel != EagerChannel::RdmaWrite {
            return Ok(());
        }
        let (now, mut unheard) = (process.now(), None);
        for (peer, connection) in self.connections.iter_mut().filter(|(_, connection)| !connection.local) {
            for (rail, link) in connection.links.iter_mut().enumerate() {
                process.nic(self.rails[rail].nic, |n| {
                    link.ring_shown = n.watch_count(link.watch, now);
                    while let Some(words) = n.watch_words(link.watch, now) {
                        match Envelope::heard(words) {
                            Some(envelope) => connection.order.keep(envelope),
                            None => unheard = Some(*peer),
                        }
                    }
                });
            }
            self.news.insert(*peer);
        }
        unheard.map_or(Ok(()), |peer| Err(self.unheard(peer)))
    }

    /// What a message of `peer` says that came in order.
    fn hear(&self, peer: u32, words: AppWords) -> Result<Envelope, ProgramError> {
        Envelope::heard(words).ok_or_else(|| self.unheard(peer))
    }

    /// Whether the program goes on: all that it waits for is done.
    fn is_waited_for(&mut self) -> bool {
        self.waits_for.is_met(&self.requests)
    }

    /// Whether messages have come that are not handled: those behind the one that the program waited for.
    pub fn has_unhandled(&self) -> bool {
        !self.arrived.is_empty() || !self.news.is_empty()
    }

    /// Handles the messages that have arrived, each peer's in the order in which they were sent, until the program has what it
    /// waits for: `MPI_Wait` looks at its request after every message of the progress loop.
    fn handle_arrivals(&mut self, process: &Process) -> Result<(), ProgramError> {
        let me = self.me;
        while let Some((peer, envelope)) = self.arrived.pop_front() {
            self.handle_in_order(process, peer, envelope)?;
            if self.is_waited_for() {
                return Ok(());
            }
        }
        while let Some(peer) = self.news.pop_first() {
            loop {
                let connection = self.connection(peer)?;
                if connection.local {
                    let Some((visible, envelope)) = self.memory.wires.take(peer, me, process.now()) else { break };
                    self.handle_line(process, peer, visible, envelope)?;
                } else {
                    let next = match connection.links.first().and_then(|link| link.stream.as_ref()) {
                        Some(stream) => stream.next(process)?.map(|words| self.hear(peer, words)).transpose()?,
                        None => connection.order.waited(),
                    };
                    let Some(envelope) = next else { break };
                    self.handle(process, peer, envelope)?;
                }
                if self.has_copied {
                    self.news.insert(peer);
                    return Ok(());
                }
                if self.is_waited_for() {
                    if self.has_more(process, peer)? {
                        self.news.insert(peer);
                    }
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Whether another message of `peer` is there.
    fn has_more(&mut self, process: &Process, peer: u32) -> Result<bool, ProgramError> {
        let me = self.me;
        let connection = self.connection(peer)?;
        if connection.local {
            return Ok(self.memory.wires.has(peer, me, process.now()));
        }
        Ok(connection.links.first().is_some_and(|link| link.stream.is_some()) || connection.order.has_due())
    }

    /// Handles what arrived when its turn has come; what is early is copied and waits.
    fn handle_in_order(&mut self, process: &Process, peer: u32, envelope: Envelope) -> Result<(), ProgramError> {
        let early = envelope.body.payload().unwrap_or(0);
        let Some(envelope) = self.connection(peer)?.order.arrived(envelope) else {
            State::copy_out(process, early);
            return Ok(());
        };
        self.handle(process, peer, envelope)?;
        while let Some(envelope) = self.connection(peer)?.order.waited() {
            self.handle(process, peer, envelope)?;
        }
        Ok(())
    }

    fn handle(&mut self, process: &Process, peer: u32, envelope: Envelope) -> Result<(), ProgramError> {
        let connection = self.connection(peer)?;
        connection.credits += envelope.credits;
        connection.owed += u32::from(envelope.body != Body::Credits);
        self.unsettle(peer);
        self.act(process, peer, envelope.body)
    }

    /// Handles a message through the node's memory, which could be seen from `visible` on.
    fn handle_line(&mut self, process: &Process, peer: u32, visible: Time, envelope: Envelope) -> Result<(), ProgramError> {
        let seen = process.now();
        self.fetch_lines(process, peer);
        self.note_line(process, peer, (visible, seen));
        self.act(process, peer, envelope.body)
    }

    /// Does what a message asks for.
    fn act(&mut self, process: &Process, peer: u32, body: Body) -> Result<(), ProgramError> {
        match body {
            Body::Eager { tag, size, here, message } => {
                let parts = (here < size).then_some(message);
                if parts.is_some() {
                    self.partial.insert((peer, message), Partial { left: size - here, request: None });
                }
                self.announced(process, Arrival { source: peer, tag, size, rendezvous: None, from: Source::Host, parts })?;
                for size in self.connection(peer)?.order.take_parts(message) {
                    self.part(process, (peer, message), size)?;
                }
                Ok(())
            }
            Body::Ask { asked, size } => self.asked(process, Arrival::whole(peer, SERVICE, size), asked),
            Body::Answer { tag, size, old } => {
                self.answers.insert((peer, tag), old);
                self.announced(process, Arrival::whole(peer, tag, size))
            }
            Body::Part { message, size } if !self.partial.contains_key(&(peer, message)) => {
                self.connection(peer)?.order.keep_part(message, size);
                Ok(())
            }
            Body::Part { message, size } => self.part(process, (peer, message), size),
            Body::RequestToSend { tag, size, sender, source } => {
                self.announced(process, Arrival { source: peer, tag, size, rendezvous: Some(sender), from: source, parts: None })
            }
            Body::ClearToSend { sender, receiver, size, device } => self.go_ahead(sender, receiver, size, device),
            Body::Room { sender, receiver, chunks, device } => self.room(process, sender, receiver, chunks, device),
            Body::Chunk { receiver, size } => self.chunk_came(process, receiver, size),
            Body::Finished { request, pieces } => {
                self.finished(request, pieces);
                Ok(())
            }
            Body::Data { receiver, size } => self.received(process, receiver, size),
            Body::Credits => Ok(()),
        }
    }

    /// A message arrives: it goes to the receive that waits for it.
    fn announced(&mut self, process: &Process, arrival: Arrival) -> Result<(), ProgramError> {
        if arrival.tag & SERVICE != 0 {
            return self.asked(process, arrival, Question::Vector { fetches: arrival.tag & FETCHES != 0 });
        }
        let found = self.matching.arrive(arrival);
        process.compute(self.protocol.match_step * u64::from(found.passed));
        match found.what {
            Some(request) => {
                let placed = self.places(arrival.source, request);
                self.matched(process, arrival, request, placed)
            }
            None => Ok(()),
        }
    }

    /// A message arrives that asks for something: it will be served when all of it is here.
    fn asked(&mut self, process: &Process, arrival: Arrival, asked: Question) -> Result<(), ProgramError> {
        let (origin, size) = (arrival.source, arrival.size);
        let request = self.requests.open(origin, size, Buffer::Host);
        let served = self.served.entry(origin).or_default();
        self.serving.push(Serving { request, origin, number: *served, size, asked });
        *served += 1;
        self.matched(process, arrival, request, false)
    }

    /// A receive is posted: it takes the message that waits for it.
    pub(super) fn posted(&mut self, process: &Process, pattern: Pattern, request: RequestId) -> Result<(), ProgramError> {
        let found = self.matching.post(pattern, request);
        process.compute(self.protocol.match_step * u64::from(found.passed));
        match found.what {
            Some(arrival) => self.matched(process, arrival, request, false),
            None => Ok(()),
        }
    }

    /// The receive of a message is found; `placed`: its payload is in the user's buffer already.
    fn matched(&mut self, process: &Process, arrival: Arrival, request: RequestId, placed: bool) -> Result<(), ProgramError> {
        let posted = self.requests.at(request).size;
        if arrival.size > posted {
            let (me, source, size) = (self.me, arrival.source, arrival.size);
            return Err(ProgramError(format!(
                "rank {me}: a message of {size} bytes from rank {source} is longer than its receive of {posted}"
            )));
        }
        process.compute(self.protocol.recv_overhead);
        match arrival.rendezvous {
            Some(sender) => self.accept(process, arrival, sender, request),
            None => {
                let partial = arrival.parts.and_then(|message| self.partial.get(&(arrival.source, message)));
                let left = partial.map_or(0, |partial| partial.left);
                if !placed {
                    self.take_out(process, request, arrival.size - left, arrival.source)?;
                }
                match arrival.parts.and_then(|message| self.partial.get_mut(&(arrival.source, message))) {
                    Some(partial) if left > 0 => partial.request = Some(request),
                    _ => self.whole(arrival.source, arrival.parts, request),
                }
                Ok(())
            }
        }
    }

    /// Whether the adapter puts what comes from `source` into the user's buffer.
    fn places(&mut self, source: u32, request: RequestId) -> bool {
        let local = self.connections.get(&source).is_some_and(|connection| connection.local);
        let lands = self.rails.first().map(|rail| rail.lands);
        self.protocol.tag_matching == TagMatching::Adapter && !local && lands == Some(self.requests.at(request).buffer)
    }

    /// A part of a short message comes.
    fn part(&mut self, process: &Process, (peer, message): (u32, u64), size: u32) -> Result<(), ProgramError> {
        let Some(partial) = self.partial.get_mut(&(peer, message)) else { return Ok(()) };
        partial.left -= size.min(partial.left);
        let Partial { left, request: Some(request) } = *partial else { return Ok(()) };
        if !self.places(peer, request) {
            self.take_out(process, request, size, peer)?;
        }
        if left == 0 {
            self.whole(peer, Some(message), request);
        }
        Ok(())
    }

    /// All of a short message is there.
    fn whole(&mut self, peer: u32, parts: Option<u64>, request: RequestId) {
        if let Some(message) = parts {
            self.partial.remove(&(peer, message));
        }
        self.requests.at(request).done = true;
    }
}

/// Completions taken per poll. Basis: assumed, as in the libraries (UCX takes 16).
const POLL_BATCH: usize = 16;
