//! What the switch of NVLinks reduces and spreads: a head reads one sum of all GPUs, and writes once to all of them.
//!
//! ```text
//! every GPU ─ own copy ─▶ its buffer      head ◀─ sum ─ switch ◀─ bytes of each GPU
//!                                         head ─ bytes ─▶ switch ─ copies ─▶ each GPU ─ own copy ─▶ output
//! ```
//! Source: NCCL, src/transport/nvls.cc; multimem.ld_reduce and multimem.st of PTX.
//! Modelled: for a byte of sum each GPU sends one to the switch and the head gets one; for a byte spread the head sends one and each GPU
//! gets one; the share of the links that is left (`switch_share`).
//! Not modelled: what the switch can reduce at most.

use fabriscope_machine::{Access, Machine, Path, Purpose, Use, VertexId};
use fabriscope_node::{Devices, Memory, ProgramError};
use fabriscope_units::Span;

use super::fifo::{Fifo, FifoEnd, FifoPath};
use super::world::{SLOTS, Shared, Wire, WireKind};

/// The FIFO between a GPU and a head: its data are in memory of their own GPU, and cross the links when the head takes or puts them.
pub(super) fn fifo(devices: &Devices, (shared, me): (&Shared, u32), wire: Wire) -> Result<Fifo, ProgramError> {
    let reduces = wire.kind == WireKind::Reduction;
    let (from, to) = (shared.seat_of(me, wire.from)?.gpu, shared.seat_of(me, wire.to)?.gpu);
    let (gpu, head) = if reduces { (from, to) } else { (to, from) };
    let (latency, own) = (latency(devices, gpu, head)?, devices.vertex(Memory::Device(gpu))?);
    // The far end of the link does not matter: all lead to the same switch.
    let other = (0..devices.count() as u32).find(|other| *other != gpu).unwrap_or(gpu);
    let far = devices.vertex(Memory::Device(other))?;
    let machine = devices.machine();
    let mut across = link(machine, own, far, reduces);
    if gpu == head {
        across.extend(link(machine, own, far, !reduces));
    }
    let (share, of) = shared.library_of(wire.from).switch_share;
    for used in &mut across {
        used.weight = used.weight.times(of, share);
    }
    let copied = devices.way(own, own, Access::Write)?.0.to_vec();
    let way = if reduces {
        FifoPath { uses: copied, takes: across, latency, back: latency }
    } else {
        FifoPath { uses: across, takes: Vec::new(), latency, back: latency }
    };
    Ok(Fifo::new(way, SLOTS, FifoEnd::Block, FifoEnd::Block))
}

fn latency(devices: &Devices, gpu: u32, head: u32) -> Result<Span, ProgramError> {
    let (a, b) = (devices.vertex(Memory::Device(gpu))?, devices.vertex(Memory::Device(head))?);
    Ok(devices.way(a, b, Access::Write)?.1)
}

/// What a byte takes of the link from a GPU to the switch, or of the one from it.
fn link(machine: &Machine, own: VertexId, far: VertexId, away: bool) -> Vec<Use> {
    let (from, to) = if away { (own, far) } else { (far, own) };
    let Some(path) = machine.path(from, to, Purpose::Copy) else { return Vec::new() };
    let is_scale_up = |step: &&fabriscope_machine::Step| machine.link(step.link).kind.is_scale_up();
    let step = if away { path.steps.iter().find(is_scale_up) } else { path.steps.iter().rev().find(is_scale_up) };
    step.map_or_else(Vec::new, |step| machine.uses(&Path { from, to, steps: vec![*step] }, Access::Write))
}
