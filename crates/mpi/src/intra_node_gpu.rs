//! Messages between ranks of one node where one of the buffers is on a GPU.
//!
//! Source: H. Wang et al., "GPU-Aware MPI on RDMA-Enabled Clusters: Design, Implementation and Evaluation", IEEE TPDS 25(10), 2014, §4
//! (copies through shared memory, CUDA IPC); UCX, `uct/cuda/cuda_ipc`: the receiver maps the sender's memory and copies.
//! Between trays of a rack that only links between GPUs join, processes share no memory: messages go by the network, but long ones from
//! GPU to GPU, which these links carry (NVIDIA, IMEX and `CU_MEM_HANDLE_TYPE_FABRIC`; UCX, cuda_ipc over multi-node NVLink).
//! Modelled: short messages through shared memory, by a core or an engine at each side; long ones from GPU to GPU with a mapping that
//! is made once for each peer; the pipeline of a core and an engine from a process's host memory to a GPU.
//! Not modelled: more than one mapping of a peer, copies by the sender.

use fabriscope_node::{Memory, Mover, Process, ProgramError};
use fabriscope_units::{Bytes, Span};

use super::buffer::Buffer;
use super::matching::Arrival;
use super::protocol::gpu::Peers;
use super::protocol::local::Local;
use super::request::RequestId;
use super::staged::CopyOf;
use super::state::State;
use super::wire::{Body, Source};

impl State {
    /// Sends (peer, tag, size) as `request` out of a buffer on a GPU.
    pub fn send_across(
        &mut self,
        process: &Process,
        local: Local,
        (peer, tag, size): (u32, u32, u32),
        request: RequestId,
    ) -> Result<(), ProgramError> {
        let (gpu, buffer) = (self.gpu()?, self.requests.at(request).buffer);
        let memory = self.home.memory(buffer)?;
        if buffer == Buffer::Device && size <= gpu.local_load_limit {
            self.load(process, size)?;
            return self.send_chunks(process, size, (peer, tag, size), request, |_, _, _, _| Ok(()));
        }
        if let (Some(peers), Memory::Device(index), Buffer::Device) = (gpu.peers, memory, buffer)
            && size >= peers.from
        {
            process.compute(peers.overhead);
            self.write_line(process, peer, Body::RequestToSend { tag, size, sender: request, source: Source::Device(index) });
            return Ok(());
        }
        let chunk = if size <= gpu.local_eager_limit { size } else { local.memory.chunk };
        self.send_chunks(process, chunk, (peer, tag, size), request, |state, process, part, _| {
            if memory == state.home.memory(Buffer::Host)? {
                process.copy(Bytes(part.into()), Bytes(u64::MAX));
                return Ok(());
            }
            state.bring_out(process, buffer, part)
        })
    }

    /// How a message of `size` bytes goes from GPU to GPU though the peer runs under another operating system of the node, if it does.
    pub fn over_links(&self, peer: u32, size: u32) -> Option<Peers> {
        let gpu = self.protocol.gpu.filter(|gpu| gpu.aware)?;
        gpu.peers.filter(|peers| size >= peers.from && self.beside.contains(&peer))
    }
    /// Whether the adapter reads such a message out of the GPU's memory: the receiver may want it on its host, to which no link leads.
    pub fn adapter_reads(&self, size: u32) -> bool {
        self.protocol.gpu.is_some_and(|gpu| gpu.reads(&self.home, size))
    }
    /// Announces such a message, by the network.
    pub fn announce_over_links(
        &mut self,
        process: &Process,
        peers: Peers,
        (peer, tag, size): (u32, u32, u32),
        request: RequestId,
    ) -> Result<(), ProgramError> {
        process.compute(peers.overhead);
        let Memory::Device(index) = self.home.memory(Buffer::Device)? else {
            return Err(ProgramError("a message from GPU to GPU, and the rank has none".to_owned()));
        };
        let rail = self.next_rail(peer)?;
        self.say(peer, rail, Body::RequestToSend { tag, size, sender: request, source: Source::Device(index) }, None)
    }

    /// The receiver of a long message copies it, where one of the buffers is on a GPU.
    pub fn copy_to_or_from_gpu(
        &mut self,
        process: &Process,
        arrival: Arrival,
        sender: RequestId,
        request: RequestId,
    ) -> Result<(), ProgramError> {
        let progress = self.requests.at(request);
        (progress.peer, progress.size) = (arrival.source, arrival.size);
        let target = self.home.memory(self.requests.at(request).buffer)?;
        let gpu = self.gpu_numbers();
        let Source::Device(index) = arrival.from else {
            return self.copy_up(process, (arrival.source, arrival.size), (sender, request), target);
        };
        let calls = process.devices()?.costs().calls;
        let open = if self.mapped.insert(arrival.source) { calls.ipc_open } else { Span::ZERO };
        process.compute(open + calls.ipc_use + gpu.peers.map_or(Span::ZERO, |peers| peers.overhead));
        let kernels = self.home.gpu.filter(|_| gpu.peers.is_some_and(|peers| peers.by_kernels));
        let id = process.begin_copy_by(kernels.map(Mover::Kernel), Memory::Device(index), target, Bytes(arrival.size.into()))?;
        self.copies.insert(id, CopyOf::Across(request, Some(sender)));
        Ok(())
    }

    /// Out of the sender's host memory by this core, chunk by chunk, and on to the GPU by its engine.
    fn copy_up(
        &mut self,
        process: &Process,
        (peer, size): (u32, u32),
        (sender, request): (RequestId, RequestId),
        target: Memory,
    ) -> Result<(), ProgramError> {
        let host = self.home.memory(Buffer::Host)?;
        let there = self.domain_of(process, peer);
        self.reach_into(process, peer, size)?;
        let (chunk, mut left) = (self.gpu_numbers().chunk, size);
        while left > 0 {
            let part = left.min(chunk);
            left -= part;
            process.copy_between(Bytes(part.into()), Bytes(u64::MAX), (there, process.domain()));
            let id = process.begin_copy(host, target, Bytes(part.into()))?;
            // The engine serves in turn: when the last chunk is there all are.
            if left == 0 {
                self.copies.insert(id, CopyOf::Across(request, Some(sender)));
            }
        }
        Ok(())
    }

    /// A message has come from another rank of the node.
    pub fn came_across(&mut self, request: RequestId, sender: Option<RequestId>) -> Result<(), ProgramError> {
        let progress = self.requests.at(request);
        progress.done = true;
        let peer = progress.peer;
        sender.map_or(Ok(()), |sender| self.say(peer, 0, Body::Finished { request: sender, pieces: 1 }, None))
    }
}
