//! Drawings of a node, as lstopo draws it: packages with NUMA domains, their memory, host bridges and switches as trees, devices.
//!
//! ```text
//!  Machine ──hang──► who is below whom ──layout──► Scene (boxes and wires) ──svg──► text of an SVG file
//!
//!  ┌ package ─ NUMA ─┬ host bridge ─ switch ─┬─ GPU ├──╮        ╭──┤ GPU ┬─ …    packages left and right,
//!  │                 │                       └─ NIC │  ├ switch ┤            links of GPUs in the middle
//! ```
//!
//! Source: hwloc, lstopo(1), "Graphical output", for the form; the layout is this project's own.
//! Drawn: every vertex once; every link but those to a memory within its box, with technology and rate; the path of a transfer.
//! Not drawn: caches, single cores.

mod between;
mod layout;
mod scene;
mod svg;
#[cfg(test)]
mod tests;
mod trees;

use crate::graph::Machine;
use crate::path::Path;

/// What is drawn beside the node.
#[derive(Clone, Copy, Debug, Default)]
pub struct Picture<'p> {
    /// The title above it.
    pub title: &'p str,
    /// Lines below the title.
    pub caption: &'p [String],
    /// The path of a transfer, which stands out.
    pub path: Option<&'p Path>,
}

/// The text of an SVG file; the same for the same node.
#[must_use]
pub fn svg(machine: &Machine, picture: &Picture<'_>) -> String {
    svg::text(&layout::scene(machine), machine, picture)
}
