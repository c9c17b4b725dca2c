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
use fabriscope_units::{Bytes, Rate, Span, Time};

use crate::copies::{Copies, Copy, CopyId, ENGINES};
use crate::managed::ManagedCosts;
use crate::process::ProgramError;
use crate::work::CALLING;

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

/// What a core and a GPU spend on copies, resolved from the catalogue's part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceCosts {
    /// A copy that the core waits for, beside moving bytes: call, start of the engine, notice of the end.
    pub memcpy: Span,
    /// The core's time to ask for a copy that it does not wait for.
    pub memcpy_async: Span,
    /// From asking until the engine begins.
    pub start: Span,
    /// The core's time to ask whether a copy has ended.
    pub query: Span,
    /// The most that one engine moves.
    pub engine_rate: Rate,
    /// What finding out where a pointer points costs.
    pub pointer_query: Span,
    /// Noting an event behind a copy, by which its end is seen.
    pub record: Span,
    /// From the end of a copy until a core sees the event.
    pub notice: Span,
    /// Cores keep lines of the GPU's memory in their caches.
    pub coherent: bool,
    /// From starting a kernel until a core that waits for its end goes on, beside what the kernel does.
    pub kernel: Span,
    /// Copies to and from host memory that is not pinned.
    pub pageable: Option<Pageable>,
    /// Pages that move to whoever touches them; none where nothing is said of them, or caches agree and nothing moves.
    pub managed: Option<ManagedCosts>,
    /// Mapping the memory of another process's GPU, once for each of its buffers.
    pub ipc_open: Span,
    /// Finding such a mapping again.
    pub ipc_use: Span,
    /// A core has a window on the memory.
    pub mapped: bool,
    /// Stores into the window: the call.
    pub store_call: Span,
    /// At which a core fills the write-combining buffers.
    pub store_rate: Rate,
    /// What is in those buffers while the core goes on.
    pub store_buffer: Bytes,
    /// At which the bus takes lines of stores.
    pub store_drain: Rate,
    /// Loads from the window: the call.
    pub load_call: Span,
    /// A round trip to the GPU's memory.
    pub load_trip: Span,
    /// What one load brings.
    pub load_width: Bytes,
    /// From so many bytes on loads are in flight together, a line each.
    pub load_stream: Bytes,
    /// At which they come then.
    pub load_rate: Rate,
}

/// How the driver copies to and from host memory that is not pinned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pageable {
    /// Through pinned memory, so much at a time.
    pub chunk: Bytes,
    /// The longest copy that goes that way.
    pub staged: Bytes,
    /// Pinning a page of 4 KiB for a longer one.
    pub page: Span,
}

impl DeviceCosts {
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
const PAGE: u64 = 4096;

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
                (which, self.costs.engine_rate)
            }
        };
        let (uses, latency) = self.way(source, target, access)?;
        self.asked.set(true);
        let copy = Copy { from: at, bytes, uses, most, latency };
        Ok(self.copies().ask(gpu as usize * ENGINES + which, copy))
    }

    /// When a copy ends, as far as is known at `now`: later if others begin meanwhile.
    pub fn end(&self, now: Time, id: CopyId) -> Option<Time> {
        let mut copies = self.copies();
        copies.advance(now);
        copies.end_of(id)
    }

    /// When a copy ends if no other begins before; time does not go on.
    #[must_use]
    pub fn expected_end(&self, id: CopyId) -> Option<Time> {
        self.copies().end_of(id)
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

impl crate::process::Process {
    /// The GPUs of the node.
    ///
    /// # Errors
    /// It has none.
    pub fn devices(&self) -> Result<&Devices, ProgramError> {
        self.shared_devices().ok_or_else(|| ProgramError(format!("node {} has no GPUs", self.node())))
    }

    /// Copies `bytes` and waits for the end (cudaMemcpy): `memcpy`, then the engine's way through the machine.
    ///
    /// # Errors
    /// As [`Devices::start`].
    pub async fn memcpy(&self, from: Memory, to: Memory, bytes: Bytes) -> Result<(), ProgramError> {
        let (begun, call) = (self.now(), self.devices()?.costs().memcpy);
        self.compute(call);
        self.catch_up().await;
        let id = self.devices()?.start(self.now(), from, to, bytes)?;
        self.wait_copy(id).await?;
        self.note_work(begun, &[(CALLING, call)], || self.describe_copy(from, to));
        Ok(())
    }

    /// The same where the host memory is not pinned: the core copies chunks into pinned memory, or out of it, while an engine copies the
    /// neighbours; pages of longer copies are pinned first.
    ///
    /// # Errors
    /// As [`Devices::start`].
    pub async fn memcpy_pageable(&self, from: Memory, to: Memory, bytes: Bytes) -> Result<(), ProgramError> {
        let (begun, costs) = (self.now(), *self.devices()?.costs());
        let Some(pageable) = costs.pageable else { return self.memcpy(from, to, bytes).await };
        if bytes > pageable.staged {
            self.compute(pageable.page * bytes.0.div_ceil(PAGE));
            return self.memcpy(from, to, bytes).await;
        }
        self.compute(costs.memcpy);
        let up = matches!(from, Memory::Host(_));
        let (mut left, mut before) = (bytes, None);
        while left > Bytes::ZERO {
            let part = Bytes(left.0.min(pageable.chunk.0));
            left = Bytes(left.0 - part.0);
            if up {
                self.copy(part, Bytes(u64::MAX));
            }
            self.catch_up().await;
            let id = self.devices()?.start(self.now(), from, to, part)?;
            if let Some((earlier, length)) = before.replace((id, part)) {
                self.wait_copy(earlier).await?;
                if !up {
                    self.copy(length, Bytes(u64::MAX));
                }
            }
        }
        if let Some((last, length)) = before {
            self.wait_copy(last).await?;
            if !up {
                self.copy(length, Bytes(u64::MAX));
            }
        }
        self.note_work(begun, &[(CALLING, costs.memcpy)], || format!("{}, through pinned memory", self.describe_copy(from, to)));
        Ok(())
    }

    /// The same as [`memcpy`](Self::memcpy) within a call that does not give the core away: what other cores ask for later does not slow it down.
    ///
    /// # Errors
    /// As [`Devices::start`].
    pub fn memcpy_at_once(&self, from: Memory, to: Memory, bytes: Bytes) -> Result<(), ProgramError> {
        let devices = self.devices()?;
        let (begun, call) = (self.now(), devices.costs().memcpy);
        self.compute(call);
        let id = devices.start(self.now(), from, to, bytes)?;
        let end = devices.expected_end(id).ok_or_else(|| ProgramError("a copy that never ends".to_owned()))?;
        devices.forget(id);
        self.compute(end.since(self.now()));
        self.note_work(begun, &[(CALLING, call)], || self.describe_copy(from, to));
        Ok(())
    }

    /// A kernel goes through as many bytes of the memory of a GPU as a copy of `bytes` would, while the core waits.
    ///
    /// # Errors
    /// As [`Devices::start_on`]; memory of the host.
    pub fn kernel_at_once(&self, memory: Memory, bytes: Bytes) -> Result<(), ProgramError> {
        let Memory::Device(gpu) = memory else {
            return Err(ProgramError("a kernel was asked to work in host memory; a core does that".to_owned()));
        };
        let devices = self.devices()?;
        self.compute(devices.costs().kernel);
        let id = devices.start_on(self.now(), Mover::Kernel(gpu), memory, memory, bytes)?;
        let end = devices.expected_end(id).ok_or_else(|| ProgramError("a kernel that never ends".to_owned()))?;
        devices.forget(id);
        self.compute(end.since(self.now()));
        Ok(())
    }

    /// As [`memcpy_async`](Self::memcpy_async), within a call that does not give the core away.
    ///
    /// # Errors
    /// As [`Devices::start`].
    pub fn begin_copy(&self, from: Memory, to: Memory, bytes: Bytes) -> Result<CopyId, ProgramError> {
        self.begin_copy_by(None, from, to, bytes)
    }

    /// The same by `mover` instead of the engine that [`Devices::start`] takes.
    ///
    /// # Errors
    /// As [`Devices::start`].
    pub fn begin_copy_by(&self, mover: Option<Mover>, from: Memory, to: Memory, bytes: Bytes) -> Result<CopyId, ProgramError> {
        let devices = self.devices()?;
        let (begun, costs) = (self.now(), devices.costs());
        self.compute(costs.memcpy_async);
        let asked = self.now();
        let at = asked + costs.start;
        let id = match mover {
            None => devices.start(at, from, to, bytes)?,
            Some(mover) => devices.start_on(at, mover, from, to, bytes)?,
        };
        self.note_begun(id, (begun, asked, at), || self.describe_copy(from, to));
        self.compute(costs.record);
        self.expect_copy(id);
        Ok(id)
    }

    /// Has `bytes` copied and goes on (cudaMemcpyAsync). The copy can be waited for, and ends [`wait_any`](Self::wait_any).
    ///
    /// # Errors
    /// As [`Devices::start`].
    pub async fn memcpy_async(&self, from: Memory, to: Memory, bytes: Bytes) -> Result<CopyId, ProgramError> {
        self.catch_up().await;
        self.begin_copy(from, to, bytes)
    }

    /// Waits for a copy (cudaEventSynchronize).
    ///
    /// # Errors
    /// It never ends: something on its way carries nothing.
    pub async fn wait_copy(&self, id: CopyId) -> Result<(), ProgramError> {
        self.catch_up().await;
        loop {
            let end = self.devices()?.end(self.now(), id).ok_or_else(|| ProgramError("a copy that never ends".to_owned()))?;
            if end <= self.now() {
                self.note_ended(id, end);
                self.forget_copy(id);
                self.devices()?.forget(id);
                return Ok(());
            }
            self.sleep_until(end).await;
        }
    }

    /// Asks for every copy that was begun without waiting whether it has ended (cudaEventQuery); names those that have, once.
    pub async fn take_copies(&self) -> Vec<CopyId> {
        self.catch_up().await;
        let Some(devices) = self.shared_devices() else { return Vec::new() };
        let open = self.expected_copies();
        self.compute(devices.costs().query * open.len() as u64);
        let now = self.now();
        let notice = devices.costs().notice;
        let ended = open.into_iter().filter_map(|id| Some((id, devices.end(now, id).filter(|end| *end <= now)?)));
        let ended: Vec<(CopyId, Time)> = ended.collect();
        for (id, end) in &ended {
            self.note_ended(*id, *end);
            self.compute(notice);
            self.forget_copy(*id);
            devices.forget(*id);
        }
        ended.into_iter().map(|(id, _)| id).collect()
    }

    /// When the first copy that was begun without waiting ends, as far as is known.
    #[must_use]
    pub fn next_copy(&self) -> Option<Time> {
        let devices = self.shared_devices()?;
        // Not beyond what the engine knows: later times are promises.
        self.expected_copies().into_iter().filter_map(|id| devices.end(self.engine_time(), id)).min()
    }

    /// Stores `bytes` into a GPU's memory through the core's window (GDRCopy).
    ///
    /// # Errors
    /// There are no GPUs.
    pub fn store_to_device(&self, bytes: Bytes) -> Result<(), ProgramError> {
        let begun = self.now();
        self.compute(self.devices()?.costs().store(bytes));
        self.note_work(begun, &[], || "stores of a core into the GPU (GDRCopy)".to_owned());
        Ok(())
    }

    /// Loads `bytes` from a GPU's memory through the core's window (GDRCopy).
    ///
    /// # Errors
    /// There are no GPUs.
    pub fn load_from_device(&self, bytes: Bytes) -> Result<(), ProgramError> {
        let begun = self.now();
        self.compute(self.devices()?.costs().load(bytes));
        self.note_work(begun, &[], || "loads of a core from the GPU (GDRCopy)".to_owned());
        Ok(())
    }
}
