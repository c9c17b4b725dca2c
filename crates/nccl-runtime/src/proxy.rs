//! One rank of a communicator as its proxy sees it: its process, its GPU and its node.

use std::cell::RefCell;
use std::rc::Rc;

use fabriscope_node::Process;
use fabriscope_platform::nccl::Library;

use super::world::{Node, RankPlacement, World};

/// What a rank and its proxy thread work with.
pub(super) struct Proxy {
    pub process: Process,
    /// The number of this rank.
    pub rank: u32,
    pub world: World,
    pub seat: RankPlacement,
    pub node: Rc<RefCell<Node>>,
}

impl Proxy {
    /// The number of this rank.
    pub fn rank(&self) -> u32 {
        self.rank
    }
    /// The library.
    pub fn library(&self) -> &Library {
        self.world.library(self.rank())
    }
}
