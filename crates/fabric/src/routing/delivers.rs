//! What every routing must satisfy on every fabric it accepts.

use super::deadlock::{self, Verdict};
use super::{Head, Hop, Route, path::follow};
use crate::graph::{EndpointId, LinkId, Node, Vertex};
use crate::topology::{Coordinates, Fabric};

/// What is wrong with a routing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, miette::Diagnostic)]
#[non_exhaustive]
pub enum Defect {
    /// A hop does not start where the packet stands, or is no link at all.
    #[error("from {src} to {dst} with entropy {entropy}: link {link} does not leave {at}")]
    Elsewhere {
        /// The source.
        src: EndpointId,
        /// The destination.
        dst: EndpointId,
        /// The packet's entropy.
        entropy: u32,
        /// Where the packet stands.
        at: Vertex,
        /// The link the routing named.
        link: LinkId,
    },
    /// The packet does not arrive within the longest path.
    #[error("from {src} to {dst} with entropy {entropy}: not there after {links} links")]
    Lost {
        /// The source.
        src: EndpointId,
        /// The destination.
        dst: EndpointId,
        /// The packet's entropy.
        entropy: u32,
        /// Links taken.
        links: u32,
    },
    /// The packet goes back the way it came.
    #[error("from {src} to {dst} with entropy {entropy}: bounces back on link {link}")]
    Bounces {
        /// The source.
        src: EndpointId,
        /// The destination.
        dst: EndpointId,
        /// The packet's entropy.
        entropy: u32,
        /// The link back.
        link: LinkId,
    },
    /// Asked twice, the routing answers differently.
    #[error("from {src} to {dst} with entropy {entropy}: two paths for the same packet")]
    Fickle {
        /// The source.
        src: EndpointId,
        /// The destination.
        dst: EndpointId,
        /// The packet's entropy.
        entropy: u32,
    },
    /// On a tree: up after down, or a detour.
    #[error("from {src} to {dst} with entropy {entropy}: not up to the lowest common level and straight down")]
    NotUpDown {
        /// The source.
        src: EndpointId,
        /// The destination.
        dst: EndpointId,
        /// The packet's entropy.
        entropy: u32,
    },
    /// The routing chooses what it does not list among its options.
    #[error("from {src} to {dst} with entropy {entropy}: link {link} is not among the options at the switch")]
    Unlisted {
        /// The source.
        src: EndpointId,
        /// The destination.
        dst: EndpointId,
        /// The packet's entropy.
        entropy: u32,
        /// The link.
        link: LinkId,
    },
    /// A virtual lane beyond those announced.
    #[error("from {src} to {dst} with entropy {entropy}: lane {vl}, but only {lanes} lanes are announced")]
    Lane {
        /// The source.
        src: EndpointId,
        /// The destination.
        dst: EndpointId,
        /// The packet's entropy.
        entropy: u32,
        /// The lane.
        vl: u8,
        /// Lanes announced.
        lanes: u8,
    },
    /// Packets can wait for each other in a cycle.
    #[error("the routing can deadlock: each of these waits for the next, and the last for the first: {}", waiting(cycle))]
    Deadlock {
        /// The hops of the cycle.
        cycle: Vec<Hop>,
    },
    /// Nothing is known about cycles.
    #[error("the routing gives no proof that it cannot deadlock, and about {work} hops are too many to look at")]
    #[diagnostic(help("check a smaller fabric"))]
    Unproved {
        /// Hops that a check would have to look at.
        work: u64,
    },
}

/// What [`delivers`] went through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Paths followed.
    pub paths: u64,
    /// Links of the longest of them.
    pub longest: u32,
    /// Different (link, lane) pairs in which some packet waits for another one.
    pub dependencies: u64,
}

/// Checks a routing: every packet reaches its destination within the longest path, never bounces back,
/// takes the same path when asked again, climbs and descends once on a tree, chooses only what it lists as an option,
/// and no packets can wait for each other in a cycle ([`super::deadlock`]).
///
/// Follows all pairs of up to 128 endpoints, spread evenly over the fabric, with several values of entropy; cycles
/// are looked for on all ways from all sources to all endpoints of a small fabric, to those 128 of a
/// large one, and where even these are too many to look at, the routing's own proof is believed.
///
/// # Errors
/// The first defect found.
pub fn delivers(fabric: &Fabric, route: &impl Route) -> Result<Delivery, Defect> {
    let count = fabric.graph.endpoint_count();
    let sample = count.min(SAMPLE);
    let mut delivery = Delivery { paths: 0, longest: 0, dependencies: 0 };
    for src in 0..sample {
        for dst in 0..sample {
            let (src, dst) = (pick(src, sample, count), pick(dst, sample, count));
            for step in 0..ENTROPIES {
                let entropy = (src.0 ^ dst.0).wrapping_mul(ENTROPIES).wrapping_add(step);
                let hops: Vec<Hop> = follow(fabric, route, src, dst, entropy).collect();
                check(fabric, route, (src, dst, entropy), &hops)?;
                delivery.paths += 1;
                delivery.longest = delivery.longest.max(hops.len() as u32);
            }
        }
    }
    let mut verdict = deadlock::verdict(fabric, route);
    if !matches!(verdict, Verdict::Free { .. } | Verdict::Cycle(_)) {
        verdict = deadlock::sample(fabric, route, (0..sample).map(|dst| pick(dst, sample, count)));
    }
    match verdict {
        Verdict::Cycle(cycle) => Err(Defect::Deadlock { cycle }),
        Verdict::Free { dependencies, .. } => Ok(Delivery { dependencies, ..delivery }),
        Verdict::Unknown { work } if route.proof().is_none() => Err(Defect::Unproved { work }),
        Verdict::ByConstruction(_) | Verdict::Unknown { .. } => Ok(delivery),
    }
}

/// The hops of a cycle for a message.
fn waiting(cycle: &[Hop]) -> String {
    cycle.iter().map(|hop| format!("{} on lane {}", hop.link, hop.vl)).collect::<Vec<_>>().join(", ")
}

/// One endpoint from each of `sample` equal shares of the fabric, at different places in them.
fn pick(index: u32, sample: u32, count: u32) -> EndpointId {
    let start = |index: u32| (u64::from(index) * u64::from(count) / u64::from(sample)) as u32;
    let width = start(index + 1) - start(index);
    // Knuth's multiplicative hash: the places must not follow the powers of two that trees are made of.
    EndpointId(start(index) + (index.wrapping_mul(2_654_435_761) >> 8) % width)
}

/// Follows one path and checks every step.
fn check(fabric: &Fabric, route: &impl Route, packet: (EndpointId, EndpointId, u32), hops: &[Hop]) -> Result<(), Defect> {
    let (src, dst, entropy) = packet;
    let graph = &fabric.graph;
    let mut at = graph.vertex(Node::Endpoint(src));
    for (index, hop) in hops.iter().enumerate() {
        let link = hop.link;
        if link.0 >= graph.link_count() || graph.link(link).from != at {
            return Err(Defect::Elsewhere { src, dst, entropy, at, link });
        }
        if index > 0 && link == hops[index - 1].link.reverse() {
            return Err(Defect::Bounces { src, dst, entropy, link });
        }
        if hop.vl >= route.lanes() {
            return Err(Defect::Lane { src, dst, entropy, vl: hop.vl, lanes: route.lanes() });
        }
        at = graph.link(link).to;
    }
    if at != graph.vertex(Node::Endpoint(dst)) {
        return Err(Defect::Lost { src, dst, entropy, links: hops.len() as u32 });
    }
    if !follow(fabric, route, src, dst, entropy).eq(hops.iter().copied()) {
        return Err(Defect::Fickle { src, dst, entropy });
    }
    every_hop_is_listed(fabric, route, packet, hops)?;
    if let Coordinates::Tree(tree) = &fabric.coordinates {
        let levels = hops.iter().map(|hop| tree.level_of(graph.node(graph.link(hop.link).to)));
        let top = tree.meeting_level(src, dst);
        if !levels.eq((1..=top).chain((0..top).rev())) {
            return Err(Defect::NotUpDown { src, dst, entropy });
        }
    }
    Ok(())
}

/// The proof of freedom from deadlock rests on the lists of options: they have to hold what is chosen.
fn every_hop_is_listed(fabric: &Fabric, route: &impl Route, packet: (EndpointId, EndpointId, u32), hops: &[Hop]) -> Result<(), Defect> {
    let (src, dst, entropy) = packet;
    for pair in hops.windows(2) {
        let (before, chosen) = (pair[0], pair[1]);
        let Node::Switch(at) = fabric.graph.node(fabric.graph.link(before.link).to) else { continue };
        let head = Head { dest: dst, entropy, input: before.link, vl: before.vl, via: before.via };
        let mut listed = false;
        route.options(at, head, &mut |option| listed |= option == chosen);
        if !listed {
            return Err(Defect::Unlisted { src, dst, entropy, link: chosen.link });
        }
    }
    Ok(())
}

/// Endpoints in the sample: all pairs of them are followed.
const SAMPLE: u32 = 128;
/// Values of entropy for each pair.
const ENTROPIES: u32 = 3;
