//! Whether packets of different groups can wait for each other in a cycle.
//!
//! A packet keeps the buffer behind the link it came by until its last copy has left: that link depends on every other
//! link of the tree at the switch. One tree has no cycle of such dependencies; several trees together may have.
//!
//! Source: W. Dally and C. Seitz, IEEE Trans. Computers 36(5), 1987, theorem 1, with a packet that wants several links.
//! Modelled: all trees given. Not modelled: packets to single endpoints beside them.

use super::tree::Tree;
use crate::graph::{Graph, LinkId, Node};

/// Links each of which can wait for the next, and the last for the first; `None` if no such cycle exists.
#[must_use]
pub fn cycle(graph: &Graph, trees: &[&Tree]) -> Option<Vec<LinkId>> {
    let count = graph.link_count() as usize;
    let mut state = vec![State::New; count];
    for start in 0..count {
        // Depth first, without recursion: a link, and how many of its followers were looked at.
        let mut path: Vec<(LinkId, Vec<LinkId>)> = Vec::new();
        if state[start] == State::New {
            state[start] = State::Open;
            path.push((LinkId(start as u32), followers(graph, trees, LinkId(start as u32))));
        }
        while let Some((link, left)) = path.last_mut() {
            let Some(next) = left.pop() else {
                state[link.index()] = State::Done;
                path.pop();
                continue;
            };
            match state[next.index()] {
                State::Open => {
                    let from = path.iter().position(|(link, _)| *link == next).unwrap_or(0);
                    return Some(path[from..].iter().map(|(link, _)| *link).collect());
                }
                State::New => {
                    state[next.index()] = State::Open;
                    path.push((next, followers(graph, trees, next)));
                }
                State::Done => {}
            }
        }
    }
    None
}

/// The links that a packet behind `link` may wait for. Packets enter a tree by its links and by those of endpoints.
fn followers(graph: &Graph, trees: &[&Tree], link: LinkId) -> Vec<LinkId> {
    let Node::Switch(switch) = graph.node(graph.link(link).to) else { return Vec::new() };
    let enters = |tree: &&&Tree| match graph.node(graph.link(link).from) {
        Node::Endpoint(_) => true,
        Node::Switch(before) => tree.outputs(before).binary_search(&link).is_ok(),
    };
    let outputs = trees.iter().filter(enters).flat_map(|tree| tree.outputs(switch));
    outputs.copied().filter(|next| *next != link.reverse()).collect()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    New,
    Open,
    Done,
}
