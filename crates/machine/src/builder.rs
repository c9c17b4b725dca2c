//! From vertices and links to a machine, with every check.

use std::collections::BTreeSet;

use fabriscope_units::Rate;

use crate::graph::Machine;
use crate::link::{Link, LinkId};
use crate::vertex::{Vertex, VertexId};

/// What is wrong with a machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, miette::Diagnostic)]
pub enum MachineError {
    /// Two vertices of one name.
    #[error("two vertices are called `{0}`")]
    #[diagnostic(help("give each a name of its own"))]
    Twice(String),
    /// An unknown name.
    #[error("the machine has no vertex `{name}`")]
    #[diagnostic(help("it has {known}"))]
    Unknown {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// A link to itself.
    #[error("a link of `{0}` to itself")]
    #[diagnostic(help("a link has two ends"))]
    Loop(String),
    /// A link that carries nothing.
    #[error("the link from `{0}` to `{1}` has no rate")]
    #[diagnostic(help("use what it carries each way"))]
    Still(String, String),
    /// Two parts with nothing between.
    #[error("`{0}` and `{1}` are not joined: no path leads from one to the other")]
    #[diagnostic(help("add the link that is missing"))]
    Apart(String, String),
}

/// Takes the vertices and links of a machine.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    vertices: Vec<Vertex>,
    links: Vec<Link>,
}

impl Builder {
    /// Adds a vertex.
    pub fn vertex(&mut self, vertex: Vertex) -> VertexId {
        self.vertices.push(vertex);
        VertexId(self.vertices.len() as u32 - 1)
    }
    /// Adds a link.
    pub fn link(&mut self, link: Link) -> LinkId {
        self.links.push(link);
        LinkId(self.links.len() as u32 - 1)
    }
    /// A vertex that was added.
    ///
    /// # Panics
    /// If it was not added here.
    pub fn vertex_mut(&mut self, id: VertexId) -> &mut Vertex {
        &mut self.vertices[id.index()]
    }

    /// The machine.
    ///
    /// # Errors
    /// Two vertices of one name; a link to itself or without a rate; vertices that nothing joins to the rest.
    pub fn build(self) -> Result<Machine, MachineError> {
        let mut names = BTreeSet::new();
        for vertex in &self.vertices {
            if !names.insert(vertex.name.as_str()) {
                return Err(MachineError::Twice(vertex.name.clone()));
            }
        }
        let name = |id: VertexId| self.vertices.get(id.index()).map_or_else(|| format!("#{}", id.0), |vertex| vertex.name.clone());
        for link in &self.links {
            if link.a == link.b {
                return Err(MachineError::Loop(name(link.a)));
            }
            if let Some(outside) = [link.a, link.b].into_iter().find(|end| end.index() >= self.vertices.len()) {
                let known = format!("{} vertices", self.vertices.len());
                return Err(MachineError::Unknown { name: name(outside), known });
            }
            if link.rate.contains(&Rate::from_bps(0)) {
                return Err(MachineError::Still(name(link.a), name(link.b)));
            }
        }
        let machine = Machine::new(self.vertices, self.links);
        match machine.unreached() {
            Some(id) => Err(MachineError::Apart(machine.vertices()[0].name.clone(), machine.vertex(id).name.clone())),
            None => Ok(machine),
        }
    }
}
