//! A job of one operation: who is where, how often, what it took.

use std::sync::Arc;

use fabriscope_catalog::Hcl;
use fabriscope_experts::Net;
use fabriscope_node::Record;
use fabriscope_platform::{Binding, Target};
use fabriscope_units::{Bytes, Rate, Span};

use crate::slices::Slices;

/// An operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// The sum at all.
    AllReduce,
    /// A part of the sum at each.
    ReduceScatter,
    /// The parts of all at all.
    AllGather,
    /// A part of each to each.
    AllToAll,
}

/// What is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// The operation.
    pub operation: Operation,
    /// Servers.
    pub servers: u32,
    /// Accelerators of each.
    pub per_server: u32,
    /// What each accelerator puts in.
    pub bytes: Bytes,
    /// Calls one behind the other.
    pub calls: u32,
}

/// Why a job cannot be run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, miette::Diagnostic)]
pub enum HclError {
    /// Another library, or none.
    #[error("HCL is not the library of the accelerators here")]
    #[diagnostic(help("use a cluster of Gaudi: gaudi2-1024 or gaudi3-512"))]
    OtherLibrary,
    /// One accelerator.
    #[error("an operation of one accelerator")]
    #[diagnostic(help("give --ppn 2 or more, or more nodes"))]
    Alone,
    /// Fewer bytes than accelerators.
    #[error("{bytes} for {ranks} accelerators")]
    #[diagnostic(help("give a --size of as many elements as there are accelerators"))]
    Small {
        /// What there is.
        bytes: Bytes,
        /// Accelerators.
        ranks: u32,
    },
}

impl Settings {
    /// Accelerators.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        self.servers * self.per_server
    }
    /// What is moved or added up for each accelerator by itself.
    pub(crate) fn part(&self) -> Bytes {
        match self.operation {
            Operation::AllGather => self.bytes,
            _ => Bytes(self.bytes.0 / u64::from(self.ranks())),
        }
    }
}

/// A job.
pub struct HclJob {
    pub(crate) settings: Settings,
    pub(crate) hcl: Hcl,
    pub(crate) slices: Slices,
    pub(crate) net: Net,
    /// What the engines that add up get of the memory.
    pub(crate) memory: Rate,
    pub(crate) binding: Binding,
    /// From the begin that is common to all to the end of each call, by accelerator.
    pub(crate) ends: Record<Vec<Vec<Span>>>,
    pub(crate) owner: Arc<Owner>,
}

/// What tells one job from another.
pub(crate) struct Owner;

impl HclJob {
    /// A job on a machine like `target`.
    ///
    /// # Errors
    /// Accelerators of another library, too few of them, nothing to do for some.
    pub fn new(target: &Target, settings: Settings) -> Result<HclJob, HclError> {
        let hcl = target.hcl.clone().ok_or(HclError::OtherLibrary)?;
        if settings.ranks() < 2 {
            return Err(HclError::Alone);
        }
        if settings.part() == Bytes::ZERO {
            return Err(HclError::Small { bytes: settings.bytes, ranks: settings.ranks() });
        }
        let slices = Slices::of(settings.part(), *hcl.slice);
        let ends = Record::new(vec![Vec::new(); settings.ranks() as usize]);
        let memory = target.gpu.as_ref().map_or(Rate::default(), |gpu| gpu.read_rate);
        let (net, binding) = (Net::of(target), target.binding.clone());
        Ok(HclJob { settings, hcl, slices, net, memory, binding, ends, owner: Arc::new(Owner) })
    }
    /// What is run.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }
    /// From the begin to the end of each call at the first accelerator, once the job has run.
    #[must_use]
    pub fn ends(&self) -> Vec<Span> {
        self.ends.lock().first().cloned().unwrap_or_default()
    }
    /// Calls that are in progress at a time at most.
    #[must_use]
    pub fn beside(&self) -> u32 {
        u32::try_from(u64::from(*self.hcl.in_flight).div_ceil(self.slices.count())).unwrap_or(1).max(1)
    }
    /// Slices of all calls.
    pub(crate) fn items(&self) -> u64 {
        self.slices.count() * u64::from(self.settings.calls)
    }
}
