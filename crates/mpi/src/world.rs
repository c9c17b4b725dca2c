//! What the ranks of a job share out of band, as a launcher and its key-value store have it, and what those of a node share in its memory.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use fabriscope_catalog::{Accumulate, EagerChannel, GpuProtocol, Interface, Mpi, MpiTransport, Rdma, SingleElement};
use fabriscope_node::{Process, Ties};
use fabriscope_platform::{Binding, Target, path_mtu};
use fabriscope_psm2 as psm2;
use fabriscope_units::{Span, Time};
use fabriscope_verbs::{Mtu, XrcdId};

use super::active_message::Vectors;
use super::buffer::RankLocation;
use super::connection::{Connection, Link};
use super::contents::Contents;
use super::exchange::{DomainOf, Exchange, SeatOf};
use super::protocol::{self, Protocol};
use super::wire::Wires;

/// What the ranks of a job share out of band. Clones are the same world.
#[derive(Debug, Clone)]
pub struct World(pub(super) Arc<Shared>);

#[derive(Debug)]
pub(super) struct Shared {
    pub protocol: Protocol,
    pub mtu: Mtu,
    pub outstanding_reads: u8,
    /// What ranks tell each other before their first message.
    pub exchange: Exchange,
    /// PSM2, where the library has it.
    pub psm2: Option<psm2::Library>,
    /// Which GPU each rank of a node has.
    binding: Binding,
    /// How the library does one-sided operations beyond put and get, if that is known.
    pub one_sided: Option<OneSidedWays>,
    /// Connections have atomics.
    pub atomics: bool,
    /// The memories of the nodes hold what is written, for programs that look.
    keeps: bool,
    /// Vectors of accumulates on the way, where they do.
    pub vectors: Vectors,
}

/// What the ranks of a job on one node share: its memory. No other node gets at it.
#[derive(Debug, Default)]
pub(super) struct NodeMemory {
    /// Messages between them.
    pub wires: Wires,
    /// What is in it, for programs that look.
    pub contents: Option<Contents>,
    /// The XRC domain of each of its adapters that has one.
    pub domains: RefCell<BTreeMap<usize, XrcdId>>,
    /// Until when its connection manager is busy.
    pub manager: Cell<Time>,
    /// Flags that PEs of OpenSHMEM have set for each other: (from, to) → when they can be seen.
    pub flags: RefCell<BTreeMap<(u32, u32), VecDeque<Time>>>,
}

/// How a library does one-sided operations beyond put and get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OneSidedWays {
    pub accumulate: Accumulate,
    pub single: SingleElement,
    pub apply_overhead: Span,
}

impl World {
    /// The world of a job of `ranks` ranks that is linked with the library `mpi` on a machine like `target`.
    #[must_use]
    pub fn new(mpi: &Mpi, target: &Target, ranks: u32) -> World {
        World::with(mpi, target, ranks, (None, false))
    }
    /// The same of a job that has no buffers on GPUs: a library that knows of these on request alone does not look where pointers point.
    #[must_use]
    pub fn of_hosts(mpi: &Mpi, target: &Target, ranks: u32) -> World {
        let unasked = mpi.gpu.as_ref().filter(|gpu| gpu.on_request).map(|gpu| GpuProtocol { aware: false, ..gpu.clone() });
        match unasked {
            Some(gpu) => World::new(&Mpi { gpu: Some(gpu), ..mpi.clone() }, target, ranks),
            None => World::new(mpi, target, ranks),
        }
    }
    /// The same, and the memories of the ranks hold what is written: what one-sided operations bring and fetch can be looked at.
    #[must_use]
    pub fn with_contents(mpi: &Mpi, target: &Target, ranks: u32) -> World {
        World::with(mpi, target, ranks, (None, true))
    }
    /// The world of another library over the same transport, whose one-sided operations take a core `overhead` above the verbs.
    pub(crate) fn of_calls(mpi: &Mpi, target: &Target, ranks: u32, overhead: Span, keeps: bool) -> World {
        World::with(mpi, target, ranks, (Some(overhead), keeps))
    }

    fn with(mpi: &Mpi, target: &Target, ranks: u32, (call, keeps): (Option<Span>, bool)) -> World {
        let mtu = path_mtu(target.mtu);
        let plain = Protocol::from(mpi);
        let mut protocol = match target.interface {
            // The part is one for SRD.
            Interface::Efa => Protocol { unordered: true, transport: MpiTransport::Srd, ..plain },
            Interface::Verbs => plain.over(mpi.transport, mpi, target.mtu),
            _ => plain,
        };
        if target.rdma == Rdma::None {
            protocol.read_from = u32::MAX;
        }
        protocol.call_overhead = call.unwrap_or(protocol.call_overhead);
        if ranks > RING_RANKS && protocol.eager_channel == EagerChannel::RdmaWrite {
            protocol.eager_channel = EagerChannel::Send;
        }
        World(Arc::new(Shared {
            protocol,
            mtu,
            outstanding_reads: target.max_outstanding_reads,
            exchange: Exchange::default(),
            psm2: mpi.psm2.as_ref().map(|part| protocol::psm2::library(part, mpi.gpu.as_ref())),
            binding: target.binding.clone(),
            one_sided: mpi.one_sided.as_ref().map(|rules| OneSidedWays {
                accumulate: *rules.accumulate,
                single: *rules.single,
                apply_overhead: *rules.apply_overhead,
            }),
            atomics: target.interface.has_atomics() && !matches!(mpi.transport, MpiTransport::Ud | MpiTransport::Srd),
            keeps,
            vectors: Vectors::default(),
        }))
    }
    /// The same of programs that have `messages` in flight to a rank at the most: queues are no longer than that takes, which changes no time.
    #[must_use]
    pub fn short(mpi: &Mpi, target: &Target, ranks: u32, messages: u32) -> World {
        let World(shared) = World::with(mpi, target, ranks, (None, false));
        let Some(mut shared) = Arc::into_inner(shared) else { return World::new(mpi, target, ranks) };
        let protocol = &mut shared.protocol;
        protocol.window = protocol.window.min(messages.max(1));
        protocol.credit_interval = protocol.credit_interval.min(protocol.window);
        protocol.shared_receives = protocol.shared_receives.min(SHORT);
        World(Arc::new(shared))
    }
    /// What ranks on different nodes know of each other beside what their messages bring.
    #[must_use]
    pub fn ties(&self) -> Ties {
        // Contents are in one place for all.
        if self.0.keeps { Ties::Any } else { Ties::Fences }
    }
    /// What the ranks on the node of `process` share.
    pub(super) fn on(&self, process: &Process) -> Rc<NodeMemory> {
        let contents = self.0.keeps.then(Contents::default);
        process.segments().of(&self.0, || NodeMemory { contents, ..NodeMemory::default() })
    }
}

impl Shared {
    /// Where a rank sits in its node, once all have said where they are.
    pub fn home(&self, process: &Process) -> RankLocation {
        let (me, node) = (process.rank(), process.node());
        let before = self.exchange.count(me, SeatOf { node, rank: 0 }..SeatOf { node, rank: me });
        RankLocation::of(process, &self.binding, before as u32)
    }
    /// Connections to peers on the same node.
    pub fn local(&self, me: u32, peers: Vec<u32>) -> Vec<(u32, Connection)> {
        let window = self.protocol.window;
        let to = |rank| {
            let domain = self.exchange.get(me, DomainOf { rank }).unwrap_or(0);
            (rank, Connection { domain, ..Connection::over(vec![Link::unused()], true, window) })
        };
        peers.into_iter().map(to).collect()
    }
}

/// Receives of a shared queue where only few are ever used. Basis: assumed; more than have to be there at a time.
const SHORT: u32 = 64;
/// Jobs of more ranks use no rings: polling them would take longer than a completion. Basis: assumed, as MVAPICH2's polling set.
const RING_RANKS: u32 = 64;
