//! The host fabric interface of an adapter: packets of PSM2 beside those of queue pairs.
//!
//! Modelled: packets built and received by the adapter like any others; what the adapter writes for a process goes the way of a
//! completion (`fabriscope_psm2`).

use fabriscope_psm2::adapter::Notice;
use fabriscope_psm2::{Adapter, AdapterSettings, Flow, Header, Kind};
use fabriscope_units::{Bytes, Time};
use fabriscope_verbs::{
    Body, CqId, Ext, ExtHeaders, Foreign, Lid, MemoryId, Nic, Packet, PacketFlags, QpNum, Received, Transmit, Wc, WcOpcode, WcStatus,
    WqeIndex,
};

/// What an adapter has of PSM2, if anything.
#[derive(Debug)]
pub(crate) struct Hfi {
    adapter: Option<Box<Adapter>>,
}

impl Hfi {
    pub(crate) fn new(lid: Lid, settings: Option<AdapterSettings>) -> Hfi {
        Hfi { adapter: settings.map(|settings| Box::new(Adapter::new(lid.0, settings))) }
    }
    pub(crate) fn adapter(&mut self) -> Option<&mut Adapter> {
        self.adapter.as_deref_mut()
    }
    #[inline]
    pub(crate) fn is_there(&self) -> bool {
        self.adapter.is_some()
    }

    /// A store of a process has reached the adapter.
    #[cold]
    pub(crate) fn arrived(&mut self, qp: QpNum, through: WqeIndex) {
        if let (Some(queue), Some(adapter)) = (queue_of(qp), self.adapter()) {
            adapter.arrived(queue, through.0);
        }
    }
    /// The next packet.
    #[cold]
    pub(crate) fn poll(&mut self, rnic: &mut Nic, ext_headers: &mut ExtHeaders) -> Option<Transmit> {
        let adapter = self.adapter.as_deref_mut()?;
        let out = adapter.poll()?;
        while let Some(notice) = adapter.poll_notice() {
            rnic.push_completion(cq_of(notice), entry(0));
        }
        let header = out.header;
        let packet = Packet {
            dest: Lid(header.to.lid),
            psn: label(&header),
            ext: ext_headers.alloc(Ext { slid: Lid(header.from.lid), foreign: Foreign::Psm2(Box::new(header)), ..Ext::default() }),
            wire_bytes: out.wire as u16,
            payload: header.payload as u16,
            flags: if header.traced { PacketFlags::TRACED } else { PacketFlags::NONE },
            entropy: (header.from.context ^ header.to.context) as u16,
            ..Packet::of(Body::Psm2 { context: header.to.context })
        };
        Some(Transmit {
            fetch: Bytes(out.fetch.into()),
            place: MemoryId(header.place),
            starts_message: out.first,
            ends_message: out.last,
            inline: out.fetch == 0,
            wr_id: out.store,
            message_bytes: header.payload,
            ..Transmit::plain(packet, queue_pair_of(out.queue))
        })
    }
    /// A packet came.
    #[cold]
    pub(crate) fn handle(&mut self, packet: &Packet, ext_headers: &mut ExtHeaders) -> Received {
        let dropped = Received { dropped: true, ..Received::default() };
        let Some(Foreign::Psm2(header)) = ext_headers.take(packet.ext).map(|ext| ext.foreign) else { return dropped };
        let Some(adapter) = self.adapter() else { return dropped };
        let arrival = adapter.handle(*header);
        let notice = Notice::Entry(header.to.context);
        Received {
            write: Bytes(arrival.write.into()),
            place: MemoryId(arrival.place),
            completion: arrival.entry.then(|| (cq_of(notice), entry(arrival.write))),
            dropped: arrival.dropped,
            ended: arrival.entry && !arrival.dropped,
            ..Received::default()
        }
    }
    /// What was written for a process is in memory.
    #[cold]
    pub(crate) fn landed(&mut self, visible: Time, cq: CqId) {
        if let (Some(notice), Some(adapter)) = (notice_of(cq), self.adapter()) {
            adapter.landed(visible, notice);
        }
    }
    /// When what a process waits for is visible.
    #[cold]
    pub(crate) fn next_visible(&self, cq: CqId) -> Option<Time> {
        self.adapter.as_deref()?.next_visible(notice_of(cq)?)
    }
}

/// The number under which a queue of the adapter is known to who drives the NIC: no queue pair has it.
#[must_use]
pub const fn queue_pair_of(queue: u32) -> QpNum {
    QpNum(MARK | queue)
}
/// Whether that is a queue of the adapter.
#[must_use]
pub const fn is_adapter_queue(qp: QpNum) -> bool {
    qp.0 & MARK != 0
}
const fn queue_of(qp: QpNum) -> Option<u32> {
    if is_adapter_queue(qp) { Some(qp.0 & !MARK) } else { None }
}
/// The number of the queue in memory to which a notice goes: no completion queue of verbs has it.
#[must_use]
pub const fn cq_of(notice: Notice) -> CqId {
    match notice {
        Notice::Entry(context) => CqId(MARK | context),
        Notice::Blocks(context) => CqId(MARK | BLOCKS | context),
        Notice::Request(context) => CqId(MARK | REQUEST | context),
    }
}
fn notice_of(cq: CqId) -> Option<Notice> {
    let context = cq.0 & !(MARK | BLOCKS | REQUEST);
    match cq.0 & (MARK | BLOCKS | REQUEST) {
        MARK => Some(Notice::Entry(context)),
        of if of == MARK | BLOCKS => Some(Notice::Blocks(context)),
        of if of == MARK | REQUEST => Some(Notice::Request(context)),
        _ => None,
    }
}

fn entry(bytes: u32) -> Wc {
    let wc = Wc::of(QpNum(0), 0, WcStatus::Success, WcOpcode::Recv, WqeIndex(0));
    Wc { byte_len: bytes, ..wc }
}

/// A number that no other packet to the same process has at about the same time, for whoever follows packets.
fn label(header: &Header) -> u32 {
    let (number, class) = match (header.kind, header.flow) {
        (Kind::Expected { window, .. }, _) => (window.id.wrapping_mul(WINDOW).wrapping_add(header.number), 2),
        (_, Flow::Dma) => (header.number, 1),
        (_, Flow::Pio) => (header.number, 0),
    };
    (number << 2 | class) & PSN
}

const MARK: u32 = 1 << 31;
const BLOCKS: u32 = 1 << 30;
const REQUEST: u32 = 1 << 29;
/// Packet numbers have 24 bits. Basis: standard.
const PSN: u32 = (1 << 24) - 1;
/// More packets than a window has. Basis: assumed.
const WINDOW: u32 = 64;
/// Whether that is a queue that belongs to this interface, or to the kernel: no completion queue of verbs has it.
#[inline]
pub(super) const fn is_foreign_queue(cq: CqId) -> bool {
    cq.0 & MARK != 0
}
