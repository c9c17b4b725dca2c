//! The memory that the fabric shares with the threads of programs: one slot for each, and whose turn it is there.
//!
//! `shim/channel.h` has the same layout. Exactly one side of a slot works at a time, so that nothing in it needs a lock.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::question::{Op, Question};

const MAGIC: u32 = 0x6c69_7665;
/// Threads that a run may have at a time.
pub(crate) const SLOTS: usize = 512;
const DATA: usize = 64 * 1024;
const PROGRAM: u32 = 0;
const FABRIC: u32 = 1;

#[repr(C)]
struct RawSlot {
    turn: AtomicU32,
    program_sleeps: AtomicU32,
    fabric_sleeps: AtomicU32,
    pid: AtomicU32,
    tid: u32,
    number: u32,
    op: u32,
    posts: u32,
    length: u32,
    parent: u32,
    ready: u32,
    spare: u32,
    spent: u64,
    now: u64,
    alarm: u64,
    args: [i64; 8],
    result: i64,
    data: [u8; DATA],
}

/// What all threads read; set before any of them starts.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Header {
    pub magic: u32,
    pub slots: u32,
    /// What CLOCK_REALTIME shows at the start, in ns.
    pub epoch: u64,
    /// What CLOCK_MONOTONIC shows there, in ns.
    pub boot: u64,
    /// Rate of the time stamp counter, in kHz.
    pub tsc: u64,
    /// Reading a clock, in ps.
    pub clock_read: u64,
    /// Reading the time stamp counter, in ps.
    pub tsc_read: u64,
    /// Posting, as far as clocks need it before the fabric says it, in ps.
    pub post_send: u64,
    pub post_recv: u64,
    /// Looks at the turn before a side lets others run.
    pub spin: u64,
    /// Times that it does so before it sleeps.
    pub yields: u64,
    /// The core of the fabric alone, counted from 1; 0: programs run on all.
    pub core: u64,
    /// Process number of the fabric.
    pub fabric: u64,
    /// A poll that finds nothing, in ps.
    pub poll_empty: u64,
    pub spare: [u64; 3],
}

/// The file, mapped.
pub(crate) struct Arena {
    at: *mut u8,
    size: usize,
    spin: u64,
    yields: u64,
}

// SAFETY: the pointer is to shared memory that lives as long as the arena; the protocol of turns keeps both sides apart.
#[allow(unsafe_code)]
unsafe impl Send for Arena {}
// SAFETY: as above; one thread of this process works with a slot at a time.
#[allow(unsafe_code)]
unsafe impl Sync for Arena {}

/// What came of waiting for a thread.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(crate) enum Came {
    /// It asks.
    Question,
    /// It still works.
    Nothing,
}

#[allow(unsafe_code)] // Shared memory and futexes: see the safety comments.
impl Arena {
    /// Makes the file at `path`.
    pub fn create(path: &Path, header: Header) -> io::Result<Arena> {
        let size = size_of::<Header>() + SLOTS * size_of::<RawSlot>();
        let file: File = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        file.set_len(size as u64)?;
        // SAFETY: a new mapping of a file of that size; the kernel chooses the place.
        let at = unsafe { libc::mmap(ptr::null_mut(), size, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED, file.as_raw_fd(), 0) };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let arena = Arena { at: at.cast(), size, spin: header.spin, yields: header.yields };
        // SAFETY: the header lies at the start of the mapping, which is aligned to pages.
        unsafe { arena.at.cast::<Header>().write(Header { magic: MAGIC, slots: SLOTS as u32, ..header }) };
        Ok(arena)
    }

    fn slot(&self, index: usize) -> *mut RawSlot {
        assert!(index < SLOTS, "slots are numbered from 0");
        // SAFETY: within the mapping, by the check above; the header keeps the alignment of 8.
        unsafe { self.at.add(size_of::<Header>()).cast::<RawSlot>().add(index) }
    }

    fn turn(&self, index: usize) -> &AtomicU32 {
        // SAFETY: the field lives as long as the mapping.
        unsafe { &(*self.slot(index)).turn }
    }

    /// Gives a slot to a thread that is about to start, of the process with this number; it waits until it is answered.
    pub fn open(&self, index: usize, number: u32, parent: u32) {
        let slot = self.slot(index);
        // SAFETY: nobody else has the slot.
        unsafe {
            (*slot).turn.store(FABRIC, Ordering::SeqCst);
            (*slot).pid.store(0, Ordering::SeqCst);
            (*slot).tid = 0;
            (*slot).number = number;
            (*slot).parent = parent;
            (*slot).posts = 0;
            (*slot).now = 0;
            (*slot).alarm = 0;
        }
    }

    /// The process and the thread that have a slot.
    pub fn owner(&self, index: usize) -> (u32, u32) {
        let slot = self.slot(index);
        // SAFETY: written once by the thread before its first question.
        unsafe { ((*slot).pid.load(Ordering::SeqCst), (*slot).tid) }
    }

    /// When a signal is due in the thread, in ps.
    pub fn alarm(&self, index: usize) -> Option<u64> {
        let slot = self.slot(index);
        // SAFETY: it is the fabric's turn, so that the thread does not write.
        let alarm = unsafe { (*slot).alarm };
        (alarm > 0).then_some(alarm)
    }

    /// Waits at most so long for a question.
    pub fn wait(&self, index: usize, most: Duration) -> Came {
        let turn = self.turn(index);
        for _ in 0..self.spin {
            if turn.load(Ordering::Acquire) == FABRIC {
                return Came::Question;
            }
            std::hint::spin_loop();
        }
        for _ in 0..self.yields {
            std::thread::yield_now();
            if turn.load(Ordering::Acquire) == FABRIC {
                return Came::Question;
            }
        }
        // SAFETY: the field lives as long as the mapping.
        let sleeps = unsafe { &(*self.slot(index)).fabric_sleeps };
        sleeps.store(1, Ordering::SeqCst);
        if turn.load(Ordering::SeqCst) == PROGRAM {
            let limit = libc::timespec { tv_sec: most.as_secs() as libc::time_t, tv_nsec: most.subsec_nanos().into() };
            // SAFETY: a futex on a word of the mapping.
            unsafe { libc::syscall(libc::SYS_futex, turn.as_ptr(), libc::FUTEX_WAIT, PROGRAM, &raw const limit, ptr::null::<u32>(), 0) };
        }
        sleeps.store(0, Ordering::SeqCst);
        if turn.load(Ordering::SeqCst) == FABRIC { Came::Question } else { Came::Nothing }
    }

    /// The question of a thread whose turn it is not.
    pub fn question(&self, index: usize) -> Question {
        let slot = self.slot(index);
        // SAFETY: it is the fabric's turn, so that the thread does not write.
        let raw = unsafe { &mut *slot };
        let posts = (raw.posts as usize).min(DATA);
        let end = (posts + raw.length as usize).min(DATA);
        let question = Question {
            op: Op::of(raw.op),
            args: raw.args,
            spent: raw.spent,
            posts: words(&raw.data[..posts]),
            data: raw.data[posts..end].to_vec(),
        };
        raw.posts = 0;
        question
    }

    /// Gives the answer and the turn back.
    pub fn answer(&self, index: usize, (now, ready): (u64, bool), result: i64, (args, data): (&[i64], &[u8])) {
        let slot = self.slot(index);
        // SAFETY: it is the fabric's turn.
        let raw = unsafe { &mut *slot };
        raw.now = now;
        raw.ready = u32::from(ready);
        raw.result = result;
        raw.args[..args.len()].copy_from_slice(args);
        let most = data.len().min(DATA);
        raw.data[..most].copy_from_slice(&data[..most]);
        raw.length = most as u32;
        raw.turn.store(PROGRAM, Ordering::SeqCst);
        if raw.program_sleeps.load(Ordering::SeqCst) != 0 {
            // SAFETY: a futex on a word of the mapping.
            unsafe {
                libc::syscall(libc::SYS_futex, raw.turn.as_ptr(), libc::FUTEX_WAKE, i32::MAX, ptr::null::<u32>(), ptr::null::<u32>(), 0)
            };
        }
    }
}

impl Drop for Arena {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // SAFETY: the mapping of `create`, which nobody uses any more.
        unsafe { libc::munmap(self.at.cast(), self.size) };
    }
}

/// Bytes as words of 64 bits in the order of the machine.
pub(crate) fn words(bytes: &[u8]) -> Vec<u64> {
    bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().expect("eight bytes"))).collect()
}
