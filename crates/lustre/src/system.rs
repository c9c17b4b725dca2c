//! Clients, a network and servers as numbers: what an engine of RPCs needs to know.

use fabriscope_catalog::{Cpu, Interface, LinkSpeed, Lustre, ResolvedCluster, ResolvedFileSystem, ResolvedServers};
use fabriscope_units::{Bytes, Rate, Span};

use crate::array::Array;

/// Who uses the file system.
#[derive(Clone, Debug, PartialEq)]
pub struct Clients {
    /// Nodes.
    pub nodes: u32,
    /// Processes on each.
    pub per_node: u32,
    /// Cores of each.
    pub cores: u32,
    /// Adapters of each.
    pub adapters: u32,
    /// What an adapter carries in a direction.
    pub rate: Rate,
    /// What a core copies between a buffer and the page cache.
    pub copy: Rate,
    /// From one end of the fabric to the other.
    pub delay: Span,
}

/// Servers of one role.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerGroup {
    /// Servers.
    pub servers: u32,
    /// Targets of each.
    pub targets: u32,
    /// Cores of each.
    pub cores: u32,
    /// Adapters of each.
    pub adapters: u32,
    /// What an adapter carries in a direction.
    pub rate: Rate,
    /// The drives of a target.
    pub array: Array,
    /// What a target holds.
    pub capacity: Bytes,
}

/// Times and tunables, of the release.
pub type Costs = Lustre;

/// A file system and its clients.
#[derive(Clone, Debug, PartialEq)]
pub struct System {
    /// Who uses it.
    pub clients: Clients,
    /// Servers of data.
    pub oss: ServerGroup,
    /// Servers of metadata.
    pub mds: ServerGroup,
    /// Times and tunables.
    pub costs: Costs,
    /// A message of LNet by itself: software at both ends and the fabric between them.
    pub message: Span,
    /// Routers between two fabrics: what each adapter carries, and how many.
    pub routers: Option<(Rate, u32)>,
    /// Cables to the fabric of the clients.
    pub uplinks: Option<(Rate, u32)>,
}

/// What a cluster or file system lacks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, miette::Diagnostic)]
pub enum SystemError {
    /// More processes than cores.
    #[error("{per_node} processes on a node with {cores} cores")]
    #[diagnostic(code(lustre::processes), help("use --ppn of at most {cores}"))]
    Processes {
        /// Asked for.
        per_node: u32,
        /// There are.
        cores: u32,
    },
    /// More nodes than the cluster has.
    #[error("{nodes} nodes of `{cluster}`, which has {there}")]
    #[diagnostic(code(lustre::nodes), help("use --nodes of at most {there}"))]
    Nodes {
        /// Asked for.
        nodes: u32,
        /// There are.
        there: u32,
        /// Whose they are.
        cluster: String,
    },
    /// Nodes of several kinds.
    #[error("clients on the unlike nodes of `{cluster}`")]
    #[diagnostic(code(lustre::unlike), help("name one group of nodes: {cluster}:GROUP"))]
    Unlike {
        /// The cluster.
        cluster: String,
    },
}

/// A server's part of a turn through a fabric without names of its own. Basis: estimated (three switches of 150 ns and 50 m of cable).
const FABRIC: Span = Span::from_ns(700);

impl System {
    /// Processes on nodes of a cluster that use a file system.
    ///
    /// # Errors
    /// More nodes or processes than there are, nodes of several kinds.
    pub fn new(parts: &ResolvedCluster, nodes: u32, per_node: u32, files: &ResolvedFileSystem) -> Result<System, SystemError> {
        let group = parts.uniform().ok_or_else(|| SystemError::Unlike { cluster: parts.name.clone() })?;
        if nodes > parts.nodes() {
            return Err(SystemError::Nodes { nodes, there: parts.nodes(), cluster: parts.name.clone() });
        }
        let cores = group.node.cpu.cores.saturating_mul(group.node.sockets);
        let delay = group.host_delay() + group.host_delay() + parts.trunk_delay() + parts.trunk_delay() + FABRIC;
        let clients = Clients {
            nodes,
            per_node,
            cores,
            adapters: group.node.nics.max(1),
            rate: group.link.data_rate(),
            copy: *group.node.cpu.copy_rate_streaming,
            delay,
        };
        let sockets = group.node.nic.interface == Interface::Sockets;
        System::of(clients, files, sockets)
    }
    /// The same where clients are given as numbers; `sockets` says that LNet goes through the kernel.
    ///
    /// # Errors
    /// More processes than cores.
    pub fn of(clients: Clients, files: &ResolvedFileSystem, sockets: bool) -> Result<System, SystemError> {
        let Clients { per_node, cores, .. } = clients;
        if per_node > cores {
            return Err(SystemError::Processes { per_node, cores });
        }
        let lnet = &files.lustre.lnet;
        let (software, share) = if sockets { (*lnet.socket_message, *lnet.socket_efficiency) } else { (*lnet.message, *lnet.efficiency) };
        let through = |link: &LinkSpeed| share.of(link.data_rate());
        let side = |servers: &ResolvedServers| ServerGroup {
            servers: servers.servers,
            targets: servers.targets,
            cores: cores_of(&servers.cpu, servers.sockets),
            adapters: servers.adapters,
            rate: through(&servers.link),
            array: Array::of(servers, *files.lustre.oss.chunk),
            capacity: Bytes(servers.drive.capacity.0.saturating_mul(u64::from(servers.drives - servers.parity))),
        };
        let own = share.of(clients.rate);
        Ok(System {
            message: software + clients.delay,
            oss: side(&files.oss),
            mds: side(&files.mds),
            costs: files.lustre.clone(),
            routers: files.routers.as_ref().map(|(link, count)| (through(link), *count)),
            uplinks: files.uplinks.as_ref().map(|(link, count)| (through(link), *count)),
            clients: Clients { rate: own, ..clients },
        })
    }
    /// OSTs.
    #[must_use]
    pub fn osts(&self) -> u32 {
        self.oss.servers.saturating_mul(self.oss.targets)
    }
    /// MDTs.
    #[must_use]
    pub fn mdts(&self) -> u32 {
        self.mds.servers.saturating_mul(self.mds.targets)
    }
    /// Processes of all clients.
    #[must_use]
    pub fn processes(&self) -> u32 {
        self.clients.nodes.saturating_mul(self.clients.per_node)
    }
}

fn cores_of(cpu: &Cpu, sockets: u32) -> u32 {
    cpu.cores.saturating_mul(sockets)
}
