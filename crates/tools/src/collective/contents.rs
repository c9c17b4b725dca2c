//! Validation of OMB (`-c`): what every rank holds in the end.
//!
//! Source: [`fabriscope_collectives::proof`]. Modelled: each byte of each rank is a symbol, and the rounds that the ranks carry out move and reduce
//! them; broadcasts by multicast are followed packet by packet when they run.
//! Not modelled: rounding of floating-point sums.

use fabriscope_collectives::Call;
use fabriscope_tool::UsageError;
use fabriscope_units::Bytes;

use super::plan::Implementation;

/// Follows the contents of every size.
///
/// # Errors
/// A job whose contents are too many to follow; a wrong byte.
pub(super) fn check(tool: &str, choices: &[(Call, Implementation)]) -> Result<(), UsageError> {
    for (call, way) in choices {
        let Implementation::Rounds(algorithm) = way else { continue };
        let bytes = call.footprint() * u64::from(call.ranks);
        if call.ranks > RANKS || bytes > MOST {
            let what = format!("{tool} -c: {} ranks with {} each are more than can be followed byte by byte", call.ranks, call.footprint());
            let remedy = format!("give {RANKS} ranks or fewer, sizes (-m) up to {MOST} of all ranks together, or leave -c out");
            return Err(UsageError::Conflict { what, remedy });
        }
        algorithm.proof(call).map_err(|flaw| UsageError::Conflict {
            what: format!("{tool} -c: {algorithm} leaves wrong contents at {}: {flaw}", call.size),
            remedy: "use another --algorithm, and report this".to_owned(),
        })?;
    }
    Ok(())
}

/// Ranks that a proof can follow.
const RANKS: u32 = u64::BITS;
/// Symbols that it holds in memory, a byte each. Basis: assumed; a hundred megabytes.
const MOST: Bytes = Bytes::from_mib(8);

#[cfg(test)]
mod tests {
    use fabriscope_units::Remedy;

    use fabriscope_collectives::{Algorithm, Kind};

    use super::*;

    fn call(operation: Kind, ranks: u32, size: u64) -> Call {
        Call { operation, ranks, per_node: 2, root: 1, size: Bytes(size), width: Bytes(1) }
    }

    /// Every operation by the first algorithm of its help text.
    #[test]
    fn contents_of_every_operation_are_followed() {
        for operation in Kind::ALL {
            let known = Algorithm::known(operation);
            let first = known.split([',', '(']).next().unwrap_or_default();
            let algorithm = Algorithm::named(operation, first).unwrap();
            check("osu", &[(call(operation, 6, if operation == Kind::Barrier { 0 } else { 37 }), Implementation::Rounds(algorithm))])
                .unwrap();
        }
    }

    #[test]
    fn what_is_too_much_is_refused() {
        let ring = || Implementation::Rounds(Algorithm::named(Kind::Allreduce, "ring").unwrap());
        let message = |ranks, size| check("osu_allreduce", &[(call(Kind::Allreduce, ranks, size), ring())]).unwrap_err().in_full();
        assert!(message(65, 8).contains("65 ranks"), "{}", message(65, 8));
        assert!(message(64, 1 << 20).contains("64 ranks with 2 MiB each"), "{}", message(64, 1 << 20));
    }
}
