//! What the ranks of a job share out of band: plan, who sits where, addresses; and what those of a node share: kernels, FIFOs between ranks.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use fabriscope_catalog::{Interface, NcclTransport, Rdma};
use fabriscope_machine::{Access, PathClass, Use};
use fabriscope_nccl::point_to_point::Schedule;
use fabriscope_nccl::{self as nccl, Algorithm, NcclError, NetWay, Protocol, Settings, Transport};
use fabriscope_node::aggregation::Rules;
use fabriscope_node::exchange::Exchange;
use fabriscope_node::{Devices, Memory, Process, ProgramError, Record, Ties, exchange_keys};
use fabriscope_platform::nccl::{JobLibrary, Library};
use fabriscope_platform::{Binding, Target, path_mtu};
use fabriscope_units::Time;
use fabriscope_verbs::{Lid, Mtu, QpNum, QpType, Rkey};

use super::fifo::{Fifo, FifoEnd, FifoId, FifoPath};
use super::kernels::Kernels;

/// What the ranks of a job share. Clones are the same world.
#[derive(Clone)]
pub struct World(pub(super) Arc<Shared>);

pub(super) struct Shared {
    pub library: JobLibrary,
    pub mtu: Mtu,
    /// Who is whose neighbour in which channel.
    pub plan: nccl::Communicator,
    /// Rounds and channels of sends and receives.
    pub schedule: Schedule,
    /// The transport of one queue pair for all connections of an adapter, on which messages may overtake each other; none where each has its own.
    pub datagrams: Option<QpType>,
    /// Who moves messages between nodes.
    pub rdma: Rdma,
    /// What limits groups of switches that reduce, where they do.
    pub switches: Option<Rules>,
    binding: Binding,
    /// What ranks tell each other before their first message.
    pub exchange: Exchange<Tables>,
    /// Contents of slices in the switches, by group and number, and how many heads have the sum.
    sums: Record<Sums>,
    /// Whose kernels share what nodes have.
    gpus: Gpus,
    /// The number of this communicator among those, which is that of its streams as well.
    pub number: u32,
    /// Where its ranks sit, if that was said: else each rank of the job has the next GPU of its node.
    seats: Vec<MemberPlacement>,
}

/// The GPUs of a job, for several communicators on them: their kernels share what nodes have. Clones are the same GPUs.
#[derive(Clone, Default)]
pub struct Gpus(Arc<GpusOfJob>);

/// What tells the GPUs of a job from those of another.
#[derive(Default)]
struct GpusOfJob;

/// Where a rank of a communicator sits, whatever ranks the job has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemberPlacement {
    /// The rank of the job that serves it.
    pub process: u32,
    /// Node and GPU.
    pub at: RankPlacement,
}

type Sums = BTreeMap<(u32, u64), (u64, u32)>;

exchange_keys! {
    /// Where a rank sits.
    seats: SeatOf { rank: u32 } => RankPlacement;
    /// What an end of a connection between nodes tells the other, by adapter.
    contacts: ContactOf { wire: Wire, sends: bool, stripe: u32 } => Contact;
}

/// Where a rank sits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RankPlacement {
    /// Its node.
    pub node: u32,
    /// Its GPU there.
    pub gpu: u32,
}

/// A connection: from a rank to another on a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Wire {
    /// The sending rank.
    pub from: u32,
    /// The receiving rank.
    pub to: u32,
    /// The channel.
    pub channel: u32,
    /// For what.
    pub kind: WireKind,
}

/// What a connection is for; each has slots of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WireKind {
    /// Around rings, towards the roots of trees, to heads.
    Up,
    /// Away from them.
    Down,
    /// To a head behind the switch of NVLinks.
    Reduction,
    /// From it.
    Multicast,
    /// Sends and receives.
    PointToPoint,
    /// From a head to the switches of the network; both ends are the head.
    ToNetwork,
    /// From them.
    FromNetwork,
}

impl WireKind {
    /// Whether it leads to the switches of the network, or from there.
    #[must_use]
    pub fn is_of_network(self) -> bool {
        matches!(self, WireKind::ToNetwork | WireKind::FromNetwork)
    }
}

/// One end of a connection between nodes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Contact {
    /// Its number, the same at both ends.
    pub number: u32,
    pub lid: Lid,
    pub qp: QpNum,
    pub host: (u64, Rkey),
    pub device: Option<(u64, Rkey)>,
}

/// The kernels of a node, and who makes their time go on.
pub(super) struct Node {
    pub kernels: Kernels,
    /// The rank that wakes for what happens next.
    pub driver: Option<u32>,
    /// When it wakes.
    pub until: Time,
    /// Ranks that wait, by GPU.
    pub waiting: BTreeSet<u32>,
    /// The rank of each GPU.
    pub ranks: BTreeMap<u32, u32>,
    fifos: BTreeMap<(u32, Wire, Protocol), FifoId>,
    /// How many barriers each rank has come to.
    arrived: BTreeMap<u32, u64>,
}

impl World {
    /// The world of a job of the first `per_node` GPUs of `nodes` nodes that is linked with `library`, on a machine like `target`.
    ///
    /// # Errors
    /// As [`JobLibrary::join`].
    pub fn new(
        library: impl Into<JobLibrary>,
        target: &Target,
        (nodes, per_node): (u32, u32),
        settings: &Settings,
    ) -> Result<World, NcclError> {
        let library = library.into();
        let plan = library.join(nodes, per_node, settings)?;
        Ok(World::with(library, plan, target, (Gpus::default(), 0, Vec::new())))
    }
    /// The world of communicator `number` of those on `gpus`, of which no other has the number: its ranks sit where `seats` says.
    ///
    /// # Errors
    /// As [`Library::join_at`].
    pub fn on_gpus(
        library: &Library,
        target: &Target,
        (gpus, number): (&Gpus, u32),
        seats: Vec<MemberPlacement>,
        settings: &Settings,
    ) -> Result<World, NcclError> {
        let places: Vec<(u32, u32)> = seats.iter().map(|seat| (seat.at.node, seat.at.gpu)).collect();
        let (library, plan) = library.join_at(&places, settings)?;
        Ok(World::with(library, plan, target, (gpus.clone(), number, seats)))
    }
    fn with(
        library: JobLibrary,
        plan: nccl::Communicator,
        target: &Target,
        (gpus, number, seats): (Gpus, u32, Vec<MemberPlacement>),
    ) -> World {
        let datagrams = match (target.interface, library.on(0).transport) {
            (Interface::Efa, _) => Some(QpType::Srd),
            (_, NcclTransport::Uet) => Some(QpType::Uet),
            (_, NcclTransport::Rc) => None,
        };
        World(Arc::new(Shared {
            library,
            schedule: Schedule::new(&plan),
            plan,
            mtu: path_mtu(target.mtu),
            datagrams,
            rdma: target.rdma,
            switches: target.aggregation.as_ref().map(|(_, part)| part.rules(path_mtu(target.mtu), 0)),
            binding: target.binding.clone(),
            exchange: Exchange::default(),
            sums: Record::default(),
            gpus,
            number,
            seats,
        }))
    }
    /// The world of a job of the first nodes of this one, which are more than one.
    ///
    /// # Errors
    /// As [`nccl::Communicator::on_first`].
    pub fn on_first(&self, nodes: u32) -> Result<World, NcclError> {
        let Shared { library, mtu, plan, datagrams, rdma, switches, binding, .. } = &*self.0;
        let plan = plan.on_first(nodes)?;
        Ok(World(Arc::new(Shared {
            library: library.clone(),
            schedule: Schedule::new(&plan),
            plan,
            mtu: *mtu,
            datagrams: *datagrams,
            rdma: *rdma,
            switches: *switches,
            binding: binding.clone(),
            exchange: Exchange::default(),
            sums: Record::default(),
            gpus: Gpus::default(),
            number: 0,
            seats: Vec::new(),
        })))
    }
    /// What ranks on different nodes know of each other beside what their messages bring, in operations by these algorithms.
    pub fn ties(&self, algorithms: impl IntoIterator<Item = Algorithm>) -> Ties {
        // The contents of sums in switches are in one place for all.
        let in_switches = |algorithm| matches!(algorithm, Algorithm::CollnetDirect | Algorithm::CollnetChain | Algorithm::Nvls);
        if self.0.switches.is_some() && algorithms.into_iter().any(in_switches) { Ties::Any } else { Ties::Fences }
    }
    /// Who is whose neighbour in which channel.
    #[must_use]
    pub fn plan(&self) -> &nccl::Communicator {
        &self.0.plan
    }
    /// The library on the node of a rank.
    ///
    /// # Panics
    /// If there is no such rank.
    #[must_use]
    pub fn library(&self, rank: u32) -> &Library {
        self.0.library_of(rank)
    }

    /// The rank that a rank of the job serves; its own number where no seats were said.
    pub(super) fn rank_of(&self, process: &Process) -> Result<u32, ProgramError> {
        let (seats, own) = (&self.0.seats, process.rank());
        if seats.is_empty() {
            return Ok(own);
        }
        let rank = seats.iter().position(|seat| seat.process == own);
        rank.map(|rank| rank as u32)
            .ok_or_else(|| ProgramError(format!("rank {own} of the job is no member of communicator {}", self.0.number)))
    }

    /// Seats a rank: the next rank of a node takes its next GPU, or the one that the user said. What it shares with those of its node.
    pub(super) fn seat(&self, process: &Process) -> Result<(RankPlacement, Rc<RefCell<Node>>), ProgramError> {
        let (devices, shared) = (process.devices()?, &self.0);
        let node = process.segments().of(&shared.gpus.0, || RefCell::new(Node::new(devices)));
        let seat = match shared.seats.get(self.rank_of(process)? as usize) {
            Some(seat) => seat.at,
            None => {
                let local = node.borrow().ranks.len() as u32;
                RankPlacement { node: process.node(), gpu: shared.binding.gpu(local, devices.count() as u32).unwrap_or(0) }
            }
        };
        let gpu = seat.gpu;
        let other = node.borrow_mut().ranks.insert(gpu, process.rank());
        if let Some(other) = other.filter(|other| *other != process.rank()) {
            let what = format!("ranks {other} and {} share gpu{gpu} of a node: a communicator has one rank for each GPU", process.rank());
            return Err(ProgramError(format!("{what}; take as many ranks as there are GPUs, or another --bind")));
        }
        if shared.seats.is_empty() {
            shared.exchange.put(process.rank(), SeatOf { rank: process.rank() }, seat);
        }
        Ok((seat, node))
    }
}

impl Shared {
    /// The rank of the job that serves a rank.
    pub fn process_of(&self, rank: u32) -> u32 {
        self.seats.get(rank as usize).map_or(rank, |seat| seat.process)
    }

    /// The library on the node of a rank.
    pub fn library_of(&self, rank: u32) -> &Library {
        self.library.of_kind(self.plan.kind_number(rank))
    }

    /// A head of a group gives a slice to the switches.
    pub fn add_to_sum(&self, group: u32, number: u64, contents: u64) {
        let mut sums = self.sums.lock();
        let sum = &mut sums.entry((group, number)).or_default().0;
        *sum = sum.wrapping_add(contents);
    }
    /// A head of a group gets the sum of a slice of all.
    pub fn sum_of(&self, group: u32, number: u64) -> u64 {
        let mut sums = self.sums.lock();
        let Some((sum, heads)) = sums.get_mut(&(group, number)) else { return 0 };
        let sum = *sum;
        *heads += 1;
        if *heads == self.plan.nodes() {
            sums.remove(&(group, number));
        }
        sum
    }

    /// The adapters of a connection for point-to-point traffic, each rank with those near to it.
    pub fn net_way(&self, from: u32, to: u32, channel: u32) -> Option<NetWay> {
        match self.plan.point_to_point(from, to, channel) {
            Transport::Net(way) => Some(way),
            _ => None,
        }
    }

    /// The seat of any rank of the job as `me` knows it, once all have sat down.
    pub fn seat_of(&self, me: u32, rank: u32) -> Result<RankPlacement, ProgramError> {
        let seat = match self.seats.is_empty() {
            true => self.exchange.get(me, SeatOf { rank }),
            false => self.seats.get(rank as usize).map(|seat| seat.at),
        };
        seat.ok_or_else(|| ProgramError(format!("the communicator has no rank {rank}")))
    }
}

impl Node {
    fn new(devices: &Devices) -> Node {
        let own = (0..devices.count() as u32).map(|gpu| own_memory(devices, gpu)).collect();
        Node {
            kernels: Kernels::new(devices.machine().sharing(), own),
            driver: None,
            until: Time::MAX,
            waiting: BTreeSet::new(),
            ranks: BTreeMap::new(),
            fifos: BTreeMap::new(),
            arrived: BTreeMap::new(),
        }
    }

    /// A rank comes to a barrier with nothing of its own outstanding; its number.
    pub fn arrive(&mut self, rank: u32) -> u64 {
        let turn = self.arrived.entry(rank).or_default();
        *turn += 1;
        *turn
    }
    /// Whether a rank has come to that barrier.
    pub fn has_arrived(&self, rank: u32, turn: u64) -> bool {
        self.arrived.get(&rank).is_some_and(|arrived| *arrived >= turn)
    }
    /// The FIFO of a connection of a communicator with a protocol, if it was made.
    pub fn known_fifo(&self, communicator: u32, wire: Wire, protocol: Protocol) -> Option<FifoId> {
        self.fifos.get(&(communicator, wire, protocol)).copied()
    }

    /// The FIFO of a connection of a communicator with a protocol; `make` says how it is, the first time.
    pub fn fifo(
        &mut self,
        communicator: u32,
        (wire, protocol): (Wire, Protocol),
        make: impl FnOnce() -> Result<Fifo, ProgramError>,
    ) -> Result<FifoId, ProgramError> {
        if let Some(id) = self.fifos.get(&(communicator, wire, protocol)) {
            return Ok(*id);
        }
        let id = self.kernels.add_fifo(make()?);
        self.fifos.insert((communicator, wire, protocol), id);
        Ok(id)
    }
}

/// What copying a byte within the memory of a GPU takes.
fn own_memory(devices: &Devices, gpu: u32) -> Vec<Use> {
    let own = devices.vertex(Memory::Device(gpu)).and_then(|memory| devices.way(memory, memory, Access::Write));
    own.map(|(uses, _)| uses.to_vec()).unwrap_or_default()
}

/// A FIFO between two GPUs of a node: the sender writes into the receiver's memory where GPUs reach each other, and into host memory
/// otherwise, from where the receiver reads.
pub(super) fn local_fifo(devices: &Devices, (shared, me): (&Shared, u32), wire: Wire) -> Result<Fifo, ProgramError> {
    let (from, to) = (shared.seat_of(me, wire.from)?.gpu, shared.seat_of(me, wire.to)?.gpu);
    if matches!(wire.kind, WireKind::Reduction | WireKind::Multicast) {
        return super::nvls::fifo(devices, (shared, me), wire);
    }
    let (source, target) = (devices.vertex(Memory::Device(from))?, devices.vertex(Memory::Device(to))?);
    let machine = devices.machine();
    let gpus = machine.gpus();
    let class = machine.class(gpus[from as usize], gpus[to as usize]);
    let (_, back) = devices.way(target, source, Access::Write)?;
    let way = if class <= PathClass::Phb {
        let (uses, latency) = devices.way(source, target, Access::Write)?;
        FifoPath { uses: uses.to_vec(), takes: Vec::new(), latency, back }
    } else {
        let host = devices.vertex(devices.home(to)?)?;
        let (uses, there) = devices.way(source, host, Access::Write)?;
        let (takes, here) = devices.way(host, target, Access::Read)?;
        FifoPath { uses: uses.to_vec(), takes: takes.to_vec(), latency: there + here, back }
    };
    Ok(Fifo::new(way, SLOTS, FifoEnd::Block, FifoEnd::Block))
}

/// Slots of a FIFO. Basis: published (NCCL, src/include/device.h: NCCL_STEPS).
pub const SLOTS: u32 = 8;
