//! The links between the GPUs of a node.

use fabriscope_catalog::ResolvedCluster;
use fabriscope_machine::{Access, Purpose, Use};
use fabriscope_units::Rate;

/// What a GPU writes to another one of its node, its links all together.
#[must_use]
pub fn links_of_gpu(parts: &ResolvedCluster) -> Option<Rate> {
    let machine = parts.uniform()?.node.machine().ok()?;
    let gpus = machine.gpus();
    let path = |to: usize| machine.path(machine.memory_of(gpus[0])?, machine.memory_of(gpus[to])?, Purpose::Copy);
    let uses = |to: usize| Some(machine.uses(&path(to)?, Access::Write));
    // GPUs that are joined each to each have links of their own to each peer.
    let one = path(1)?.rate(&machine, Access::Write);
    let apart = (2..gpus.len()).all(|to| {
        let (first, other) = (uses(1).unwrap_or_default(), uses(to).unwrap_or_default());
        let tight = |uses: &[Use]| uses.iter().min_by_key(|used| machine.payload(**used)).map(|used| used.resource);
        tight(&first) != tight(&other)
    });
    let peers = if apart { gpus.len() as u64 - 1 } else { 1 };
    Some(Rate::from_bps(one.as_bps() * peers))
}
