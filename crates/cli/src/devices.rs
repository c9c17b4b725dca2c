//! Options about GPUs: which one each rank has, and what the MPI library does with their memory.

use fabriscope_catalog::{GpuProtocol, ResolvedCluster};
use fabriscope_units::Bytes;
use fabriscope_workloads::mpi::Binding;

use crate::error::Failure;

/// The options, as typed.
#[derive(Debug, Clone, Default, PartialEq, Eq, clap::Args)]
pub struct DeviceArgs {
    /// GPUs of the ranks of each node: `0,2` gives GPU 0 to the first and 2 to the second (default: in turn)
    #[arg(long, value_name = "GPUS")]
    pub bind: Option<String>,
    /// Whether the MPI library takes buffers on a GPU; `off`: the program copies them itself (default: as the library does)
    #[arg(long, value_name = "on|off")]
    pub gpu_aware: Option<String>,
    /// Whether adapters and cores reach the memory of GPUs (GPUDirect RDMA, GDRCopy): PSM2_GPUDIRECT (default: as the library does)
    #[arg(long, value_name = "on|off")]
    pub gpudirect: Option<String>,
}

impl DeviceArgs {
    /// The options of `self`, and where they are not given those of `before`.
    pub fn or(&self, before: &DeviceArgs) -> DeviceArgs {
        let first = |own: &Option<String>, other: &Option<String>| own.clone().or_else(|| other.clone());
        DeviceArgs {
            bind: first(&self.bind, &before.bind),
            gpu_aware: first(&self.gpu_aware, &before.gpu_aware),
            gpudirect: first(&self.gpudirect, &before.gpudirect),
        }
    }

    /// Changes the library of `parts`; the GPUs of the ranks.
    ///
    /// # Errors
    /// A word that is neither on nor off, numbers that no GPU has, a library or nodes without GPUs.
    pub fn apply(&self, parts: &mut ResolvedCluster) -> Result<Binding, Failure> {
        let aware = switch("--gpu-aware", self.gpu_aware.as_deref())?;
        let direct = switch("--gpudirect", self.gpudirect.as_deref())?;
        let name = parts.software.name.clone();
        let gpu = parts.software.mpi.as_mut().and_then(|mpi| mpi.gpu.as_mut());
        let unknown = || {
            Failure::told(format!("the library {name} knows nothing of GPUs"), "choose software with an [mpi.gpu] table, as openmpi-ucx")
        };
        match (aware, gpu) {
            (Some(true), None) => return Err(unknown()),
            (aware, Some(gpu)) => {
                gpu.aware = aware.unwrap_or(gpu.aware);
                with_direct(&name, gpu, direct)?;
            }
            (_, None) if direct.is_some() => return Err(unknown()),
            (_, None) => {}
        }
        self.binding(parts.node.gpus)
    }

    fn binding(&self, gpus: u32) -> Result<Binding, Failure> {
        let Some(text) = &self.bind else { return Ok(Binding::default()) };
        let number = |word: &str| word.trim().parse::<u32>().ok().filter(|gpu| *gpu < gpus);
        let listed: Option<Vec<u32>> = text.split(',').map(number).collect();
        listed.map(Binding::new).ok_or_else(|| match gpus {
            0 => Failure::told(format!("--bind {text}: the nodes have no GPUs"), "leave it out, or take a cluster with GPUs"),
            _ => Failure::told(format!("--bind {text} is no list of GPUs"), format!("write numbers from 0 to {}, as --bind 0", gpus - 1)),
        })
    }
}

fn with_direct(name: &str, gpu: &mut GpuProtocol, direct: Option<bool>) -> Result<(), Failure> {
    match direct {
        Some(false) => {
            gpu.direct = None;
            (gpu.load_limit.value, gpu.store_limit.value) = (Bytes::ZERO, Bytes::ZERO);
            gpu.local_load_limit = None;
            Ok(())
        }
        Some(true) if gpu.direct.is_none() => {
            Err(Failure::told(format!("the library {name} has no GPUDirect RDMA"), "leave --gpudirect out, or choose other software"))
        }
        _ => Ok(()),
    }
}

fn switch(option: &str, word: Option<&str>) -> Result<Option<bool>, Failure> {
    match word {
        None => Ok(None),
        Some("on") => Ok(Some(true)),
        Some("off") => Ok(Some(false)),
        Some(other) => Err(Failure::told(format!("{option} {other} is neither on nor off"), format!("write {option} on or {option} off"))),
    }
}
