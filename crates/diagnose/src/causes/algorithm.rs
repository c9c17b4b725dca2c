//! Causes in what a library chooses: the algorithm of a collective operation, the protocol and the channels of NCCL.

use std::collections::BTreeMap;

use fabriscope_catalog::CollectiveRule;
use fabriscope_collectives::Algorithm;
use fabriscope_tools::Operation;

use super::{Amount, Cause, Scene, not_here};

/// Another algorithm than the library takes.
pub(super) const MPI: Cause = Cause {
    name: "algorithm",
    title: "the library takes another algorithm for the operation",
    check: "OMPI_MCA_coll_tuned_use_dynamic_rules, I_MPI_ADJUST_*, MV2_*_TUNING, UCC and hcoll: unset, or as usual",
    weight: 2.0,
    amounts: of_mpi,
};

fn of_mpi(scene: &Scene<'_>) -> Vec<Amount> {
    let Operation::Collective(operation) = scene.setup.tool.traits().operation else { return Vec::new() };
    if scene.mpi().is_none() {
        return Vec::new();
    }
    let word = operation.word();
    Algorithm::usual(operation)
        .into_iter()
        .map(|algorithm| {
            let name = algorithm.to_string();
            Amount::may(format!("`{name}` at all sizes"), move |setup| {
                if setup.tool.traits().operation != Operation::Collective(operation) {
                    return Err(not_here("another operation"));
                }
                let mpi = setup.parts.sole_mut().software.mpi.as_mut().ok_or_else(|| not_here("no MPI library"))?;
                let Some(rules) = mpi.collectives.get_mut(word) else { return Err(not_here("the library decides nothing here")) };
                rules.value = vec![CollectiveRule { algorithm: name.clone(), ..CollectiveRule::default() }];
                let hierarchical: &mut BTreeMap<_, _> = &mut mpi.hierarchical;
                hierarchical.remove(word);
                Ok(())
            })
        })
        .collect()
}

/// A change of variables of NCCL, where the table itself sets none of them.
fn variables(scene: &Scene<'_>, values: &[&str]) -> Vec<Amount> {
    let set = |name: &str| scene.setup.options.iter().any(|option| option.starts_with(name));
    if !scene.is_nccl() {
        return Vec::new();
    }
    values
        .iter()
        .filter(|value| !set(value.split('=').next().unwrap_or_default()))
        .map(|value| {
            let value = (*value).to_owned();
            Amount::new(value.clone(), move |setup| setup.options.extend(["--env".to_owned(), value.clone()]))
        })
        .collect()
}

/// Another algorithm than the tuner takes.
pub(super) const NCCL: Cause = Cause {
    name: "nccl-algorithm",
    title: "NCCL takes another algorithm",
    check: "NCCL_ALGO and tuner plugins (NCCL_TUNER_PLUGIN): unset; NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=TUNING prints the choice",
    weight: 2.0,
    amounts: |scene| variables(scene, &["NCCL_ALGO=Ring", "NCCL_ALGO=Tree"]),
};

/// Another protocol than the tuner takes.
pub(super) const PROTOCOL: Cause = Cause {
    name: "nccl-protocol",
    title: "NCCL takes another protocol",
    check: "NCCL_PROTO and tuner plugins: unset; NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=TUNING prints the choice",
    weight: 2.0,
    amounts: |scene| variables(scene, &["NCCL_PROTO=LL", "NCCL_PROTO=LL128", "NCCL_PROTO=Simple"]),
};

/// Fewer channels than the search finds.
pub(super) const CHANNELS: Cause = Cause {
    name: "nccl-channels",
    title: "NCCL has too few channels",
    check: "NCCL_MAX_NCHANNELS, NCCL_MAX_CTAS: unset; NCCL_DEBUG=INFO prints the channels",
    weight: 2.0,
    amounts: |scene| variables(scene, &["NCCL_MAX_NCHANNELS=1", "NCCL_MAX_NCHANNELS=2", "NCCL_MAX_NCHANNELS=4", "NCCL_MAX_NCHANNELS=8"]),
};
