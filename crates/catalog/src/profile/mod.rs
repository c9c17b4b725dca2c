//! Profiles of hardware mocks as clusters: what `mock-nvml` and `mockib` of NVIDIA's k8s-test-infra read.
//!
//! Source: the mocks' own types (`pkg/gpu/mocknvml/engine`, `pkg/network/mockib/config`). A profile describes one node: its GPUs
//! (`device_defaults`, `devices`), their NVLinks (`nvlink`) and its adapters (`infiniband`). Model and number of GPUs and adapters and the
//! speed become parts of the catalogue; what adapters say of themselves is kept ([`AdapterIdentity`](crate::AdapterIdentity)). What a
//! profile does not say is assumed: processors, slots and the NVLink network are those of the catalogue's node with such GPUs, and nodes are
//! joined by one switch, or by a fat tree that blocks nothing.
//! Not taken: what only monitoring sees (clocks, temperatures, errors, processes, MIG), bus addresses, `fabric` beyond one node.

mod made;
mod read;

use std::ops::Range;
use std::path::Path;

use crate::catalog::Catalog;
use crate::cluster::ResolvedCluster;
use crate::error::{CatalogError, Fault, Problem};

/// A profile of one node, and the cluster that is made of it.
#[derive(Clone, Debug)]
pub struct Profile {
    file: String,
    yaml: String,
    read: read::Read,
    /// The cluster as a file of TOML.
    text: String,
}

impl Profile {
    /// Reads the text of a profile; `file` is what messages call it. `nodes` is how many there are, where the profile's own number is not meant.
    ///
    /// # Errors
    /// What is not YAML, a key whose value cannot be read, a GPU, an adapter or a speed that the catalogue does not have.
    pub fn parse(catalog: &Catalog, file: &str, text: &str, nodes: Option<u32>) -> Result<Profile, CatalogError> {
        let read = read::read(file, text)?;
        let made = made::cluster(catalog, &read, Path::new(file), nodes).map_err(|wrong| wrong.fault(file, text))?;
        Ok(Profile { file: file.to_owned(), yaml: text.to_owned(), read, text: made })
    }

    /// The cluster as a file of TOML, with what was assumed beside each line.
    #[must_use]
    pub fn toml(&self) -> &str {
        &self.text
    }

    /// The cluster with all its parts; whatever is wrong is told of the line of the profile that it comes from.
    ///
    /// # Errors
    /// More GPUs or adapters than the node has room for, NVLinks that are not the node's, parts that do not fit together.
    pub fn resolve(&self, catalog: &Catalog) -> Result<ResolvedCluster, CatalogError> {
        let cluster = catalog.parse_cluster(&self.file, &self.text).map_err(|error| self.told(error))?;
        let resolved = crate::resolve::resolve(catalog, &cluster, None).map_err(|problem| self.problem(problem))?;
        made::agree(&self.read, &resolved).map_err(|wrong| wrong.fault(&self.file, &self.yaml))?;
        Ok(resolved)
    }

    /// A problem of a key of the cluster, at the key of the profile that it comes from.
    fn problem(&self, problem: Problem) -> Box<Fault> {
        let path: Vec<&str> = problem.path.iter().map(String::as_str).collect();
        Wrong { at: self.read.place_of(&path), message: problem.message, help: problem.help }.fault(&self.file, &self.yaml)
    }

    /// The same for what is wrong before the parts are looked up.
    fn told(&self, error: CatalogError) -> CatalogError {
        let CatalogError::Fault(fault) = error else { return error };
        // The text is of our own making: only texts and numbers of the profile can be wrong in it.
        let key = self.text.lines().nth(fault.line.saturating_sub(1)).and_then(|line| line.split_once(" = ")).map_or("", |(key, _)| key);
        let at = self.read.place_of(&["identity", key.trim()]);
        Wrong { at, message: fault.message.clone(), help: fault.help.clone() }.fault(&self.file, &self.yaml).into()
    }
}

/// What is wrong at a place of a profile.
struct Wrong {
    at: Range<usize>,
    message: String,
    help: String,
}

impl Wrong {
    fn fault(self, file: &str, text: &str) -> Box<Fault> {
        Fault::new(file, text, self.at, self.message, self.help)
    }
}

/// Whether a text is a profile, and no other file of YAML.
#[must_use]
pub fn looks_like(text: &str) -> bool {
    let first = text.trim_start_matches('\u{feff}').lines();
    first.filter_map(|line| line.split_once(':')).any(|(key, _)| read::KNOWN.contains(&key.trim_end()))
}

impl Catalog {
    /// The cluster that the profile of a hardware mock describes; `file` is what messages call it.
    ///
    /// # Errors
    /// As [`Profile::parse`] and [`Profile::resolve`].
    pub fn cluster_from_profile(&self, file: &str, text: &str, nodes: Option<u32>) -> Result<ResolvedCluster, CatalogError> {
        Profile::parse(self, file, text, nodes)?.resolve(self)
    }
}
