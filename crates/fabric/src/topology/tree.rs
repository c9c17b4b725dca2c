//! Trees of switches: the coordinates that single switch, leaf–spine and fat tree share.
//!
//! A parallel-ports generalised fat tree, PGFT(h; m₁…m_h; w₁…w_h; p₁…p_h): a switch of level l has m_l
//! children with p_l cables each, and a switch of level l-1 has w_l parents. Endpoints are level 0 and
//! have one parent and one cable. The tree may be filled in part: endpoints 0 … n-1 occupy the first
//! subtrees, and switches without endpoints below them are left out.
//!
//! ```text
//!  level 2      s4    s5          W₂ = w₂ copies of the one subtree of level 2
//!               │╲╲  ╱╱│          p₂ cables between each pair
//!  level 1   s0  s1  s2  s3       one switch for each subtree of level 1
//!            │││ │││ │││ │        m₁ endpoints below each, the last one filled in part
//! ```
//!
//! Numbers, with M_l = m₁…m_l and W_l = w₁…w_l:
//! * endpoint d lies in subtree ⌊d / M_l⌋ of level l;
//! * the switches of level l are numbered subtree by subtree, W_l copies each; copy c of a child leads to
//!   the copies c + W_l · a of the parent subtree, a < w_{l+1};
//! * up port q = r · w_{l+1} + a is cable r to parent a; down port j · p_l + r is cable r to child j;
//! * cables are numbered level by level, those of a level by the child and its up port, so that routing
//!   computes the link instead of looking it up.
//!
//! Source: E. Zahavi, "Fat-trees routing and node ordering providing contention free traffic for MPI
//! global collectives", J. Parallel Distrib. Comput. 72(11), 2012.
//! Nodes with several adapters are several endpoints; [`Rails`] says where they stand when each goes to a leaf of its own.
//! Not modelled: missing or dead switches.

use super::{Counts, Fabric, Links, TopologyError, check_ports};
use crate::graph::{Builder, EndpointId, MOST_PORTS as MOST_PORTS_IN_ALL, Node, Socket, SwitchId};
use crate::topology::Coordinates;

/// What one level of a tree looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// m: children of a switch of this level, where the tree is full.
    pub children: u32,
    /// w: parents of each vertex below this level.
    pub parents: u32,
    /// p: parallel cables between a switch of this level and each of its children.
    pub cables: u32,
}

/// The place of a switch in a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SwitchPosition {
    /// 1 for the switches that endpoints are plugged into.
    pub level: u32,
    /// Which subtree of this level it heads.
    pub subtree: u32,
    /// Which of the equal heads of that subtree it is.
    pub copy: u32,
}

/// A tree of switches with endpoints 0 … n-1 at the bottom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    endpoints: u32,
    levels: Vec<Level>,
    /// First switch and first upward cable of each level; one entry beyond the top.
    first_switch: Vec<u32>,
    first_cable: Vec<u32>,
    /// Where endpoints do not stand in the order of their numbers.
    rails: Option<Rails>,
    /// What the switches are called.
    parlance: Parlance,
}

/// Nodes with several adapters, each of which goes to the leaf switch of its rail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rails {
    /// Adapters of a node: endpoint = node × rails + rail.
    pub rails: u32,
    /// Nodes of a unit, which shares one leaf for each rail.
    pub nodes: u32,
}

impl Rails {
    /// The place from left to right of an endpoint.
    pub fn slot(&self, endpoint: u32) -> u32 {
        let (node, rail) = (endpoint / self.rails, endpoint % self.rails);
        (node / self.nodes * self.rails + rail) * self.nodes + node % self.nodes
    }
    /// The endpoint at a place.
    pub fn endpoint(&self, slot: u32) -> u32 {
        let (leaf, node) = (slot / self.nodes, slot % self.nodes);
        (leaf / self.rails * self.nodes + node) * self.rails + leaf % self.rails
    }
}

/// What the switches of a tree are called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Parlance {
    /// Leaf and spine.
    #[default]
    Fabric,
    /// Line and spine modules of a chassis.
    Chassis,
}

impl Tree {
    /// A tree with `endpoints` endpoints, filled from the left; `levels` from the bottom up.
    ///
    /// # Errors
    /// No level or one of width zero, no endpoints or more than fit, more ports than numbers.
    pub fn new(endpoints: u32, levels: Vec<Level>) -> Result<Tree, TopologyError> {
        let narrow = |level: &Level| level.children == 0 || level.parents == 0 || level.cables == 0;
        let rails = levels.first().is_none_or(|level| level.parents != 1 || level.cables != 1);
        if endpoints == 0 || rails || levels.iter().any(narrow) {
            return Err(TopologyError::Empty);
        }
        let fits = levels.iter().fold(1u64, |all, level| all.saturating_mul(u64::from(level.children)));
        if u64::from(endpoints) > fits {
            return Err(TopologyError::TooManyEndpoints { endpoints: u64::from(endpoints), fits, remedy: "" });
        }
        let mut tree = Tree { endpoints, levels, first_switch: vec![0], first_cable: vec![0], rails: None, parlance: Parlance::Fabric };
        let (mut switches, mut cables, mut ports) = (0u64, u64::from(endpoints), u64::from(endpoints));
        for level in 1..=tree.height() {
            let count = tree.subtrees(level).saturating_mul(tree.copies(level));
            let up = if level < tree.height() { u64::from(tree.up_ports(level)) } else { 0 };
            tree.first_cable.push(cables as u32);
            // Every cable and every switch has a port: this bounds them, too.
            ports = ports.saturating_add(count.saturating_mul(tree.ports(level)));
            if ports > u64::from(MOST_PORTS_IN_ALL) {
                return Err(TopologyError::TooLarge { ports, most: MOST_PORTS_IN_ALL });
            }
            switches += count;
            cables += count * up;
            tree.first_switch.push(switches as u32);
        }
        tree.first_cable.push(cables as u32);
        Ok(tree)
    }

    /// The same with endpoints in the order of rails; units must be full.
    pub(super) fn with_rails(self, rails: Rails) -> Tree {
        debug_assert!(self.level(1).children == rails.nodes && self.endpoints.is_multiple_of(rails.nodes * rails.rails));
        Tree { rails: Some(rails), ..self }
    }
    /// The same with other names for the switches.
    pub(super) fn called(self, parlance: Parlance) -> Tree {
        Tree { parlance, ..self }
    }
    /// The order of the endpoints, where it is not that of their numbers.
    pub fn rails(&self) -> Option<Rails> {
        self.rails
    }
    /// The place of an endpoint, counted from the left.
    pub fn slot(&self, endpoint: EndpointId) -> u32 {
        self.rails.map_or(endpoint.0, |rails| rails.slot(endpoint.0))
    }

    /// How many endpoints there are.
    pub fn endpoints(&self) -> u32 {
        self.endpoints
    }
    /// h: how many levels of switches there are.
    pub fn height(&self) -> u32 {
        self.levels.len() as u32
    }
    /// The shape of level 1 … h.
    pub fn level(&self, level: u32) -> Level {
        self.levels[level as usize - 1]
    }
    /// M_l: endpoints below a switch of this level where the tree is full; 1 for level 0.
    pub fn span(&self, level: u32) -> u64 {
        self.levels[..level as usize].iter().fold(1u64, |all, level| all.saturating_mul(u64::from(level.children)))
    }
    /// W_l: equal heads of each subtree of this level; 1 for level 0.
    pub fn copies(&self, level: u32) -> u64 {
        self.levels[..level as usize].iter().fold(1u64, |all, level| all.saturating_mul(u64::from(level.parents)))
    }
    /// How many subtrees of this level hold endpoints.
    pub fn subtrees(&self, level: u32) -> u64 {
        u64::from(self.endpoints).div_ceil(self.span(level))
    }
    /// Upward ports of each switch of a level below the top; 1 for level 0, the endpoints.
    pub fn up_ports(&self, level: u32) -> u32 {
        self.levels[level as usize].parents.saturating_mul(self.levels[level as usize].cables)
    }
    /// Ports that a switch of this level needs.
    pub fn ports(&self, level: u32) -> u64 {
        let shape = self.level(level);
        let down = u64::from(shape.children) * u64::from(shape.cables);
        down + if level < self.height() { u64::from(self.up_ports(level)) } else { 0 }
    }
    /// The first switch of a level; one beyond the top gives the number of switches.
    pub fn first_switch(&self, level: u32) -> u32 {
        self.first_switch[level as usize - 1]
    }
    /// The first cable that leads up from a level; level 0 are the cables of the endpoints.
    pub fn first_cable(&self, level: u32) -> u32 {
        self.first_cable[level as usize]
    }
    /// Level, subtree and copy of a switch.
    pub fn place(&self, switch: SwitchId) -> SwitchPosition {
        let level = self.first_switch.partition_point(|&first| first <= switch.0) as u32;
        let index = switch.0 - self.first_switch(level);
        let copies = self.copies(level) as u32;
        SwitchPosition { level, subtree: index / copies, copy: index % copies }
    }
    /// The switch that an endpoint is plugged into.
    pub fn leaf(&self, endpoint: EndpointId) -> SwitchId {
        SwitchId(self.slot(endpoint) / self.level(1).children)
    }
    /// The lowest level whose subtree holds both endpoints; 0 where they are the same.
    pub fn meeting_level(&self, one: EndpointId, other: EndpointId) -> u32 {
        let (one, other) = (u64::from(self.slot(one)), u64::from(self.slot(other)));
        let together = |level: &u32| one / self.span(*level) == other / self.span(*level);
        (0..=self.height()).find(together).expect("the top level holds all endpoints")
    }
    /// How many endpoints, switches and cables there are, from the shape alone.
    pub fn counts(&self) -> Counts {
        // Switches of level l: ⌈n / M_l⌉ · W_l. Cables: n at the endpoints, and w·p above each switch below the top.
        let per_level = |level: u32| self.subtrees(level) * self.copies(level);
        let switches = (1..=self.height()).map(per_level).sum::<u64>();
        let trunks = (1..self.height()).map(|level| per_level(level) * u64::from(self.up_ports(level))).sum::<u64>();
        Counts { endpoints: self.endpoints, switches: switches as u32, cables: self.endpoints + trunks as u32 }
    }

    /// Plugs all cables.
    ///
    /// # Errors
    /// A switch that needs more than `radix` ports; a link without a rate.
    pub(super) fn build(self, links: &Links, radix: u32) -> Result<Fabric, TopologyError> {
        for level in 1..=self.height() {
            let up = if level < self.height() { u64::from(self.up_ports(level)) } else { 0 };
            let down = self.ports(level) - up;
            check_ports("a switch of the tree", (down, up), radix.min(MOST_PORTS), "give it fewer children or parents")?;
        }
        let counts = self.counts();
        let ports = (1..=self.height()).flat_map(|level| {
            let switches = self.first_switch(level + 1) - self.first_switch(level);
            std::iter::repeat_n(self.ports(level) as u16, switches as usize)
        });
        let mut builder = Builder::new(self.endpoints, ports)?;
        builder.reserve(counts.cables);
        // In the order of their places, so that routing computes the cable of an endpoint from its place.
        for slot in 0..self.endpoints {
            let (leaf, port) = (slot / self.level(1).children, slot % self.level(1).children);
            let endpoint = self.rails.map_or(slot, |rails| rails.endpoint(slot));
            builder.cable(Socket::endpoint(endpoint), Socket::switch(leaf, port as u16), &links.host)?;
        }
        for level in 1..self.height() {
            self.plug_trunks(&mut builder, links, level)?;
        }
        Ok(Fabric { graph: builder.build()?, coordinates: Coordinates::Tree(self), radix })
    }

    /// The cables from the switches of `level` to their parents, in the order of their numbers.
    fn plug_trunks(&self, builder: &mut Builder, links: &Links, level: u32) -> Result<(), TopologyError> {
        let (here, above) = (self.level(level), self.level(level + 1));
        let (copies, copies_above) = (self.copies(level) as u32, self.copies(level + 1) as u32);
        let first_up_port = here.children * here.cables;
        for child in 0..self.first_switch(level + 1) - self.first_switch(level) {
            let (subtree, copy) = (child / copies, child % copies);
            let (parent_subtree, digit) = (subtree / above.children, subtree % above.children);
            for up in 0..self.up_ports(level) {
                let (cable, parent) = (up / above.parents, up % above.parents);
                let parent = self.first_switch(level + 1) + parent_subtree * copies_above + copy + copies * parent;
                let from = Socket::switch(self.first_switch(level) + child, (first_up_port + up) as u16);
                let to = Socket::switch(parent, (digit * above.cables + cable) as u16);
                builder.cable(from, to, &links.trunk)?;
            }
        }
        Ok(())
    }

    /// What reports call a switch: `leaf 3`, `spine 2`, `level-2 switch 1 of pod 4`.
    pub(super) fn name(&self, switch: SwitchId) -> String {
        let SwitchPosition { level, subtree, copy } = self.place(switch);
        match (level, self.height() - level) {
            (1, 1) if self.parlance == Parlance::Chassis => format!("line module {}", subtree + 1),
            (2, 0) if self.parlance == Parlance::Chassis => format!("spine module {}", copy + 1),
            (1, 0) => "switch".to_owned(),
            (1, _) => match self.rails {
                Some(rails) => format!("leaf of rail {} in unit {}", subtree % rails.rails, subtree / rails.rails),
                None => format!("leaf {subtree}"),
            },
            (_, 0) => format!("spine {copy}"),
            _ => format!("level-{level} switch {copy} of pod {subtree}"),
        }
    }

    /// What the switches of a level are called, without their numbers.
    pub(crate) fn class(&self, level: u32) -> String {
        match (level, self.height() - level) {
            (1, 1) if self.parlance == Parlance::Chassis => "line module".to_owned(),
            (2, 0) if self.parlance == Parlance::Chassis => "spine module".to_owned(),
            (1, 0) => "switch".to_owned(),
            (1, _) => "leaf".to_owned(),
            (_, 0) => "spine".to_owned(),
            _ => format!("level-{level} switch"),
        }
    }

    /// The level of an endpoint (0) or a switch.
    pub(crate) fn level_of(&self, node: Node) -> u32 {
        match node {
            Node::Endpoint(_) => 0,
            Node::Switch(switch) => self.place(switch).level,
        }
    }
}

/// Ports have 16-bit numbers.
pub(super) const MOST_PORTS: u32 = u16::MAX as u32;
