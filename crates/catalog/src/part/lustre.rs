//! What Lustre costs clients and servers, and its tunables; names are those of `lctl get_param`.
//!
//! Source: Lustre Operations Manual (tunables and their defaults); the sources of the release for what an operation consists of.
//! Modelled: times of cores by operation and by page, locks within a client and a directory, credits, what a commit is.
//! Not modelled: quotas, HSM, changelogs, encryption, compression.

use fabriscope_units::{Bytes, Rate, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::Problem;
use crate::sourced::Sourced;

/// A release of Lustre.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Lustre {
    /// What a client does.
    pub client: LustreClient,
    /// What a server of data does.
    pub oss: LustreData,
    /// What a server of metadata does.
    pub mds: LustreMetadata,
    /// What carries both.
    pub lnet: Lnet,
}

/// A client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LustreClient {
    /// A call of the file system by itself: read, write, open.
    pub call: Sourced<Span>,
    /// A page of 4 KiB that is written into the cache, apart from its copy.
    pub page_write: Sourced<Span>,
    /// A page of 4 KiB that is read out of it, apart from its copy.
    pub page_read: Sourced<Span>,
    /// What of that only one process of a client can be in: lists of pages and locks that all share.
    pub page_shared: Sourced<Span>,
    /// A core's time for an RPC, sent and answered.
    pub rpc: Sourced<Span>,
    /// How fast a core computes checksums of bulk data.
    pub checksum_rate: Sourced<Rate>,
    /// Handling a blocking callback before dirty pages are written.
    pub callback: Sourced<Span>,
    /// Data of an RPC, at most (`max_pages_per_rpc`).
    pub max_pages_per_rpc: Sourced<Bytes>,
    /// RPCs of a client with data for one OST, at most (`osc.*.max_rpcs_in_flight`).
    pub max_rpcs_in_flight: Sourced<u32>,
    /// Dirty pages of a client for one OST, at most (`osc.*.max_dirty_mb`).
    pub max_dirty: Sourced<Bytes>,
    /// What is read ahead of a file, at most (`llite.*.max_read_ahead_per_file_mb`).
    pub max_read_ahead: Sourced<Bytes>,
    /// RPCs of a client to one MDT, at most (`mdc.*.max_rpcs_in_flight`).
    pub max_metadata_rpcs_in_flight: Sourced<u32>,
    /// Those of them that change something, at most (`mdc.*.max_mod_rpcs_in_flight`).
    pub max_mod_rpcs_in_flight: Sourced<u32>,
}

/// A server of data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LustreData {
    /// A core's time for an RPC with data.
    pub rpc: Sourced<Span>,
    /// A core's time for a page of it, checksums and copies included.
    pub page: Sourced<Span>,
    /// A core's time for a lock request, a callback or a glimpse.
    pub lock: Sourced<Span>,
    /// A core's time to make or destroy an object.
    pub object: Sourced<Span>,
    /// The chunk of a RAID group that lies on one drive.
    pub chunk: Sourced<Bytes>,
    /// How far a granted extent lock may grow where others want the same object (`LDLM_MAX_GROWN_EXTENT`).
    pub grown_extent: Sourced<Bytes>,
}

/// A server of metadata.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LustreMetadata {
    /// A core's time to open or create a name, apart from the new inode.
    pub open: Sourced<Span>,
    /// A core's time for a new inode and its entry.
    pub create: Sourced<Span>,
    /// A core's time to close a file.
    pub close: Sourced<Span>,
    /// A core's time for attributes of a name.
    pub getattr: Sourced<Span>,
    /// A core's time to remove a name.
    pub unlink: Sourced<Span>,
    /// What of a change of a directory only one thread can be in.
    pub directory: Sourced<Span>,
    /// What of a change only one thread of an MDT can be in: its journal.
    pub journal: Sourced<Span>,
    /// What a change writes into the journal.
    pub journal_bytes: Sourced<Bytes>,
    /// Cores that serve requests at the same time, at most: locks of the inode tables keep more from helping.
    pub parallel: Sourced<u32>,
    /// Levels of directories below the root that are given to MDTs in turn; deeper ones stay on the MDT of their parent (`max_inherit_rr`).
    pub spread_levels: Sourced<u32>,
}

/// Lustre's network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Lnet {
    /// From a message's posting until a thread of the peer has it, apart from wires and switches, over verbs, Slingshot or Omni-Path.
    pub message: Sourced<Span>,
    /// The same over sockets of the kernel.
    pub socket_message: Sourced<Span>,
    /// A fragment of bulk data: a message of LNet's MTU.
    pub fragment: Sourced<Bytes>,
    /// Messages to one peer outstanding, at most (`peer_credits`).
    pub peer_credits: Sourced<u32>,
    /// Messages of an interface outstanding, at most (`credits`).
    pub credits: Sourced<u32>,
    /// What of a link's data rate bulk data have over verbs, Slingshot or Omni-Path.
    pub efficiency: Sourced<fabriscope_units::Ratio>,
    /// The same over sockets, whose copies the kernel makes.
    pub socket_efficiency: Sourced<fabriscope_units::Ratio>,
}

impl Lustre {
    /// What contradicts itself.
    pub(crate) fn check(&self) -> Result<(), Problem> {
        let rpc = *self.client.max_pages_per_rpc;
        if rpc.0 == 0 || !rpc.0.is_multiple_of(4096) || rpc > Bytes(64 << 20) {
            let message = format!("`max_pages_per_rpc` of {rpc}");
            return Err(Problem::at(&["lustre", "client", "max_pages_per_rpc", "value"], message, "write 1 to 64 MiB"));
        }
        if *self.client.max_dirty < rpc {
            let message = format!("`max_dirty` of {} is less than an RPC of {rpc}", *self.client.max_dirty);
            return Err(Problem::at(&["lustre", "client", "max_dirty", "value"], message, "let at least one RPC of data be dirty"));
        }
        let counts = [
            (["client", "max_rpcs_in_flight"], *self.client.max_rpcs_in_flight),
            (["client", "max_mod_rpcs_in_flight"], *self.client.max_mod_rpcs_in_flight),
            (["client", "max_metadata_rpcs_in_flight"], *self.client.max_metadata_rpcs_in_flight),
            (["mds", "parallel"], *self.mds.parallel),
            (["lnet", "peer_credits"], *self.lnet.peer_credits),
            (["lnet", "credits"], *self.lnet.credits),
        ];
        for ([table, key], count) in counts {
            if count == 0 {
                let message = format!("`{key}` is zero: nothing would ever be sent");
                return Err(Problem::at(&["lustre", table, key, "value"], message, "write at least 1"));
            }
        }
        for (table, key, bytes) in
            [("oss", "chunk", *self.oss.chunk), ("lnet", "fragment", *self.lnet.fragment), ("oss", "grown_extent", *self.oss.grown_extent)]
        {
            if bytes.0 == 0 {
                return Err(Problem::at(&["lustre", table, key, "value"], format!("`{key}` is zero"), "use the default of the release"));
            }
        }
        if self.client.checksum_rate.as_bps() == 0 {
            let message = "`checksum_rate` is zero: a checksum would never end";
            return Err(Problem::at(&["lustre", "client", "checksum_rate", "value"], message, "use the rate of one core"));
        }
        Ok(())
    }
}
