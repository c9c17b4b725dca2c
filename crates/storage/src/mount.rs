//! A file system as clients have mounted it.

use std::path::Path;

use fabriscope_catalog::{Catalog, CatalogError, Kind, ResolvedCluster, ResolvedFileSystem};
use fabriscope_lustre::{Layout, LayoutError, System, SystemError};
use fabriscope_units::Bytes;

use crate::gdsio::node::StorageNode;

/// A file system as clients have mounted it.
#[derive(Clone, Debug)]
pub struct Mount {
    /// Clients and servers.
    pub system: System,
    /// The file system.
    pub files: ResolvedFileSystem,
    /// The name of the clients' cluster.
    pub cluster: String,
    /// A node of it, where it is known.
    pub node: Option<StorageNode>,
}

/// Why there is no file system.
#[derive(Debug, thiserror::Error, miette::Diagnostic)]
#[non_exhaustive]
pub enum MountError {
    /// It or one of its parts.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Catalog(#[from] CatalogError),
    /// Nodes or processes that there are not.
    #[error(transparent)]
    #[diagnostic(transparent)]
    System(#[from] SystemError),
    /// None is named, and the cluster has none.
    #[error("`{cluster}` mounts no file system of the catalogue")]
    #[diagnostic(
        code(storage::none_mounted),
        help("name one: --fs lumi-f; `fabriscope parts --kind file-systems` lists them, --fs mine.toml reads yours")
    )]
    None {
        /// The cluster.
        cluster: String,
    },
}

impl Mount {
    /// So many processes on nodes of a cluster with a file system: a name of the catalogue or a TOML file; the first that the cluster mounts
    /// where nothing is named.
    ///
    /// # Errors
    /// No such file system, more nodes or processes than there are.
    pub fn new(catalog: &Catalog, parts: &ResolvedCluster, name: Option<&str>, (nodes, per_node): (u32, u32)) -> Result<Mount, MountError> {
        let cluster = &parts.name;
        let mounts = |name: &&str| catalog.file_system(name).is_ok_and(|files| files.mounted_by.iter().any(|on| on == cluster));
        let files = match name {
            Some(file) if Path::new(file).extension().is_some_and(|extension| extension == "toml") => {
                let text = fabriscope_catalog::read_text(Path::new(file))?;
                let name = Path::new(file).file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
                catalog.parse_file_system(name, file, &text)?
            }
            Some(name) => catalog.resolve_file_system(name)?,
            None => match catalog.names(Kind::FileSystem).into_iter().find(mounts) {
                Some(name) => catalog.resolve_file_system(name)?,
                None => return Err(MountError::None { cluster: cluster.clone() }),
            },
        };
        let system = System::new(parts, nodes, per_node, &files)?;
        Ok(Mount { system, files, cluster: cluster.clone(), node: StorageNode::new(parts).ok() })
    }
    /// The layout of a new file: what is asked for, else the default of the file system.
    ///
    /// # Errors
    /// More stripes than OSTs, a size that is no multiple of 64 KiB.
    pub fn layout(&self, count: Option<i32>, size: Option<Bytes>) -> Result<Layout, LayoutError> {
        let part = &self.files.part;
        Layout::plain(count.unwrap_or(*part.stripe_count), size.unwrap_or(*part.stripe_size), self.system.osts())
    }
    /// What the clients' processes see of the file system, as one line.
    #[must_use]
    pub fn describe(&self) -> String {
        let System { clients, oss, mds, .. } = &self.system;
        format!(
            "{} on {}: {} clients x {} processes, {} OSS with {} OSTs of {} x {}, {} MDS with {} MDTs",
            self.files.part.name,
            self.cluster,
            clients.nodes,
            clients.per_node,
            oss.servers,
            self.system.osts(),
            oss.array.drives,
            self.files.oss.drive.name,
            mds.servers,
            self.system.mdts()
        )
    }
}
