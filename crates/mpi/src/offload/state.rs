//! What ranks and workers of a job tell each other out of band: who serves whom, keys; and what those of a node share: orders, and their ends.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, OnceLock};

use fabriscope_catalog::Offload;
use fabriscope_collectives::{Algorithm, Call, Group};
use fabriscope_node::exchange::Exchange;
use fabriscope_node::{ProgramError, exchange_keys};
use fabriscope_platform::{Target, path_mtu};
use fabriscope_units::Span;
use fabriscope_verbs::{AppWords, Lid, MemoryId, Mtu, QpNum, Rkey};

use super::super::one_sided::OneSided;

/// How a job hands over, resolved from the library's part; sizes in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Workers on each node.
    pub workers: u32,
    /// Payload goes through the memories of the adapters.
    pub staged: bool,
    /// Messages and one-sided operations are handed over as well.
    pub everything: bool,
    pub(super) descriptor: u32,
    pub(super) entry: u32,
    pub(super) hand_over: Span,
    pub(super) turn: Span,
    pub(super) step: Span,
    pub(super) notice: u32,
}

impl Settings {
    /// Those of a library, on adapters with `cores` cores each.
    #[must_use]
    pub fn of(part: &Offload, staged: bool) -> Settings {
        let small = fabriscope_units::Bytes::saturating_u32;
        Settings {
            workers: *part.workers,
            staged,
            everything: false,
            descriptor: small(*part.descriptor),
            entry: small(*part.descriptor_entry),
            hand_over: *part.hand_over,
            turn: *part.turn,
            step: *part.step,
            notice: small(*part.notice),
        }
    }
}

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = if self.staged { "through the memories of the DPUs" } else { "by keys registered across" };
        let workers = if self.workers == 1 { "1 worker".to_owned() } else { format!("{} workers", self.workers) };
        write!(f, "{workers} on the DPU of each node, host to host {how}")
    }
}

/// A worker: its node and its number there.
pub(crate) type WorkerId = u32;

/// What a job shares out of band. Clones are the same.
#[derive(Clone)]
pub struct OffloadState(pub(super) Arc<Shared>);

pub(super) struct Shared {
    pub settings: Settings,
    pub mtu: Mtu,
    pub inline: u32,
    pub exchange: Exchange<Tables>,
    /// The worker of each rank, once all have said where they are.
    served: OnceLock<BTreeMap<u32, WorkerId>>,
}

exchange_keys! {
    /// Where a rank is.
    ranks: SeatOf { rank: u32 } => RankSeat;
    /// One end of a connection to another.
    contacts: ContactOf { from: ConnectionEnd, to: ConnectionEnd } => (Lid, QpNum);
    /// The memory of each rank as its worker knows it.
    crossed: CrossedOf { rank: u32 } => Rkey;
    /// Where staged payload for a worker goes.
    staging: StagingOf { worker: WorkerId } => (u64, Rkey);
    /// Where the descriptors of a rank go.
    rings: RingOf { rank: u32 } => (u64, Rkey);
}

/// What ranks and workers of a node share in its memory.
#[derive(Default)]
pub(super) struct Queues {
    pub orders: RefCell<BTreeMap<u32, VecDeque<Order>>>,
    /// Orders whose words are on the way to the rank.
    pub done: RefCell<BTreeMap<u32, VecDeque<u64>>>,
}

/// One end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ConnectionEnd {
    Rank(u32),
    Worker(WorkerId),
}

/// Where a rank is and what it lets its worker use.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RankSeat {
    pub node: u32,
    /// Its buffers: first byte, length, key within the host's own domain of protection, memory of the node.
    pub user: u64,
    pub length: u64,
    pub rkey: Rkey,
    pub place: MemoryId,
    /// The counter that it looks at.
    pub counter: (u64, Rkey),
}

/// What a rank asks of its worker.
#[derive(Debug, Clone)]
pub(super) struct Order {
    /// The rank's own count.
    pub number: u64,
    /// What sender and receiver call it.
    pub op: u64,
    pub work: Work,
}

#[derive(Debug, Clone)]
pub(super) enum Work {
    Collective {
        call: Call,
        algorithm: Algorithm,
        group: Group,
        index: u32,
    },
    Send {
        to: u32,
        bytes: u32,
    },
    Receive {
        from: u32,
    },
    /// A put or get of so many bytes; between these addresses here and there, or between the beginnings of the buffers.
    OneSided {
        what: OneSided,
        target: u32,
        bytes: u32,
        between: Option<(u64, u64)>,
    },
    Product(Product),
}

/// What a worker computes for a rank, with data that it fetches and a result that it writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Product {
    /// From whose memory, and how much, into the worker's own.
    pub gets: Vec<(u32, u32)>,
    /// How long its core computes.
    pub computes: Span,
    /// Into whose memory the result goes, and how much it is.
    pub put: (u32, u32),
}

/// What a worker tells another; it travels in the packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Notice {
    /// The buffers of `receiver` may be written for an operation.
    Ready { receiver: u32, op: u64 },
    /// Payload has been written: to the rank, or into the staging memory.
    Data { to: u32, from: u32, op: u64, bytes: u32 },
}

impl Notice {
    /// The words that say it.
    pub fn words(self) -> AppWords {
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        match self {
            Notice::Ready { receiver, op } => AppWords([0, op, receiver.into(), 0]),
            Notice::Data { to, from, op, bytes } => AppWords([1, op, pair(to, from), bytes.into()]),
        }
    }
    /// What words say; nothing that a worker would.
    pub fn heard(AppWords([kind, op, ranks, bytes]): AppWords) -> Option<Notice> {
        match kind {
            0 => Some(Notice::Ready { receiver: ranks as u32, op }),
            1 => Some(Notice::Data { to: ranks as u32, from: (ranks >> 32) as u32, op, bytes: bytes as u32 }),
            _ => None,
        }
    }
}

impl OffloadState {
    /// An empty one for a job on a machine like `target`.
    #[must_use]
    pub fn new(settings: Settings, target: &Target, inline: u32) -> OffloadState {
        OffloadState(Arc::new(Shared {
            settings,
            mtu: path_mtu(target.mtu),
            inline,
            exchange: Exchange::default(),
            served: OnceLock::new(),
        }))
    }
}

impl Shared {
    /// Finds which worker serves each rank, as `me` knows it when all ranks have said where they are: those of a node take its workers in
    /// turn.
    pub fn assign(&self, me: u32) {
        self.served.get_or_init(|| {
            let mut on: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
            self.exchange.all::<SeatOf>(me).into_iter().for_each(|(key, seat)| on.entry(seat.node).or_default().push(key.rank));
            let of_node = |(node, ranks): (u32, Vec<u32>)| {
                let workers = self.settings.workers.clamp(1, ranks.len().max(1) as u32);
                ranks.into_iter().zip((0..workers).cycle()).map(move |(rank, worker)| (rank, node << NODE | worker)).collect::<Vec<_>>()
            };
            on.into_iter().flat_map(of_node).collect()
        });
    }
    /// Ranks with their workers.
    fn served(&self) -> impl Iterator<Item = (u32, WorkerId)> {
        self.served.get().into_iter().flatten().map(|(rank, worker)| (*rank, *worker))
    }
    /// The worker of a rank.
    ///
    /// # Errors
    /// Nobody knows the rank.
    pub fn worker_of(&self, rank: u32) -> Result<WorkerId, ProgramError> {
        let found = self.served.get().and_then(|served| served.get(&rank)).copied();
        found.ok_or_else(|| ProgramError(format!("rank {rank} has no worker on a DPU: it never opened the offload")))
    }
    /// All workers, or those of one node, in order.
    pub fn workers(&self, node: Option<u32>) -> Vec<WorkerId> {
        let mut all: Vec<WorkerId> = self.served().map(|(_, id)| id).filter(|id| node.is_none_or(|node| id >> NODE == node)).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
    /// The ranks of a worker, in order.
    pub fn ranks_of(&self, worker: WorkerId) -> Vec<u32> {
        self.served().filter(|(_, served)| *served == worker).map(|(rank, _)| rank).collect()
    }
    /// The first rank of a node starts its workers.
    pub fn leads(&self, rank: u32, node: u32) -> bool {
        self.served().find(|(_, worker)| worker >> NODE == node).is_some_and(|(first, _)| first == rank)
    }
    /// The seat of a rank as `me` knows it.
    pub fn seat(&self, me: u32, rank: u32) -> Result<RankSeat, ProgramError> {
        self.exchange.get(me, SeatOf { rank }).ok_or_else(|| ProgramError(format!("rank {rank} never opened the offload")))
    }
}

/// Bits of a worker's number within its node.
const NODE: u32 = 12;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_say_what_was_meant() {
        let notices =
            [Notice::Ready { receiver: 3, op: u64::MAX }, Notice::Data { to: 1, from: u32::MAX, op: 1 << 63 | 5, bytes: u32::MAX }];
        assert_eq!(notices.map(|notice| Notice::heard(notice.words())), notices.map(Some));
        assert_eq!(Notice::heard(AppWords([2, 0, 0, 0])), None);
    }
}
