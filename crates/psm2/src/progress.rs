//! Receiving: what comes out of the header queue, and the receives that take it.
//!
//! Source: PSM2, `ptl_ips/ips_recvhdrq.c` (acknowledgements coalesced until the queue is empty), `ips_proto_recv.c`,
//! `psm_mq_recv.c`.
//! Modelled: messages are announced in the order in which they were sent, whatever flow they took; payload is copied out of the
//! eager buffer, a second time if its receive comes late.

use fabriscope_units::Bytes;

use crate::adapter::Adapter;
use crate::cpu::Cpu;
use crate::flow::Verdict;
use crate::matching::{Announced, Pattern};
use crate::request::Buffer;
use crate::state::{Copy, Endpoint, Incoming, Psm2Error, Step, Unacknowledged};
use fabriscope_wire::psm2::RequestId;
use fabriscope_wire::psm2::{Header, Kind};

impl Endpoint {
    /// Posts a receive into a buffer of `size` bytes; `None` accepts any source, any tag.
    ///
    /// # Errors
    /// A message that waits is longer; nobody connected to `source`.
    pub fn receive(
        &mut self,
        adapter: &mut Adapter,
        cpu: &mut dyn Cpu,
        (source, tag): (Option<u32>, Option<u32>),
        (size, buffer): (u32, Buffer),
    ) -> Result<RequestId, Psm2Error> {
        if let Some(rank) = source {
            self.peer_of(rank)?;
        }
        let costs = self.library.parameters;
        cpu.spend(costs.post);
        let request = self.requests.open(size, buffer);
        let (found, passed) = self.matching.post(Pattern { source, tag }, request);
        cpu.spend(costs.entry * u64::from(passed));
        if let Some(message) = found {
            self.matched(adapter, cpu, message, request)?;
        }
        Ok(request)
    }

    /// One turn of the progress loop: all that has come, what can be sent, and what is overdue.
    ///
    /// # Errors
    /// A message is longer than its receive.
    pub fn progress(&mut self, adapter: &mut Adapter, cpu: &mut dyn Cpu) -> Result<(), Psm2Error> {
        while let Some(header) = adapter.take(self.me.context, cpu.now()) {
            cpu.spend(self.library.parameters.receive);
            if let Some(&peer) = self.addresses.get(&header.from) {
                self.handle(adapter, cpu, peer, header)?;
            }
        }
        for (peer, flow) in std::mem::take(&mut self.owing) {
            let receiver = &mut self.peers[peer].receivers[flow as usize];
            receiver.owes = false;
            let next = receiver.next();
            self.say(adapter, cpu, peer, (Kind::Acknowledge, flow, next));
        }
        self.retry(adapter, cpu);
        self.expire(adapter, cpu);
        Ok(())
    }

    fn handle(&mut self, adapter: &mut Adapter, cpu: &mut dyn Cpu, peer: usize, header: Header) -> Result<(), Psm2Error> {
        let (flow, number) = (header.flow, header.number);
        match header.kind {
            Kind::Acknowledge => self.heard(adapter, cpu, Unacknowledged::Flow(peer, flow), (number, false)),
            Kind::Missing => self.heard(adapter, cpu, Unacknowledged::Flow(peer, flow), (number, true)),
            Kind::Check => {
                let next = self.peers[peer].receivers[flow as usize].next();
                let kind = if next > number { Kind::Acknowledge } else { Kind::Missing };
                self.say(adapter, cpu, peer, (kind, flow, next));
            }
            Kind::Expected { window, last: true, .. } => self.placed(adapter, cpu, window),
            Kind::Expected { .. } => {}
            Kind::Gap { window } | Kind::CheckExpected { window } => self.complain(adapter, cpu, window),
            Kind::MissingExpected { window, generation } => self.resume(adapter, cpu, peer, (window, generation, number)),
            Kind::Message { .. } | Kind::RequestToSend { .. } | Kind::ClearToSend { .. } | Kind::Complete { .. } => {
                let receiver = &mut self.peers[peer].receivers[flow as usize];
                let verdict = receiver.accept(number);
                if header.asks && !matches!(verdict, Verdict::Early { .. }) && !std::mem::replace(&mut receiver.owes, true) {
                    self.owing.push((peer, flow));
                }
                match verdict {
                    Verdict::InOrder => self.accepted(adapter, cpu, peer, header)?,
                    Verdict::Again | Verdict::Early { complain: false } => {}
                    Verdict::Early { complain: true } => {
                        let next = self.peers[peer].receivers[flow as usize].next();
                        self.say(adapter, cpu, peer, (Kind::Missing, flow, next));
                    }
                }
            }
        }
        Ok(())
    }

    /// An acknowledgement, or a complaint.
    fn heard(&mut self, adapter: &mut Adapter, cpu: &mut dyn Cpu, way: Unacknowledged, (number, missing): (u32, bool)) {
        let (now, timeout) = (cpu.now(), self.library.parameters.timeout);
        let Some(sender) = self.sender(way) else { return };
        let done = sender.acknowledged(number, now, timeout);
        if missing {
            sender.missing(number);
        }
        for request in done {
            self.requests.at(request).done = true;
        }
        self.flush(adapter, cpu, way);
    }

    fn accepted(&mut self, adapter: &mut Adapter, cpu: &mut dyn Cpu, peer: usize, header: Header) -> Result<(), Psm2Error> {
        let number = match header.kind {
            Kind::ClearToSend { sender, window, generation } => {
                self.granted(adapter, cpu, peer, (sender, window, generation));
                return Ok(());
            }
            Kind::Complete { window, .. } => {
                self.completed(peer, window);
                return Ok(());
            }
            Kind::Message { number, .. } | Kind::RequestToSend { number, .. } => number,
            _ => return Ok(()),
        };
        if number > self.peers[peer].announced {
            // It overtook a message on the other flow: a copy waits.
            cpu.copy(Bytes(header.payload.into()), Bytes(u64::MAX));
            self.peers[peer].early.entry(number).or_default().push(header);
            return Ok(());
        }
        self.part(adapter, cpu, peer, header)?;
        loop {
            let next = self.peers[peer].announced;
            let Some(headers) = self.peers[peer].early.remove(&next) else { return Ok(()) };
            for header in headers {
                self.part(adapter, cpu, peer, header)?;
            }
        }
    }

    /// A packet of a message whose turn it is.
    fn part(&mut self, adapter: &mut Adapter, cpu: &mut dyn Cpu, peer: usize, header: Header) -> Result<(), Psm2Error> {
        let source = self.peers[peer].rank;
        let (number, length) = match header.kind {
            Kind::RequestToSend { number, tag, length, sender } => {
                self.peers[peer].announced += 1;
                let message = Announced { source, peer, tag, number, length, sender: Some(sender) };
                return self.announce(adapter, cpu, message);
            }
            Kind::Message { number, tag, length, offset } => {
                if offset == 0 {
                    self.peers[peer].announced += 1;
                    self.incoming.insert((peer, number), Incoming { request: None, length, got: 0 });
                    self.announce(adapter, cpu, Announced { source, peer, tag, number, length, sender: None })?;
                }
                (number, length)
            }
            _ => return Ok(()),
        };
        let tiny = length <= self.library.parameters.tiny_limit;
        let Some(incoming) = self.incoming.get_mut(&(peer, number)) else { return Ok(()) };
        let known = incoming.request.map_or(Buffer::Host, |request| self.requests.at(request).buffer);
        // Into the memory of a GPU it is moved as a whole, once it is here.
        if known == Buffer::Host {
            cpu.copy(Bytes(header.payload.into()), Bytes(u64::MAX));
        }
        incoming.got += if tiny { length } else { header.payload };
        self.finish(peer, number);
        Ok(())
    }

    fn announce(&mut self, adapter: &mut Adapter, cpu: &mut dyn Cpu, message: Announced) -> Result<(), Psm2Error> {
        let costs = self.library.parameters;
        let (found, passed) = self.matching.arrive(message);
        cpu.spend(costs.matching + costs.entry * u64::from(passed));
        match found {
            Some(request) => self.matched(adapter, cpu, message, request),
            None => Ok(()),
        }
    }

    fn matched(&mut self, adapter: &mut Adapter, cpu: &mut dyn Cpu, message: Announced, request: RequestId) -> Result<(), Psm2Error> {
        let size = self.requests.at(request).size;
        if message.length > size {
            return Err(Psm2Error::Truncated { length: message.length, size });
        }
        if let Some(sender) = message.sender {
            self.meet(adapter, cpu, (message, sender), request);
            return Ok(());
        }
        let Some(incoming) = self.incoming.get_mut(&(message.peer, message.number)) else { return Ok(()) };
        incoming.request = Some(request);
        let got = u64::from(incoming.got);
        // Out of the buffer for messages that nobody expected.
        if self.requests.at(request).buffer == Buffer::Host {
            cpu.copy(Bytes(got), Bytes(2 * got));
        }
        self.finish(message.peer, message.number);
        Ok(())
    }

    /// The receive of a message is done if all of it has come.
    fn finish(&mut self, peer: usize, number: u32) {
        let Some(Incoming { request: Some(request), length, got }) = self.incoming.get(&(peer, number)).copied() else { return };
        if got >= length {
            self.incoming.remove(&(peer, number));
            let known = self.requests.at(request);
            if known.buffer == Buffer::Host {
                known.done = true;
                return;
            }
            self.copies.push_back(Copy { request, length, step: Step::Eager });
        }
    }
}
