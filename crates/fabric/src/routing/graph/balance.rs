//! Filling tables destination by destination, each switch by itself: of the ways that an algorithm allows, the one that
//! the fewest destinations use so far; of several such, the one with the lowest port. Destinations come in OpenSM's order.
//!
//! Source: OpenSM 3.3, `osm_switch_recommend_path` (a counter of paths for each port; the first of the least used wins).
//! Modelled: with several addresses, each prefers a way that the earlier ones of the same endpoint do not use.
//! Not modelled: port profiles, weights of ports, scattering.

use super::skeleton::{Destinations, Edge, Skeleton};
use super::tables::Tables;
use crate::graph::SwitchId;

/// Tables for all destinations; `allowed` lists the ways that a switch may send packets for a leaf out of.
///
/// Switches without an allowed way get no entry.
pub(super) fn fill(
    skeleton: &Skeleton,
    endpoints: u32,
    lmc: u8,
    mut allowed: impl FnMut(&Destinations, &mut dyn FnMut(SwitchId, &[Edge])),
) -> Tables {
    let mut tables = Tables::new(skeleton.count() as u32, endpoints, lmc);
    let mut used = vec![0u32; skeleton.way_count()];
    for leaf in &skeleton.destinations {
        for &(endpoint, port) in &leaf.ports {
            let Some(endpoint) = endpoint else { continue };
            (0..1 << lmc).for_each(|path| tables.set(leaf.switch, endpoint, path, port));
        }
        allowed(leaf, &mut |at, ways| {
            for &(endpoint, _) in &leaf.ports {
                let mut taken = [false; 256];
                for path in 0..1 << lmc {
                    let least = |way: &&Edge| (taken[usize::from(way.port)], used[way.slot as usize]);
                    let Some(way) = ways.iter().min_by_key(least) else { return };
                    used[way.slot as usize] += 1;
                    taken[usize::from(way.port)] = true;
                    // Aggregation nodes use ways like others; nothing here sends to them.
                    if let Some(endpoint) = endpoint {
                        tables.set(at, endpoint, path, way.port);
                    }
                }
            }
        });
    }
    tables
}
