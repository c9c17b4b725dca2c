//! What a person types to name a cluster: `ri2`, `ri2:4`, `my/cluster.toml:2`, `my/profile.yaml:2`; or some groups of its nodes: `lumi:gpu`, `lumi:cpu+gpu`.

use std::path::{Path, PathBuf};

use crate::error::CatalogError;
use crate::{file, profile};

/// Where a cluster is described.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterSource {
    /// In the catalogue, under this name.
    Name(String),
    /// In this file.
    File(PathBuf),
}

/// A cluster, with another number of nodes or only some groups of them if the person wants that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Where the cluster is described.
    pub place: ClusterSource,
    /// The number of nodes, if it was given.
    pub nodes: Option<u32>,
    /// The groups of nodes, if some were named.
    pub groups: Vec<String>,
}

impl Target {
    /// Reads `name`, `file.toml` or `profile.yaml`, and `:nodes` or `:group+group` behind either.
    ///
    /// # Errors
    /// An empty name; a number of nodes that is none.
    pub fn parse(text: &str) -> Result<Target, CatalogError> {
        let bad = |reason: &str| CatalogError::BadTarget { text: text.to_owned(), reason: reason.to_owned() };
        let (place, nodes, groups) = match text.rsplit_once(':') {
            Some((place, names)) if names.starts_with(|c: char| c.is_ascii_alphabetic()) && !names.contains(['/', '\\']) => {
                (place, None, names.split('+').map(|name| name.trim().to_owned()).collect())
            }
            // A colon before a slash belongs to the path.
            Some((place, count)) if !count.contains(['/', '\\']) => {
                let count: u32 = count.parse().map_err(|_| bad("what follows the colon is no number of nodes"))?;
                if count == 0 {
                    return Err(bad("it needs at least 1 node"));
                }
                (place, Some(count), Vec::new())
            }
            _ => (text, None, Vec::new()),
        };
        if place.is_empty() {
            return Err(bad("it has no name"));
        }
        let is_file = place.ends_with(".toml") || is_yaml(Path::new(place)) || place.contains(['/', '\\']);
        let place = if is_file { ClusterSource::File(PathBuf::from(place)) } else { ClusterSource::Name(place.to_owned()) };
        Ok(Target { place, nodes, groups })
    }
}

/// Whether a file describes a cluster, and no fabric or node of another tool: one of TOML, or the profile of a hardware mock.
#[must_use]
pub fn is_cluster_file(path: &Path) -> bool {
    let is_toml = path.extension().is_some_and(|extension| extension == "toml");
    is_toml || is_yaml(path) && file::read(path).is_ok_and(|text| profile::looks_like(&text))
}

/// Whether a file is a profile and no file of TOML.
pub(crate) fn is_yaml(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_files_and_nodes() {
        let target = |text: &str| Target::parse(text).unwrap();
        assert_eq!(target("ri2"), Target { place: ClusterSource::Name("ri2".into()), nodes: None, groups: vec![] });
        assert_eq!(target("ri2:4"), Target { place: ClusterSource::Name("ri2".into()), nodes: Some(4), groups: vec![] });
        assert_eq!(target("a/b.toml:2"), Target { place: ClusterSource::File("a/b.toml".into()), nodes: Some(2), groups: vec![] });
        assert_eq!(target("h100.yaml:2"), Target { place: ClusterSource::File("h100.yaml".into()), nodes: Some(2), groups: vec![] });
        assert_eq!(target("b.toml").place, ClusterSource::File("b.toml".into()));
        assert_eq!(target("c:/b.toml").place, ClusterSource::File("c:/b.toml".into()));
        assert_eq!((target("lumi:cpu+gpu").groups, target("lumi:gpu").nodes), (vec!["cpu".to_owned(), "gpu".to_owned()], None));
        for wrong in ["", ":4", "ri2:", "ri2:0", "ri2:-1", "ri2:99999999999"] {
            assert!(Target::parse(wrong).is_err(), "{wrong}");
        }
    }
}
