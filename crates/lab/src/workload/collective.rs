//! A collective operation by one algorithm: what a lab says of it, and whether it can happen on a cluster.

use fabriscope_collectives::{Algorithm, Call, Kind};
use fabriscope_units::{Bytes, Remedy};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{LARGEST_MESSAGE, check_transport};
use fabriscope_catalog::{Problem, ResolvedCluster};
use fabriscope_wire::Service;

/// A collective operation of MPI by one algorithm, round by round; ranks fill the nodes one after the other, each at a GPU of its own
/// where there are GPUs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Collective {
    /// The operation: `allreduce`, `alltoall`, `bcast`, `barrier` …
    pub operation: String,
    /// How: `ring`, `rabenseifner`, `two_level(reduce, outer, bcast)` …
    pub algorithm: String,
    /// The buffer; of operations on blocks (allgather, alltoall, gather, scatter), the block of a rank. A barrier has none.
    #[serde(default)]
    pub size: Bytes,
    /// How many ranks. Default: all that fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ranks: Option<u32>,
    /// Ranks on each node. Default: one for each GPU, or for each adapter of nodes without GPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_node: Option<u32>,
    /// The root, where the operation has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<u32>,
    /// Length of an element, which a reduction does not split.
    #[serde(default = "four")]
    pub width: Bytes,
    /// Let one rank run for all that do the same at the same time, in the flow engine.
    #[serde(default = "yes")]
    pub fold: bool,
    /// Transport service.
    #[serde(default)]
    pub transport: Service,
    /// Packets may be taken in any order: what spraying needs.
    #[serde(default)]
    pub any_order: bool,
}

const fn four() -> Bytes {
    Bytes(4)
}

const fn yes() -> bool {
    true
}

impl Collective {
    /// The call that all ranks make, and how it is carried out.
    ///
    /// # Errors
    /// No such operation or algorithm, more ranks than fit, counts that do not divide; the place is a key of this table.
    pub fn call(&self, cluster: &ResolvedCluster) -> Result<(Call, Algorithm), Problem> {
        let wrong = |key: &str, message: String, help: String| Err(Problem::at(&[key], message, help));
        let Some(operation) = Kind::of_word(&self.operation) else {
            let known = Kind::ALL.map(|kind| kind.word()).join(", ");
            return wrong("operation", format!("there is no operation `{}`", self.operation), format!("use one of {known}"));
        };
        let algorithm = Algorithm::named(operation, &self.algorithm)
            .map_err(|unknown| Problem::at(&["algorithm"], unknown.to_string(), unknown.remedy().unwrap_or_default()))?;
        if algorithm.is_in_network() {
            let help = "run `fabriscope bench osu_allreduce --nodes N --ppn P --algorithm sharp`, or take an algorithm of the hosts";
            return wrong(
                "algorithm",
                "messages of this workload go between ranks, and switches carry this algorithm out".to_owned(),
                help.to_owned(),
            );
        }
        let node = &cluster.sole().node;
        let (most, what) = match node.gpus {
            0 => (node.cpu.cores.saturating_mul(node.sockets).max(node.nics), "cores"),
            gpus => (gpus, "GPUs"),
        };
        let per_node = self.per_node.unwrap_or(if node.gpus > 0 { node.gpus } else { node.nics });
        if per_node == 0 || per_node > most {
            return wrong("per_node", format!("{per_node} ranks on a node with {most} {what}"), format!("use 1 to {most}"));
        }
        let room = u64::from(cluster.nodes()) * u64::from(per_node);
        let ranks = self.ranks.map_or(room, u64::from);
        if ranks < 2 || ranks > room.min(MOST_RANKS) {
            let message = format!("{ranks} ranks, {per_node} on each of {} nodes", cluster.nodes());
            let help = format!("use 2 to {} ranks, or a larger cluster: \"{}:NODES\"", room.min(MOST_RANKS), cluster.name);
            return wrong("ranks", message, help);
        }
        let ranks = ranks as u32;
        if let Some(root) = self.root {
            if !operation.has_root() {
                return wrong("root", format!("{operation} has no root"), "remove `root`".to_owned());
            }
            if root >= ranks {
                return wrong("root", format!("there is no rank {root} among {ranks}"), format!("use 0 to {}", ranks - 1));
            }
        }
        let size = self.size;
        if (size == Bytes::ZERO) != (operation == Kind::Barrier) || size > LARGEST_MESSAGE {
            let help = match operation {
                Kind::Barrier => "remove `size`: a barrier has no data".to_owned(),
                _ => format!("use 1 B to {LARGEST_MESSAGE}"),
            };
            return wrong("size", format!("{operation} of {size}"), help);
        }
        let width = self.width;
        if width == Bytes::ZERO || width > LARGEST_ELEMENT {
            return wrong("width", format!("elements of {width}"), format!("use 1 B to {LARGEST_ELEMENT}"));
        }
        if operation.reduces() && !size.0.is_multiple_of(width.0) {
            let help = format!("use a multiple of {width}, or another `width`");
            return wrong("size", format!("{size} are no whole number of elements of {width}"), help);
        }
        Ok((Call { operation, ranks, per_node, root: self.root.unwrap_or(0), size, width }, algorithm))
    }
}

pub(super) fn check(work: &Collective, cluster: &ResolvedCluster) -> Result<(), Problem> {
    work.call(cluster).map_err(|problem| problem.under("collective").under("workload"))?;
    check_transport(work.transport, cluster, &["workload", "collective", "transport"])
}

/// Basis: assumed, sixty times the largest machine of today.
const MOST_RANKS: u64 = 1 << 24;
/// Basis: standard, two long double complex numbers with room.
const LARGEST_ELEMENT: Bytes = Bytes(64);
