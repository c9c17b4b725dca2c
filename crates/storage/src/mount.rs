//! A file system as clients have mounted it.

use fabriscope_catalog::ResolvedFileSystem;
use fabriscope_lustre::{Layout, LayoutError, System};
use fabriscope_units::Bytes;

/// A file system as clients have mounted it.
#[derive(Clone, Debug)]
pub struct Mount {
    /// Clients and servers.
    pub system: System,
    /// The file system.
    pub files: ResolvedFileSystem,
    /// The name of the clients' cluster.
    pub cluster: String,
}

impl Mount {
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
