//! Two binary trees over the nodes of a communicator: what is a leaf in one is none in the other.
//!
//! Source: P. Sanders, J. Speck, J. L. Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan", Parallel
//! Computing 35 (2009); NCCL 2.22.3, src/graph/trees.cc.

/// A node of a tree; numbers are those of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TreeNode {
    /// The node above.
    pub up: Option<usize>,
    /// The nodes below: of lower and of higher number.
    pub down: [Option<usize>; 2],
    /// Whether it is below on the side of higher numbers.
    pub second: bool,
}

/// The place of `node` in the tree whose root is node 0: leaves are the odd numbers.
fn binary(nodes: usize, node: usize) -> TreeNode {
    let lowest = |node: usize| 1usize << node.trailing_zeros();
    if node == 0 {
        // The highest power of two below the number of nodes.
        let below = (nodes > 1).then(|| 1 << (nodes - 1).ilog2());
        return TreeNode { up: None, down: [None, below], second: false };
    }
    let bit = lowest(node);
    let inner = (node ^ bit) | (bit << 1);
    let up = if inner < nodes { inner } else { node ^ bit };
    let half = bit >> 1;
    let down = if half == 0 {
        [None, None]
    } else {
        let steps = std::iter::successors(Some(half), |step| Some(step >> 1)).take_while(|step| *step > 0);
        [Some(node - half), steps.map(|step| node + step).find(|higher| *higher < nodes)]
    };
    TreeNode { up: Some(up), down, second: node > up }
}

/// The places of `node` in both trees: the second is the first mirrored where nodes are even in number, and shifted by one otherwise.
pub(crate) fn double(nodes: usize, node: usize) -> [TreeNode; 2] {
    let first = binary(nodes, node);
    let moved = |place: TreeNode, back: &dyn Fn(usize) -> usize| TreeNode {
        up: place.up.map(back),
        down: place.down.map(|down| down.map(back)),
        second: place.second,
    };
    let second = if nodes % 2 == 1 {
        moved(binary(nodes, (node + nodes - 1) % nodes), &|node| (node + 1) % nodes)
    } else {
        moved(binary(nodes, nodes - 1 - node), &|node| nodes - 1 - node)
    };
    [first, second]
}

/// Edges from the root to the deepest node; both trees have the same.
pub(crate) fn levels(nodes: usize) -> u32 {
    let up = |node: &usize| binary(nodes, *node).up;
    (0..nodes).map(|node| std::iter::successors(Some(node), up).count() as u32 - 1).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both trees span all nodes, parents and children agree, and depth is logarithmic.
    #[test]
    fn each_tree_spans_all_nodes() {
        for nodes in 1..200 {
            for tree in 0..2 {
                let places: Vec<TreeNode> = (0..nodes).map(|node| double(nodes, node)[tree]).collect();
                assert_eq!(places.iter().filter(|place| place.up.is_none()).count(), 1, "{nodes} nodes");
                for (node, place) in places.iter().enumerate() {
                    if let Some(up) = place.up {
                        assert_eq!(places[up].down[usize::from(place.second)], Some(node), "{nodes} nodes, {node}");
                    }
                    for down in place.down.into_iter().flatten() {
                        assert_eq!(places[down].up, Some(node), "{nodes} nodes, {node}");
                    }
                    let depth = std::iter::successors(Some(node), |node| places[*node].up).count();
                    assert!(depth <= (nodes as f64).log2() as usize + 2, "{nodes} nodes: {node} is {depth} deep");
                }
            }
        }
    }

    /// Twice as many nodes are one level more.
    #[test]
    fn levels_are_logarithmic() {
        assert_eq!([1, 2, 3, 4, 6, 8, 16, 24, 512].map(levels), [0, 1, 2, 2, 3, 3, 4, 5, 9]);
    }

    /// With an even number of nodes no node passes on in both trees.
    #[test]
    fn leaves_of_one_tree_are_inner_in_the_other() {
        for nodes in (2..100).step_by(2) {
            for node in 0..nodes {
                let inner = double(nodes, node).map(|place| place.down.into_iter().flatten().count() > 0);
                assert!(!(inner[0] && inner[1]), "{node} of {nodes} passes on in both trees");
            }
        }
    }
}
