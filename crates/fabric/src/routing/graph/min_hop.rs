//! Shortest paths, balanced over the ports.
//!
//! Source: OpenSM 3.3, engine `minhop` (`osm_ucast_mgr.c`).
//! Modelled: hop counts, a counter for each port.
//! Not modelled: one lane for everything can deadlock where the fabric has cycles; [`super::super::deadlock`] tells.

use super::balance::fill;
use super::skeleton::{FAR, Skeleton, Way};
use super::tables::Tables;

/// The tables.
pub(super) fn tables(skeleton: &Skeleton, endpoints: u32, lmc: u8) -> Tables {
    let mut ways: Vec<Way> = Vec::new();
    fill(skeleton, endpoints, lmc, |leaf, offer| {
        let distance = skeleton.distances(leaf.switch);
        for at in skeleton.switches().filter(|&at| at != leaf.switch && distance[at.index()] != FAR) {
            ways.clear();
            ways.extend(skeleton.ways(at).iter().filter(|way| distance[way.to.index()] + 1 == distance[at.index()]));
            offer(at, &ways);
        }
    })
}
