//! The GPUs of a node as its cores use them: copies by their engines, and stores and loads through the window that a core has on
//! their memory.
//!
//! Source: CUDA Runtime API (cudaMemcpy, cudaMemcpyAsync, cudaEventQuery: what is asynchronous to what); R. Shi et al., "Designing Efficient
//! Small Message Transfer Mechanism for Inter-node MPI Communication on InfiniBand GPU Clusters", HiPC 2014, and GDRCopy's notes (stores
//! are combined into lines and posted, loads are not cached).
//! Modelled: the cost of the call, an engine for each direction of each GPU that serves copies in turn, the path through the machine and
//! its sharing with other copies and with DMA of adapters ([`crate::traffic`]), stores in lines of 64 bytes behind the write-combining buffers, loads as round trips.
//! Not modelled: what kernels do besides, priorities of streams.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fabriscope_machine::{Access, Machine, Purpose, Use, VertexId, Weight};
use fabriscope_units::{Bytes, Form, Rate, Span, Time, parameters};

use crate::copies::{Copies, Copy, CopyId, ENGINES};
use crate::managed::Managed;
use crate::program_error::ProgramError;

/// Where bytes lie in a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Memory {
    /// The memory of a NUMA domain.
    Host(u32),
    /// The memory of a GPU.
    Device(u32),
    /// The memory of the cores on an adapter.
    Dpu(u32),
}

parameters! {
    /// Engines that copy without the cores of the GPU.
    pub struct CopyEngines as "CopyEngines" {
        /// How many copy at a time; further copies wait.
        pub count: u32,
        /// What one moves at most; where nothing is said, as much as its way.
        optional pub rate: Rate,
        /// What a copy within the GPU's own memory moves at most, where the driver leaves it to a kernel; where nothing is said, `rate`.
        optional pub own_rate: Rate,
    }
}

impl CopyEngines {
    /// What one moves at most.
    #[must_use]
    pub fn most(&self) -> Rate {
        self.rate.unwrap_or(Rate::from_bps(u64::MAX))
    }
    /// The same of a copy within the GPU's own memory.
    #[must_use]
    pub fn most_within(&self) -> Rate {
        self.own_rate.unwrap_or(self.most())
    }
}

parameters! {
    /// What calls of the driver cost.
    pub struct GpuCalls as "GpuCalls" {
        /// A copy that waits for its end, from the call to the return, beside the time its bytes take.
        pub copy: Span,
        /// Core time of a copy that is only started.
        pub copy_async: Span,
        /// From that call's return until the first byte moves.
        pub copy_start: Span,
        /// Core time of starting a kernel.
        pub kernel_launch: Span,
        /// From that call's return until the kernel runs.
        pub kernel_start: Span,
        /// Core time of noting an event in a stream.
        pub event_record: Span,
        /// Core time of asking whether an event has come.
        pub event_query: Span,
        /// From the end of a stream's work until a core that waits for it goes on.
        pub stream_synchronize: Span,
        /// Core time of finding out to which memory a pointer belongs.
        pub pointer_query: Span,
        /// Core time of mapping the memory of another process, once for each allocation.
        pub ipc_open: Span,
        /// Core time of finding a mapping again, each time it is used.
        pub ipc_use: Span,
    }
}

impl<F: Form> GpuCalls<F> {
    /// From starting a kernel until a core that waits for its end goes on, beside what the kernel does.
    #[must_use]
    pub fn kernel(&self) -> Span {
        F::value::<Span>(&self.kernel_launch) + F::value::<Span>(&self.kernel_start) + F::value::<Span>(&self.stream_synchronize)
    }
}

parameters! {
    /// The memory as a core reads and writes it through PCI Express or a coherent link (GDRCopy, large BAR).
    pub struct Mapped as "Mapped" {
        /// Core time of a copy into it apart from its bytes.
        pub store_call: Span,
        /// Rate at which a core fills the buffers that combine its stores.
        pub store_rate: Rate,
        /// What those buffers hold while the core goes on.
        pub store_buffer: Bytes,
        /// Rate at which they empty onto the link.
        pub store_drain: Rate,
        /// Core time of a copy out of it apart from its loads.
        pub load_call: Span,
        /// A load there and back.
        pub load_trip: Span,
        /// What one load brings.
        pub load_width: Bytes,
        /// From this size on several loads are in flight at a time.
        pub load_stream: Bytes,
        /// Their rate then.
        pub load_rate: Rate,
        /// Pinning and mapping it, once for each allocation.
        pub map: Span,
    }
}

parameters! {
    /// Copies to and from host memory that is not pinned.
    pub struct Pageable as "Pageable" {
        /// The driver takes so much at a time through pinned memory of its own.
        pub chunk: Bytes,
        /// Longest copy that goes that way; for longer ones it pins the pages. All where nothing is said.
        optional pub staged_limit: Bytes,
        /// Pinning a page of 4 KiB and releasing it.
        pub page: Span,
    }
}

/// What a core and a GPU spend on copies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeviceCosts {
    /// What calls of the driver cost.
    pub calls: GpuCalls,
    /// Engines that copy.
    pub copy_engines: CopyEngines,
    /// Cores keep lines of the GPU's memory in their caches.
    pub coherent: bool,
    /// Copies to and from host memory that is not pinned; as if it were, where nothing is said.
    pub pageable: Option<Pageable>,
    /// Pages that move to whoever touches them; none where nothing is said of them, or caches agree and nothing moves.
    pub managed: Option<Managed>,
    /// The window that a core has on the memory; none where it cannot be mapped.
    pub mapped: Option<Mapped>,
}

impl Mapped {
    /// The core's time to store `amount` bytes through the window.
    ///
    /// `call + amount / store_rate`, or `call + (amount − buffer) / drain` where the bus is the limit.
    #[must_use]
    pub fn store(&self, amount: Bytes) -> Span {
        let waiting = Bytes(amount.0.saturating_sub(self.store_buffer.0));
        self.store_call + self.store_rate.time(amount).max(self.store_drain.time(waiting))
    }

    /// The core's time to load `amount` bytes through the window.
    ///
    /// `call + ⌈amount / width⌉` round trips; from `load_stream` on `call + trip + amount / rate`.
    #[must_use]
    pub fn load(&self, amount: Bytes) -> Span {
        let trips = self.load_trip * amount.0.div_ceil(self.load_width.0.max(1)).max(1);
        let stream = self.load_trip + self.load_rate.time(amount);
        self.load_call + if amount >= self.load_stream { stream } else { trips }
    }
}

/// Which part of a GPU moves bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mover {
    /// An engine of this GPU.
    Engine(u32),
    /// A kernel on this GPU, by loads and stores.
    Kernel(u32),
}

/// A page of host memory, in bytes.
pub(crate) const PAGE: u64 = 4096;

/// The GPUs of one node with what is in flight among its memories. Its cores share it.
#[derive(Debug)]
pub struct Devices {
    machine: Rc<Machine>,
    costs: DeviceCosts,
    gpus: Vec<VertexId>,
    numas: Vec<VertexId>,
    dpus: Vec<VertexId>,
    copies: Arc<Mutex<Copies>>,
    /// A copy was asked for.
    asked: Cell<bool>,
    /// Ways that were looked for.
    ways: RefCell<BTreeMap<(VertexId, VertexId, Access), CopyPath>>,
}

/// What a copy takes, and how long a byte of it is in progress.
pub type CopyPath = (Arc<[Use]>, Span);

impl Devices {
    /// The GPUs of `machine`, all of one model.
    #[must_use]
    pub fn new(machine: Rc<Machine>, costs: DeviceCosts) -> Devices {
        let (gpus, numas, dpus) = (machine.gpus(), machine.numas(), machine.dpus());
        let copies = Arc::new(Mutex::new(Copies::new(machine.sharing(), gpus.len())));
        Devices { machine, costs, gpus, numas, dpus, copies, asked: Cell::new(false), ways: RefCell::default() }
    }

    /// The node's graph.
    #[must_use]
    pub fn machine(&self) -> &Machine {
        &self.machine
    }
    /// What copies cost besides.
    #[must_use]
    pub fn costs(&self) -> &DeviceCosts {
        &self.costs
    }
    /// How many GPUs there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.gpus.len()
    }

    /// Has an engine copy from `from` to `to`, not before `at`: that of the GPU that the bytes leave, or come to from the host.
    ///
    /// # Errors
    /// A memory that the node does not have, no path, or a copy within host memory, which is a core's work.
    pub fn start(&self, at: Time, from: Memory, to: Memory, bytes: Bytes) -> Result<CopyId, ProgramError> {
        let ((Memory::Device(gpu), _) | (_, Memory::Device(gpu))) = (from, to) else {
            return Err(ProgramError("a GPU was asked to copy within host memory; a core does that".to_owned()));
        };
        self.start_on(at, Mover::Engine(gpu), from, to, bytes)
    }

    /// Has `mover` copy from `from` to `to`, not before `at`. It reads what lies elsewhere, and writes to elsewhere what lies in its memory.
    ///
    /// # Errors
    /// A memory or GPU that the node does not have, or no path.
    pub fn start_on(&self, at: Time, mover: Mover, from: Memory, to: Memory, bytes: Bytes) -> Result<CopyId, ProgramError> {
        let (source, target) = (self.vertex(from)?, self.vertex(to)?);
        let (Mover::Engine(gpu) | Mover::Kernel(gpu)) = mover;
        self.vertex(Memory::Device(gpu))?;
        let access = if to == Memory::Device(gpu) { Access::Read } else { Access::Write };
        let (which, most) = match mover {
            Mover::Kernel(_) => (3, Rate::from_bps(u64::MAX)),
            Mover::Engine(_) => {
                let which = match (from, to) {
                    (Memory::Host(_), _) => 0,
                    (_, Memory::Host(_)) => 1,
                    _ => 2,
                };
                (which, if source == target { self.costs.copy_engines.most_within() } else { self.costs.copy_engines.most() })
            }
        };
        let (uses, latency) = self.way(source, target, access)?;
        self.asked.set(true);
        let copy = Copy { from: at, bytes, uses, most, latency };
        Ok(self.copies().ask(gpu as usize * ENGINES + which, copy))
    }

    /// When a copy ends, as far as is known at `now`: later if others begin meanwhile.
    pub fn end(&self, now: Time, id: CopyId) -> Option<Time> {
        self.first_end(now, &[id])
    }

    /// Those of these copies that have ended at `now`, and when.
    pub fn ended(&self, now: Time, ids: &[CopyId]) -> Vec<(CopyId, Time)> {
        let mut copies = self.copies();
        copies.advance(now);
        ids.iter().filter_map(|id| Some((*id, copies.ended(*id).filter(|end| *end <= now)?))).collect()
    }

    /// When the first of these copies ends, as far as is known at `now`.
    pub fn first_end(&self, now: Time, ids: &[CopyId]) -> Option<Time> {
        let mut copies = self.copies();
        copies.advance(now);
        copies.first_end(ids)
    }

    /// Nobody will ask about a copy again.
    pub fn forget(&self, id: CopyId) {
        self.copies().forget(id);
    }

    /// Whether copies were asked for since this was last asked.
    pub fn take_asked(&self) -> bool {
        self.asked.replace(false)
    }

    /// What DMA of adapters meets.
    pub(crate) fn shared_copies(&self) -> Arc<Mutex<Copies>> {
        Arc::clone(&self.copies)
    }

    fn copies(&self) -> MutexGuard<'_, Copies> {
        self.copies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a byte of payload takes on its way from one vertex to another, and how long that is; within a memory it is read and written.
    ///
    /// # Errors
    /// No path leads there.
    pub fn way(&self, source: VertexId, target: VertexId, access: Access) -> Result<CopyPath, ProgramError> {
        let key = (source, target, access);
        if let Some(known) = self.ways.borrow().get(&key) {
            return Ok(known.clone());
        }
        let found = self.find_way(source, target, access)?;
        self.ways.borrow_mut().insert(key, found.clone());
        Ok(found)
    }

    fn find_way(&self, source: VertexId, target: VertexId, access: Access) -> Result<CopyPath, ProgramError> {
        let machine = &self.machine;
        if source == target {
            // Read from the memory and written to it, which it does not do at the same time.
            let link = machine.around(source).first().copied();
            let both = link.into_iter().flat_map(|link| [true, false].map(|way| machine.resource_of_link(link, way)));
            let uses = both.map(|resource| Use { resource, weight: Weight::of(2, 1) }).collect();
            return Ok((uses, link.map_or(Span::ZERO, |link| machine.link(link).latency)));
        }
        let path = machine.path(source, target, Purpose::Copy).ok_or_else(|| {
            let name = |id| &machine.vertex(id).name;
            ProgramError(format!("no path leads from {} to {}", name(source), name(target)))
        })?;
        Ok((machine.uses(&path, access).into(), path.latency(machine)))
    }

    /// The NUMA domain nearest to a GPU.
    ///
    /// # Errors
    /// The node does not have that GPU.
    pub fn home(&self, gpu: u32) -> Result<Memory, ProgramError> {
        let vertex = self.vertex(Memory::Device(gpu))?;
        Ok(Memory::Host(self.machine.home(vertex).unwrap_or(0) as u32))
    }

    /// What a GPU is called.
    pub(crate) fn name(&self, gpu: u32) -> String {
        self.gpus.get(gpu as usize).map_or_else(|| format!("gpu{gpu}"), |id| self.machine.vertex(*id).name.clone())
    }

    /// The vertex of a memory.
    ///
    /// # Errors
    /// The node does not have it.
    pub fn vertex(&self, memory: Memory) -> Result<VertexId, ProgramError> {
        let (owners, index, what) = match memory {
            Memory::Host(numa) => (&self.numas, numa, "NUMA domains"),
            Memory::Device(gpu) => (&self.gpus, gpu, "GPUs"),
            Memory::Dpu(dpu) => (&self.dpus, dpu, "DPUs"),
        };
        let owner = owners.get(index as usize).copied();
        let found = owner.and_then(|owner| self.machine.memory_of(owner));
        found.ok_or_else(|| ProgramError(format!("{memory:?}: the node has {} {what}, counted from 0", owners.len())))
    }
}
