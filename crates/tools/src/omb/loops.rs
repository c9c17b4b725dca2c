//! One iteration of each benchmark.
//!
//! Source: OMB 7.4.
//! Modelled: the calls and tags of the tools, in their order.
//! Not modelled: filling the buffers, which happens outside the measured time.

use fabriscope_mpi::{Buffer, Datatype, Rank, Request};
use fabriscope_node::ProgramError;

use super::managed::Managed;

/// A rank and the one that it talks to.
pub(super) struct Pair {
    pub rank: Rank,
    pub peer: u32,
    /// Whether this rank belongs to the half that sends.
    pub sends: bool,
    /// Messages in flight.
    pub window: u32,
    /// Where this rank's buffers are.
    pub buffer: Buffer,
    /// Where the peer's are.
    pub there: Buffer,
    /// The program copies to and from host memory around every call.
    pub staged: bool,
    /// The buffers, where they are managed.
    pub managed: Option<Managed>,
    /// The elements of updates.
    pub datatype: Datatype,
}

impl Pair {
    /// `osu_latency`: there and back.
    pub async fn ping_pong(&self, size: u32) -> Result<(), ProgramError> {
        self.touch_sent(size).await?;
        if self.sends {
            self.send(PING, size).await?;
            self.receive(PING, size).await?;
            self.touch_received(size).await
        } else {
            self.receive(PING, size).await?;
            self.touch_received(size).await?;
            self.send(PING, size).await
        }
    }

    /// `osu_bw` and `osu_mbw_mr`: a window of messages one way, then four bytes back.
    pub async fn window(&self, size: u32) -> Result<(), ProgramError> {
        self.touch_sent(size).await?;
        if self.sends {
            self.rank.wait_all(self.start_sends(size, WINDOW).await?).await?;
            self.receive(ACKNOWLEDGEMENT, ACKNOWLEDGEMENT_BYTES).await?;
            self.touch_received(size).await
        } else {
            self.finish_receives(self.start_receives(size, WINDOW).await?, size).await?;
            self.touch_received(size).await?;
            self.send(ACKNOWLEDGEMENT, ACKNOWLEDGEMENT_BYTES).await
        }
    }

    /// `osu_bibw`: a window of messages each way.
    pub async fn both_ways(&self, size: u32) -> Result<(), ProgramError> {
        let (mine, theirs) = if self.sends { (THERE, BACK) } else { (BACK, THERE) };
        self.touch_sent(size).await?;
        let receives = self.start_receives(size, theirs).await?;
        let sends = self.start_sends(size, mine).await?;
        self.rank.wait_all(sends).await?;
        self.finish_receives(receives, size).await?;
        self.touch_received(size).await
    }

    async fn send(&self, tag: u32, size: u32) -> Result<(), ProgramError> {
        self.pass_sent(0, size).await?;
        self.copy_out(size).await?;
        self.rank.send_from(self.given(), self.peer, tag, size).await
    }
    async fn receive(&self, tag: u32, size: u32) -> Result<(), ProgramError> {
        self.pass_received(0, size).await?;
        self.rank.recv_into(self.given(), Some(self.peer), Some(tag), size).await?;
        self.copy_in(size).await
    }
    async fn start_sends(&self, size: u32, tag: u32) -> Result<Vec<Request>, ProgramError> {
        let mut requests = Vec::with_capacity(self.window as usize);
        for index in 0..self.window {
            self.pass_sent(index, size).await?;
            self.copy_out(size).await?;
            requests.push(self.rank.isend_from(self.given(), self.peer, tag, size)?);
        }
        Ok(requests)
    }
    async fn start_receives(&self, size: u32, tag: u32) -> Result<Vec<Request>, ProgramError> {
        let mut requests = Vec::with_capacity(self.window as usize);
        for index in 0..self.window {
            self.pass_received(index, size).await?;
            requests.push(self.rank.irecv_into(self.given(), Some(self.peer), Some(tag), size)?);
        }
        Ok(requests)
    }
    async fn finish_receives(&self, requests: Vec<Request>, size: u32) -> Result<(), ProgramError> {
        if !self.copies() {
            return self.rank.wait_all(requests).await;
        }
        for request in requests {
            self.rank.wait(request).await?;
            self.copy_in(size).await?;
        }
        Ok(())
    }

    async fn touch_sent(&self, size: u32) -> Result<(), ProgramError> {
        let Some(managed) = &self.managed else { return Ok(()) };
        managed.touch(&self.rank, &managed.sent, size).await
    }
    async fn touch_received(&self, size: u32) -> Result<(), ProgramError> {
        let Some(managed) = &self.managed else { return Ok(()) };
        managed.touch(&self.rank, &managed.received, size).await
    }
    async fn pass_sent(&self, index: u32, size: u32) -> Result<(), ProgramError> {
        let Some(managed) = &self.managed else { return Ok(()) };
        managed.pass(&self.rank, managed.sent.get(index as usize), size).await
    }
    async fn pass_received(&self, index: u32, size: u32) -> Result<(), ProgramError> {
        let Some(managed) = &self.managed else { return Ok(()) };
        managed.pass(&self.rank, managed.received.get(index as usize), size).await
    }

    /// What the library is given.
    fn given(&self) -> Buffer {
        if self.staged { Buffer::Host } else { self.buffer }
    }
    fn copies(&self) -> bool {
        self.staged && self.buffer == Buffer::Device
    }
    async fn copy_out(&self, size: u32) -> Result<(), ProgramError> {
        if self.copies() { self.rank.copy_from_device(size).await } else { Ok(()) }
    }
    async fn copy_in(&self, size: u32) -> Result<(), ProgramError> {
        if self.copies() { self.rank.copy_to_device(size).await } else { Ok(()) }
    }
}

// Tags and sizes of the tools (basis: OMB).
const PING: u32 = 1;
const WINDOW: u32 = 100;
const ACKNOWLEDGEMENT: u32 = 101;
const ACKNOWLEDGEMENT_BYTES: u32 = 4;
const THERE: u32 = 100;
const BACK: u32 = 10;
