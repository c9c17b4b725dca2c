//! Buffers in the memory of a GPU: `--use_cuda`, `--use_cuda_bus_id`, `--use_rocm`.
//!
//! Source: perftest, `cuda_memory.c`, `rocm_memory.c` (what is printed) and `force_dependecies`, `ctx_set_max_inline` of
//! `perftest_parameters.c` (what is refused, inline data).
//! Modelled: both ends have their buffers at the GPU of this number; adapters reach it as `fabriscope_node::dma` says. Nothing is sent
//! inline, and no latency of writes is measured: a core does not spin on the memory of a GPU.
//! Not modelled: DMA-BUF against peer-memory modules (the way of the bytes is the same), managed memory, kernels that touch the buffer.
//! Process numbers, addresses on the heap and, where the node part has none, PCI addresses are made up.

use std::fmt::Write;

use fabriscope_platform::{PciAddress, Target};
use fabriscope_tool::UsageError;
use fabriscope_tool::arguments::{self, Given};
use fabriscope_verbs::MemoryId;

use super::settings::Settings;
use super::test::{Kind, Verb};

/// Through what the tool uses GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Driver {
    /// CUDA.
    Cuda,
    /// ROCm.
    Rocm,
}

impl Driver {
    /// Whose GPUs it drives, and the option that asks for it.
    const fn of(self) -> (&'static str, &'static str) {
        match self {
            Driver::Cuda => ("NVIDIA", "--use_cuda"),
            Driver::Rocm => ("AMD", "--use_rocm"),
        }
    }
}

/// The GPU whose memory the buffers are in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accelerator {
    /// Through what it is used.
    pub driver: Driver,
    /// Its number in the node.
    pub index: u32,
    /// What it calls itself.
    pub name: String,
    /// PCI addresses of all GPUs of the node.
    pub addresses: Vec<PciAddress>,
    /// It was asked for by this PCI address.
    pub bus: Option<String>,
    /// Inline data was switched off without being asked.
    pub not_inline: bool,
}

impl Accelerator {
    /// Where its memory is.
    pub fn place(&self) -> MemoryId {
        u8::try_from(self.index + 1).map_or(MemoryId(u8::MAX), MemoryId)
    }
}

/// Which GPU was asked for on the command line.
#[derive(Debug, Clone)]
pub(super) struct GpuRequest {
    driver: Driver,
    typed: String,
    which: Which,
}

#[derive(Debug, Clone)]
enum Which {
    Number(u32),
    Bus(String),
}

impl GpuRequest {
    /// The number behind `--use_cuda` or `--use_rocm`.
    pub fn number(driver: Driver, given: &Given) -> Result<GpuRequest, UsageError> {
        let number = arguments::number(given, 0, 1023)? as u32;
        Ok(GpuRequest { driver, typed: given.typed.clone(), which: Which::Number(number) })
    }
    /// The address behind `--use_cuda_bus_id`.
    pub fn bus(given: &Given) -> GpuRequest {
        let bus = given.value.clone().unwrap_or_default();
        GpuRequest { driver: Driver::Cuda, typed: given.typed.clone(), which: Which::Bus(bus) }
    }

    /// The GPU, if the nodes have it.
    pub fn find(&self, target: &Target) -> Result<Accelerator, UsageError> {
        let refuse = |what: String, remedy: String| Err(UsageError::Conflict { what: format!("{}{what}", self.typed), remedy });
        let Some(gpu) = &target.gpu else {
            let remedy = "choose a cluster whose node part has GPUs, or leave it out to use host memory".to_owned();
            return refuse(" needs GPUs, and the nodes of this cluster have none".to_owned(), remedy);
        };
        let (vendor, _) = self.driver.of();
        if !gpu.title.contains(vendor) {
            let other = [Driver::Cuda, Driver::Rocm].map(Driver::of).into_iter().find(|(vendor, _)| gpu.title.contains(vendor));
            let remedy = other.map_or("leave it out to use host memory".to_owned(), |(_, option)| format!("give {option}=0"));
            return refuse(format!(" is for GPUs of {vendor}, and the nodes have: {}", gpu.title), remedy);
        }
        let (index, bus) = match &self.which {
            Which::Number(index) if *index < gpu.count => (*index, None),
            Which::Number(index) => {
                return refuse(
                    format!(" {index}: the nodes have {} GPUs", gpu.count),
                    format!("give 0 to {}", gpu.count.saturating_sub(1)),
                );
            }
            Which::Bus(bus) => match gpu.buses.iter().position(|other| same_bus(other, bus)) {
                Some(index) => (index as u32, Some(bus.clone())),
                None if gpu.buses.is_empty() => {
                    return refuse(" needs PCI addresses, and the node part has none".to_owned(), "give --use_cuda=0".to_owned());
                }
                None => return refuse(format!(" {bus}: no GPU has this address"), format!("give one of {}", gpu.buses.join(", "))),
            },
        };
        Ok(Accelerator { driver: self.driver, index, name: gpu.title.clone(), addresses: gpu.addresses(), bus, not_inline: false })
    }
}

/// What the tool refuses of memory of GPUs; inline data is off. `given` is what `-I` says.
pub(super) fn resolve(s: &mut Settings, mut gpu: Accelerator, given: Option<u32>) -> Result<(), UsageError> {
    let (_, option) = gpu.driver.of();
    if s.test.kind == Kind::Latency && s.test.verb == Verb::Write {
        let what = format!("{option} measures the latency of reads and sends only: a core does not spin on the memory of a GPU");
        return Err(UsageError::Conflict { what, remedy: "run ib_send_lat or ib_read_lat".to_owned() });
    }
    if given.is_some_and(|given| s.sizes.iter().any(|size| *size <= given)) {
        let what = format!("{option} has no inline messages: a core would have to read them from the GPU");
        return Err(UsageError::Conflict { what, remedy: "leave -I out, or give one below -s".to_owned() });
    }
    gpu.not_inline = given.is_none();
    s.inline_size = given.unwrap_or(0);
    s.gpu = Some(gpu);
    Ok(())
}

/// What the tool prints before its header.
pub(super) fn opening(s: &Settings, gpu: &Accelerator, buffer: u64) -> String {
    let (mut text, size) = (String::new(), buffer_size(s));
    let index = gpu.index;
    match gpu.driver {
        Driver::Cuda => {
            if gpu.not_inline {
                text += "Perftest doesn't supports CUDA tests with inline messages: inline size set to 0\n";
            }
            if let Some(bus) = &gpu.bus {
                let _ = writeln!(text, "initializing CUDA\nFinding PCIe BUS {bus}\nPicking GPU number {index}");
            }
            text += "initializing CUDA\nListing all CUDA devices in system:\n";
            for (number, PciAddress { bus, device, .. }) in gpu.addresses.iter().enumerate() {
                let _ = writeln!(text, "CUDA device {number}: PCIe address is {bus:02X}:{device:02X}");
            }
            let _ = writeln!(text, "\nPicking device No. {index}\n[pid = {PROCESS}, dev = {index}] device name = [{}]", gpu.name);
            text += "creating CUDA Ctx\nmaking it the current CUDA Ctx\nCUDA device integrated: 0\n";
            let _ = writeln!(text, "allocated GPU buffer of a {size} address at {ON_HEAP:#x} for type CUDA_MEM_DEVICE");
        }
        Driver::Rocm => {
            let bus = gpu.addresses.get(index as usize).map_or(0, |address| address.bus);
            let _ = writeln!(text, "Using ROCm Device with ID: {index}, Name: {}, PCI Bus ID: {bus:#x}, GCN Arch: -", gpu.name);
            let _ = writeln!(text, "allocated {} bytes of GPU buffer at {buffer:#x}", size.next_multiple_of(PAGE));
        }
    }
    text
}

/// What the tool prints at the end.
pub(super) fn closing(gpu: &Accelerator, buffer: u64) -> String {
    match gpu.driver {
        Driver::Cuda => format!("deallocating GPU buffer {buffer:016x}\ndestroying current CUDA Ctx\n"),
        Driver::Rocm => format!("deallocating GPU buffer {buffer:#x}\n"),
    }
}

/// Bytes that the tool allocates: room to send and to receive for each queue pair, at least as much as it cycles through.
fn buffer_size(s: &Settings) -> u64 {
    u64::from(s.largest()).max(CYCLE).next_multiple_of(64) * 2 * u64::from(s.qps)
}

/// `17:00.0` and `0000:17:00.0` are the same address.
fn same_bus(one: &str, other: &str) -> bool {
    let bare = |text: &str| {
        let text = text.to_ascii_lowercase();
        if text.matches(':').count() == 2 { text.trim_start_matches('0').trim_start_matches(':').to_owned() } else { text }
    };
    bare(one) == bare(other)
}

/// What the tool cycles through with small messages, in bytes. Basis: the tool.
const CYCLE: u64 = 4096;
/// Memory of GPUs is given out in pieces of this many bytes. Basis: the tool.
const PAGE: u64 = 64 << 10;
/// A process number. Basis: assumed; it only shows in the report.
const PROCESS: u32 = 4242;
/// Where the tool keeps the pointer to its buffer. Basis: assumed, the look of a Linux process.
const ON_HEAP: u64 = 0x55d1_c0a8_62a0;
