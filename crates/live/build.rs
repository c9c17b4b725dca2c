//! Compiles the stand-in that programs load: a shared library in C, which the crate carries.

#![expect(clippy::disallowed_methods, reason = "what cargo tells a build script stands in the environment")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

fn main() {
    println!("cargo:rerun-if-changed=shim");
    println!("cargo:rerun-if-changed=include");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("stand_in.so");
    let target = |key: &str| env::var(format!("CARGO_CFG_TARGET_{key}")).unwrap_or_default();
    let runs = target("OS") == "linux" && target("ENV") == "gnu" && ["x86_64", "aarch64"].contains(&target("ARCH").as_str());
    if !runs {
        // Nothing to load: `exec` says that it needs Linux.
        fs::write(&out, []).expect("the folder of the build can be written");
        return;
    }
    let mut sources: Vec<PathBuf> = fs::read_dir("shim").expect("the folder is there").flatten().map(|entry| entry.path()).collect();
    sources.retain(|path| path.extension().is_some_and(|extension| extension == "c"));
    sources.sort();
    let compiler = cc::Build::new().opt_level(2).get_compiler();
    let mut command: Command = compiler.to_command();
    if compiler.is_like_gnu() {
        // A message in real time passes a dozen small functions of several files: a seventh of its latency is calls.
        command.args(["-flto", "-flto-partition=none"]);
    }
    command.args(["-std=gnu11", "-O2", "-fPIC", "-shared", "-Wall", "-Wextra", "-fno-strict-aliasing"]);
    command.arg("-Wl,--version-script=shim/exports.map").arg("-Wl,-soname,libfabriscope_live.so").arg("-o").arg(&out).args(&sources);
    command.args(["-ldl", "-lpthread"]);
    let done = command.status().unwrap_or_else(|error| panic!("the C compiler {} does not start: {error}", path(compiler.path())));
    assert!(done.success(), "the stand-in for libibverbs does not compile; {} said why", path(compiler.path()));
}

fn path(path: &Path) -> String {
    path.display().to_string()
}
