//! Messages in the memory of a GPU: how they leave it and how they get into it.
//!
//! Source: H. Wang et al., "MVAPICH2-GPU: Optimized GPU to GPU Communication for InfiniBand Clusters", ISC 2011 (pipeline through
//! host memory); S. Potluri et al., "Efficient Inter-node MPI Communication Using GPUDirect RDMA for InfiniBand Clusters with NVIDIA
//! GPUs", ICPP 2013 (direct where the path is good enough); R. Shi et al., HiPC 2014 (a core's loads and stores for short messages).
//! Modelled: what the sender and the receiver each decide for themselves, by size and by how near the adapter is.
//! Not modelled: loopback through the adapter in place of a core's loads.

use fabriscope_node::{Process, ProgramError};
use fabriscope_units::Bytes;

use super::buffer::Buffer;
use super::protocol::Path;
use super::protocol::gpu::{Gpu, Leaving, unaware};
use super::request::RequestId;
use super::state::State;
use super::trace::note;

impl State {
    /// What the library does with the memory of GPUs, if programs may give it.
    pub fn gpu(&self) -> Result<Gpu, ProgramError> {
        self.protocol.gpu.filter(|gpu| gpu.aware).ok_or_else(unaware)
    }

    /// The same numbers where no message on a device can be meant.
    pub fn gpu_numbers(&self) -> Gpu {
        self.protocol.gpu.unwrap_or(Gpu::NONE)
    }

    /// Readies a message in the memory of a GPU for another node: how it goes on, or `None` where it goes through host memory in
    /// chunks.
    pub fn bring(&mut self, process: &Process, request: RequestId, size: u32) -> Result<Option<Path>, ProgramError> {
        let (gpu, buffer) = (self.gpu()?, self.requests.at(request).buffer);
        // Who fetches a message by sends fetches it from a host buffer.
        let sends = self.protocol.sends(size);
        let leaving = gpu.leaving(size, buffer, self.is_near(0) && !sends);
        let copied = match leaving {
            Leaving::Loaded => {
                self.load(process, size)?;
                true
            }
            Leaving::Copied => {
                self.bring_out(process, buffer, size)?;
                true
            }
            Leaving::Staged if sends => {
                self.bring_out(process, buffer, size)?;
                self.requests.at(request).buffer = Buffer::Host;
                return Ok(Some(Path::Rendezvous));
            }
            Leaving::Direct => {
                self.register(process, buffer, size);
                false
            }
            Leaving::DirectRendezvous => return Ok(Some(Path::Rendezvous)),
            Leaving::Staged => return Ok(None),
        };
        if copied {
            self.requests.at(request).buffer = Buffer::Host;
        }
        Ok(Some(Path::Eager { copied }))
    }

    /// A call with a pointer: a library that knows of GPUs looks where it points.
    pub fn look_at_pointer(&self, process: &Process) {
        if let (Some(_), Ok(devices), true) = (self.home.gpu, process.devices(), self.protocol.gpu.is_some_and(|gpu| gpu.aware)) {
            process.compute(devices.costs().calls.pointer_query);
        }
    }

    /// The adapter of `rail` may read and write the memory of this rank's GPU.
    pub fn is_near(&self, rail: usize) -> bool {
        self.rails.get(rail).is_some_and(|rail| rail.device.is_some())
    }

    /// Copies `size` bytes of a message into host memory while the core waits.
    pub fn bring_out(&self, process: &Process, buffer: Buffer, size: u32) -> Result<(), ProgramError> {
        let host = self.home.memory(Buffer::Host)?;
        process.memcpy_at_once(self.home.memory(buffer)?, host, Bytes(size.into()))
    }

    /// The core loads a message of `size` bytes out of the GPU's memory. Where caches keep its lines, a buffer that was loaded before
    /// is in them: nobody writes to a buffer that is sent.
    pub fn load(&mut self, process: &Process, size: u32) -> Result<(), ProgramError> {
        process.compute(self.gpu_numbers().mapping_overhead);
        if process.devices()?.costs().coherent && size <= self.loaded {
            self.copy_in(process, size);
            return Ok(());
        }
        self.loaded = self.loaded.max(size);
        process.load_from_device(Bytes(size.into()))
    }

    /// Core time of a message in `buffer`, beside the calls of the driver.
    pub fn handle_device(&self, process: &Process, buffer: Buffer) {
        if buffer != Buffer::Host {
            process.compute(self.gpu_numbers().overhead);
        }
    }

    /// Takes `size` bytes of a message out of a library's buffer into that of `request`, while the core waits.
    pub fn take_out(&mut self, process: &Process, request: RequestId, size: u32, source: u32) -> Result<(), ProgramError> {
        let buffer = self.requests.at(request).buffer;
        if buffer == Buffer::Host || size == 0 {
            let begun = process.now();
            let local = self.connections.get(&source).is_some_and(|connection| connection.local);
            if local {
                self.fetch_payload(process, source, size);
            }
            State::copy_out_of(process, self.domain_of(process, source), size);
            if local {
                self.has_copied = true;
                note(process, begun, &[], || "copy out of shared memory".to_owned());
            }
            return Ok(());
        }
        if buffer == Buffer::Device && size <= self.gpu_numbers().store_limit {
            process.compute(self.gpu_numbers().mapping_overhead);
            return process.store_to_device(Bytes(size.into()));
        }
        let (host, target) = (self.home.memory(Buffer::Host)?, self.home.memory(buffer)?);
        if host == target {
            State::copy_out_of(process, self.domain_of(process, source), size);
            return Ok(());
        }
        process.memcpy_at_once(host, target, Bytes(size.into()))
    }

    /// An adapter is about to use the first `size` bytes of `buffer`: they are registered, if they are not yet, or if nothing is kept.
    pub fn register(&mut self, process: &Process, buffer: Buffer, size: u32) {
        if let Some(each) = self.protocol.registration.filter(|_| buffer == Buffer::Host) {
            let begun = process.now();
            process.compute(each.cost(buffer, 0, size));
            note(process, begun, &[], || "registers the buffer".to_owned());
            return;
        }
        let Some(registration) = self.protocol.gpu.and_then(|gpu| gpu.registration) else { return };
        let known = self.registered.entry(buffer).or_insert(0);
        if size > *known {
            process.compute(registration.cost(buffer, *known, size));
            *known = size;
        }
    }
}
