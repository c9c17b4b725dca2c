//! Changes inside nodes with GPUs: other memories, GPUs, adapters and ways of the library.

use fabriscope_catalog::{Mechanism, Mpi, NumaDistance, RailPolicy, ResolvedCluster};
use fabriscope_machine::{Access, Machine, PathClass, Purpose, VertexId};
use fabriscope_mpi::RankLocation;
use fabriscope_platform::{Binding, device};
use fabriscope_units::Rate;

use super::{Setting, Variation};
use crate::data_path::Inside;
use fabriscope_lab::devices::DeviceOptions;

impl Setting<'_> {
    /// Every change that makes sense on these nodes; none where they have no GPUs.
    pub(super) fn devices(&self, all: &mut Vec<Variation>) {
        let Some(inside) = self.inside else { return };
        if inside.local && !inside.on_device {
            self.within(inside, all);
        } else if inside.on_device {
            all.push(self.host_buffers());
        } else if self.parts.sole().node.numa == NumaDistance::Local && self.parts.sole().node.sockets > 1 && !inside.local {
            all.push(self.with("the program at the other socket", |parts| parts.sole_mut().node.numa = NumaDistance::Remote));
        }
        if self.perftest {
            self.adapters_of_perftest(inside, all);
            self.gpus_of_perftest(inside, all);
        } else {
            self.library(inside, all);
            self.other_gpus(inside, all);
            self.farther_adapters(inside, all);
            self.rails(inside, all);
        }
    }

    /// Other means between ranks of a node, and other seats.
    fn within(&self, inside: &Inside, all: &mut Vec<Variation>) {
        let Some(shared) = self.parts.sole().software.mpi.as_ref().and_then(|mpi| mpi.shared_memory.as_ref()) else { return };
        for mechanism in Mechanism::ALL {
            if mechanism != shared.mechanism && (mechanism == Mechanism::Fifo || shared.costs(mechanism).is_some()) {
                let change = |parts: &mut ResolvedCluster| {
                    if let Some(shared) = parts.sole_mut().software.mpi.as_mut().and_then(|mpi| mpi.shared_memory.as_mut()) {
                        shared.mechanism = mechanism;
                    }
                };
                all.push(self.with(format!("long messages by {}", mechanism.name().to_uppercase()), change));
            }
        }
        let domains = inside.machine.numas().len() as u32;
        if let [first, second] = &inside.homes[..]
            && domains > 1
        {
            let together = first.numa == second.numa;
            let what = if together { "the ranks on two sockets" } else { "the ranks on one socket" };
            let other = if together { domains - 1 } else { first.numa };
            let mut variation = self.with(what, |_| {});
            variation.binding = self.binding.clone().at(vec![first.numa, other]);
            all.push(variation);
        }
    }

    fn host_buffers(&self) -> Variation {
        let mut variation = self.with("buffers in host memory", |_| {});
        let mut value = false;
        variation.options.retain(|option| {
            // `--use_cuda 0`, `-d managed`: the value is an option of its own.
            let accelerator = option == "-d" && !self.perftest;
            let keep = !(is_place(option) || is_gpu(option) || accelerator || std::mem::replace(&mut value, false));
            value |= accelerator || (is_gpu(option) && !option.contains('=') && !option.ends_with("dmabuf"));
            keep
        });
        variation
    }

    /// GPUDirect and GPU-awareness, on and off.
    fn library(&self, inside: &Inside, all: &mut Vec<Variation>) {
        if !inside.on_device {
            return;
        }
        let gpu = |mpi: &Option<Mpi>| mpi.as_ref().and_then(|mpi| mpi.gpu.clone());
        let (Some(now), Some(before)) = (gpu(&self.parts.sole().software.mpi), gpu(&self.original.sole().software.mpi)) else { return };
        let direct = now.direct.is_some() || now.load_limit.0 > 0 || now.store_limit.0 > 0;
        let off = || Some("off".to_owned());
        let mut changed = |what: &str, devices: DeviceOptions| {
            let mut variation = self.with(what, |_| {});
            if devices.apply(&mut variation.parts, 2).is_ok() {
                all.push(variation);
            }
        };
        if now.aware && direct {
            changed("GPUDirect and GDRCopy off", DeviceOptions { gpudirect: off(), ..DeviceOptions::default() });
        }
        if now.aware {
            changed("a library that is not GPU-aware", DeviceOptions { gpu_aware: off(), ..DeviceOptions::default() });
        }
        let mut restored = |what: &str, aware: bool| {
            all.push(self.with(what, |parts| {
                if let Some(gpu) = parts.sole_mut().software.mpi.as_mut().and_then(|mpi| mpi.gpu.as_mut()) {
                    *gpu = before.clone();
                    gpu.aware = aware;
                }
            }));
        };
        if now.aware && before != now {
            restored("GPUDirect and GDRCopy on", true);
        }
        if !now.aware && before.aware {
            restored("a GPU-aware library", true);
        }
    }

    /// GPUs whose ways differ: from the adapter, or within a node from the sender's GPU.
    fn other_gpus(&self, inside: &Inside, all: &mut Vec<Variation>) {
        let (Some(sender), Some(receiver)) = (inside.homes.first(), inside.homes.last()) else { return };
        let (machine, count) = (&inside.machine, self.parts.sole().node.gpus);
        let Some(first) = sender.gpu.filter(|_| inside.on_device) else { return };
        let home = |gpu: u32| RankLocation::on(Some(machine), self.parts.sole().node.nics as usize, &Binding::new(vec![gpu]), 0);
        let gpus = machine.gpus();
        let way = |gpu: u32| -> Option<PathKey> {
            if inside.local {
                return way(machine, *gpus.get(first as usize)?, *gpus.get(gpu as usize)?, Purpose::Copy);
            }
            let nic = home(gpu).nics.first().map_or(0, |(nic, _)| *nic);
            way(machine, *gpus.get(gpu as usize)?, *machine.nics().get(nic)?, Purpose::Dma)
        };
        let mut known: Vec<PathKey> = receiver.gpu.and_then(way).into_iter().collect();
        for gpu in 0..count {
            let Some(found) = way(gpu).filter(|found| !known.contains(found)) else { continue };
            if inside.local && gpu == first {
                continue;
            }
            let (what, binding) = if inside.local {
                (format!("the receiver on gpu{gpu}, {} of gpu{first}", found.class), vec![first, gpu])
            } else {
                (format!("gpu{gpu}, whose adapter is {}", found.class), vec![gpu])
            };
            known.push(found);
            let mut variation = self.with(what, |_| {});
            variation.binding = Binding::new(binding);
            all.push(variation);
        }
    }

    /// Adapters all at the place of one that is farther from the GPU.
    fn farther_adapters(&self, inside: &Inside, all: &mut Vec<Variation>) {
        let Some(gpu) = inside.homes.first().and_then(|home| home.gpu).filter(|_| inside.on_device && !inside.local) else { return };
        let Some(vertex) = inside.machine.gpus().get(gpu as usize).copied() else { return };
        let Some(nics) = &self.parts.sole().node.layout.part.nics else { return };
        let places = nics.under.clone();
        let now = inside.homes.first().and_then(|home| home.nics.first()).map_or(0, |(nic, _)| *nic);
        let of = |nic: usize| way(&inside.machine, vertex, *inside.machine.nics().get(nic)?, Purpose::Dma);
        let mut known: Vec<PathKey> = of(now).into_iter().collect();
        for (nic, place) in places.iter().enumerate().take(self.parts.sole().node.nics as usize) {
            let Some(found) = of(nic).filter(|found| !known.contains(found)) else { continue };
            let name = device(self.parts.sole().node.nic.interface, nic as u32);
            let what = format!("the adapter where {name} is, {} of gpu{gpu}", found.class);
            known.push(found);
            all.push(self.with(what, |parts| {
                if let Some(nics) = &mut parts.sole_mut().node.layout.part.nics {
                    nics.under.iter_mut().for_each(|under| under.clone_from(place));
                }
            }));
        }
    }

    /// All adapters that reach the buffers for one message, or one.
    fn rails(&self, inside: &Inside, all: &mut Vec<Variation>) {
        let Some(mpi) = self.parts.sole().software.mpi.as_ref().filter(|mpi| mpi.psm2.is_none()) else { return };
        let count = inside.rails;
        if count < 2 || inside.local || self.size <= mpi.stripe_limit.as_u64() {
            return;
        }
        let (what, policy) = match mpi.rails {
            RailPolicy::Stripe => (format!("one adapter instead of {count}"), RailPolicy::First),
            _ => (format!("messages cut over {count} adapters"), RailPolicy::Stripe),
        };
        all.push(self.with(what, |parts| {
            if let Some(mpi) = &mut parts.sole_mut().software.mpi {
                mpi.rails = policy;
            }
        }));
    }

    /// Adapters that are nearer or farther.
    fn adapters_of_perftest(&self, inside: &Inside, all: &mut Vec<Variation>) {
        if self.options.iter().any(|option| option.starts_with("-d") || option.starts_with("--ib-dev")) {
            return;
        }
        let (machine, nics) = (&inside.machine, inside.machine.nics());
        let gpu = self.gpu_of_perftest().and_then(|gpu| machine.gpus().get(gpu as usize).copied());
        let of = |nic: u32| -> Option<PathKey> {
            let nic = *nics.get(nic as usize)?;
            // Host memory is that beside each adapter.
            way(machine, gpu?, nic, Purpose::Dma)
        };
        let mut known: Vec<PathKey> = of(0).into_iter().collect();
        for number in 1..self.parts.sole().node.nics {
            let Some(found) = of(number).filter(|found| !known.contains(found)) else { continue };
            let device = device(self.parts.sole().node.nic.interface, number);
            let mut variation = self.with(format!("the adapter {device}, {} of the GPU", found.class), |_| {});
            known.push(found);
            variation.options.extend(["-d".to_owned(), device]);
            all.push(variation);
        }
    }

    /// GPUs that are nearer or farther.
    fn gpus_of_perftest(&self, inside: &Inside, all: &mut Vec<Variation>) {
        let Some(now) = self.gpu_of_perftest() else { return };
        let (machine, gpus) = (&inside.machine, inside.machine.gpus());
        let Some(nic) = machine.nics().first().copied() else { return };
        let of = |gpu: u32| way(machine, *gpus.get(gpu as usize)?, nic, Purpose::Dma);
        let mut known: Vec<PathKey> = of(now).into_iter().collect();
        for gpu in 0..self.parts.sole().node.gpus {
            let Some(found) = of(gpu).filter(|found| !known.contains(found)) else { continue };
            let mut variation = self.with(format!("the memory of gpu{gpu}, {} of the adapter", found.class), |_| {});
            known.push(found);
            let mut value = false;
            for option in &mut variation.options {
                if std::mem::replace(&mut value, false) {
                    *option = gpu.to_string();
                } else if let Some((name, _)) = option.clone().split_once('=').filter(|(name, _)| is_number(name)) {
                    *option = format!("{name}={gpu}");
                } else {
                    value = is_number(option);
                }
            }
            all.push(variation);
        }
    }

    /// The GPU that `--use_cuda` or `--use_rocm` names by its number.
    fn gpu_of_perftest(&self) -> Option<u32> {
        let place = self.options.iter().position(|option| is_number(option.split('=').next().unwrap_or_default()))?;
        let value = self.options[place].split_once('=').map(|(_, value)| value);
        value.or_else(|| self.options.get(place + 1).map(String::as_str))?.parse().ok()
    }
}

/// What tells ways apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PathKey {
    class: PathClass,
    rates: [Rate; 2],
}

fn way(machine: &Machine, from: VertexId, to: VertexId, purpose: Purpose) -> Option<PathKey> {
    let path = machine.path(machine.memory_of(from).unwrap_or(from), to, purpose)?;
    let rates = [Access::Read, Access::Write].map(|access| path.rate(machine, access));
    Some(PathKey { class: machine.class(from, to), rates })
}

/// Whether an option of perftest puts buffers into the memory of a GPU.
pub(super) fn is_gpu(option: &str) -> bool {
    option.starts_with("--use_cuda") || option.starts_with("--use_rocm")
}
fn is_number(name: &str) -> bool {
    name == "--use_cuda" || name == "--use_rocm"
}
/// Whether a word of an OSU benchmark says where a buffer is.
fn is_place(option: &str) -> bool {
    matches!(option, "H" | "D" | "M" | "MD" | "MH")
}
