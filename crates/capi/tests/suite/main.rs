//! The tests of `fabriscope-capi` from outside, in one program: built once, run on all cores. A file that is added is named here.
#![allow(missing_docs)]

mod examples;
mod header;
mod same_model;
mod wrong_input;

use std::path::PathBuf;
use std::process::{Command, Output};

/// A file of this crate.
fn of_crate(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The folder where the libraries lie that were built with this program.
fn libraries() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().to_owned()
}

/// The shared library.
fn shared_library() -> PathBuf {
    libraries().join(format!("{}fabriscope_c{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX))
}

/// The compiler of C, which Rust links with as well.
fn cc() -> Command {
    let mut cc = Command::new("cc");
    cc.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-I"]).arg(of_crate("include"));
    cc
}

/// What a command prints that has to end well.
fn printed(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(status.success(), "{command:?}: {}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).unwrap()
}
