//! The algorithm of a collective operation: the one that a command line names, else the one that the library takes.

use std::collections::BTreeMap;

use fabriscope_catalog::{CollectiveRule, CollectiveRules, Mpi, Occasion};
use fabriscope_collectives::{Algorithm, Call, Kind};
use fabriscope_units::Remedy;

use crate::error::UsageError;
use crate::traits::Data;

/// The algorithm for `call`: the one called `name`, else what the library takes.
///
/// # Errors
/// No algorithm of that name, one that needs memory that the ranks do not share, a library of which nothing is known.
pub fn algorithm(tool: &str, name: Option<&str>, call: &Call, data: Data, mpi: &Mpi) -> Result<Algorithm, UsageError> {
    if let Some(name) = name {
        let algorithm = named(call.operation, name)?;
        let memory = mpi.shared_memory.as_ref().and_then(|memory| memory.slots.as_ref()).filter(|_| data == Data::OnHosts);
        let mut slots = algorithm.rounds(call, 0).flat_map(|round| round.receives.into_iter().chain(round.sends)).filter(|m| m.slot);
        return match slots.find(|message| memory.is_none() || message.peer >= call.per_node) {
            None => Ok(algorithm),
            Some(message) => Err(UsageError::Conflict {
                what: match memory {
                    None => format!("{name} needs slots in shared memory, and data of hosts"),
                    Some(_) => format!("{name} has slots that rank {} on another node would have to read", message.peer),
                },
                remedy: "take a library with [mpi.shared_memory.slots], two_level(…) for several nodes, or another algorithm".to_owned(),
            }),
        };
    }
    let in_hosts = data == Data::OnHosts;
    let occasion = Occasion { ranks: call.ranks, per_node: call.per_node, size: call.size, width: call.width, in_hosts };
    let [hierarchical, flat] = [&mpi.hierarchical, &mpi.collectives].map(|all| rows(all, call.operation));
    match fabriscope_catalog::select_collective(hierarchical, flat, occasion) {
        Some(name) => named(call.operation, name),
        None => Err(UsageError::Conflict {
            what: format!("{tool} needs to know how the library does {}, and the cluster's software does not say", call.operation),
            remedy: format!("name one: --algorithm {}", Algorithm::known(call.operation)),
        }),
    }
}

/// The rows of an operation, or of the one that it is a form of.
fn rows(all: &BTreeMap<String, CollectiveRules>, operation: Kind) -> &[CollectiveRule] {
    [operation, operation.family()].iter().find_map(|kind| all.get(kind.word())).map_or(&[], |rules| &rules.value)
}

fn named(operation: Kind, name: &str) -> Result<Algorithm, UsageError> {
    // With data on GPUs, messages go as the library sends them from there.
    let gdr = |(ours, theirs): (&str, &str)| name.strip_prefix(ours).map(|rest| format!("{theirs}{rest}"));
    let renamed = GDR_NAMES.into_iter().filter(|_| operation == Kind::Bcast).find_map(gdr);
    let name = renamed.as_deref().unwrap_or(name);
    Algorithm::named(operation, name)
        .map_err(|unknown| UsageError::Conflict { what: unknown.to_string(), remedy: unknown.remedy().unwrap_or_default() })
}

/// What the literature calls algorithms whose messages are on GPUs.
const GDR_NAMES: [(&str, &str); 2] = [("k_nomial_gdr", "k_nomial"), ("ring_gdr", "pipeline")];
