//! Sends and receives outstanding.

use fabriscope_wire::psm2::RequestId;

/// Where the buffer of a request lies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Buffer {
    /// In host memory.
    #[default]
    Host,
    /// In memory of a device that the adapter reads and writes: its place.
    Device(u8),
    /// In memory of a device, and messages go through host memory.
    Staged,
}

impl Buffer {
    pub(crate) fn place(self) -> u8 {
        if let Buffer::Device(place) = self { place } else { 0 }
    }
}

/// What is known of one.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Request {
    /// Where its bytes are.
    pub buffer: Buffer,
    /// Of a send through host memory: windows whose copies were asked for, and that are there.
    pub asked: u32,
    pub copied: u32,
    /// Of a receive: the size of its buffer.
    pub size: u32,
    /// Bytes of it still to be moved by windows.
    pub left: u32,
    pub done: bool,
}

/// All of a process; numbers are used again.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    all: Vec<Request>,
    free: Vec<RequestId>,
}

impl Requests {
    pub fn open(&mut self, size: u32, buffer: Buffer) -> RequestId {
        let fresh = Request { size, left: size, buffer, ..Request::default() };
        if let Some(id) = self.free.pop() {
            self.all[id.0 as usize] = fresh;
            return id;
        }
        self.all.push(fresh);
        RequestId(self.all.len() as u32 - 1)
    }
    pub fn at(&mut self, id: RequestId) -> &mut Request {
        &mut self.all[id.0 as usize]
    }
    /// `bytes` more of it are moved.
    pub fn moved(&mut self, id: RequestId, bytes: u32) {
        let request = self.at(id);
        request.left = request.left.saturating_sub(bytes);
        request.done |= request.left == 0;
    }
    pub fn is_done(&self, id: RequestId) -> bool {
        self.all.get(id.0 as usize).is_some_and(|request| request.done)
    }
    pub fn close(&mut self, id: RequestId) {
        self.free.push(id);
    }
}
