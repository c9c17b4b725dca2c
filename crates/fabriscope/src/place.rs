//! Where a question is asked: a cluster by name or file, or one that the caller has at hand.

use fabriscope_catalog::{Catalog, CatalogError, ResolvedCluster};

/// A cluster: a name of the catalogue or a TOML file with `:nodes` or `:group` as on a command line, or parts at hand.
#[derive(Debug, Clone)]
pub enum Place {
    /// `ri2`, `mine.toml:4`, `lumi:lumi-c`.
    Named(String),
    /// A cluster with all its parts.
    Resolved(Box<ResolvedCluster>),
}

impl Default for Place {
    fn default() -> Place {
        Place::Named(String::new())
    }
}

impl From<&str> for Place {
    fn from(name: &str) -> Place {
        Place::Named(name.to_owned())
    }
}

impl From<&String> for Place {
    fn from(name: &String) -> Place {
        Place::Named(name.clone())
    }
}

impl From<&ResolvedCluster> for Place {
    fn from(parts: &ResolvedCluster) -> Place {
        Place::Resolved(Box::new(parts.clone()))
    }
}

impl Place {
    /// Its parts.
    ///
    /// # Errors
    /// No such cluster, a fault in its file, parts that do not fit together, more nodes than it can have, groups that it has not.
    pub fn resolve(&self, catalog: &Catalog) -> Result<ResolvedCluster, CatalogError> {
        match self {
            Place::Named(text) => catalog.target(text),
            Place::Resolved(parts) => Ok(ResolvedCluster::clone(parts)),
        }
    }

    /// The same for what looks at one kind of node only.
    ///
    /// # Errors
    /// As [`Place::resolve`], and a cluster with several groups of nodes.
    pub fn resolve_alike(&self, catalog: &Catalog) -> Result<ResolvedCluster, CatalogError> {
        match self {
            Place::Named(text) => catalog.target_alike(text),
            Place::Resolved(parts) if parts.uniform().is_some() => Ok(ResolvedCluster::clone(parts)),
            Place::Resolved(parts) => Err(CatalogError::Impossible {
                cluster: parts.name.clone(),
                message: "it has groups of unlike nodes, and this looks at one kind of node".to_owned(),
                help: "take one of its groups".to_owned(),
            }),
        }
    }
}
