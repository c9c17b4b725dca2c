//! Following a packet through an idle fabric.

use super::{Head, Hop, Idle, Route};
use crate::graph::{EndpointId, LinkId, Node};
use crate::topology::Fabric;

/// The links from `src` to `dst`, those of the endpoints included; none where they are the same.
///
/// A routing that loses the packet gives a path that does not end at `dst`, of at most
/// [`Route::longest`] links; [`super::delivers`] tells why.
#[must_use]
pub fn path(fabric: &Fabric, route: &impl Route, src: EndpointId, dst: EndpointId, entropy: u32) -> Vec<LinkId> {
    follow(fabric, route, src, dst, entropy).map(|hop| hop.link).collect()
}

/// How many switches a packet crosses from `src` to `dst`.
#[must_use]
pub fn switch_hops(fabric: &Fabric, route: &impl Route, src: EndpointId, dst: EndpointId, entropy: u32) -> u32 {
    (follow(fabric, route, src, dst, entropy).count() as u32).saturating_sub(1)
}

/// The hops of a packet one by one, up to the first endpoint or the longest path there may be.
pub(super) fn follow<R: Route>(fabric: &Fabric, route: &R, src: EndpointId, dest: EndpointId, entropy: u32) -> impl Iterator<Item = Hop> {
    let first = (src != dest).then(|| Hop { link: fabric.graph.uplink(src), vl: 0, via: 0 });
    let next = move |hop: &Hop| match fabric.graph.node(fabric.graph.links().get(hop.link.index())?.to) {
        Node::Endpoint(_) => None,
        Node::Switch(at) => Some(route.output(at, Head { dest, entropy, input: hop.link, vl: hop.vl, via: hop.via }, &mut Idle::new())),
    };
    std::iter::successors(first, next).take(route.longest() as usize)
}
