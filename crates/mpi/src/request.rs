//! Requests: operations that are outstanding.

use super::buffer::Buffer;

/// The number of a request on its rank; it travels in control messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RequestId(pub u32);

/// A send or receive outstanding, as `MPI_Request`. Give it to `wait` or `wait_all`.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a request that nobody waits for is never freed"]
pub struct Request(pub(crate) Carried);

impl Request {
    /// Frees it, where the library itself knows of it and it is done.
    pub(super) fn freed(self, requests: &mut Requests) {
        if let Carried::Own(id) = self.0 {
            requests.close(id);
        }
    }
}

/// Who knows of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Carried {
    /// The library itself.
    Own(RequestId),
    /// PSM2, by its number there.
    Psm2(u32),
    /// A worker on the adapter, by the rank's count of what it handed over.
    Offloaded(u64),
    /// The adapter, which triggers it, by the rank's count of barriers.
    Triggered(u64),
}

/// What a rank knows of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Progress {
    /// The other rank of a rendezvous.
    pub peer: u32,
    /// Bytes of the message.
    pub size: u32,
    /// Pieces or bytes still to come; the meaning depends on the protocol.
    pub left: u64,
    /// Where this rank's bytes of it are.
    pub buffer: Buffer,
    pub done: bool,
}

/// The requests of one `MPI_Wait` or `MPI_Waitall`.
#[derive(Debug, Default)]
pub(crate) struct WaitSet {
    requests: Vec<RequestId>,
    /// So many of them were done when it was looked last.
    done: usize,
}

impl WaitSet {
    /// Begins to wait for those of `requests` that the library itself knows of.
    pub fn begin<'a>(&mut self, requests: impl IntoIterator<Item = &'a Request>) {
        self.end();
        self.requests.extend(requests.into_iter().filter_map(|request| match request.0 {
            Carried::Own(id) => Some(id),
            Carried::Psm2(_) | Carried::Offloaded(_) | Carried::Triggered(_) => None,
        }));
    }
    /// Nothing is waited for any more.
    pub fn end(&mut self) {
        self.requests.clear();
        self.done = 0;
    }
    /// Whether there are any and all of them are done.
    pub fn is_met(&mut self, requests: &Requests) -> bool {
        while self.requests.get(self.done).is_some_and(|id| requests.is_done(*id)) {
            self.done += 1;
        }
        self.done > 0 && self.done == self.requests.len()
    }
}

/// All requests of a rank; numbers are used again.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    all: Vec<Progress>,
    free: Vec<RequestId>,
}

impl Requests {
    pub fn open(&mut self, peer: u32, size: u32, buffer: Buffer) -> RequestId {
        let fresh = Progress { peer, size, buffer, ..Progress::default() };
        match self.free.pop() {
            Some(id) => {
                self.all[id.0 as usize] = fresh;
                id
            }
            None => {
                self.all.push(fresh);
                RequestId(self.all.len() as u32 - 1)
            }
        }
    }
    pub fn at(&mut self, id: RequestId) -> &mut Progress {
        &mut self.all[id.0 as usize]
    }
    pub fn is_done(&self, id: RequestId) -> bool {
        self.all[id.0 as usize].done
    }
    pub fn close(&mut self, id: RequestId) {
        self.free.push(id);
    }
}
