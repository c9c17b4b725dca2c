//! What is to be drawn, without places: switches with their endpoints, and the lines between them.

use std::collections::BTreeMap;

use crate::analysis;
use crate::graph::{LinkId, Node, SwitchId};
use crate::routing::hash;
use crate::topology::{Coordinates, Fabric};

/// Switches and lines.
#[derive(Clone, Debug, Default)]
pub(super) struct Scene {
    pub(super) vertices: Vec<Vertex>,
    pub(super) lines: Vec<Line>,
    /// The most load of all links, those of endpoints included; none without loads.
    pub(super) most: Option<f64>,
    /// Lines that were left out.
    pub(super) hidden: usize,
    /// Whether switches have names of their own, whose numbers are not ours.
    pub(super) named: bool,
}

/// A switch, or several drawn as one.
#[derive(Clone, Debug)]
pub(super) struct Vertex {
    pub(super) name: String,
    /// What all vertices of its level are called.
    pub(super) class: String,
    /// 1 where endpoints are plugged in.
    pub(super) level: u32,
    /// Switches that it stands for.
    pub(super) switches: u32,
    /// By endpoint the load of its link, the busier direction; without loads all 0.
    pub(super) hosts: Vec<f64>,
}

/// All cables between two vertices.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    pub(super) ends: [usize; 2],
    pub(super) cables: u32,
    /// The load of the busiest of them, in the busier direction.
    pub(super) load: f64,
}

impl Scene {
    /// Every switch a vertex. Two endpoints on one cable are two vertices.
    pub(super) fn of(fabric: &Fabric, loads: Option<&[f64]>) -> Scene {
        if matches!(fabric.coordinates, Coordinates::Direct) {
            let vertex = |name: String| Vertex { name, class: "endpoint".to_owned(), level: 1, switches: 0, hosts: Vec::new() };
            let vertices = fabric.graph.endpoints().map(|endpoint| vertex(fabric.name(Node::Endpoint(endpoint)))).collect();
            let load = loads.map_or(0.0, |loads| busier(loads, LinkId(0)));
            let lines = vec![Line { ends: [0, 1], cables: fabric.graph.cable_count(), load }];
            return Scene { vertices, lines, most: loads.map(|_| load), hidden: 0, named: false };
        }
        let levels = analysis::levels(fabric);
        let census = analysis::census(fabric);
        let mut known: Vec<u32> = levels.clone();
        known.sort_unstable();
        known.dedup();
        let class = |level: u32| {
            let at = known.binary_search(&level).unwrap_or(0);
            census.switches.get(at).map_or_else(String::new, |class| class.name.clone())
        };
        let vertex = |switch: SwitchId| Vertex {
            name: fabric.name(Node::Switch(switch)),
            class: class(levels[switch.index()]),
            level: levels[switch.index()],
            switches: 1,
            hosts: Vec::new(),
        };
        let vertices = fabric.graph.switches().map(vertex).collect();
        let named = matches!(fabric.coordinates, Coordinates::Irregular(_));
        Scene { vertices, named, ..Scene::default() }.wired(fabric, loads, |switch| switch.index())
    }

    /// Several switches a vertex: `part` says which, of `count`.
    pub(super) fn merged(
        fabric: &Fabric,
        loads: Option<&[f64]>,
        part: impl Fn(SwitchId) -> u32,
        count: u32,
        name: impl Fn(u32) -> String,
    ) -> Scene {
        let vertex = |index: u32| Vertex { name: name(index), class: String::new(), level: 1, switches: 0, hosts: Vec::new() };
        let mut scene = Scene { vertices: (0..count).map(vertex).collect(), ..Scene::default() };
        fabric.graph.switches().for_each(|switch| scene.vertices[part(switch) as usize].switches += 1);
        scene.wired(fabric, loads, |switch| part(switch) as usize)
    }

    /// Adds endpoints and lines.
    fn wired(mut self, fabric: &Fabric, loads: Option<&[f64]>, part: impl Fn(SwitchId) -> usize) -> Scene {
        let graph = &fabric.graph;
        let mut lines: BTreeMap<[usize; 2], Line> = BTreeMap::new();
        for cable in 0..graph.cable_count() {
            let id = LinkId(2 * cable);
            let link = graph.link(id);
            let load = loads.map_or(0.0, |loads| busier(loads, id));
            match (graph.node(link.from), graph.node(link.to)) {
                (Node::Switch(one), Node::Switch(other)) => {
                    let (one, other) = (part(one), part(other));
                    if one != other {
                        let ends = [one.min(other), one.max(other)];
                        let line = lines.entry(ends).or_insert(Line { ends, cables: 0, load: 0.0 });
                        line.cables += 1;
                        line.load = line.load.max(load);
                    }
                }
                (Node::Switch(at), _) | (_, Node::Switch(at)) => self.vertices[part(at)].hosts.push(load),
                _ => {}
            }
        }
        self.lines = lines.into_values().collect();
        self.most = loads.map(|loads| loads.iter().copied().fold(0.0, f64::max));
        if self.lines.len() > MOST_LINES {
            // The busiest, of those alike any, then in the order of their ends again.
            let any = |line: &Line| hash::hash((line.ends[0] as u64) << 32 | line.ends[1] as u64, 0);
            self.lines
                .sort_by(|one, other| other.load.total_cmp(&one.load).then(any(one).cmp(&any(other))).then(one.ends.cmp(&other.ends)));
            self.hidden = self.lines.len() - FEW_LINES;
            self.lines.truncate(FEW_LINES);
            self.lines.sort_by_key(|line| line.ends);
        }
        self
    }
}

fn busier(loads: &[f64], link: LinkId) -> f64 {
    let load = |link: LinkId| loads.get(link.index()).copied().unwrap_or(0.0);
    load(link).max(load(link.reverse()))
}

/// Lines that are drawn at most; where there are more, the busiest few.
const MOST_LINES: usize = 60_000;
const FEW_LINES: usize = 1_500;
