//! The calls a program makes.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use fabriscope_catalog::{MpiTransport, TagMatching};
use fabriscope_node::{Doing, Memory, Process, ProgramError};
use fabriscope_units::{Bytes, Span, Time};

use super::buffer::Buffer;
use super::in_network::InNetwork;
use super::matching::Pattern;
use super::offload::OffloadClient;
use super::onload::Onload;
use super::protocol::Path;
use super::request::{Carried, Request};
use super::setup;
use super::state::State;
use super::triggered::TriggeredBarrier;
use super::wire::Body;
use super::world::{NodeMemory, World};

/// One rank of a job after `MPI_Init`. Messages are sizes; no bytes are moved.
pub struct Rank {
    pub(super) process: Process,
    pub(super) world: World,
    /// What it shares with the ranks of its node.
    pub(super) memory: Rc<NodeMemory>,
    pub(super) state: RefCell<State>,
    /// Where PSM2 carries the messages.
    pub(super) onload: Option<Onload>,
    /// Where switches carry out operations.
    pub(super) network: RefCell<Option<InNetwork>>,
    /// Messages of one-sided operations that are to be freed when they have left.
    pub(super) open: RefCell<Vec<Request>>,
    /// Where cores of the adapter do.
    pub(super) door: RefCell<Option<OffloadClient>>,
    /// Where the adapter carries out barriers by itself.
    pub(super) triggered: RefCell<Option<TriggeredBarrier>>,
}

impl Rank {
    /// Joins the job and connects to `peers`; each of them must name this rank as well. Connecting takes no time.
    ///
    /// # Errors
    /// A queue pair could not be created or connected.
    pub async fn init(process: Process, world: World, peers: &[u32]) -> Result<Rank, ProgramError> {
        Rank::init_in(process, world, peers, Buffer::Host).await
    }
    /// The same of a rank that receives into `buffer`: where the adapter finds the receive of a message, it puts it there.
    ///
    /// # Errors
    /// As [`init`](Self::init).
    pub async fn init_in(process: Process, world: World, peers: &[u32], buffer: Buffer) -> Result<Rank, ProgramError> {
        let memory = world.on(&process);
        process.drive(world.0.protocol.wqe_build, world.0.protocol.poll_hit);
        if let Some(library) = world.0.psm2 {
            let (local, peers) = setup::apart(&process, &world.0, peers).await;
            let onload = Some(Onload::open(&process, &world.0, library, &peers).await?);
            let protocol = world.0.protocol.on(&process);
            let (home, near) = (world.0.home(&process), world.0.local(process.rank(), local).into_iter().collect());
            let state = RefCell::new(State::new((process.rank(), memory.clone()), protocol, Vec::new(), near, home));
            return Ok(Rank {
                process,
                world,
                memory,
                state,
                onload,
                network: RefCell::default(),
                open: RefCell::default(),
                door: RefCell::default(),
                triggered: RefCell::default(),
            });
        }
        let state = setup::open(&process, (&world, &memory), peers, buffer).await?;
        Ok(Rank {
            process,
            world,
            memory,
            state: RefCell::new(state),
            onload: None,
            network: RefCell::default(),
            open: RefCell::default(),
            door: RefCell::default(),
            triggered: RefCell::default(),
        })
    }
    /// The same with all other ranks of the job.
    ///
    /// # Errors
    /// As [`init`](Self::init).
    pub async fn init_all(process: Process, world: World) -> Result<Rank, ProgramError> {
        let peers: Vec<u32> = (0..process.ranks()).filter(|rank| *rank != process.rank()).collect();
        Rank::init(process, world, &peers).await
    }
    /// This rank talks to some of the ranks of a job only, where the library would have connections to all of `nodes` nodes with `per_node` ranks
    /// each: those that it did not make take their share of the adapter.
    pub fn stands_for_all(&self, nodes: u32, per_node: u32) {
        let state = self.state.borrow();
        let all = state.protocol.queue_pairs_of(nodes, per_node);
        for (index, rail) in state.rails.iter().enumerate() {
            let links = state.connections.values().filter(|connection| !connection.local).filter_map(|peer| peer.links.get(index));
            let made = match state.protocol.transport {
                // Each adapter elsewhere has one that sends, and this node about one that receives for each of its ranks.
                MpiTransport::Xrc => 2 * links.map(|link| link.qp).collect::<BTreeSet<_>>().len(),
                MpiTransport::Rc | MpiTransport::RcSrq => links.count(),
                _ => all as usize,
            };
            self.process.nic(rail.nic, |n| n.leave_out(all.saturating_sub(made as u32)));
        }
    }
    /// `MPI_Comm_rank`.
    pub fn rank(&self) -> u32 {
        self.process.rank()
    }
    /// `MPI_Comm_size`.
    pub fn ranks(&self) -> u32 {
        self.process.ranks()
    }
    /// `MPI_Wtime`.
    pub fn now(&self) -> Time {
        self.process.now()
    }
    /// Notes a call of the library that began at `begun` and ends now, for timelines: its name and the size that it is about.
    pub fn note_call(&self, begun: Time, call: impl FnOnce() -> (String, Bytes)) {
        self.process.note_activity((begun, self.process.now()), || {
            let (name, bytes) = call();
            Doing::Call { name, bytes }
        });
    }
    /// Sets the working set of the program to `bytes` of buffers; where no cache holds them, copies share the memory.
    pub fn goes_through(&self, bytes: Bytes) {
        self.process.goes_through(bytes);
    }
    /// Copies `bytes` from one buffer of the program to another.
    pub fn copy(&self, bytes: Bytes) {
        self.process.copy(bytes, bytes * 2);
    }
    /// Leaves the core idle until `time`.
    pub async fn sleep_until(&self, time: Time) {
        self.process.sleep_until(time).await;
    }
    /// Keeps the core busy.
    pub fn compute(&self, span: Span) {
        self.process.compute(span);
    }
    /// How long the core has spun so far with nothing there to see.
    #[must_use]
    pub fn idle(&self) -> Span {
        self.process.idle()
    }
    /// The same beside other cores of the node: what they and this one ask of memories and links afterwards is asked in the order of time.
    pub async fn work(&self, span: Span) {
        self.process.compute(span);
        self.process.catch_up().await;
    }
    /// Waits for all ranks out of band, to separate measurements: no traffic but what is still to be acknowledged, and copied messages that
    /// wait for credits, which leave first. Their receivers have to receive them before they wait here themselves.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub async fn synchronise(&self) -> Result<(), ProgramError> {
        if let Some(onload) = &self.onload {
            return onload.synchronise(&self.process, &self.world.0.protocol).await;
        }
        // A message that was copied is done for its sender; inside the barrier nobody would post it when credits come.
        // What came beside what the program waited for is handled, too.
        while self.state.borrow().has_unsent() || self.state.borrow().has_unhandled() {
            self.turn().await?;
        }
        self.process.barrier().await;
        Ok(())
    }

    /// `MPI_Isend` of `size` bytes.
    ///
    /// # Errors
    /// No connection to `destination`, or a queue pair in error.
    pub fn isend(&self, destination: u32, tag: u32, size: u32) -> Result<Request, ProgramError> {
        self.isend_from(Buffer::Host, destination, tag, size)
    }
    /// The same out of a buffer somewhere else.
    ///
    /// # Errors
    /// As [`isend`](Self::isend); a buffer on a device where the library or the node knows of none.
    pub fn isend_from(&self, buffer: Buffer, destination: u32, tag: u32, size: u32) -> Result<Request, ProgramError> {
        self.isend_saying(buffer, (destination, tag, size), None, false)
    }
    /// The same of a short message that `says` something of the library's own, if it does; `waits`: the program goes on when it is sent.
    pub(super) fn isend_saying(
        &self,
        buffer: Buffer,
        (destination, tag, size): (u32, u32, u32),
        says: Option<Body>,
        waits: bool,
    ) -> Result<Request, ProgramError> {
        if let Some(handed) = self.hand_message(destination, true, size) {
            return handed;
        }
        if let Some(onload) = self.onload_to(destination) {
            return Ok(Request(Carried::Psm2(onload.send(
                &self.process,
                &self.world.0.protocol,
                (destination, tag),
                (size, buffer),
                waits,
            )?)));
        }
        let state = &mut *self.state.borrow_mut();
        let request = state.requests.open(destination, size, buffer);
        self.process.compute(state.protocol.send_overhead);
        state.look_at_pointer(&self.process);
        state.handle_device(&self.process, buffer);
        if let Some(local) = state.local(destination)? {
            if buffer != Buffer::Host {
                state.send_across(&self.process, local, (destination, tag, size), request)?;
                return Ok(Request(Carried::Own(request)));
            }
            state.send_local(&self.process, local, (destination, tag, size), request)?;
            return Ok(Request(Carried::Own(request)));
        }
        if let Some(peers) =
            state.over_links(destination, size).filter(|_| buffer == Buffer::Device && says.is_none() && state.adapter_reads(size))
        {
            state.announce_over_links(&self.process, peers, (destination, tag, size), request)?;
            state.flush_one(&self.process, destination)?;
            return Ok(Request(Carried::Own(request)));
        }
        let path =
            if buffer == Buffer::Host { Some(state.protocol.path(size, waits)) } else { state.bring(&self.process, request, size)? };
        let is_short = matches!(path, Some(Path::Eager { .. })) && size <= state.protocol.packet_limit;
        if says.is_some() && !is_short {
            let what = "an operation on one element has to fit into a short message";
            return Err(ProgramError(format!("rank {}: {what}; raise the library's limits of those to {size} B", self.rank())));
        }
        match path {
            Some(Path::Eager { copied }) => {
                let leaves = state.requests.at(request).buffer;
                let rail = state.next_rail_between(destination, leaves, Buffer::Host)?;
                let here = size.min(state.protocol.packet_limit);
                // What came from a device is in the library's buffer already.
                let copies = copied && buffer == Buffer::Host;
                if copies {
                    state.copy_in(&self.process, here);
                }
                state.requests.at(request).done = copied;
                let (whole, message) = (here == size, state.number());
                let zero_copy = (whole && !copied).then_some(request);
                let body = says.unwrap_or(Body::Eager { tag, size, here, message });
                state.say_out_of(destination, rail, body, zero_copy, leaves)?;
                let (mut at, part) = (here, |size| Body::Part { message, size });
                while copies && at < size {
                    // Each packet leaves while the next is copied.
                    state.flush_one(&self.process, destination)?;
                    let next = state.protocol.packet().min(size - at);
                    state.copy_in(&self.process, next);
                    state.say_rest(destination, request, (at, at + next), false, part)?;
                    at += next;
                }
                state.say_rest(destination, request, (at, size), !copied, part)?;
            }
            Some(Path::Rendezvous) => state.announce(&self.process, destination, tag, size, request)?,
            None => state.announce_staged(&self.process, destination, tag, size, request)?,
        }
        state.flush_one(&self.process, destination)?;
        Ok(Request(Carried::Own(request)))
    }
    /// `MPI_Irecv` into a buffer of `size` bytes; `None` is any source, any tag.
    ///
    /// # Errors
    /// A waiting message is longer than `size`; a queue pair in error.
    pub fn irecv(&self, source: Option<u32>, tag: Option<u32>, size: u32) -> Result<Request, ProgramError> {
        self.irecv_into(Buffer::Host, source, tag, size)
    }
    /// The same into a buffer somewhere else.
    ///
    /// # Errors
    /// As [`irecv`](Self::irecv); a buffer on a device where the library or the node knows of none.
    pub fn irecv_into(&self, buffer: Buffer, source: Option<u32>, tag: Option<u32>, size: u32) -> Result<Request, ProgramError> {
        if let Some(handed) = source.and_then(|source| self.hand_message(source, false, size)) {
            return handed;
        }
        if let Some(onload) = self.onload_from(source)? {
            return Ok(Request(Carried::Psm2(onload.receive(&self.process, (source, tag), (size, buffer))?)));
        }
        let state = &mut *self.state.borrow_mut();
        if buffer != Buffer::Host {
            state.gpu()?;
            state.home.memory(buffer)?;
        }
        let request = state.requests.open(source.unwrap_or_default(), size, buffer);
        state.look_at_pointer(&self.process);
        state.handle_device(&self.process, buffer);
        if state.protocol.tag_matching == TagMatching::Adapter {
            let cpu = self.process.cpu();
            self.process.compute(cpu.wqe_build + cpu.mmio_busy);
        }
        state.posted(&self.process, Pattern { source, tag }, request)?;
        state.flush(&self.process)?;
        Ok(Request(Carried::Own(request)))
    }
    /// `MPI_Wait`.
    ///
    /// # Errors
    /// A queue pair in error; a message longer than its receive.
    pub async fn wait(&self, request: Request) -> Result<(), ProgramError> {
        self.state.borrow_mut().waits_for.begin([&request]);
        let result = self.wait_one_of_set(request).await;
        self.state.borrow_mut().waits_for.end();
        result
    }
    /// Waits for a request of the set that is waited for.
    pub(super) async fn wait_one_of_set(&self, request: Request) -> Result<(), ProgramError> {
        while !self.is_done(&request) {
            self.turn().await?;
        }
        match (request.0, &self.onload) {
            (Carried::Own(request), _) => self.state.borrow_mut().requests.close(request),
            (Carried::Psm2(request), Some(onload)) => onload.close(&self.process, &self.world.0.protocol, request),
            (Carried::Psm2(_), None) => {}
            (Carried::Offloaded(number), _) => self.forget(number),
            (Carried::Triggered(_), _) => {}
        }
        Ok(())
    }
    /// `MPI_Waitall`.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub async fn wait_all(&self, requests: Vec<Request>) -> Result<(), ProgramError> {
        self.state.borrow_mut().waits_for.begin(&requests);
        for request in requests {
            self.wait_one_of_set(request).await?;
        }
        self.state.borrow_mut().waits_for.end();
        Ok(())
    }
    /// `MPI_Test`: whether `request` is done; it makes no progress by itself.
    pub fn is_done(&self, request: &Request) -> bool {
        match request.0 {
            Carried::Own(request) => self.state.borrow().requests.is_done(request),
            Carried::Psm2(request) => self.onload.as_ref().is_none_or(|onload| onload.is_done(request)),
            Carried::Offloaded(number) => self.is_over(number),
            Carried::Triggered(number) => self.is_counted(number),
        }
    }
    /// `MPI_Send`.
    ///
    /// # Errors
    /// As [`isend`](Self::isend) and [`wait`](Self::wait).
    pub async fn send(&self, destination: u32, tag: u32, size: u32) -> Result<(), ProgramError> {
        self.send_from(Buffer::Host, destination, tag, size).await
    }
    /// The same out of a buffer somewhere else.
    ///
    /// # Errors
    /// As [`isend_from`](Self::isend_from) and [`wait`](Self::wait).
    pub async fn send_from(&self, buffer: Buffer, destination: u32, tag: u32, size: u32) -> Result<(), ProgramError> {
        let request = self.isend_saying(buffer, (destination, tag, size), None, true)?;
        self.wait(request).await
    }
    /// `MPI_Recv`.
    ///
    /// # Errors
    /// As [`irecv`](Self::irecv) and [`wait`](Self::wait).
    pub async fn recv(&self, source: Option<u32>, tag: Option<u32>, size: u32) -> Result<(), ProgramError> {
        self.recv_into(Buffer::Host, source, tag, size).await
    }
    /// The same into a buffer somewhere else.
    ///
    /// # Errors
    /// As [`irecv_into`](Self::irecv_into) and [`wait`](Self::wait).
    pub async fn recv_into(&self, buffer: Buffer, source: Option<u32>, tag: Option<u32>, size: u32) -> Result<(), ProgramError> {
        let request = self.irecv_into(buffer, source, tag, size)?;
        self.wait(request).await
    }

    /// The program itself copies `size` bytes from its GPU to host memory and waits.
    ///
    /// # Errors
    /// The node has no GPUs.
    pub async fn copy_from_device(&self, size: u32) -> Result<(), ProgramError> {
        let (device, host) = self.memories()?;
        self.process.memcpy_pageable(device, host, Bytes(size.into())).await
    }
    /// The same in the other direction.
    ///
    /// # Errors
    /// The node has no GPUs.
    pub async fn copy_to_device(&self, size: u32) -> Result<(), ProgramError> {
        let (device, host) = self.memories()?;
        self.process.memcpy_pageable(host, device, Bytes(size.into())).await
    }
    pub(super) fn memories(&self) -> Result<(Memory, Memory), ProgramError> {
        let home = &self.state.borrow().home;
        Ok((home.memory(Buffer::Device)?, home.memory(Buffer::Host)?))
    }

    /// PSM2, if it carries messages to `peer`.
    fn onload_to(&self, peer: u32) -> Option<&Onload> {
        self.onload.as_ref().filter(|_| !self.state.borrow().connections.contains_key(&peer))
    }
    /// The same for messages from `source`.
    fn onload_from(&self, source: Option<u32>) -> Result<Option<&Onload>, ProgramError> {
        let Some(source) = source else {
            if self.onload.is_some() && !self.state.borrow().connections.is_empty() {
                let what = "a receive from any rank looks into PSM2 alone, and ranks of this node send through its memory";
                return Err(ProgramError(format!("rank {}: {what}; name the source", self.rank())));
            }
            return Ok(self.onload.as_ref());
        };
        Ok(self.onload_to(source))
    }
}
