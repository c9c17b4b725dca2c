//! Shortest paths by the lowest port: dimension order on a grid whose switches have their ports in the order of dimensions.
//!
//! Source: OpenSM 3.3, engine `dor`: of all shortest ways the neighbour behind the lowest port; parallel cables to it balanced.
//! Not modelled: lanes; a torus needs a second one at the dateline, which [`super::super::deadlock`] shows.

use super::balance::fill;
use super::skeleton::{FAR, Skeleton, Way};
use super::tables::Tables;

/// The tables.
pub(super) fn tables(skeleton: &Skeleton, endpoints: u32) -> Tables {
    let mut ways: Vec<Way> = Vec::new();
    fill(skeleton, endpoints, 0, |leaf, offer| {
        let distance = skeleton.distances(leaf.switch);
        for at in skeleton.switches().filter(|&at| at != leaf.switch && distance[at.index()] != FAR) {
            ways.clear();
            let mut shortest = skeleton.ways(at).iter().filter(|way| distance[way.to.index()] + 1 == distance[at.index()]).peekable();
            let first = shortest.peek().map(|way| way.to);
            ways.extend(shortest.filter(|way| Some(way.to) == first));
            offer(at, &ways);
        }
    })
}
