//! The programs by name.

use fabriscope_tool::arguments::Opt;
use fabriscope_tool::{ToolOutput, UsageError};

use crate::mount::Mount;
use crate::{fio, gdsio, io500, ior, lctl, lfs, mdtest};

/// A program on a parallel file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StorageTool {
    /// Data by many processes.
    Ior,
    /// Names by many processes.
    Mdtest,
    /// All phases of the list, and the score.
    Io500,
    /// Data by one client.
    Fio,
    /// Data between storage and GPUs.
    Gdsio,
    /// What users ask Lustre.
    Lfs,
    /// What operators ask Lustre.
    Lctl,
}

impl StorageTool {
    /// All of them.
    pub const ALL: [StorageTool; 7] = [
        StorageTool::Ior,
        StorageTool::Mdtest,
        StorageTool::Io500,
        StorageTool::Fio,
        StorageTool::Gdsio,
        StorageTool::Lfs,
        StorageTool::Lctl,
    ];

    /// The one of this name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<StorageTool> {
        StorageTool::ALL.into_iter().find(|tool| tool.name() == name)
    }
    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            StorageTool::Ior => "ior",
            StorageTool::Mdtest => "mdtest",
            StorageTool::Io500 => "io500",
            StorageTool::Fio => "fio",
            StorageTool::Gdsio => "gdsio",
            StorageTool::Lfs => "lfs",
            StorageTool::Lctl => "lctl",
        }
    }
    /// One line of help.
    #[must_use]
    pub const fn about(self) -> &'static str {
        match self {
            StorageTool::Ior => "bandwidth of a parallel file system: own files, a shared one, collective MPI-IO",
            StorageTool::Mdtest => "names made, looked at, read and removed on a parallel file system",
            StorageTool::Io500 => "all phases of IO500 and its score",
            StorageTool::Fio => "reads and writes of one client of a parallel file system",
            StorageTool::Gdsio => "reads and writes between storage and GPU memory, past host memory (GPUDirect Storage) or through it",
            StorageTool::Lfs => "targets, capacity and layouts of a Lustre file system (df, osts, mdts, setstripe, getstripe)",
            StorageTool::Lctl => "tunables of clients of a Lustre file system (get_param)",
        }
    }
    /// The options of its command line.
    #[must_use]
    pub const fn options(self) -> &'static [Opt] {
        match self {
            StorageTool::Ior => ior::OPTIONS,
            StorageTool::Mdtest => mdtest::OPTIONS,
            StorageTool::Io500 => io500::OPTIONS,
            StorageTool::Fio => fio::OPTIONS,
            StorageTool::Gdsio => gdsio::OPTIONS,
            StorageTool::Lfs => lfs::OPTIONS,
            StorageTool::Lctl => lctl::OPTIONS,
        }
    }
    /// Runs it, and reads what Lustre counted as `lctl get_param` prints it; of `ior` and `mdtest`.
    ///
    /// # Errors
    /// As [`StorageTool::run`]; a program whose counters are not shown.
    pub fn run_counted(self, args: &[String], mount: &Mount) -> Result<(ToolOutput, String), UsageError> {
        match self {
            StorageTool::Ior => ior::run_counted(args, mount),
            StorageTool::Mdtest => mdtest::run_counted(args, mount),
            StorageTool::Io500 | StorageTool::Fio | StorageTool::Gdsio | StorageTool::Lfs | StorageTool::Lctl => {
                Err(UsageError::Conflict {
                    what: format!("counters of {} are not shown", self.name()),
                    remedy: "use ior or mdtest, or leave --counters out".to_owned(),
                })
            }
        }
    }
    /// Whether it can do without a file system: on drives of the node.
    #[must_use]
    pub const fn has_node_drives(self) -> bool {
        matches!(self, StorageTool::Gdsio)
    }
    /// Runs it.
    ///
    /// # Errors
    /// What is wrong with the command line; [`UsageError::Help`] when `--help` was asked for.
    pub fn run(self, args: &[String], mount: &Mount) -> Result<ToolOutput, UsageError> {
        match self {
            StorageTool::Ior => ior::run(args, mount),
            StorageTool::Mdtest => mdtest::run(args, mount),
            StorageTool::Io500 => io500::run(args, mount),
            StorageTool::Fio => fio::run(args, mount),
            StorageTool::Gdsio => match &mount.node {
                Some(node) => gdsio::run(args, node, Some(mount)),
                None => Err(UsageError::Conflict {
                    what: "nothing is known of the nodes".to_owned(),
                    remedy: "name a cluster with --on".to_owned(),
                }),
            },
            StorageTool::Lfs => lfs::run(args, mount),
            StorageTool::Lctl => lctl::run(args, mount),
        }
    }
}
