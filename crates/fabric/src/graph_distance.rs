//! How far each vertex of a graph is from the endpoints: the level of a switch in a tree, whatever the topology.

use crate::Graph;

/// Links from each vertex, by its number, to the nearest endpoint: 0 for endpoints, 1 for leaf switches, 2 for spines, and so on.
/// Vertices without a way to any endpoint are as far as numbers go.
#[must_use]
pub fn distances_to_endpoints(graph: &Graph) -> Vec<u32> {
    let vertices = graph.links().iter().map(|link| link.from.0.max(link.to.0) + 1).max().unwrap_or(0);
    let mut levels: Vec<u32> = (0..vertices).map(|vertex| if vertex < graph.endpoint_count() { 0 } else { u32::MAX - 1 }).collect();
    loop {
        let mut changed = false;
        for link in graph.links() {
            let next = levels[link.from.index()] + 1;
            if next < levels[link.to.index()] {
                levels[link.to.index()] = next;
                changed = true;
            }
        }
        if !changed {
            return levels;
        }
    }
}
