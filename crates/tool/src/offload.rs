//! Whether a job hands over to workers: what the command line asks for, else what the library does by itself.

use fabriscope_catalog::Mpi;
use fabriscope_mpi::OffloadSettings as Settings;
use fabriscope_platform::Target;

use crate::arguments::Meaning::Usual;
use crate::arguments::{self, Given, Opt, Takes, opt};
use crate::error::UsageError;

/// `--offload` of a tool.
pub const OFFLOAD: Opt = opt(
    '\0',
    "offload",
    Takes::Value("dpu|dpu-staged|triggered|none"),
    Usual,
    "who carries it out: workers on the DPU, the same without keys of the host's memory, triggered operations of the adapter (barriers), or the host (not of the real tool)",
);
/// `--workers` of a tool.
pub const WORKERS: Opt = opt('\0', "workers", Takes::Value("count"), Usual, "workers on the DPU of each node (not of the real tool)");

/// What `tool` cannot do through the memories of the DPUs.
#[must_use]
pub fn needs_keys(tool: &str) -> UsageError {
    let what = format!("{tool} --offload: one-sided operations need keys of the host's memory (GVMI)");
    UsageError::Conflict { what, remedy: "use --offload dpu on a DPU that has them".to_owned() }
}

/// What the command line says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OffloadOptions {
    how: Option<How>,
    workers: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    Host,
    Dpu,
    Staged,
    Triggered,
}

impl OffloadOptions {
    /// Takes one of the two options.
    ///
    /// # Errors
    /// A value that it cannot have.
    pub fn take(&mut self, given: &Given) -> Result<(), UsageError> {
        if given.name == WORKERS.long {
            self.workers = Some(arguments::number(given, 1, 4096)? as u32);
            return Ok(());
        }
        self.how = Some(match given.value.as_deref().unwrap_or_default() {
            "dpu" => How::Dpu,
            "dpu-staged" => How::Staged,
            "triggered" => How::Triggered,
            "none" => How::Host,
            other => {
                let (option, value) = (given.typed.clone(), other.to_owned());
                return Err(UsageError::NotOneOf { option, value, known: "dpu, dpu-staged, triggered, none" });
            }
        });
        Ok(())
    }
    /// Whether somebody in place of the host was asked for by name.
    pub fn is_explicit(&self) -> bool {
        matches!(self.how, Some(How::Dpu | How::Staged | How::Triggered))
    }
    /// Whether triggered operations of the adapter were.
    pub fn is_triggered(&self) -> bool {
        self.how == Some(How::Triggered)
    }

    /// What the job does: nothing where the host carries it out. By itself the library takes the DPU where `by_default` says so;
    /// `everything` also hands over messages and one-sided operations. No more workers than `per_node`
    /// ranks.
    ///
    /// # Errors
    /// A machine or a library that cannot do what was asked for; more workers than cores.
    pub fn settle(
        &self,
        tool: &str,
        (by_default, everything): (bool, bool),
        per_node: u32,
        mpi: &Mpi,
        target: &Target,
    ) -> Result<Option<Settings>, UsageError> {
        let conflict = |what: String, remedy: &str| Err(UsageError::Conflict { what, remedy: remedy.to_owned() });
        let Some(how) = self.how.or((by_default && target.dpu.is_some() && mpi.offload.is_some()).then_some(How::Dpu)) else {
            return match self.workers {
                Some(_) => conflict(format!("{tool} --workers without workers: the host carries it out"), "add --offload dpu"),
                None => Ok(None),
            };
        };
        if how == How::Host {
            return Ok(None);
        }
        if how == How::Triggered {
            return conflict(
                format!("{tool} --offload triggered: adapters carry out barriers by themselves, and nothing else"),
                "leave it out",
            );
        }
        let Some(dpu) = &target.dpu else {
            return conflict(
                format!("{tool} --offload: the adapters of this cluster have no cores"),
                "use a cluster with a DPU: lab-bluefield-2",
            );
        };
        let Some(part) = &mpi.offload else {
            return conflict(
                format!("{tool} --offload: the cluster's MPI library has no workers on the DPU"),
                "choose software with [mpi.offload]: mvapich2-dpu",
            );
        };
        let staged = match (how, dpu.cross_keys) {
            (How::Dpu, false) if self.how.is_some() => {
                let what = format!("{tool} --offload dpu: the cores of `{}` cannot use keys of the host's memory (GVMI)", dpu.name);
                return conflict(what, "use --offload dpu-staged, or another DPU");
            }
            (how, across) => how == How::Staged || !across,
        };
        let mut settings = Settings::of(part, staged);
        settings.everything = everything;
        settings.workers = self.workers.unwrap_or(settings.workers);
        if settings.workers > dpu.cores {
            let what = format!("{} workers on the {} cores of `{}`", settings.workers, dpu.cores, dpu.name);
            return conflict(what, &format!("give --workers {} or less", dpu.cores));
        }
        settings.workers = settings.workers.min(per_node.max(1));
        Ok(Some(settings))
    }
}
