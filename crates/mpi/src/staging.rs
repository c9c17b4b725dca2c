//! Long messages that go through host memory at one end or at both: a pipeline of chunks.
//!
//! ```text
//! sender    GPU ─ copy ─▶ host chunk 0 ─ write ─▶ │ receiver   host chunk 0 ─ copy ─▶ GPU
//!           GPU ─ copy ─▶ host chunk 1 ─ write ─▶ │            host chunk 1 ─ copy ─▶ GPU
//! ```
//! The engine copies chunk i + 1 out while chunk i is on the wire and chunk i − 1 is copied in. Of n equal chunks with steps of
//! d, w and u the whole takes d + w + u + (n − 1) · max(d, w, u).
//!
//! Source: H. Wang et al., "MVAPICH2-GPU", ISC 2011, §4; PSM2's windows with CUDA (ips_proto_expected.c) work alike.
//! Modelled: a limited number of host chunks at each end, grants of the receiver for its own, copies that begin before the receiver
//! has answered, chunks over the rails in turn.
//! Not modelled: host chunks that other messages of the rank have taken.

use fabriscope_node::{CopyId, Process, ProgramError};
use fabriscope_units::Bytes;
use fabriscope_verbs::SendWr;

use super::buffer::Buffer;
use super::connection::Transfer;
use super::matching::Arrival;
use super::protocol::Piece;
use super::request::RequestId;
use super::staged::{CopyOf, StagedIn, StagedOut};
use super::state::State;
use super::wire::{Body, Source};

impl State {
    /// The sender announces a message that it takes through host memory, and begins.
    pub fn announce_staged(&mut self, process: &Process, peer: u32, tag: u32, size: u32, request: RequestId) -> Result<(), ProgramError> {
        process.compute(self.protocol.rendezvous_overhead);
        let rail = self.next_rail(peer)?;
        self.say(peer, rail, Body::RequestToSend { tag, size, sender: request, source: Source::Staged }, None)?;
        self.leave(size, request, true)?;
        self.go_on(process, request)
    }

    fn leave(&mut self, size: u32, request: RequestId, copies: bool) -> Result<(), ProgramError> {
        let chunks = size.div_ceil(self.gpu()?.chunk);
        let out = StagedOut { chunks, copies, receiver: None, granted: 0, asked: 0, copied: 0, posted: 0, written: 0 };
        self.leaving.insert(request, out);
        Ok(())
    }

    /// The receiver has matched an announcement, and one of the two ends goes through host memory.
    pub fn accept_staged(&mut self, arrival: Arrival, sender: RequestId, request: RequestId) -> Result<(), ProgramError> {
        let (gpu, buffer) = (self.gpu_numbers(), self.requests.at(request).buffer);
        let direct = gpu.lands(arrival.size, buffer, self.is_near(0));
        let first = if direct { arrival.size } else { gpu.chunk.saturating_mul(gpu.depth).min(arrival.size) };
        self.requests.at(request).left = arrival.size.into();
        self.coming.insert(request, StagedIn { sender, granted: first, copies: !direct });
        self.grant_chunks(request, first.div_ceil(gpu.chunk))
    }

    fn grant_chunks(&mut self, request: RequestId, chunks: u32) -> Result<(), ProgramError> {
        let Some(coming) = self.coming.get(&request) else { return Ok(()) };
        let body = Body::Room { sender: coming.sender, receiver: request, chunks, device: !coming.copies && self.is_on_device(request) };
        let peer = self.requests.at(request).peer;
        let rail = self.next_rail(peer)?;
        self.say(peer, rail, body, None)
    }

    fn is_on_device(&mut self, request: RequestId) -> bool {
        self.requests.at(request).buffer == Buffer::Device
    }

    /// The receiver has room for `chunks` more.
    pub fn room(
        &mut self,
        process: &Process,
        sender: RequestId,
        receiver: RequestId,
        chunks: u32,
        device: bool,
    ) -> Result<(), ProgramError> {
        if !self.leaving.contains_key(&sender) {
            let size = self.requests.at(sender).size;
            self.leave(size, sender, false)?;
        }
        if let Some(out) = self.leaving.get_mut(&sender) {
            out.granted += chunks;
            out.receiver = Some((receiver, device));
        }
        self.go_on(process, sender)
    }

    /// A copy has ended.
    pub fn copied(&mut self, process: &Process, id: CopyId) -> Result<(), ProgramError> {
        match self.copies.remove(&id) {
            Some(CopyOf::Out(request)) => {
                if let Some(out) = self.leaving.get_mut(&request) {
                    out.copied += 1;
                }
                self.go_on(process, request)
            }
            Some(CopyOf::In(request, size)) => self.chunk_in_place(request, size),
            Some(CopyOf::Across(request, sender)) => self.came_across(request, sender),
            None => Ok(()),
        }
    }

    /// The adapter has written a chunk; whether that was one.
    pub fn chunk_written(&mut self, process: &Process, request: RequestId) -> Result<bool, ProgramError> {
        let Some(out) = self.leaving.get_mut(&request) else { return Ok(false) };
        out.written += 1;
        if out.written == out.chunks {
            self.leaving.remove(&request);
            self.requests.at(request).done = true;
            return Ok(true);
        }
        self.go_on(process, request)?;
        Ok(true)
    }

    /// Copies out and writes what can be.
    fn go_on(&mut self, process: &Process, request: RequestId) -> Result<(), ProgramError> {
        let gpu = self.gpu_numbers();
        let (size, peer, buffer) = {
            let progress = self.requests.at(request);
            (progress.size, progress.peer, progress.buffer)
        };
        let (host, own) = (self.home.memory(Buffer::Host)?, self.home.memory(buffer)?);
        let length = |chunk: u32| gpu.chunk.min(size - chunk * gpu.chunk);
        loop {
            let Some(out) = self.leaving.get_mut(&request) else { return Ok(()) };
            if out.copies && out.asked < out.chunks && out.asked - out.written < gpu.depth {
                let bytes = Bytes(length(out.asked).into());
                out.asked += 1;
                let id = process.begin_copy(own, host, bytes)?;
                self.copies.insert(id, CopyOf::Out(request));
                continue;
            }
            let ready = if out.copies { out.copied } else { out.chunks };
            let Some((receiver, device)) = out.receiver.filter(|_| out.posted < ready.min(out.granted)) else { return Ok(()) };
            let chunk = out.posted;
            out.posted += 1;
            let from = if out.copies { Buffer::Host } else { buffer };
            let to = if device { Buffer::Device } else { Buffer::Host };
            let rail = self.next_rail_between(peer, from, to)?;
            let piece = Piece { rail, offset: chunk * gpu.chunk, length: length(chunk) };
            let then = Some(Body::Chunk { receiver, size: length(chunk) });
            let transfer: Transfer = self.move_between(peer, piece, request, (from, to), SendWr::write, then)?;
            self.transfer(peer, transfer)?;
        }
    }

    /// A chunk of a message has come.
    pub fn chunk_came(&mut self, process: &Process, request: RequestId, size: u32) -> Result<(), ProgramError> {
        let Some(coming) = self.coming.get(&request) else { return Ok(()) };
        if !coming.copies {
            return self.chunk_in_place(request, size);
        }
        let buffer = self.requests.at(request).buffer;
        let (host, own) = (self.home.memory(Buffer::Host)?, self.home.memory(buffer)?);
        let id = process.begin_copy(host, own, Bytes(size.into()))?;
        self.copies.insert(id, CopyOf::In(request, size));
        Ok(())
    }

    /// A chunk is in the user's buffer: its place is free for another one.
    fn chunk_in_place(&mut self, request: RequestId, size: u32) -> Result<(), ProgramError> {
        let progress = self.requests.at(request);
        progress.left = progress.left.saturating_sub(u64::from(size));
        let (left, whole) = (progress.left, progress.size);
        if left == 0 {
            progress.done = true;
            self.coming.remove(&request);
            return Ok(());
        }
        let chunk = self.gpu_numbers().chunk;
        let Some(coming) = self.coming.get_mut(&request) else { return Ok(()) };
        if coming.granted >= whole {
            return Ok(());
        }
        coming.granted = coming.granted.saturating_add(chunk).min(whole);
        self.grant_chunks(request, 1)
    }
}
