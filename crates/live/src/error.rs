//! Why programs could not be run.

use std::io;
use std::path::PathBuf;

use fabriscope_engine::EngineError;
use fabriscope_units::Time;

/// A refused or failed run of programs.
#[derive(Debug, thiserror::Error, miette::Diagnostic)]
#[non_exhaustive]
pub enum LiveError {
    /// Another operating system, or another libc.
    #[error("programs run on Linux with glibc, on x86-64 and 64-bit ARM")]
    #[diagnostic(help("use a container with such a system, or `fabriscope bench`, which has these tools built in"))]
    NoStandIn,
    /// No such program.
    #[error("`{program}` is not there")]
    #[diagnostic(help("give its path, or a name that is found in PATH"))]
    NoProgram {
        /// As given.
        program: String,
    },
    /// The program cannot be reached.
    #[error("`{program}` is linked statically: no library can stand in for its calls")]
    #[diagnostic(help(
        "link it against the shared libibverbs; programs in Go, and others that make system calls themselves, cannot be run"
    ))]
    Static {
        /// As given.
        program: String,
    },
    /// More hosts than the cluster has.
    #[error("{asked} hosts are named and the cluster has {nodes}")]
    #[diagnostic(help("name fewer, or use more nodes: --on CLUSTER:NODES"))]
    TooFewHosts {
        /// Names.
        asked: usize,
        /// Hosts.
        nodes: u32,
    },
    /// Hosts that are not alike.
    #[error("the hosts of `{cluster}` are not alike")]
    #[diagnostic(help("name one group of them: --on {cluster}:GROUP"))]
    Unlike {
        /// The cluster.
        cluster: String,
    },
    /// Files of the run.
    #[error("{}: {error}", path.display())]
    #[diagnostic(help("a folder in /dev/shm or in the folder for temporary files has to be writable"))]
    Folder {
        /// Which.
        path: PathBuf,
        /// What the operating system says.
        error: io::Error,
    },
    /// The operating system refuses to start a program.
    #[error("`{program}` does not start: {error}")]
    #[diagnostic(help("run it without `fabriscope exec` to see why"))]
    NotStarted {
        /// As given.
        program: String,
        /// What the operating system says.
        error: io::Error,
    },
    /// All threads wait for each other.
    #[error("nothing is left to happen at {at}, and all threads wait:\n{who}")]
    #[diagnostic(help("on hardware these programs hang, too"))]
    Hangs {
        /// When the last event happened.
        at: Time,
        /// A line each.
        who: String,
    },
    /// A program could not go on.
    #[error("stopped at {at}: {message}")]
    Failed {
        /// Its clock.
        at: Time,
        /// Why.
        message: String,
    },
    /// The run ended before the programs did.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Engine(#[from] EngineError),
}
