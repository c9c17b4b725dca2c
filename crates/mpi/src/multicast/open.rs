//! Opening: memory, queue pairs, groups, and the exchange of addresses out of band. No time passes but that of joining.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use fabriscope_node::{Process, ProgramError};
use fabriscope_units::{Bytes, Remedy, Span};
use fabriscope_verbs::{
    Access, AhAttr, Change, CqId, JoinState, Lid, Membership, Mr, Nic, PdId, Peer, QpAttr, QpCap, QpInit, QpNum, QpType, UdDestination,
    VerbsError, WatchId, WcStatus,
};

use super::broadcast_state::{AnswerOf, Board, Contact, ContactOf, DownOf, EndOf, NodeOf, Nodes, Outcome, Seats, UpOf, Window, WindowOf};
use super::settings::{Settings, Within};
use crate::Rank;
use crate::buffer::Buffer;
use crate::setup;

/// What the ranks of a job share out of band for their broadcasts. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Casting {
    pub(super) board: Arc<Board>,
    /// Groups and memory of another number are others.
    number: u8,
}

impl Casting {
    /// The same, which notes the steps of senders.
    #[must_use]
    pub fn noting() -> Casting {
        Casting { board: Arc::new(Board { noting: true, ..Board::default() }), number: 0 }
    }
    /// One of several of a job, all with numbers of their own.
    #[must_use]
    pub fn numbered(number: u8) -> Casting {
        Casting { number: number % CASTINGS, ..Casting::default() }
    }
    /// What has happened in all broadcasts so far.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        self.board.outcome.lock().clone()
    }
}

/// Broadcasts by multicast at one rank.
pub struct Multicast {
    pub(super) settings: Settings,
    number: u8,
    pub(super) board: Arc<Board>,
    /// What it shares with the ranks of its node.
    pub(super) seats: Rc<Seats>,
    pub(super) nic: usize,
    pub(super) cq: CqId,
    pub(super) host: Mr,
    /// The memory of its GPU, where the adapter reaches it.
    pub(super) device: Option<Mr>,
    pub(super) streams: RefCell<BTreeMap<u32, Stream>>,
    /// Ranks of the node whose memory is mapped.
    pub(super) mapped: RefCell<BTreeSet<u32>>,
}

/// One source's broadcasts as this rank sees them.
pub(super) struct Stream {
    /// Broadcasts, packets and chunks so far.
    pub messages: u64,
    pub packets: u64,
    pub chunks: u64,
    /// The ranks of the node in the order of passing on, and where this one stands.
    members: Vec<u32>,
    at: usize,
    pub end: Role,
}

impl Stream {
    /// The rank that passes a broadcast of so many chunks on to this one, and those to which this one does.
    pub fn neighbours(&self, within: Within, chunks: u32) -> (Option<u32>, Vec<u32>) {
        let before = |at: usize| self.members.get(at).copied();
        match within {
            Within::Tuned => self.neighbours(if chunks > 1 { Within::Chain } else { Within::Leader }, chunks),
            Within::Chain => (self.at.checked_sub(1).and_then(before), before(self.at + 1).into_iter().collect()),
            Within::Leader if self.at == 0 => (None, self.members[1..].to_vec()),
            Within::Leader => (before(0), Vec::new()),
        }
    }
}

/// How a rank takes part.
pub(super) enum Role {
    Source(Sending),
    Leader(Receiving),
    /// Another rank of the node passes data on to it.
    Member,
}

/// What a source has.
pub(super) struct Sending {
    pub ud: QpNum,
    /// The group; none where there is nobody to receive.
    pub to: Option<UdDestination>,
    pub gathering: Gathering,
}

/// What those below a rank write to it, for themselves and those below them.
pub(super) struct Gathering {
    /// Credits by place of the pinned buffer, and notes of those that have all.
    credits: Vec<WatchId>,
    pub finished: WatchId,
    /// How many write.
    pub kids: u64,
}

impl Gathering {
    /// The credit of all of them for a chunk: nobody gives one for a place before all have given the one before.
    pub fn credit(&self, number: u64) -> (WatchId, u64) {
        let depth = self.credits.len() as u64;
        (self.credits[(number % depth) as usize], self.kids * (number / depth + 1))
    }
}

/// Who gives credit to whom: a tree of the receivers below the source, which is at place 0.
struct Tree<'a> {
    source: u32,
    leaders: &'a [u32],
}

impl Tree<'_> {
    fn rank(&self, place: usize) -> u32 {
        place.checked_sub(1).map_or(self.source, |index| self.leaders[index])
    }
    fn place(&self, rank: u32) -> usize {
        self.leaders.iter().position(|leader| *leader == rank).map_or(0, |index| index + 1)
    }
    /// Who takes the credit of a receiver.
    fn above(&self, rank: u32) -> u32 {
        self.rank((self.place(rank) - 1) / FAN_IN)
    }
    /// Whose credit a rank takes.
    fn below(&self, rank: u32) -> Vec<u32> {
        let first = self.place(rank) * FAN_IN + 1;
        (first..(first + FAN_IN).min(self.leaders.len() + 1)).map(|place| self.rank(place)).collect()
    }
}

/// What a receiver has.
pub(super) struct Receiving {
    pub ud: QpNum,
    /// Its own queue pair, to use up receives that nothing came for.
    pub own: UdDestination,
    /// To the source.
    pub rc: QpNum,
    pub from: Contact,
    /// To who takes its credit, and where that lies: the first counter, and from each place of the buffer to the next.
    pub up: QpNum,
    pub counters: (Window, u64),
    pub gathering: Gathering,
}

impl Multicast {
    /// Opens what rank `rank` needs for broadcasts from each of `sources`; all ranks of the job do so, with the same settings and sources.
    ///
    /// # Errors
    /// A queue pair could not be made or connected; the group could not be joined.
    pub async fn open(rank: &Rank, settings: Settings, casting: &Casting, sources: &[u32]) -> Result<Multicast, ProgramError> {
        let (process, me) = (&rank.process, rank.rank());
        let board = Arc::clone(&casting.board);
        board.exchange.put(me, NodeOf { rank: me }, process.node());
        board.exchange.fence(process).await;
        let (nodes, seats) = (Nodes::of(&board.exchange, me), process.segments().of(&board, Seats::default));
        let nic = rank.state.borrow().home.nics.first().map_or(0, |(nic, _)| *nic);
        let place = {
            let state = rank.state.borrow();
            setup::reached(&state.protocol, &state.home, 0)
        };
        let (base, near) = (MEMORY + (u64::from(casting.number) << 56) + (u64::from(me) << 40), process.place(nic));
        let room = |source: u32| if source == me { settings.sends() } else { settings.receives() + READS };
        let entries = sources.iter().map(|source| room(*source)).sum::<u32>() + READS;
        let opened = process.nic(nic, |n| {
            let pd = n.alloc_pd();
            let host = n.reg_mr_at(pd, base, Bytes(HOST_BYTES), Access::ALL, near)?;
            let device = place.map(|place| n.reg_mr_at(pd, base + DEVICE, Bytes(DEVICE_BYTES), Access::ALL, place)).transpose()?;
            Ok((pd, host, device, n.create_cq(entries)?, n.create_cq(1)?))
        });
        let (pd, host, device, cq, control) = opened.map_err(|error: VerbsError| failed(error))?;
        let number = casting.number;
        let multicast =
            Multicast { settings, number, board, seats, nic, cq, host, device, streams: RefCell::default(), mapped: RefCell::default() };
        let mut made = BTreeMap::new();
        for source in sources {
            made.insert(*source, multicast.announce(process, pd, (*source, &nodes.leaders(*source)))?);
        }
        multicast.board.exchange.fence(process).await;
        let area = |source: u32| CREDITS + AREA * sources.iter().position(|other| *other == source).unwrap_or(0) as u64;
        let mut joins = 0;
        for (source, ud) in made {
            let (leaders, members) = (nodes.leaders(source), nodes.members(me, source));
            let at = members.iter().position(|rank| *rank == me).unwrap_or(0);
            joins += leaders.len() as u64 + 1;
            let group = match ud {
                Some(_) if leaders.is_empty() => None,
                Some(_) => Some(multicast.join(process, control, (me, source)).await?),
                None => None,
            };
            let end = match ud {
                Some(ud) if me == source => Role::Source(multicast.source(process, (pd, ud, group), &leaders, area(source))?),
                Some(ud) => Role::Leader(multicast.leader(process, (pd, ud, group), (source, &leaders), area(source))?),
                None => Role::Member,
            };
            let stream = Stream { messages: 0, packets: 0, chunks: 0, members, at, end };
            multicast.streams.borrow_mut().insert(source, stream);
        }
        process.barrier().await;
        process.sleep_until(process.now() + SETTLE + JOIN * joins).await;
        process.barrier().await;
        Ok(multicast)
    }

    /// Makes the queue pairs of this rank for `source` and tells the others; the one for datagrams is returned.
    fn announce(&self, process: &Process, pd: PdId, (source, leaders): (u32, &[u32])) -> Result<Option<QpNum>, ProgramError> {
        let me = process.rank();
        if me != source && !leaders.contains(&me) {
            return Ok(None);
        }
        let tree = Tree { source, leaders };
        // The source has a queue pair for each receiver anyway.
        let (above, below) = if me == source { (None, Vec::new()) } else { (Some(tree.above(me)), tree.below(me)) };
        let (lid, settings) = (process.lid(self.nic), &self.settings);
        let reliable = |n: &mut Nic, sends| {
            let cap = QpCap { max_send_wr: sends, max_recv_wr: 1, max_inline_data: Bytes(CREDIT), ..QpCap::default() };
            n.create_qp(&QpInit { cap, ..QpInit::new(pd, QpType::Rc, self.cq) })
        };
        let made = process.nic(self.nic, |n| {
            let mut init = QpInit::new(pd, QpType::Ud, self.cq);
            init.block_mcast_loopback = true;
            init.cap = QpCap {
                max_send_wr: if me == source { settings.sends() } else { settings.receives() },
                max_recv_wr: if me == source { 1 } else { settings.receives() },
                max_send_sge: 2,
                max_recv_sge: 2,
                max_inline_data: Bytes::ZERO,
            };
            let ud = n.create_qp(&init)?;
            for step in [QpAttr::init_ud(QKEY), QpAttr::rtr_ud(), QpAttr::rts(0)] {
                n.modify_qp(ud, &step)?;
            }
            let ends = if me == source { leaders.len() } else { 1 + usize::from(above != Some(source)) };
            let made: Result<Vec<QpNum>, VerbsError> = (0..ends).map(|_| reliable(n, if me == source { 1 } else { READS })).collect();
            let below: Result<Vec<QpNum>, VerbsError> = below.iter().map(|_| reliable(n, 1)).collect();
            Ok((ud, made?, below?))
        });
        let (ud, reliable, downs) = made.map_err(|error: VerbsError| failed(error))?;
        let exchange = &self.board.exchange;
        let window = Window { addr: self.host.addr, rkey: self.host.rkey };
        if me == source {
            let device = self.device.map(|mr| Window { addr: mr.addr, rkey: mr.rkey });
            exchange.put(me, ContactOf { source }, Contact { lid, host: window, device });
            leaders.iter().zip(reliable).for_each(|(rank, qp)| exchange.put(me, AnswerOf { source, rank: *rank }, qp));
            self.board.sources.lock().entry(source).or_default().held = vec![None; settings.depth as usize];
            return Ok(Some(ud));
        }
        if let Some(qp) = reliable.first() {
            exchange.put(me, EndOf { source, rank: me }, (lid, *qp));
        }
        if let Some(qp) = reliable.get(1) {
            exchange.put(me, UpOf { source, rank: me }, (lid, *qp));
        }
        below.into_iter().zip(downs).for_each(|(rank, qp)| exchange.put(me, DownOf { source, rank }, qp));
        exchange.put(me, WindowOf { source, rank: me }, (lid, window));
        Ok(Some(ud))
    }

    /// Watches what `kids` receivers write for `source`'s broadcasts.
    fn gathering(&self, n: &mut Nic, kids: u64, area: u64) -> Gathering {
        let region = (CREDIT * kids).max(CREDIT);
        let mut watch = |place: u64| n.create_watch(self.host.addr + area + place * region, Bytes(region));
        let credits = (0..u64::from(self.settings.depth)).map(&mut watch).collect();
        Gathering { credits, finished: watch(u64::from(self.settings.depth)), kids }
    }

    fn source(
        &self,
        process: &Process,
        (pd, ud, group): (PdId, QpNum, Option<Lid>),
        leaders: &[u32],
        area: u64,
    ) -> Result<Sending, ProgramError> {
        let me = process.rank();
        let ends: Vec<(QpNum, (Lid, QpNum))> = {
            let exchange = &self.board.exchange;
            let end = |rank: u32| Some((exchange.get(me, AnswerOf { source: me, rank })?, exchange.get(me, EndOf { source: me, rank })?));
            leaders.iter().filter_map(|leader| end(*leader)).collect()
        };
        let kids = Tree { source: me, leaders }.below(me).len() as u64;
        let open = |n: &mut Nic| -> Result<Sending, VerbsError> {
            for (qp, (lid, peer)) in ends {
                self.connect(n, qp, lid, peer)?;
            }
            let to =
                |dlid| Ok(UdDestination { ah: n.create_ah(pd, AhAttr { dlid, sl: 0 })?, remote_qpn: QpNum::MULTICAST, remote_qkey: QKEY });
            let to = group.map(to).transpose()?;
            Ok(Sending { ud, to, gathering: self.gathering(n, kids, area) })
        };
        process.nic(self.nic, open).map_err(failed)
    }

    fn leader(
        &self,
        process: &Process,
        (pd, ud, group): (PdId, QpNum, Option<Lid>),
        (source, leaders): (u32, &[u32]),
        area: u64,
    ) -> Result<Receiving, ProgramError> {
        let (me, tree) = (process.rank(), Tree { source, leaders });
        let (above, below) = (tree.above(me), tree.below(me));
        let unheard = || ProgramError(format!("rank {me} heard nothing of source {source}"));
        let exchange = &self.board.exchange;
        let (contact, answer) = (exchange.get(me, ContactOf { source }), exchange.get(me, AnswerOf { source, rank: me }));
        let (from, answer) = contact.zip(answer).ok_or_else(unheard)?;
        let rc = exchange.get(me, EndOf { source, rank: me }).ok_or_else(unheard)?.1;
        let up = exchange.get(me, UpOf { source, rank: me }).map(|(_, qp)| qp);
        let window = exchange.get(me, WindowOf { source, rank: above }).zip(exchange.get(me, DownOf { source, rank: me }));
        let over = up.map(|_| window.ok_or_else(unheard)).transpose()?;
        let down = |rank: u32| Some((exchange.get(me, DownOf { source, rank })?, exchange.get(me, UpOf { source, rank })?));
        let downs: Vec<(QpNum, (Lid, QpNum))> = below.iter().filter_map(|child| down(*child)).collect();
        let siblings = tree.below(above);
        let index = siblings.iter().position(|rank| *rank == me).unwrap_or(0) as u64;
        let stride = CREDIT * siblings.len() as u64;
        let window = over.map_or(from.host, |((_, window), _)| window);
        let counters = (Window { addr: window.addr + area + index * CREDIT, ..window }, stride);
        let dlid = process.lid(self.nic);
        let open = |n: &mut Nic| -> Result<Receiving, VerbsError> {
            self.connect(n, rc, from.lid, answer)?;
            if let Some((qp, ((lid, _), peer))) = up.zip(over) {
                self.connect(n, qp, lid, peer)?;
            }
            for (qp, (lid, peer)) in downs {
                self.connect(n, qp, lid, peer)?;
            }
            if let Some(group) = group {
                n.attach_mcast(ud, group)?;
            }
            let own = UdDestination { ah: n.create_ah(pd, AhAttr { dlid, sl: 0 })?, remote_qpn: ud, remote_qkey: QKEY };
            let gathering = self.gathering(n, below.len() as u64, area);
            Ok(Receiving { ud, own, rc, from, up: up.unwrap_or(rc), counters, gathering })
        };
        process.nic(self.nic, open).map_err(failed)
    }

    fn connect(&self, n: &mut Nic, qp: QpNum, lid: Lid, peer: QpNum) -> Result<(), VerbsError> {
        let reads = Some(self.settings.reads);
        let peer = Peer { lid, qp: peer, sl: 0, mtu: self.settings.mtu };
        let av = AhAttr { dlid: peer.lid, sl: peer.sl };
        n.modify_qp(qp, &QpAttr::init(Access::ALL))?;
        n.modify_qp(qp, &QpAttr { max_dest_rd_atomic: reads, ..QpAttr::rtr_rc(peer.mtu, peer.qp, 0, av) })?;
        n.modify_qp(qp, &QpAttr { max_rd_atomic: reads, ..QpAttr::rts_rc(0) })
    }

    /// Joins the group of `source`: it to send, others to receive.
    async fn join(&self, process: &Process, control: CqId, (me, source): (u32, u32)) -> Result<Lid, ProgramError> {
        let state = if me == source { JoinState::SendOnlyFull } else { JoinState::Full };
        let request = Membership {
            mgid: self.settings.group(self.number, source),
            change: Change::Join { state, qkey: QKEY },
            cq: control,
            wr_id: source.into(),
        };
        process.nic(self.nic, |nic| nic.post_membership(request));
        let answer = process.wait_cq(self.nic, control, 1).await;
        let answer = answer.first().filter(|wc| wc.status == WcStatus::Success).and_then(|wc| wc.imm);
        let mlid = answer.ok_or_else(|| ProgramError(format!("rank {me} was refused at the multicast group of rank {source}")))?;
        Ok(Lid::multicast(mlid as u16))
    }

    /// Where a buffer of the program begins, for adapters.
    pub(super) fn user(&self, buffer: Buffer) -> Result<Mr, ProgramError> {
        match buffer {
            Buffer::Host => Ok(self.host),
            Buffer::Device => self.device.ok_or_else(|| {
                ProgramError("no adapter near enough reaches the memory of the rank's GPU; use another algorithm".to_owned())
            }),
            Buffer::Managed => Err(ProgramError("no adapter may touch managed memory; use -d cuda, or another algorithm".to_owned())),
        }
    }
}

impl Settings {
    /// Requests in the send queue of a source.
    fn sends(&self) -> u32 {
        self.under_way() * self.chunk
    }
    /// Chunks that are posted and have not left.
    pub(super) fn under_way(&self) -> u32 {
        (POSTED / self.chunk).max(2)
    }
    /// Receives of a receiver; those of a loss stay until the end.
    fn receives(&self) -> u32 {
        (self.ahead() * self.chunk).max(64) + 64
    }
}

pub(super) fn failed(error: impl miette::Diagnostic) -> ProgramError {
    ProgramError(error.in_full())
}

/// Where a rank's memory lies: no bytes are moved. Basis: assumed.
const MEMORY: u64 = 0x4000_0000_0000_0000;
/// Castings of a job.
const CASTINGS: u8 = 32;
/// From there: what receivers write at a source; what they read there; headers; packets that were fetched; the pinned buffer.
pub(super) const CREDITS: u64 = 1 << 34;
pub(super) const PROGRESS: u64 = 3 << 33;
pub(super) const HEADERS: u64 = 1 << 35;
pub(super) const SPARE: u64 = 1 << 36;
pub(super) const BACKUP: u64 = 1 << 37;
const HOST_BYTES: u64 = 1 << 38;
const DEVICE: u64 = 1 << 39;
const DEVICE_BYTES: u64 = 1 << 37;
/// Counters of one source. Basis: assumed; room for those of 1024 places.
const AREA: u64 = 1 << 18;
/// Receivers that give their credit to one rank. Basis: assumed; with more a core looks at many counters, with fewer the tree is deep.
const FAN_IN: usize = 16;
/// A counter that is written or read, in bytes.
pub(super) const CREDIT: u64 = 8;
/// Requests of a receiver to the source that may be outstanding. Basis: assumed.
pub(super) const READS: u32 = 1024;
/// Packets that a source has posted beside two chunks, where chunks are small. Basis: assumed.
const POSTED: u32 = 1024;
/// Basis: assumed; as perftest's.
pub(super) const QKEY: u32 = 0x1111_1111;
/// After the last answer to a join, and for each join, until every table is written. Basis: assumed, more than the defaults of
/// `[multicast]` need.
const SETTLE: Span = Span::from_us(20_000);
const JOIN: Span = Span::from_us(300);
