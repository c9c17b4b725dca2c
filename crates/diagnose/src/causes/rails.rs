//! Causes at the adapters of a node: one of several is not used.

use fabriscope_catalog::RailPolicy;

use super::{Amount, Cause, Scene};

/// An adapter is missing.
pub(super) const MISSING: Cause = Cause {
    name: "rail",
    title: "some of a node's adapters are not used: a dead rail or plane, or a list that leaves one out",
    check: "ibstat: all ports Active; NCCL_IB_HCA, UCX_NET_DEVICES, UCX_MAX_RNDV_RAILS, MV2_IBA_HCA: unset, or complete",
    weight: 2.0,
    amounts: missing,
};

fn missing(scene: &Scene<'_>) -> Vec<Amount> {
    let nics = scene.node().nics;
    if nics < 2 || !scene.uses_network() {
        return Vec::new();
    }
    if scene.is_nccl() {
        let mut fewer = vec![nics - 1];
        if nics > 2 {
            fewer.push(nics / 2);
        }
        return fewer
            .into_iter()
            .map(|left| Amount::new(format!("{left} of {nics}"), move |setup| setup.parts.sole_mut().node.nics = left))
            .collect();
    }
    let striped = scene.mpi().is_some_and(|mpi| mpi.rails != RailPolicy::First && mpi.most_rails.as_ref().is_none_or(|most| **most > 1));
    if !striped {
        return Vec::new();
    }
    vec![Amount::new(format!("1 of {nics}"), |setup| {
        if let Some(mpi) = &mut setup.parts.sole_mut().software.mpi {
            mpi.rails = RailPolicy::First;
        }
    })]
}
