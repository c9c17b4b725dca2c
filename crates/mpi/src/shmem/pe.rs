//! A processing element: `shmem_init`, puts and gets.
//!
//! Source: OpenSHMEM 1.5, §9.6 (a put returns when its source may be used again, a get when its bytes are here, the `_nbi` forms at once);
//! UCX `ucp_put_nbx`: short puts go with the work request, those up to a limit through a buffer of the library, longer ones from where they are.
//! Modelled: that, with a completion of each put and get; a send queue that is full, which holds the caller up; within a node the caller's core copies.
//! Where workers on a DPU carry out what is one-sided, a put returns when its worker says that it is there.
//! Not modelled: UCX asks for completions of short puts every so often, and by an empty request when a quiet comes.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;

use fabriscope_catalog::{Mpi, Shmem, ShmemCollectives, SingleElement};
use fabriscope_node::{Process, ProgramError, Ties};
use fabriscope_platform::Target;
use fabriscope_units::{Span, Time};
use fabriscope_verbs::WatchId;

use crate::{Fetch, OneSided, Packing, Rank, Request, World};

/// What the PEs of a job share out of band. Clones are the same job.
#[derive(Debug, Clone)]
pub struct Job(pub(super) Arc<Shared>);

#[derive(Debug)]
pub(super) struct Shared {
    world: World,
    /// Bytes of the symmetric heap.
    pub heap: u64,
    bounce_limit: u32,
    pub by_adapter: bool,
    pub puts: bool,
    /// Puts to a PE may arrive in another order.
    unordered: bool,
    pub packing: Packing,
}

impl Job {
    /// What PEs on different nodes know of each other beside what their messages bring.
    #[must_use]
    pub fn ties(&self) -> Ties {
        self.0.world.ties()
    }
    /// A job of `pes` PEs of the library `shmem` over the transport of `mpi`, with `heap` bytes of symmetric heap each; `keeps`: what is written
    /// there can be read.
    #[must_use]
    pub fn new(shmem: &Shmem, mpi: &Mpi, target: &Target, (pes, heap): (u32, u64), keeps: bool) -> Job {
        let world = World::of_calls(mpi, target, pes, *shmem.overhead, keeps);
        let bounce_limit = u32::try_from(shmem.bounce_limit.0).unwrap_or(BOUNCE).min(BOUNCE);
        Job(Arc::new(Shared {
            world,
            heap,
            bounce_limit,
            by_adapter: *shmem.atomics == SingleElement::Adapter,
            puts: *shmem.collectives_by == ShmemCollectives::Puts,
            unordered: target.unordered,
            packing: Packing::from(mpi),
        }))
    }
}

/// The flags of a PE: by the adapters over which they may come, and how many were taken.
#[derive(Debug, Clone)]
pub(super) struct Flags {
    pub watches: Vec<(usize, WatchId)>,
    pub taken: u64,
}

/// A PE after `shmem_init`. Places in memory are offsets: in the symmetric heap, and for local buffers too, which may lie behind it.
pub struct Pe {
    pub(super) rank: Rank,
    pub(super) job: Job,
    /// Puts and gets outstanding that nobody waits for yet.
    pending: RefCell<Vec<Request>>,
    fetches: RefCell<Vec<Fetch>>,
    /// Puts through buffers of the library so far.
    bounced: Cell<u64>,
    /// Flags of each PE.
    pub(super) flags: RefCell<BTreeMap<u32, Flags>>,
    pub(super) watched: RefCell<BTreeMap<u64, Vec<(usize, WatchId)>>>,
}

impl Pe {
    /// `shmem_init`; connecting takes no time. `peers` are the PEs that it will have to do with, which name it as well.
    ///
    /// # Errors
    /// As [`Rank::init`].
    pub async fn init(process: Process, job: Job, peers: &[u32]) -> Result<Pe, ProgramError> {
        let rank = Rank::init(process, job.0.world.clone(), peers).await?;
        let pe = Pe {
            rank,
            job,
            pending: RefCell::default(),
            fetches: RefCell::default(),
            bounced: Cell::default(),
            flags: RefCell::default(),
            watched: RefCell::default(),
        };
        if pe.job.0.puts {
            pe.make_flags(peers)?;
        }
        pe.rank.synchronise().await?;
        Ok(pe)
    }
    /// The same with all PEs of the job.
    ///
    /// # Errors
    /// As [`init`](Self::init).
    pub async fn init_all(process: Process, job: Job) -> Result<Pe, ProgramError> {
        let peers: Vec<u32> = (0..process.ranks()).filter(|pe| *pe != process.rank()).collect();
        Pe::init(process, job, &peers).await
    }
    /// `shmem_my_pe`.
    #[must_use]
    pub fn me(&self) -> u32 {
        self.rank.rank()
    }
    /// `shmem_n_pes`.
    #[must_use]
    pub fn pes(&self) -> u32 {
        self.rank.ranks()
    }
    /// The clock of the core.
    #[must_use]
    pub fn now(&self) -> Time {
        self.rank.now()
    }
    /// Keeps the core busy.
    pub fn compute(&self, span: Span) {
        self.rank.compute(span);
    }
    /// Separates measurements: waits for all PEs, out of band.
    ///
    /// # Errors
    /// As [`Rank::synchronise`].
    pub async fn synchronise(&self) -> Result<(), ProgramError> {
        self.rank.synchronise().await
    }
    /// What the program does with its own memory: [`Rank::expose`], [`Rank::store`], [`Rank::load`].
    #[must_use]
    pub fn memory(&self) -> &Rank {
        &self.rank
    }

    /// `shmem_putmem`: `size` bytes from `from` here to `to` on `pe`.
    ///
    /// # Errors
    /// No such PE; bytes beyond the symmetric heap; a transport without RDMA.
    pub async fn put(&self, pe: u32, to: u64, from: u64, size: u32) -> Result<(), ProgramError> {
        if let Some(request) = self.start_put(pe, to, from, size).await? {
            self.rank.wait(request).await?;
        }
        Ok(())
    }
    /// `shmem_putmem_nbi`.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub async fn put_nbi(&self, pe: u32, to: u64, from: u64, size: u32) -> Result<(), ProgramError> {
        if let Some(request) = self.start_put(pe, to, from, size).await? {
            self.pending.borrow_mut().push(request);
        }
        Ok(())
    }
    /// `shmem_getmem`: `size` bytes from `from` on `pe` to `to` here.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub async fn get(&self, pe: u32, to: u64, from: u64, size: u32) -> Result<(), ProgramError> {
        if let Some(request) = self.start_get(pe, to, from, size).await? {
            self.rank.wait(request).await?;
        }
        Ok(())
    }
    /// `shmem_getmem_nbi`.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub async fn get_nbi(&self, pe: u32, to: u64, from: u64, size: u32) -> Result<(), ProgramError> {
        let request = self.start_get(pe, to, from, size).await?;
        self.pending.borrow_mut().extend(request);
        Ok(())
    }

    /// Begins a put; the request that is left is done when the source may be used again, which is when the target has the bytes.
    async fn start_put(&self, pe: u32, to: u64, from: u64, size: u32) -> Result<Option<Request>, ProgramError> {
        self.check(pe, to, size)?;
        if self.rank.shares_node_with(pe)? {
            self.rank.copy_at(OneSided::Put, pe, (from, to), size).await?;
            return Ok(None);
        }
        self.put_off_node(pe, to, from, size).await
    }
    /// A put of the library's own, to anywhere in the memory of `pe`, that ends with the next quiet.
    pub(super) async fn put_anywhere(&self, pe: u32, place: u64, size: u32) -> Result<(), ProgramError> {
        let request = self.put_off_node(pe, place, place, size).await?;
        self.pending.borrow_mut().extend(request);
        Ok(())
    }
    async fn put_off_node(&self, pe: u32, to: u64, from: u64, size: u32) -> Result<Option<Request>, ProgramError> {
        self.make_room(pe).await?;
        if self.rank.hands_one_sided() {
            // The worker takes the bytes from where they are.
            return Ok(Some(self.rank.move_at(OneSided::Put, pe, (from, to), size)?));
        }
        let aside = size > self.rank.inline_limit() && size <= self.job.0.bounce_limit;
        let from = if aside { self.set_aside(from, size)? } else { from };
        let at_once = aside || size <= self.rank.inline_limit();
        let request = self.rank.move_at(OneSided::Put, pe, (from, to), size)?;
        if at_once {
            self.pending.borrow_mut().push(request);
            return Ok(None);
        }
        Ok(Some(request))
    }
    async fn start_get(&self, pe: u32, to: u64, from: u64, size: u32) -> Result<Option<Request>, ProgramError> {
        self.check(pe, from, size)?;
        if self.rank.shares_node_with(pe)? {
            self.rank.copy_at(OneSided::Get, pe, (to, from), size).await?;
            return Ok(None);
        }
        self.make_room(pe).await?;
        Ok(Some(self.rank.move_at(OneSided::Get, pe, (to, from), size)?))
    }

    /// Refuses what no memory is behind.
    pub(super) fn check(&self, pe: u32, offset: u64, size: u32) -> Result<(), ProgramError> {
        let (me, pes, heap) = (self.me(), self.pes(), self.job.0.heap);
        if pe >= pes {
            return Err(ProgramError(format!("PE {me}: PE {pe} is not among the {pes} of the job, which are numbered from 0")));
        }
        if offset.saturating_add(size.into()) > heap {
            let end = offset.saturating_add(size.into());
            return Err(ProgramError(format!(
                "PE {me}: bytes {offset} to {end} of PE {pe} lie beyond its symmetric heap of {heap} bytes; allocate them first"
            )));
        }
        Ok(())
    }
    /// A full send queue holds the caller up, inside the library.
    pub(super) async fn make_room(&self, pe: u32) -> Result<(), ProgramError> {
        while self.rank.under_way_to(pe)? >= self.rank.window() {
            self.rank.turn_for(&[]).await?;
        }
        // What workers have is not in the send queue; the oldest ends first.
        while self.rank.hands_one_sided() && self.pending.borrow().len() >= HANDED {
            let oldest = self.pending.borrow_mut().remove(0);
            self.rank.wait(oldest).await?;
        }
        Ok(())
    }
    /// Copies a payload into a buffer of the library; there are more of them than requests may be outstanding to one PE.
    fn set_aside(&self, from: u64, size: u32) -> Result<u64, ProgramError> {
        let slot = self.bounced.get() % BOUNCES;
        self.bounced.set(self.bounced.get() + 1);
        let to = ASIDE + slot * u64::from(BOUNCE);
        self.rank.copy_aside(from, to, size)?;
        Ok(to)
    }

    /// An atomic nobody waits for ends with the next quiet.
    pub(super) fn leave(&self, fetch: Fetch) {
        self.fetches.borrow_mut().push(fetch);
    }
    /// Whether a later put may overtake one that is in flight.
    pub(super) fn may_be_overtaken(&self) -> bool {
        let under_way = !self.pending.borrow().is_empty() || !self.fetches.borrow().is_empty();
        under_way && (self.job.0.unordered || self.rank.takes_several_rails())
    }
    /// Waits for everything outstanding.
    pub(super) async fn drain(&self) -> Result<(), ProgramError> {
        let (pending, fetches) = (self.pending.take(), self.fetches.take());
        self.rank.wait_all(pending).await?;
        for fetch in fetches {
            self.rank.fetched(fetch).await?;
        }
        Ok(())
    }
}

/// Where the library's buffers for puts are in the window: behind the largest heap. Basis: assumed, as what follows.
const ASIDE: u64 = LARGEST_HEAP + (1 << 29);
/// How many there are, and the size of each.
const BOUNCES: u64 = 4096;
const BOUNCE: u32 = 64 << 10;
/// Puts and gets that a worker has at a time. Basis: assumed, descriptors of a line in a ring of 32 KiB.
const HANDED: usize = 512;
/// The largest symmetric heap.
pub const LARGEST_HEAP: u64 = 2 << 30;
