//! The same calls where PSM2 carries the messages: it matches them, so little is left to the layers above.
//!
//! Source: Open MPI, `ompi/mca/mtl/psm2`: each request is one of PSM2. Ranks of a node talk through its memory instead
//! (`local.rs`) where the library has that.
//! Modelled: the core time of those layers; waiting with progress, also at barriers out of band.
//! memory of a GPU as PSM2 does it with PSM2_CUDA (GDRCopy, GPUDirect RDMA, windows through host memory); the adapter next to the GPU.
//! Not modelled: receives from any rank where both ways lead to this one; messages over several adapters; the receive thread, for which ranks
//! that wait out of band stand.

use std::cell::RefCell;
use std::collections::BTreeMap;

use fabriscope_machine::PathClass;
use fabriscope_node::{CopyId, Process, ProgramError};
use fabriscope_psm2::{Buffer as Place, Copy, Endpoint, Library, Psm2Error, RequestId, Step};
use fabriscope_units::{Bytes, Remedy, Span, Time};

use super::buffer::{Buffer, RankLocation};
use super::exchange::AddressOf;
use super::protocol::Protocol;
use super::protocol::gpu::{Gpu, unaware};
use super::world::Shared;

/// A rank's end of PSM2.
#[derive(Debug)]
pub(crate) struct Onload {
    endpoint: RefCell<Endpoint>,
    /// The adapter.
    nic: usize,
    /// Where the rank sits, and what the library does with the memory of its GPU.
    home: RankLocation,
    gpu: Option<Gpu>,
    /// Copies in progress, and what they are for.
    copies: RefCell<BTreeMap<CopyId, (Copy, Buffer)>>,
    /// The buffers of requests that are not in host memory.
    buffers: RefCell<BTreeMap<RequestId, Buffer>>,
}

impl Onload {
    /// Opens a context and connects to `peers`, which name this rank as well.
    pub async fn open(process: &Process, shared: &Shared, library: Library, peers: &[u32]) -> Result<Onload, ProgramError> {
        let (me, home) = (process.rank(), shared.home(process));
        let nic = home.nics.first().map_or(0, |(nic, _)| *nic);
        let opened = process.adapter(nic, |n| n.psm2().map(|adapter| Endpoint::open(adapter, library)));
        let mut endpoint = opened.ok_or_else(|| no_adapter(me))?.map_err(|error| failed(me, error))?;
        shared.exchange.put(me, AddressOf { rank: me }, endpoint.address());
        shared.exchange.fence(process).await;
        for &peer in peers {
            let address = shared.exchange.get(me, AddressOf { rank: peer });
            let address =
                address.ok_or_else(|| ProgramError(format!("rank {me} wants to talk to rank {peer}, which opened no endpoint")))?;
            endpoint.connect(peer, address);
        }
        process.barrier().await;
        let gpu = shared.protocol.on(process).gpu.filter(|gpu| gpu.aware);
        let (copies, buffers) = Default::default();
        Ok(Onload { endpoint: RefCell::new(endpoint), nic, home, gpu, copies, buffers })
    }
    /// `MPI_Isend`, or `MPI_Send` up to its wait.
    pub fn send(
        &self,
        process: &Process,
        protocol: &Protocol,
        to: (u32, u32),
        (size, buffer): (u32, Buffer),
        blocking: bool,
    ) -> Result<u32, ProgramError> {
        let mut began = process.now();
        process.compute(protocol.send_overhead);
        self.look_at_pointer(process);
        let mut place = self.place(size, buffer, true)?;
        if place != Place::Host && buffer == Buffer::Device && size <= self.gpu.map_or(0, |gpu| gpu.load_limit) {
            process.compute(self.gpu.map_or(Span::ZERO, |gpu| gpu.mapping_overhead));
            process.load_from_device(Bytes(size.into()))?;
            // A load is a copy of its own, and no part of posting.
            (place, began) = (Place::Host, process.now());
        }
        let request = self.call(process, |endpoint, adapter, cpu| endpoint.send(adapter, cpu, to, (size, place), (blocking, began)))?;
        self.note(process, request, buffer, place)
    }
    /// `MPI_Irecv`.
    pub fn receive(&self, process: &Process, from: (Option<u32>, Option<u32>), (size, buffer): (u32, Buffer)) -> Result<u32, ProgramError> {
        self.look_at_pointer(process);
        let place = self.place(size, buffer, false)?;
        let request = self.call(process, |endpoint, adapter, cpu| endpoint.receive(adapter, cpu, from, (size, place)))?;
        self.note(process, request, buffer, place)
    }
    fn look_at_pointer(&self, process: &Process) {
        if let (Some(_), Some(_), Ok(devices)) = (self.gpu, self.home.gpu, process.devices()) {
            process.compute(devices.costs().calls.pointer_query);
        }
    }
    /// Where PSM2 finds the bytes of a message.
    fn place(&self, size: u32, buffer: Buffer, sends: bool) -> Result<Place, ProgramError> {
        if buffer == Buffer::Host || size == 0 {
            return Ok(Place::Host);
        }
        let (Some(gpu), Some(index)) = (self.gpu, self.home.gpu) else { return Err(unaware()) };
        let class = self.home.nics.first().map_or(PathClass::Dis, |(_, class)| *class);
        let near = gpu.direct.filter(|direct| class <= direct.farthest && buffer == Buffer::Device);
        let limit = near.map(|direct| if sends { direct.send_limit } else { direct.receive_limit });
        // Places count the memories of GPUs from 1.
        let place = u8::try_from(index + 1).ok().filter(|_| limit.is_some_and(|limit| size <= limit));
        Ok(place.map_or(Place::Staged, Place::Device))
    }
    /// Remembers where the bytes of a request belong, and begins its copies.
    fn note(&self, process: &Process, request: u32, buffer: Buffer, place: Place) -> Result<u32, ProgramError> {
        if place != Place::Host {
            self.buffers.borrow_mut().insert(RequestId(request), buffer);
            self.begin_copies(process)?;
        }
        Ok(request)
    }
    /// Carries out the copies that PSM2 asks for.
    fn begin_copies(&self, process: &Process) -> Result<(), ProgramError> {
        loop {
            let Some(copy) = self.endpoint.borrow_mut().poll_copy() else { return Ok(()) };
            let buffer = self.buffers.borrow().get(&copy.request).copied().unwrap_or_default();
            let (host, own) = (self.home.memory(Buffer::Host)?, self.home.memory(buffer)?);
            let length = Bytes(copy.length.into());
            match copy.step {
                Step::Eager => {
                    if buffer == Buffer::Device && copy.length <= self.gpu.map_or(0, |gpu| gpu.store_limit) {
                        process.compute(self.gpu.map_or(Span::ZERO, |gpu| gpu.mapping_overhead));
                        process.store_to_device(length)?;
                    } else {
                        process.memcpy_at_once(host, own, length)?;
                    }
                    self.run(process, |endpoint, adapter, cpu| endpoint.copied(adapter, cpu, copy))?;
                }
                Step::Out | Step::In => {
                    let (from, to) = if copy.step == Step::Out { (own, host) } else { (host, own) };
                    let id = process.begin_copy(from, to, length)?;
                    self.copies.borrow_mut().insert(id, (copy, buffer));
                }
            }
        }
    }
    /// Goes on where copies have ended.
    pub async fn serve_copies(&self, process: &Process) -> Result<(), ProgramError> {
        self.begin_copies(process)?;
        if self.copies.borrow().is_empty() {
            return Ok(());
        }
        for id in process.take_copies().await {
            let ended = self.copies.borrow_mut().remove(&id);
            if let Some((copy, _)) = ended {
                self.run(process, |endpoint, adapter, cpu| endpoint.copied(adapter, cpu, copy))?;
            }
        }
        self.begin_copies(process)
    }
    /// `request` is done, and the layers above hear of it.
    pub fn close(&self, process: &Process, protocol: &Protocol, request: u32) {
        self.endpoint.borrow_mut().close(RequestId(request));
        self.buffers.borrow_mut().remove(&RequestId(request));
        process.compute(protocol.recv_overhead);
    }
    pub fn is_done(&self, request: u32) -> bool {
        self.endpoint.borrow().is_done(RequestId(request))
    }
    /// Waits for all ranks out of band, and answers peers meanwhile until nobody waits for an acknowledgement.
    pub async fn synchronise(&self, process: &Process, protocol: &Protocol) -> Result<(), ProgramError> {
        self.run(process, |endpoint, adapter, cpu| endpoint.hasten(adapter, cpu))?;
        while !self.endpoint.borrow().is_idle() {
            self.turn(process, protocol, Time::MAX).await?;
        }
        process.arrive();
        process.catch_up().await;
        while !process.has_opened() {
            self.turn(process, protocol, Time::MAX).await?;
        }
        process.barrier().await;
        Ok(())
    }

    /// One turn of the progress loop; it spins until there is something to do, or until `until`.
    pub async fn turn(&self, process: &Process, protocol: &Protocol, until: Time) -> Result<(), ProgramError> {
        let (awaited, timeout) = {
            let endpoint = self.endpoint.borrow();
            (endpoint.awaited(), endpoint.poll_timeout().unwrap_or(Time::MAX))
        };
        process.wait_psm2(self.nic, &awaited, timeout.min(until)).await;
        process.compute(protocol.progress_overhead);
        self.call(process, |endpoint, adapter, cpu| endpoint.progress(adapter, cpu).map(|()| RequestId(0)))?;
        self.serve_copies(process).await
    }
    fn call(
        &self,
        process: &Process,
        call: impl FnOnce(&mut Endpoint, &mut fabriscope_psm2::Adapter, &mut dyn fabriscope_psm2::Cpu) -> Result<RequestId, Psm2Error>,
    ) -> Result<u32, ProgramError> {
        let me = process.rank();
        self.run(process, call)?.map(|request| request.0).map_err(|error| failed(me, error))
    }
    fn run<R>(
        &self,
        process: &Process,
        call: impl FnOnce(&mut Endpoint, &mut fabriscope_psm2::Adapter, &mut dyn fabriscope_psm2::Cpu) -> R,
    ) -> Result<R, ProgramError> {
        let endpoint = &mut *self.endpoint.borrow_mut();
        process.psm2(self.nic, |adapter, cpu| call(endpoint, adapter, cpu)).ok_or_else(|| no_adapter(process.rank()))
    }
}

fn failed(rank: u32, error: Psm2Error) -> ProgramError {
    ProgramError(format!("rank {rank}: {}", error.in_full()))
}
fn no_adapter(rank: u32) -> ProgramError {
    ProgramError(format!("rank {rank}: PSM2 needs an adapter with an [onload] table; choose other software or another adapter"))
}
