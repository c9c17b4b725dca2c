//! The same calls where PSM2 carries the messages: it matches them, so little is left to the layers above.
//!
//! Source: Open MPI, `ompi/mca/mtl/psm2`: each request is one of PSM2. Ranks of a node talk through its memory instead
//! (`local.rs`) where the library has that.
//! Modelled: the core time of those layers; waiting with progress, also at barriers out of band.
//! Not modelled: receives from any rank where both ways lead to this one; several adapters; the receive thread, for which ranks
//! that wait out of band stand.

use std::cell::RefCell;

use fabriscope_catalog::Psm2;
use fabriscope_node::{Process, ProgramError};
use fabriscope_psm2::{Address, Costs, Endpoint, Library, Psm2Error, RequestId};
use fabriscope_units::{Bytes, Span, Time};

use super::protocol::Protocol;
use super::setup::Shared;

/// A rank's end of PSM2.
#[derive(Debug)]
pub(crate) struct Onload {
    endpoint: RefCell<Endpoint>,
}

impl Onload {
    /// Opens a context and connects to `peers`, which name this rank as well.
    pub async fn open(process: &Process, shared: &Shared, library: Library, peers: &[u32]) -> Result<Onload, ProgramError> {
        let me = process.rank();
        let opened = process.nic(NIC, |n| n.psm2().map(|adapter| Endpoint::open(adapter, library)));
        let mut endpoint = opened.ok_or_else(|| no_adapter(me))?.map_err(|error| failed(me, error))?;
        shared.addresses.borrow_mut().insert(me, endpoint.address());
        process.barrier().await;
        for &peer in peers {
            let address: Option<Address> = shared.addresses.borrow().get(&peer).copied();
            let address =
                address.ok_or_else(|| ProgramError(format!("rank {me} wants to talk to rank {peer}, which opened no endpoint")))?;
            endpoint.connect(peer, address);
        }
        process.barrier().await;
        Ok(Onload { endpoint: RefCell::new(endpoint) })
    }
    /// `MPI_Isend`, or `MPI_Send` up to its wait.
    pub fn send(&self, process: &Process, protocol: &Protocol, to: (u32, u32), size: u32, blocking: bool) -> Result<u32, ProgramError> {
        let began = process.now();
        process.compute(protocol.send_overhead);
        self.call(process, |endpoint, adapter, cpu| endpoint.send(adapter, cpu, to, size, (blocking, began)))
    }
    /// `MPI_Irecv`.
    pub fn receive(&self, process: &Process, from: (Option<u32>, Option<u32>), size: u32) -> Result<u32, ProgramError> {
        self.call(process, |endpoint, adapter, cpu| endpoint.receive(adapter, cpu, from, size))
    }
    /// `request` is done, and the layers above hear of it.
    pub fn close(&self, process: &Process, protocol: &Protocol, request: u32) {
        self.endpoint.borrow_mut().close(RequestId(request));
        process.compute(protocol.recv_overhead);
    }
    pub fn is_done(&self, request: u32) -> bool {
        self.endpoint.borrow().is_done(RequestId(request))
    }
    /// Waits for all ranks out of band, and answers peers meanwhile until nobody waits for an acknowledgement.
    pub async fn synchronise(&self, process: &Process, protocol: &Protocol, shared: &Shared) -> Result<(), ProgramError> {
        self.run(process, |endpoint, adapter, cpu| endpoint.hasten(adapter, cpu))?;
        while !self.endpoint.borrow().is_idle() {
            self.turn(process, protocol, Time::MAX).await?;
        }
        shared.idle.set(shared.idle.get() + 1);
        let all = shared.idle.get().div_ceil(u64::from(process.ranks())) * u64::from(process.ranks());
        while shared.idle.get() < all {
            self.turn(process, protocol, process.now() + LOOK).await?;
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
        process.wait_psm2(NIC, &awaited, timeout.min(until)).await;
        process.compute(protocol.progress_overhead);
        self.call(process, |endpoint, adapter, cpu| endpoint.progress(adapter, cpu).map(|()| RequestId(0)))?;
        Ok(())
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
        process.psm2(NIC, |adapter, cpu| call(endpoint, adapter, cpu)).ok_or_else(|| no_adapter(process.rank()))
    }
}

/// The library's numbers from its part.
pub(crate) fn library(part: &Psm2) -> Library {
    let bytes = |size: Bytes| u32::try_from(size.0).unwrap_or(u32::MAX);
    Library {
        tiny: bytes(*part.tiny_limit),
        sdma: bytes(*part.sdma_limit),
        sdma_blocking: bytes(*part.sdma_limit_blocking),
        eager: bytes(*part.eager_limit),
        window: bytes(*part.window),
        tid: bytes(*part.tid),
        credits: *part.flow_credits,
        timeout: *part.timeout,
        timeout_max: *part.timeout_max,
        costs: Costs {
            send: *part.send,
            packet: *part.packet,
            post: *part.post,
            receive: *part.receive,
            matching: *part.matching,
            entry: *part.entry,
            system_call: *part.system_call,
            descriptor: *part.descriptor,
            window: *part.grant,
            page: *part.page,
        },
    }
}

fn failed(rank: u32, error: Psm2Error) -> ProgramError {
    ProgramError(format!("rank {rank}: {error}"))
}
fn no_adapter(rank: u32) -> ProgramError {
    ProgramError(format!("rank {rank}: PSM2 needs an adapter with an [onload] table; choose other software or another adapter"))
}

/// The adapter that is used.
const NIC: usize = 0;
/// How often a rank at a barrier out of band looks whether the others are there. Basis: assumed; nothing is measured then.
const LOOK: Span = Span::from_us(5);
