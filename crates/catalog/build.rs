//! Rebuilds the crate when a file of the catalogue is added or removed: the macro that embeds them sees changes only.

fn main() {
    println!("cargo:rerun-if-changed=../../catalog");
}
