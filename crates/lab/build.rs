//! Rebuilds when a published table changes: they are part of the program.

fn main() {
    println!("cargo::rerun-if-changed=../../validation");
}
