//! What the ranks of a job share out of band, as a launcher and its key-value store have it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use fabriscope_catalog::{Accumulate, EagerChannel, Interface, Mpi, SingleElement};
use fabriscope_node::Process;
use fabriscope_platform::{Binding, Target, path_mtu};
use fabriscope_psm2 as psm2;
use fabriscope_units::Span;
use fabriscope_verbs::Mtu;

use super::active_message::Services;
use super::buffer::RankLocation;
use super::connection::{Connection, Link};
use super::contents::Contents;
use super::exchange::{DomainOf, Exchange, NodeOf};
use super::protocol::{self, Protocol};
use super::wire::Wires;

/// What the ranks of a job share out of band. Clones are the same world.
#[derive(Debug, Clone)]
pub struct World(pub(super) Rc<Shared>);

#[derive(Debug)]
pub(super) struct Shared {
    pub protocol: Protocol,
    pub mtu: Mtu,
    pub outstanding_reads: u8,
    pub wires: Wires,
    /// What ranks tell each other before their first message.
    pub exchange: Exchange,
    /// PSM2, where the library has it.
    pub psm2: Option<psm2::Library>,
    /// How often ranks were done with everything they had sent.
    pub idle: Cell<u64>,
    /// Which GPU each rank of a node has.
    binding: Binding,
    /// How the library does one-sided operations beyond put and get, if that is known.
    pub one_sided: Option<OneSidedWays>,
    /// Connections have atomics.
    pub atomics: bool,
    /// What the memories of the ranks hold, for programs that look.
    pub contents: Option<Contents>,
    /// What origins have asked of targets, by (origin, target).
    pub services: RefCell<BTreeMap<(u32, u32), Services>>,
    /// Old values by (origin, target, number).
    pub answers: RefCell<BTreeMap<(u32, u32, u64), u64>>,
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
        World::with(mpi, target, ranks, (None, None))
    }
    /// The same, and the memories of the ranks hold what is written: what one-sided operations bring and fetch can be looked at.
    #[must_use]
    pub fn with_contents(mpi: &Mpi, target: &Target, ranks: u32) -> World {
        World::with(mpi, target, ranks, (None, Some(Contents::default())))
    }
    /// The world of another library over the same transport, whose one-sided operations take a core `overhead` above the verbs.
    pub(crate) fn of_calls(mpi: &Mpi, target: &Target, ranks: u32, overhead: Span, keeps: bool) -> World {
        World::with(mpi, target, ranks, (Some(overhead), keeps.then(Contents::default)))
    }

    fn with(mpi: &Mpi, target: &Target, ranks: u32, (call, contents): (Option<Span>, Option<Contents>)) -> World {
        let mtu = path_mtu(target.mtu);
        let mut protocol = Protocol { unordered: target.interface == Interface::Efa, ..Protocol::from(mpi) };
        protocol.call_overhead = call.unwrap_or(protocol.call_overhead);
        if ranks > RING_RANKS && protocol.eager_channel == EagerChannel::RdmaWrite {
            protocol.eager_channel = EagerChannel::Send;
        }
        World(Rc::new(Shared {
            protocol,
            mtu,
            outstanding_reads: target.max_outstanding_reads,
            wires: Wires::default(),
            exchange: Exchange::default(),
            psm2: mpi.psm2.as_ref().map(|part| protocol::psm2::library(part, mpi.gpu.as_ref())),
            idle: Cell::default(),
            binding: target.binding.clone(),
            one_sided: mpi.one_sided.as_ref().map(|rules| OneSidedWays {
                accumulate: *rules.accumulate,
                single: *rules.single,
                apply_overhead: *rules.apply_overhead,
            }),
            atomics: matches!(target.interface, Interface::Verbs | Interface::Cxi),
            contents,
            services: RefCell::default(),
            answers: RefCell::default(),
        }))
    }
}

impl Shared {
    /// Where a rank sits in its node, once all have said where they are.
    pub fn home(&self, process: &Process) -> RankLocation {
        let me = process.rank();
        let nodes = self.exchange.all::<NodeOf>(me);
        let before = nodes.iter().filter(|(key, node)| key.rank < me && *node == process.node()).count();
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

/// Jobs of more ranks use no rings: polling them would take longer than a completion. Basis: assumed, as MVAPICH2's polling set.
const RING_RANKS: u32 = 64;
