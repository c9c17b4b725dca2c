//! The memory of processes, as an adapter of their host reads and writes it.
//!
//! Every protection domain is of one process. What that has registered is mapped here as well, as far as `shim/shared.c` made it pages of a file;
//! the rest is reached by `/proc/PID/mem`: an ancestor may open that without any privilege, also where `ptrace_scope` is 1. Either way pages
//! that a process may not touch right now are written all the same.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fabriscope_verbs::{Lender, Lid, Memory, PayloadBytes, PdId};

use crate::address::Addresses;

/// The memory of a process.
#[derive(Debug)]
pub(crate) struct ProcessMemory {
    pid: u32,
    /// All of it, by address.
    whole: File,
    shared: Mutex<Shared>,
}

/// What is mapped here.
#[derive(Debug, Default)]
struct Shared {
    /// The file, by the number of its descriptor there.
    file: Option<(i32, File)>,
    /// By the address in the process.
    pieces: BTreeMap<u64, Arc<Piece>>,
}

/// Pages of a process, mapped here.
#[derive(Debug)]
struct Piece {
    at: *mut u8,
    length: usize,
}

// SAFETY: the pointer is to a mapping of this piece's own; whoever has the lock of the pieces uses it.
#[allow(unsafe_code)]
unsafe impl Send for Piece {}
// SAFETY: as above; the pointer itself never changes.
#[allow(unsafe_code)]
unsafe impl Sync for Piece {}

#[allow(unsafe_code)] // A mapping, and copies within it: see the safety comments.
impl Piece {
    fn map(file: &File, offset: u64, length: usize) -> Option<Piece> {
        let offset = libc::off_t::try_from(offset).ok()?;
        let how = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping of a file, at a place that the kernel chooses.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), length, how, libc::MAP_SHARED, file.as_raw_fd(), offset) };
        (at != libc::MAP_FAILED).then(|| Piece { at: at.cast(), length })
    }
    fn read(&self, from: usize, into: &mut [u8]) {
        // SAFETY: the caller has checked that the bytes lie within the piece; the process does not run meanwhile.
        unsafe { std::ptr::copy_nonoverlapping(self.at.add(from), into.as_mut_ptr(), into.len()) };
    }
    /// What is there already is not written: benchmarks send the same bytes again and again, and a line that is only read need not go back to
    /// memory. Where anything differs, that is mostly seen at once.
    fn write(&self, to: usize, from: &[u8]) {
        // SAFETY: as for reading.
        unsafe {
            let to = self.at.add(to);
            if libc::memcmp(to.cast(), from.as_ptr().cast(), from.len()) != 0 {
                // What was lent may be a part of the same piece.
                std::ptr::copy(from.as_ptr(), to, from.len());
            }
        }
    }
}

#[allow(unsafe_code)]
impl Lender for Piece {
    fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping lives as long as the piece; the process does not run while a packet is looked at.
        unsafe { std::slice::from_raw_parts(self.at, self.length) }
    }
}

#[allow(unsafe_code)]
impl Drop for Piece {
    fn drop(&mut self) {
        // SAFETY: the mapping of `map`, to which nothing points any more.
        unsafe { libc::munmap(self.at.cast(), self.length) };
    }
}

impl ProcessMemory {
    /// Of a process that is a descendant of this one.
    pub fn open(pid: u32) -> std::io::Result<ProcessMemory> {
        let whole = File::options().read(true).write(true).open(format!("/proc/{pid}/mem"))?;
        Ok(ProcessMemory { pid, whole, shared: Mutex::default() })
    }
    /// The process has registered a region, of which these pieces lie in the file that is its descriptor `fd`: address, bytes and place.
    pub fn share(&self, (from, length): (u64, u64), fd: i32, pieces: &[u64]) {
        let shared = &mut *self.shared();
        // What was there before may be something else now.
        shared.forget(from, from.saturating_add(length));
        if fd < 0 {
            return;
        }
        if shared.file.as_ref().is_none_or(|(known, _)| *known != fd) {
            let file = File::options().read(true).write(true).open(format!("/proc/{}/fd/{fd}", self.pid));
            shared.file = file.ok().map(|file| (fd, file));
        }
        let Some((_, file)) = &shared.file else { return };
        for piece in pieces.chunks_exact(3) {
            let mapped = usize::try_from(piece[1]).ok().and_then(|length| Piece::map(file, piece[2], length));
            if let Some(mapped) = mapped {
                shared.pieces.insert(piece[0], Arc::new(mapped));
            }
        }
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
    pub fn read(&self, addr: u64, into: &mut [u8]) {
        match self.shared().around(addr, into.len()) {
            Some((piece, from)) => piece.read(from, into),
            // A process that died in the meantime has nothing to read.
            None => drop(self.whole.read_exact_at(into, addr)),
        }
    }
    /// The bytes where they are, if they are mapped.
    pub fn lend(&self, addr: u64, length: usize) -> Option<PayloadBytes> {
        let shared = self.shared();
        let (piece, from) = shared.around(addr, length)?;
        Some(PayloadBytes::lent(Arc::clone(piece) as Arc<dyn Lender>, from..from + length))
    }
    pub fn write(&self, addr: u64, from: &[u8]) {
        match self.shared().around(addr, from.len()) {
            Some((piece, to)) => piece.write(to, from),
            None => drop(self.whole.write_all_at(from, addr)),
        }
    }
}

impl Shared {
    /// Pieces with any byte between two addresses are mapped no more.
    fn forget(&mut self, from: u64, to: u64) {
        let before = self.pieces.range(..from).next_back().filter(|(at, piece)| **at + piece.length as u64 > from);
        let old: Vec<u64> = before.into_iter().chain(self.pieces.range(from..to.max(from))).map(|(at, _)| *at).collect();
        for at in old {
            self.pieces.remove(&at);
        }
    }
    /// The piece that holds all bytes from `addr` on, and where in it they begin.
    fn around(&self, addr: u64, length: usize) -> Option<(&Arc<Piece>, usize)> {
        let (at, piece) = self.pieces.range(..=addr).next_back()?;
        let from = usize::try_from(addr - at).ok()?;
        (from.checked_add(length)? <= piece.length).then_some((piece, from))
    }
}

/// Whose memory the protection domains of an adapter stand for; clones are the same.
#[derive(Clone, Default)]
pub(crate) struct HostMemory(Arc<Mutex<Domains>>);

#[derive(Default)]
struct Domains {
    memory: BTreeMap<PdId, Arc<ProcessMemory>>,
    /// Bytes of a request that were copied when it was posted.
    posted: Vec<u8>,
    taken: usize,
    addresses: Addresses,
    /// Names of multicast groups.
    groups: BTreeMap<Lid, [u8; 16]>,
}

impl HostMemory {
    /// Of an adapter whose port is called so.
    pub fn new(addresses: Addresses) -> HostMemory {
        HostMemory(Arc::new(Mutex::new(Domains { addresses, ..Domains::default() })))
    }
    /// A process has made a domain.
    pub fn give(&self, pd: PdId, memory: Arc<ProcessMemory>) {
        self.domains().memory.insert(pd, memory);
    }
    /// The domain is gone, or its process is.
    pub fn take(&self, pd: PdId) {
        self.domains().memory.remove(&pd);
    }
    /// The group at an address has this GID.
    pub fn name_group(&self, at: Lid, gid: [u8; 16]) {
        self.domains().groups.insert(at, gid);
    }
    /// What is read next was copied by the program that posts.
    pub fn stage(&self, bytes: Vec<u8>) {
        let domains = &mut *self.domains();
        (domains.posted, domains.taken) = (bytes, 0);
    }

    fn domains(&self) -> MutexGuard<'_, Domains> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Memory for HostMemory {
    fn read(&self, pd: PdId, addr: u64, into: &mut [u8]) {
        let domains = &mut *self.domains();
        let staged = &domains.posted[domains.taken..];
        if !staged.is_empty() {
            let part = staged.len().min(into.len());
            into[..part].copy_from_slice(&staged[..part]);
            domains.taken += part;
            return;
        }
        if let Some(memory) = domains.memory.get(&pd) {
            memory.read(addr, into);
        }
    }
    fn lend(&self, pd: PdId, addr: u64, length: usize) -> Option<PayloadBytes> {
        self.domains().memory.get(&pd)?.lend(addr, length)
    }
    fn write(&mut self, pd: PdId, addr: u64, from: &[u8]) {
        if let Some(memory) = self.domains().memory.get(&pd) {
            memory.write(addr, from);
        }
    }
    fn global_header(&self, from: Lid, to: Lid, bytes: u32) -> Option<[u8; 40]> {
        let domains = self.domains();
        let mut header = domains.addresses.global_header(from, to, bytes);
        if let Some(gid) = domains.groups.get(&to) {
            header[24..].copy_from_slice(gid);
        }
        Some(header)
    }
}
