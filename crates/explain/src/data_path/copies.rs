//! Copies on one node, as tools for GPUs make them: their way, their time, and what other memories would change.
//!
//! Modelled: one copy alone, by the models of the run itself (`fabriscope_node::Devices`); of tests that move several at a time, the first.

use std::rc::Rc;

use fabriscope_catalog::ResolvedCluster;
use fabriscope_engine::timing;
use fabriscope_machine::{Access, Machine, Purpose};
use fabriscope_node::{DeviceCosts, Devices, Memory, Mover};
use fabriscope_tools::gpu::GpuTool;
use fabriscope_units::{Bytes, Span, Time};

use super::Leg;

/// Who moves the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    /// An engine or kernels, which nobody waits for one by one.
    Mover(Mover),
    /// An engine for a core that waits (`cudaMemcpy`).
    Memcpy(u32),
    /// A core, through its window (GDRCopy).
    Core,
}

/// A copy.
#[derive(Debug, Clone)]
pub struct Copying {
    /// What the tool calls it.
    pub name: String,
    from: Memory,
    to: Memory,
    by: By,
}

/// The GPUs of a node, idle.
pub struct Bench {
    machine: Rc<Machine>,
    costs: DeviceCosts,
    gpus: u32,
    size: Bytes,
}

impl Bench {
    /// The nodes of `parts`, and copies of `size` bytes; none where they have no GPUs.
    pub fn new(parts: &ResolvedCluster, size: u64) -> Option<Bench> {
        let machine = Rc::new(parts.sole().node.machine().ok()?);
        Some(Bench { machine, costs: timing::devices(parts)?, gpus: parts.sole().node.gpus, size: Bytes(size) })
    }
    /// The node.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }
    fn devices(&self) -> Devices {
        Devices::new(Rc::clone(&self.machine), self.costs)
    }
    fn home(&self, gpu: u32) -> Memory {
        self.devices().home(gpu).unwrap_or(Memory::Host(0))
    }

    /// The copies of a tool: of `nvbandwidth` those of the named tests.
    pub fn copies(&self, tool: GpuTool, tests: &[String]) -> Vec<Copying> {
        let (host, own) = (self.home(0), Memory::Device(0));
        let copy = |name: &str, from, to, by| Copying { name: name.to_owned(), from, to, by };
        let stores = || [copy("gdr_copy_to_mapping", host, own, By::Core), copy("gdr_copy_from_mapping", own, host, By::Core)];
        match tool {
            GpuTool::CopyLat => {
                let calls = [copy("cuMemcpy_H2D", host, own, By::Memcpy(0)), copy("cuMemcpy_D2H", own, host, By::Memcpy(0))];
                self.mapped(stores().into()).into_iter().chain(calls).collect()
            }
            GpuTool::CopyBw => self.mapped(stores().into()),
            GpuTool::NvBandwidth if tests.is_empty() => TESTS.iter().filter_map(|name| self.test(name)).collect(),
            GpuTool::NvBandwidth => tests.iter().filter_map(|name| self.test(name)).collect(),
            GpuTool::P2p => TESTS.iter().filter(|name| name.starts_with("device_to_device")).filter_map(|name| self.test(name)).collect(),
            // Its operations are no copies from one memory to another.
            GpuTool::ScaleUp => Vec::new(),
            GpuTool::BabelStream => vec![copy("Copy", own, own, By::Mover(Mover::Kernel(0)))],
        }
    }

    fn mapped(&self, copies: Vec<Copying>) -> Vec<Copying> {
        if self.costs.mapped.is_some() { copies } else { Vec::new() }
    }

    /// The first copy of a test of `nvbandwidth`.
    fn test(&self, name: &str) -> Option<Copying> {
        let (host, own, peer) = (self.home(0), Memory::Device(0), Memory::Device(1));
        let is = |stems: &[&str]| stems.iter().any(|stem| name.starts_with(stem));
        let (from, to) = if is(&["host_to_device", "host_to_all"]) {
            (host, own)
        } else if is(&["device_to_host", "all_to_host"]) {
            (own, host)
        } else if name == "device_local_copy" {
            (own, own)
        } else if self.gpus > 1 && is(&["device_to_device", "all_to_one", "one_to_all"]) {
            if name.contains("read") { (peer, own) } else { (own, peer) }
        } else {
            return None;
        };
        let kernels = name.ends_with("_sm") || from == to;
        let by = By::Mover(if kernels { Mover::Kernel(0) } else { Mover::Engine(0) });
        Some(Copying { name: name.to_owned(), from, to, by })
    }

    /// The way of a copy.
    pub fn leg(&self, copying: &Copying) -> Option<Leg> {
        let devices = self.devices();
        let ends = (devices.vertex(copying.from).ok()?, devices.vertex(copying.to).ok()?);
        let (purpose, access, who) = match copying.by {
            By::Core if matches!(copying.from, Memory::Host(_)) => (Purpose::Dma, Access::Write, "a core stores".to_owned()),
            By::Core => (Purpose::Dma, Access::Read, "a core loads".to_owned()),
            By::Memcpy(gpu) | By::Mover(Mover::Engine(gpu)) => (Purpose::Copy, access(copying.to, gpu), format!("an engine of gpu{gpu}")),
            By::Mover(Mover::Kernel(gpu)) => (Purpose::Copy, access(copying.to, gpu), format!("kernels of gpu{gpu}")),
        };
        Leg::between(&self.machine, who, ends, purpose, access)
    }

    /// The stages of a copy, which make up all of its time; none where it is not possible.
    pub fn stages(&self, copying: &Copying) -> Option<Vec<(String, Span)>> {
        let costs = &self.costs;
        let (first, call, rest) = match copying.by {
            By::Core => {
                let up = matches!(copying.from, Memory::Host(_));
                let window = costs.mapped?;
                let (call, all) =
                    if up { (window.store_call, window.store(self.size)) } else { (window.load_call, window.load(self.size)) };
                return Some(vec![("call".to_owned(), call), (if up { "stores" } else { "loads" }.to_owned(), all - call)]);
            }
            By::Memcpy(gpu) => ("call of the copy", costs.calls.copy, Mover::Engine(gpu)),
            By::Mover(mover) => ("", Span::ZERO, mover),
        };
        let devices = self.devices();
        let id = devices.start_on(Time::ZERO, rest, copying.from, copying.to, self.size).ok()?;
        let moved = devices.end(Time::ZERO, id)? - Time::ZERO;
        let way = self.leg(copying).map_or(Span::ZERO, |leg| leg.latency(&self.machine)).min(moved);
        let stages = [(first, call), ("bytes", moved - way), ("latency of the way", way)];
        Some(stages.into_iter().filter(|(_, span)| *span > Span::ZERO).map(|(name, span)| (name.to_owned(), span)).collect())
    }

    /// The same copy otherwise: between other memories, by others. Those whose time is known already are left out.
    pub fn variations(&self, copying: &Copying) -> Vec<(String, Span)> {
        let mut others: Vec<(String, Copying)> = Vec::new();
        let mut add = |what: String, from, to, by| others.push((what, Copying { from, to, by, ..copying.clone() }));
        let numas = self.machine.numas().len() as u32;
        let on = |gpu: u32| match copying.by {
            By::Mover(Mover::Engine(_)) => By::Mover(Mover::Engine(gpu)),
            By::Mover(Mover::Kernel(_)) => By::Mover(Mover::Kernel(gpu)),
            By::Memcpy(_) => By::Memcpy(gpu),
            By::Core => By::Core,
        };
        match (copying.from, copying.to) {
            (Memory::Host(now), Memory::Device(gpu)) | (Memory::Device(gpu), Memory::Host(now)) if copying.by != By::Core => {
                let up = matches!(copying.from, Memory::Host(_));
                let ends = |host, device| if up { (host, device) } else { (device, host) };
                for numa in (0..numas).filter(|numa| *numa != now) {
                    let (from, to) = ends(Memory::Host(numa), Memory::Device(gpu));
                    add(format!("the host memory of numa{numa}"), from, to, copying.by);
                }
                for other in (0..self.gpus).filter(|other| *other != gpu) {
                    let (from, to) = ends(Memory::Host(now), Memory::Device(other));
                    add(format!("gpu{other} and the host memory of numa{now}"), from, to, on(other));
                }
            }
            (Memory::Device(from), Memory::Device(to)) if from != to => {
                let own = if copying.by == on(from) { from } else { to };
                for peer in (0..self.gpus).filter(|peer| *peer != from && *peer != to) {
                    let ends = if own == from { (own, peer) } else { (peer, own) };
                    add(format!("gpu{peer} as the peer"), Memory::Device(ends.0), Memory::Device(ends.1), copying.by);
                }
            }
            _ => {}
        }
        if let By::Mover(Mover::Engine(gpu)) = copying.by {
            add("kernels instead of an engine".to_owned(), copying.from, copying.to, By::Mover(Mover::Kernel(gpu)));
        }
        if copying.by == By::Core {
            add("a copy by an engine (cuMemcpy)".to_owned(), copying.from, copying.to, By::Memcpy(0));
        } else if matches!(copying.by, By::Memcpy(_)) && self.costs.mapped.is_some() {
            add("a core's stores or loads (GDRCopy)".to_owned(), copying.from, copying.to, By::Core);
        }
        let total = |copying: &Copying| self.stages(copying).map(|stages| stages.iter().map(|(_, span)| *span).sum::<Span>());
        let mut known: Vec<Span> = total(copying).into_iter().collect();
        let mut told = Vec::new();
        for (what, other) in others {
            if let Some(span) = total(&other).filter(|span| !known.contains(span)) {
                known.push(span);
                told.push((what, span));
            }
        }
        told
    }
}

/// A mover reads what lies elsewhere, and writes to elsewhere what lies in its memory.
fn access(to: Memory, gpu: u32) -> Access {
    if to == Memory::Device(gpu) { Access::Read } else { Access::Write }
}

/// Tests of `nvbandwidth` that stand for the others.
const TESTS: [&str; 5] = [
    "host_to_device_memcpy_ce",
    "device_to_host_memcpy_ce",
    "device_to_device_memcpy_read_ce",
    "device_to_device_memcpy_write_ce",
    "device_local_copy",
];
