//! Where a question is asked: a cluster by name or file, or one that the caller has at hand.

use fabriscope_catalog::{Catalog, CatalogError, ResolvedCluster};

/// A cluster: a name of the catalogue or a TOML file with `:nodes` or `:group` as on a command line, or parts at hand.
#[derive(Debug, Clone)]
pub enum OnCluster {
    /// `ri2`, `mine.toml:4`, `lumi:lumi-c`.
    Named(String),
    /// A cluster with all its parts.
    Resolved(Box<ResolvedCluster>),
}

impl Default for OnCluster {
    fn default() -> OnCluster {
        OnCluster::Named(String::new())
    }
}

impl From<&str> for OnCluster {
    fn from(name: &str) -> OnCluster {
        OnCluster::Named(name.to_owned())
    }
}

impl From<&String> for OnCluster {
    fn from(name: &String) -> OnCluster {
        OnCluster::Named(name.clone())
    }
}

impl From<&ResolvedCluster> for OnCluster {
    fn from(parts: &ResolvedCluster) -> OnCluster {
        OnCluster::Resolved(Box::new(parts.clone()))
    }
}

impl From<ResolvedCluster> for OnCluster {
    fn from(parts: ResolvedCluster) -> OnCluster {
        OnCluster::Resolved(Box::new(parts))
    }
}

impl OnCluster {
    /// Its parts.
    ///
    /// # Errors
    /// No such cluster, a fault in its file, parts that do not fit together, more nodes than it can have, groups that it has not.
    pub fn resolve(&self, catalog: &Catalog) -> Result<ResolvedCluster, CatalogError> {
        match self {
            OnCluster::Named(text) => catalog.target(text),
            OnCluster::Resolved(parts) => Ok(ResolvedCluster::clone(parts)),
        }
    }

    /// The same for what looks at one kind of node only.
    ///
    /// # Errors
    /// As [`OnCluster::resolve`], and a cluster with several groups of nodes.
    pub fn resolve_alike(&self, catalog: &Catalog) -> Result<ResolvedCluster, CatalogError> {
        match self {
            OnCluster::Named(text) => catalog.target_alike(text),
            OnCluster::Resolved(parts) if parts.uniform().is_some() => Ok(ResolvedCluster::clone(parts)),
            OnCluster::Resolved(parts) => Err(CatalogError::Impossible {
                cluster: parts.name.clone(),
                message: "it has groups of unlike nodes, and this looks at one kind of node".to_owned(),
                help: "take one of its groups".to_owned(),
            }),
        }
    }
}
