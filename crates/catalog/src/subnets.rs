//! InfiniBand subnets that routers join.
//!
//! ```toml
//! subnet_nodes = 32                      # the nodes of a leaf are a subnet
//! switch_levels = { spine = "sb7780" }   # leaves meet at routers
//! ```
//!
//! Source: InfiniBand Architecture Specification, volume 1 chapter 19 (routers), chapter 8 (global route header, 40 bytes).
//! Modelled: routers as switches with their own latency; the header on every packet that leaves its subnet, on all links of its way.
//! Not modelled: local identifiers that begin anew in each subnet, subnet managers and path records of each, groups beyond a subnet, IP
//! between subnets (its packets carry no such header).

use std::num::NonZeroU32;

use crate::cluster::ResolvedCluster;
use crate::error::Problem;
use crate::part::Layer;

impl ResolvedCluster {
    /// Adapters of an InfiniBand subnet, where routers join several: each node has one.
    #[must_use]
    pub fn subnet(&self) -> Option<NonZeroU32> {
        self.subnet_nodes.and_then(NonZeroU32::new)
    }
}

/// Whether there can be such subnets.
pub(crate) fn check(resolved: &ResolvedCluster) -> Result<(), Problem> {
    let Some(nodes) = resolved.subnet_nodes else { return Ok(()) };
    let at = |message: String, help: &str| Err(Problem::at(&["subnet_nodes"], message, help));
    if resolved.link_layer.layer() != Layer::InfiniBand {
        return at("subnets of InfiniBand on Ethernet".to_owned(), "remove `subnet_nodes`");
    }
    if nodes == 0 {
        return at("a subnet of no nodes".to_owned(), "say how many nodes a subnet has, or remove `subnet_nodes`");
    }
    match resolved.groups.iter().find(|group| group.node.nics != 1) {
        Some(group) => {
            let message = format!("nodes with {} adapters in subnets of their own", group.node.nics);
            at(message, "remove `subnet_nodes`, or use nodes with one adapter")
        }
        None => Ok(()),
    }
}
