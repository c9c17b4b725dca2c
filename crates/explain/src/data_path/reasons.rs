//! What a library decided about one end of a message, and why, in words.

use fabriscope_catalog::{GpuProtocol, Mechanism, SharedMemory};
use fabriscope_machine::PathClass;
use fabriscope_mpi::{Buffer, CopyMethod, Local};
use fabriscope_units::Bytes;

/// One end of a message, as its library sees it.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// What the library says about GPUs.
    pub gpu: Option<&'a GpuProtocol>,
    /// It sends.
    pub sends: bool,
    /// Where the buffer is.
    pub buffer: Buffer,
    /// How far the nearest adapter is from the rank's GPU.
    pub class: PathClass,
    /// Both ranks are on one node.
    pub local: bool,
    /// Both ends meet before the bytes move.
    pub rendezvous: bool,
    /// Size of the message.
    pub size: Bytes,
}

/// How a message of `size` bytes in host memory gets to another rank of the node.
pub fn shared(part: &SharedMemory, size: Bytes, sends: bool) -> String {
    let local = Local::from(part);
    let limit = *part.eager_limit;
    let pages = size.0.div_ceil(4096);
    match local.single(size.saturating_u32()) {
        None if size > limit && sends => format!("FIFO: the core copies chunks of {} into shared memory", *part.chunk),
        None if size > limit => "FIFO: the core copies them out of shared memory meanwhile".to_owned(),
        None if sends => format!("FIFO: the core copies it into shared memory (up to {limit}) and writes a line"),
        None => "FIFO: the core sees the line and copies it out of shared memory".to_owned(),
        Some(single) => {
            let above = Bytes(single.above.into());
            let name = single.mechanism.name().to_uppercase();
            match (single.mechanism, sends) {
                (Mechanism::Knem, true) => format!("{name}: declares {pages} pages to the kernel and announces it (above {above})"),
                (_, true) => format!("{name}: announces it and waits (above {above})"),
                (Mechanism::Xpmem, false) => {
                    format!("{name}: maps the sender's {pages} pages, once, and copies it by loads and stores; one copy")
                }
                (_, false) => format!("{name}: asks the kernel to copy {pages} pages out of the sender's memory; one copy"),
            }
        }
    }
}

/// The same of a one-sided operation.
pub fn directly(origin: bool) -> String {
    let how =
        if origin { "the core copies to or from the other rank's window" } else { "its window is shared memory; its core has no part" };
    how.to_owned()
}

impl Seen<'_> {
    /// What happens at this end, and why.
    pub fn say(&self, means: CopyMethod) -> String {
        let limit = |limit: fn(&GpuProtocol) -> Bytes| self.gpu.map_or(Bytes::ZERO, limit);
        let meet = if self.rendezvous { ", once both sides met" } else { "" };
        match means {
            CopyMethod::Host => "the buffer is in host memory".to_owned(),
            CopyMethod::Core if self.sends => {
                let load = |gpu: &GpuProtocol| *gpu.load_limit;
                let local = |gpu: &GpuProtocol| gpu.local_load_limit.as_ref().map_or(*gpu.load_limit, |limit| **limit);
                let most = limit(if self.local { local } else { load });
                format!("GDRCopy: a core loads it out of the GPU's memory (up to {most})")
            }
            CopyMethod::Core => {
                format!("GDRCopy: a core stores it into the GPU's memory (parts up to {})", limit(|gpu| *gpu.store_limit))
            }
            CopyMethod::Direct => {
                let does = if self.sends { "reads" } else { "writes" };
                let farthest = self
                    .gpu
                    .and_then(|gpu| gpu.direct.as_ref())
                    .map_or_else(String::new, |direct| format!(", near enough (up to {})", direct.farthest.to_string().to_uppercase()));
                format!("GPUDirect RDMA: the adapter {does} the GPU's memory{meet}; it is {}{farthest}", self.class)
            }
            CopyMethod::Copy => format!("an engine copies it through host memory while the core waits{meet}: {}", self.hindrance()),
            CopyMethod::Chunks { count, chunk, depth } => {
                let whole = if count == 1 { "in one piece" } else { "chunk by chunk" };
                format!(
                    "staging through host memory {whole}: {count} x {} ({depth} at a time){meet}: {}",
                    Bytes(chunk.into()),
                    self.hindrance()
                )
            }
            CopyMethod::Peers { by_kernels } => {
                let who = if by_kernels { "kernels copy" } else { "an engine copies" };
                let from = self.gpu.and_then(|gpu| gpu.peers.as_ref()).map_or(Bytes::ZERO, |peers| *peers.from);
                format!("IPC: {who} from GPU to GPU (from {from} on)")
            }
            CopyMethod::Program => "the library is not GPU-aware: the program copies through host memory itself".to_owned(),
        }
    }

    /// Why the adapter, or the other GPU, does not reach the buffer.
    fn hindrance(&self) -> String {
        let Some(gpu) = self.gpu else { return "the library knows nothing of GPUs".to_owned() };
        if self.buffer == Buffer::Managed {
            return "managed memory is not for other devices".to_owned();
        }
        if self.local {
            return match &gpu.peers {
                Some(peers) if self.size < *peers.from => format!("IPC begins at {}", *peers.from),
                Some(_) => "only one of the buffers is on a GPU".to_owned(),
                None => "the library has no IPC".to_owned(),
            };
        }
        let Some(direct) = &gpu.direct else { return "GPUDirect RDMA is off".to_owned() };
        let limit = if self.sends { &direct.send_limit } else { &direct.receive_limit };
        match limit {
            _ if self.class > direct.farthest.class() => {
                let farthest = direct.farthest.to_string().to_uppercase();
                format!("the adapter is {}, and GPUDirect RDMA is for adapters up to {farthest}", self.class)
            }
            Some(limit) if self.size > **limit => {
                let does = if self.sends { "reads" } else { "writes" };
                format!("the adapter {does} messages up to {}", **limit)
            }
            _ if !self.sends && !self.rendezvous => "short messages come into the library's buffers".to_owned(),
            _ => "the library sends long messages out of host memory".to_owned(),
        }
    }
}
