//! Long messages: what each side does when it hears from the other.
//!
//! ```text
//! read   sender ── RTS ─▶ receiver ── READ ─▶ sender's buffer;  receiver ── FIN ─▶ sender
//! write  sender ── RTS ─▶ receiver ── CTS ─▶ sender ── WRITE, FIN ─▶ receiver
//! send   sender ── RTS ─▶ receiver ── CTS ─▶ sender ── data, data, … ─▶ receiver (copied at both ends), CTS and data again
//!        where a grant covers a part only
//! ```

use fabriscope_catalog::{EagerChannel, Rendezvous, TagMatching};
use fabriscope_node::{Process, ProgramError};
use fabriscope_verbs::{Remote, SendWr, Sge};

use super::buffer::Buffer;
use super::connection::{Link, Transfer};
use super::matching::Arrival;
use super::protocol::Piece;
use super::request::RequestId;
use super::state::{Grant, Rail, State};
use super::wire::{Body, Source};

impl State {
    /// The sender announces a message.
    pub fn announce(&mut self, process: &Process, peer: u32, tag: u32, size: u32, request: RequestId) -> Result<(), ProgramError> {
        process.compute(self.protocol.rendezvous_overhead);
        let buffer = self.requests.at(request).buffer;
        self.register(process, buffer, size);
        let source = match (buffer, self.home.gpu) {
            (Buffer::Device, Some(gpu)) => Source::Device(gpu),
            _ => Source::Host,
        };
        let rail = self.next_rail(peer)?;
        self.say(peer, rail, Body::RequestToSend { tag, size, sender: request, source }, None)
    }

    /// The receiver has matched an announcement.
    pub fn accept(&mut self, process: &Process, arrival: Arrival, sender: RequestId, request: RequestId) -> Result<(), ProgramError> {
        if self.connection(arrival.source)?.local {
            return self.copy_across(process, arrival, sender, request);
        }
        let from_gpu = matches!(arrival.from, Source::Device(_)) && self.requests.at(request).buffer == Buffer::Device;
        if from_gpu && self.over_links(arrival.source, arrival.size).is_some() {
            return self.copy_to_or_from_gpu(process, arrival, sender, request);
        }
        if self.protocol.tag_matching == TagMatching::Core {
            process.compute(self.protocol.rendezvous_overhead);
        }
        let (peer, size) = (arrival.source, arrival.size);
        let progress = self.requests.at(request);
        (progress.peer, progress.size) = (peer, size);
        let buffer = progress.buffer;
        let lands = self.protocol.gpu.is_none_or(|gpu| gpu.lands(size, buffer, self.is_near(0)));
        if !self.protocol.sends(size) && (arrival.from == Source::Staged || !lands) {
            return self.accept_staged(arrival, sender, request);
        }
        self.register(process, buffer, size);
        match self.protocol.rendezvous_of(size) {
            Rendezvous::Read => {
                let there = if arrival.from == Source::Host { Buffer::Host } else { Buffer::Device };
                let pieces = self.pieces(peer, size, buffer, there)?;
                self.requests.at(request).left = pieces.len() as u64;
                self.reads.insert(request, sender);
                for piece in pieces {
                    let transfer = self.move_between(peer, piece, request, (buffer, there), SendWr::read, None)?;
                    self.transfer(peer, transfer)?;
                }
                Ok(())
            }
            Rendezvous::Write | Rendezvous::Send => {
                self.requests.at(request).left = u64::from(size);
                self.grant(peer, sender, request)
            }
        }
    }

    /// Grants the next bytes of a long message.
    fn grant(&mut self, peer: u32, sender: RequestId, receiver: RequestId) -> Result<(), ProgramError> {
        let left = self.requests.at(receiver).left;
        let sends = self.protocol.sends(self.requests.at(receiver).size);
        let size = if sends { left.min(u64::from(self.protocol.grant)) } else { left } as u32;
        if u64::from(size) < left {
            self.grants.insert(receiver, Grant { sender, open: size });
        } else {
            self.grants.remove(&receiver);
        }
        let rail = self.next_rail(peer)?;
        let device = self.requests.at(receiver).buffer == Buffer::Device;
        self.say(peer, rail, Body::ClearToSend { sender, receiver, size, device }, None)
    }

    /// The sender may go ahead with the next `size` bytes.
    pub fn go_ahead(&mut self, sender: RequestId, receiver: RequestId, size: u32, device: bool) -> Result<(), ProgramError> {
        let progress = *self.requests.at(sender);
        if self.protocol.sends(progress.size) {
            // Where the payload is copied it leaves the user's buffer at once; the copies are charged when they are posted.
            let copied = self.protocol.copies_data();
            let (from, to) = (progress.left as u32, (progress.left as u32).saturating_add(size).min(progress.size));
            let last = to == progress.size;
            let progress_now = self.requests.at(sender);
            (progress_now.left, progress_now.done) = (u64::from(to), copied && last);
            return self.say_rest(progress.peer, sender, (from, to), !copied && last, |size| Body::Data { receiver, size });
        }
        let there = if device { Buffer::Device } else { Buffer::Host };
        let pieces = self.pieces(progress.peer, progress.size, progress.buffer, there)?;
        self.requests.at(sender).left = pieces.len() as u64;
        let finished = Body::Finished { request: receiver, pieces: pieces.len() as u32 };
        for piece in pieces {
            let transfer = self.move_between(progress.peer, piece, sender, (progress.buffer, there), SendWr::write, Some(finished))?;
            self.transfer(progress.peer, transfer)?;
        }
        Ok(())
    }

    /// The NIC has moved one piece of `request`: a read of ours, or a write of ours.
    pub fn moved(&mut self, process: &Process, request: RequestId) -> Result<(), ProgramError> {
        if self.chunk_written(process, request)? {
            return Ok(());
        }
        let progress = self.requests.at(request);
        progress.left -= 1;
        if progress.left > 0 {
            return Ok(());
        }
        progress.done = true;
        let peer = progress.peer;
        match self.reads.remove(&request) {
            Some(sender) => {
                let rail = self.next_rail(peer)?;
                self.say(peer, rail, Body::Finished { request: sender, pieces: 1 }, None)
            }
            None => Ok(()),
        }
    }

    /// The peer says that one of `pieces` pieces has been moved.
    pub fn finished(&mut self, request: RequestId, pieces: u32) {
        let heard = self.heard.entry(request).or_insert(0);
        *heard += 1;
        if *heard >= pieces {
            self.heard.remove(&request);
            self.requests.at(request).done = true;
        }
    }

    /// A part of a long message has come by send.
    pub fn received(&mut self, process: &Process, request: RequestId, size: u32) -> Result<(), ProgramError> {
        // From a socket the kernel copies straight into the user's buffer.
        if self.protocol.eager_channel != EagerChannel::Stream || self.requests.at(request).buffer != Buffer::Host {
            let source = self.requests.at(request).peer;
            self.take_out(process, request, size, source)?;
        }
        let progress = self.requests.at(request);
        progress.left = progress.left.saturating_sub(u64::from(size));
        progress.done = progress.left == 0;
        let peer = progress.peer;
        match self.grants.get_mut(&request) {
            Some(grant) if grant.open > size => grant.open -= size,
            Some(grant) => {
                let sender = grant.sender;
                self.grant(peer, sender, request)?;
            }
            None => {}
        }
        Ok(())
    }

    /// Says the bytes `from..to` of a message in packets; `zero_copy`: the message is done when the last of them is read.
    pub fn say_rest(
        &mut self,
        peer: u32,
        request: RequestId,
        (from, to): (u32, u32),
        zero_copy: bool,
        body: impl Fn(u32) -> Body,
    ) -> Result<(), ProgramError> {
        let mut offset = from;
        while offset < to {
            let buffer = self.requests.at(request).buffer;
            let rail = self.next_rail_between(peer, buffer, Buffer::Host)?;
            let size = self.protocol.packet().min(to - offset);
            offset += size;
            self.say_out_of(peer, rail, body(size), (zero_copy && offset == to).then_some(request), buffer)?;
        }
        Ok(())
    }

    /// The rail of the next whole message to `peer`.
    pub fn next_rail(&mut self, peer: u32) -> Result<usize, ProgramError> {
        self.next_rail_between(peer, Buffer::Host, Buffer::Host)
    }

    /// The rail of the next whole message from a buffer of ours to one of the peer's.
    pub fn next_rail_between(&mut self, peer: u32, here: Buffer, there: Buffer) -> Result<usize, ProgramError> {
        let (protocol, rails) = (self.protocol, self.rails_between(peer, here, there)?);
        Ok(protocol.rail(rails, self.connection(peer)?.next_turn()))
    }

    pub fn pieces(&mut self, peer: u32, size: u32, here: Buffer, there: Buffer) -> Result<Vec<Piece>, ProgramError> {
        let (protocol, rails) = (self.protocol, self.rails_between(peer, here, there)?);
        Ok(protocol.pieces(size, rails, self.connection(peer)?.next_turn()))
    }

    /// How many rails reach both buffers: all of them memory of the host, those with near adapters memory of a GPU. The nearest come first.
    fn rails_between(&mut self, peer: u32, here: Buffer, there: Buffer) -> Result<usize, ProgramError> {
        let reach = |rails: &[Rail], rail: usize| here != Buffer::Device || rails.get(rail).is_none_or(|rail| rail.device.is_some());
        let ours = (0..self.rails.len()).take_while(|rail| reach(&self.rails, *rail)).count();
        let reached = |link: &&Link| there != Buffer::Device || link.peer_device.is_some();
        let links = &self.connection(peer)?.links;
        let theirs = links.iter().take_while(reached).count();
        Ok(if here == Buffer::Device { ours.min(theirs) } else { theirs }.max(1))
    }

    /// A piece of `request`, between a buffer of ours and one of the peer's.
    pub fn move_between(
        &mut self,
        peer: u32,
        piece: Piece,
        request: RequestId,
        (here, there): (Buffer, Buffer),
        make: fn(u64, Sge, Remote) -> SendWr,
        then: Option<Body>,
    ) -> Result<Transfer, ProgramError> {
        let rail = &self.rails[piece.rail];
        let (addr, lkey) = rail.at(here);
        let sge = Sge { addr: addr + u64::from(piece.offset), length: piece.length, lkey };
        let link = &self.connection(peer)?.links[piece.rail];
        let (addr, rkey) = link.peer_device.filter(|_| there == Buffer::Device).unwrap_or((link.peer_user, link.rkey));
        let remote = Remote { addr: addr + u64::from(piece.offset), rkey };
        Ok(Transfer { rail: piece.rail, wr: make(0, sge, remote), request, then })
    }
}
