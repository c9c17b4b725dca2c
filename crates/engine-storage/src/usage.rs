//! How much of the time what was at work: what binds.

use fabriscope_units::Span;

/// What a request passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resource {
    /// Processes that copy and call.
    Processes,
    /// What only one process of a client can be in.
    ClientShared,
    /// Threads of clients that send RPCs and compute checksums.
    ClientThreads,
    /// Adapters of clients.
    ClientAdapters,
    /// Cables to the fabric of the clients.
    Uplinks,
    /// Routers between fabrics.
    Routers,
    /// Adapters of servers of data.
    OssAdapters,
    /// Cores of servers of data.
    OssCores,
    /// Drives of servers of data.
    OssDrives,
    /// Extent locks of objects that go from client to client.
    Locks,
    /// Adapters of servers of metadata.
    MdsAdapters,
    /// Cores of servers of metadata.
    MdsCores,
    /// Journals, by their threads.
    Journals,
    /// Drives of servers of metadata.
    MdsDrives,
    /// The directory that all work in, at clients.
    ClientDirectory,
    /// The same at its servers.
    Directory,
}

impl Resource {
    /// What a person calls it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Resource::Processes => "client processes",
            Resource::ClientShared => "client page cache locks",
            Resource::ClientThreads => "client RPC threads",
            Resource::ClientAdapters => "client adapters",
            Resource::Uplinks => "uplinks",
            Resource::Routers => "LNet routers",
            Resource::OssAdapters => "OSS adapters",
            Resource::OssCores => "OSS cores",
            Resource::OssDrives => "OST drives",
            Resource::Locks => "extent locks",
            Resource::MdsAdapters => "MDS adapters",
            Resource::MdsCores => "MDS cores",
            Resource::Journals => "MDT journals",
            Resource::MdsDrives => "MDT drives",
            Resource::ClientDirectory => "directory lock at the client",
            Resource::Directory => "directory lock at the MDT",
        }
    }
    /// Whose it is.
    #[must_use]
    pub const fn whose(self) -> &'static str {
        match self {
            Resource::Processes | Resource::ClientShared | Resource::ClientThreads | Resource::ClientDirectory => "client",
            Resource::ClientAdapters | Resource::Uplinks | Resource::Routers | Resource::OssAdapters | Resource::MdsAdapters => "network",
            Resource::OssCores | Resource::MdsCores | Resource::Locks | Resource::Journals | Resource::Directory => "server",
            Resource::OssDrives | Resource::MdsDrives => "disk",
        }
    }
}

/// Shares of the time in which things were at work: the mean of all of a kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Usage {
    shares: Vec<(Resource, f64)>,
}

impl Usage {
    /// Says how long each of a kind was at work in `all`.
    pub(crate) fn add(&mut self, resource: Resource, busy: impl ExactSizeIterator<Item = Span>, all: Span) {
        let count = busy.len();
        if count == 0 || all == Span::ZERO {
            return;
        }
        let sum = busy.fold(0u128, |sum, span| sum + u128::from(span.as_ps()));
        // What was begun at the end counts whole.
        self.shares.push((resource, (sum as f64 / count as f64 / all.as_ps() as f64).min(1.0)));
    }
    /// In the order of a request.
    #[must_use]
    pub fn shares(&self) -> &[(Resource, f64)] {
        &self.shares
    }
    /// What was at work longest; nothing where all waited for each other most of the time.
    #[must_use]
    pub fn binds(&self) -> Option<(Resource, f64)> {
        self.shares.iter().copied().max_by(|one, other| one.1.total_cmp(&other.1)).filter(|(_, share)| *share >= BINDS)
    }
    /// The same as a remark.
    #[must_use]
    pub fn remark(&self) -> String {
        match self.binds() {
            Some((what, share)) => format!("{} bind: {:.0} % of the time at work", what.name(), share * 100.0),
            None => "latency of single calls binds".to_owned(),
        }
    }
}

/// From this share on something binds; below it latencies do. Basis: assumed (queues are short below).
const BINDS: f64 = 0.7;
