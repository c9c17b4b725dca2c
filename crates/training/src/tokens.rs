//! How many parts of a cluster the experts of a token lie on, where every expert is taken as often.
//!
//! Source: drawing without replacement; DeepSeek-V3 (arXiv 2412.19437), §3.2.2, for the exchange itself.
//! Not modelled: limits of groups that the router keeps to, experts that are taken more often than others.

use fabriscope_units::Bytes;

use crate::times::{Group, Operation};

/// What ranks send of the tokens of an exchange by nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Forwarded {
    /// What leaves the node of a rank, to the ranks of the same number on other nodes.
    pub outside: Bytes,
    /// What a rank sends on to others of its node.
    pub inside: Bytes,
}

/// What ranks of a group send that lie `each` on a node; nothing for other operations than [`Operation::Tokens`]. `bytes` are those of a copy for
/// each expert.
#[must_use]
pub fn forwarded(operation: Operation, bytes: Bytes, group: Group, each: u32) -> Option<Forwarded> {
    let Operation::Tokens { experts, per_token } = operation else { return None };
    let nodes = group.size.div_ceil(each.max(1)).max(1);
    let once = bytes.0 as f64 / f64::from(per_token.max(1));
    let others = |of: u32| f64::from(of - 1) / f64::from(of);
    let outside = once * reached(experts, per_token, nodes) * others(nodes);
    let inside = once * reached(experts, per_token, group.size) * others(each.clamp(1, group.size));
    Some(Forwarded { outside: Bytes(outside as u64), inside: Bytes(inside as u64) })
}

/// Of `parts` with as many of `experts` each, those that have one of `per_token` at the mean.
fn reached(experts: u32, per_token: u32, parts: u32) -> f64 {
    let (all, parts) = (f64::from(experts), f64::from(parts.max(1)));
    let elsewhere = all - all / parts;
    let none: f64 = (0..per_token).map(|drawn| ((elsewhere - f64::from(drawn)) / (all - f64::from(drawn)).max(1.0)).max(0.0)).product();
    parts * (1.0 - none)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One of 4 experts is on one of any parts; 2 of 4 on two of four, and on 2 · (1 − 2/4 · 1/3) = 5/3 of two.
    #[test]
    fn parts_are_reached_as_draws_say() {
        for (per_token, parts, reaches) in [(1, 4, 1.0), (1, 2, 1.0), (2, 4, 2.0), (2, 2, 5.0 / 3.0), (4, 2, 2.0), (2, 1, 1.0)] {
            assert!((reached(4, per_token, parts) - reaches).abs() < 1e-12, "{per_token} of 4 on {parts}");
        }
    }

    /// 8 of 256 experts, 32 GPUs on 4 nodes: a token goes to 3.6 of the nodes, and leaves its own for 2.7 of them, where copies are 6 of 8.
    #[test]
    fn a_token_crosses_once_to_each_node() {
        let exchange = Operation::Tokens { experts: 256, per_token: 8 };
        let sent = forwarded(exchange, Bytes(8000), Group { size: 32, stride: 1 }, 8).unwrap();
        assert!((2690..2720).contains(&sent.outside.0), "{sent:?}");
        assert_eq!(forwarded(Operation::AllToAll, Bytes(8000), Group { size: 32, stride: 1 }, 8), None);
        // Within a node nothing leaves.
        assert_eq!(forwarded(exchange, Bytes(8000), Group { size: 8, stride: 1 }, 8).unwrap().outside, Bytes::ZERO);
    }
}
