//! The pipeline of one NIC, from the packet that the transport picked to the wire, and from the wire to memory.
//!
//! ```text
//!  context ─ send engine ─ fetch (PCIe, read-ahead) ─ tx ─▶ wire          build → Built { begun, complete, ready }
//!              atomic unit ┘        └─ window ─────────┘                  has_room, handle_departure, poll_departure
//!  memory ◀─ payload write ─ (transport) ◀─ rx ◀─ wire                    store, complete, notify
//! ```
//!
//! Modelled: what `send_engine`, `tx_window`, `context` and `dma_targets` say; one atomic unit without a queue of its own.
//! Not modelled: the time of the transport itself beyond `tx_latency` and `rx_latency`.

use fabriscope_node::pcie::Written;
use fabriscope_node::{DmaHops, Pcie, PcieTiming};
use fabriscope_units::{Bytes, Span, Time};
use fabriscope_verbs::{MemoryId, MemoryUse, QpNum, Transmit};
use fabriscope_wire::{Opcode, Operation, Transport};

use crate::context::ContextCache;
use crate::costs::{NicCosts, Uplink};
use crate::dma_targets::{DmaTargets, Hops};
use crate::iommu::{IoTlb, IoTlbCounts};
use crate::send_engine::{Begin, SendEngine};
use crate::translation::{TranslationCache, TranslationCounts};
use crate::tx_window::TxWindow;

/// The state of the pipeline.
#[derive(Debug)]
pub struct Pipeline {
    /// Packets between fetch and wire.
    pub window: TxWindow,
    pcie: Pcie,
    engine: SendEngine,
    /// Contexts on the chip, where there are more queue pairs than it holds.
    contexts: Option<Box<ContextCache>>,
    /// Translations on the chip, where memory is registered by pages.
    translations: Option<Box<TranslationCache>>,
    /// The host's, where it translates addresses.
    iommu: Option<Box<IoTlb>>,
    /// How long the next packet waits for a translation.
    translating: Span,
    /// When those before had theirs, on the way out and in: packets do not overtake each other.
    translated: [Time; 2],
    /// Memories beyond its own link.
    targets: Option<Box<DmaTargets>>,
    host_memory: HostMemory,
    /// Where payload was fetched last.
    place: MemoryId,
    /// When the atomic unit has done what it has.
    atomics_free: Time,
    costs: NicCosts,
}

/// How the memory of the host is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HostMemory {
    /// Over the adapter's own link alone.
    Direct,
    /// Over hops that others use as well.
    Shared,
}

/// When a packet passes the pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Built {
    /// The send engine began with it.
    pub begun: Time,
    /// All its bytes are in the NIC.
    pub complete: Time,
    /// It may be on the wire.
    pub ready: Time,
}

/// What a completed receive has used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReceiveEntry {
    /// An entry of a receive queue.
    Consumed,
    /// Nothing of the kind.
    None,
}

/// What an atomic operation works on (standard).
const OPERAND: Bytes = Bytes(8);

impl Pipeline {
    /// An idle pipeline between a bus and a wire, for which a read takes `read_latency`.
    #[must_use]
    pub fn new(costs: NicCosts, bus: PcieTiming, uplink: Uplink, read_latency: Span) -> Pipeline {
        Pipeline {
            window: TxWindow::new(costs.tx_window(uplink, read_latency)),
            pcie: Pcie::new(bus),
            engine: SendEngine::new(),
            contexts: None,
            translations: None,
            iommu: None,
            translating: Span::ZERO,
            translated: [Time::ZERO; 2],
            targets: None,
            host_memory: HostMemory::Direct,
            place: MemoryId::HOST,
            atomics_free: Time::ZERO,
            costs,
        }
    }

    /// Speeds and latencies of its bus.
    #[must_use]
    pub fn bus(&self) -> &PcieTiming {
        self.pcie.timing()
    }
    /// What the NIC takes for what it does.
    #[must_use]
    pub fn costs(&self) -> &NicCosts {
        &self.costs
    }
    /// The host translates addresses.
    pub fn set_iommu(&mut self, iommu: IoTlb) {
        self.iommu = Some(Box::new(iommu));
    }
    /// It reaches memories beyond its own link.
    pub fn set_targets(&mut self, targets: DmaTargets) {
        self.host_memory = if targets.shares_host_memory() { HostMemory::Shared } else { HostMemory::Direct };
        self.targets = Some(Box::new(targets));
    }
    /// What it takes from and brings to host memory meets copies by GPUs of its node.
    pub fn meet_copies(&mut self) {
        if self.targets.is_some() {
            self.host_memory = HostMemory::Shared;
        }
    }
    /// Keeps account of contexts from now on if there are more queue pairs than the NIC holds.
    /// `queue_pairs` are those at hand, and those that a run leaves out.
    pub fn watch_contexts(&mut self, queue_pairs: impl FnOnce() -> (u32, u32)) {
        let Some(limits) = self.costs.contexts else { return };
        match &mut self.contexts {
            Some(contexts) if contexts.is_among() => {
                let (pairs, others) = queue_pairs();
                contexts.stand_among(pairs.saturating_add(others));
            }
            Some(_) => {}
            None => {
                let (pairs, others) = queue_pairs();
                let all = pairs.saturating_add(others);
                if all > limits.cached {
                    let contexts = self.contexts.insert(Box::new(ContextCache::new(limits, pairs)));
                    if others > 0 {
                        contexts.stand_among(all);
                    }
                }
            }
        }
    }
    /// Packets that waited for a context.
    #[must_use]
    pub fn context_misses(&self) -> u64 {
        self.contexts.as_ref().map_or(0, |contexts| contexts.counts().misses)
    }
    /// Translations that packets needed, of regions that are registered by pages.
    #[must_use]
    pub fn translations(&self) -> TranslationCounts {
        self.translations.as_ref().map_or_else(TranslationCounts::default, |cache| cache.counts())
    }
    /// Addresses that the host had to translate.
    #[must_use]
    pub fn io_translations(&self) -> IoTlbCounts {
        self.iommu.as_ref().map_or_else(IoTlbCounts::default, |iommu| iommu.counts())
    }
    /// When `memory` may be read or written that is needed at `now`: its translations are in the adapter, which then asks the host.
    fn translate(&mut self, now: Time, memory: &MemoryUse) -> Time {
        let mut ready = now;
        if let (Some(limits), false) = (self.costs.translations, memory.entries.is_empty()) {
            let cache = self.translations.get_or_insert_with(|| Box::new(TranslationCache::new(limits)));
            ready = memory.entries.iter().fold(ready, |ready, page| ready.max(cache.touch(now, *page, &mut self.pcie)));
        }
        let Some(iommu) = &mut self.iommu else { return ready };
        memory.addresses.iter().fold(ready, |all, address| all.max(iommu.touch(ready, *address)))
    }
    /// The next packet that is built waits for the translations of `memory`.
    pub fn translate_next(&mut self, now: Time, memory: &MemoryUse) {
        let ready = self.translate(now, memory).max(self.translated[0]);
        self.translated[0] = ready;
        self.translating = ready - now;
    }
    /// When those of a packet that arrived are, behind those of the packets before it.
    pub fn translate_in_order(&mut self, now: Time, memory: &MemoryUse) -> Time {
        let ready = self.translate(now, memory).max(self.translated[1]);
        self.translated[1] = ready;
        ready
    }
    /// What payload of `place` crosses, for reports; `None` for the host memory beside the adapter.
    #[must_use]
    pub fn title(&self, place: MemoryId) -> Option<&str> {
        self.targets.as_ref().filter(|_| place != MemoryId::HOST).and_then(|targets| targets.title(place))
    }

    /// When the context of `qp` is in the NIC for a packet that comes at `now`.
    #[inline]
    pub fn fetch_context(&mut self, now: Time, qp: QpNum) -> Time {
        match &mut self.contexts {
            None => now,
            Some(contexts) => contexts.touch(now, qp.slot(), &mut self.pcie),
        }
    }

    /// Builds a packet that the transport picked at `now`; those with payload take room in the window until they have left.
    #[inline]
    pub fn build(&mut self, now: Time, t: &Transmit, hops: &mut Hops) -> Built {
        // The bus is asked for the payload now, so that nobody else waits for it meanwhile; it is worth that much later.
        let wait = self.fetch_context(now, t.qp) - now + std::mem::take(&mut self.translating);
        let (begun, complete) = self.fetch(now, t, hops);
        let complete = complete + wait;
        let mut ready = complete + self.costs.tx_latency;
        if self.costs.srd_latency > Span::ZERO && is_reliable_datagram(t.packet.opcode) {
            ready += self.costs.srd_latency;
        }
        if t.packet.payload > 0 {
            self.window.hold(Bytes(u64::from(t.packet.wire_bytes)), t.packet.sl);
        }
        Built { begun: begun + wait, complete, ready }
    }

    /// When the send engine begins with a packet, and when its bytes are in the NIC.
    #[inline]
    fn fetch(&mut self, now: Time, t: &Transmit, hops: &mut Hops) -> (Time, Time) {
        let queue = t.qp.slot() as usize * 2 + usize::from(t.responder);
        let mut begin = Begin { at: now, gap: Span::ZERO };
        if t.starts_message && !(t.responder && t.message_bytes == 0) {
            let interval = if t.read_response { self.costs.read_interval } else { self.costs.wqe_interval };
            begin = self.engine.begin(now, queue, (self.costs.engine_interval(is_write(t.packet.opcode)), interval));
        }
        let begun = begin.at;
        if t.responder && is_atomic_response(t.packet.opcode) {
            // The operand is read from memory and changed in the NIC; it is written back beside the answer.
            let begun = self.atomic_turn(begun);
            let read = match self.way(t.place, hops) {
                None => self.pcie.read(begun, OPERAND, Span::ZERO),
                Some((pcie, mut way)) => pcie.read_over(&mut way, begun, OPERAND, Span::ZERO),
            };
            return (begun, read + self.costs.atomic_latency);
        }
        if t.fetch == Bytes::ZERO {
            return (begun, begun);
        }
        if t.place != self.place {
            self.turn_to(t.place);
        }
        if self.costs.read_block > Bytes::ZERO {
            return (begun, self.fetch_block(t, queue, begin, hops));
        }
        (begun, self.fetch_payload(t.place, queue, begin, t.fetch, hops))
    }

    /// Reads `amount` of payload for `queue`: when its last byte is in the NIC.
    #[inline]
    fn fetch_payload(&mut self, place: MemoryId, queue: usize, Begin { at, gap }: Begin, amount: Bytes, hops: &mut Hops) -> Time {
        let (ahead, mut reads) = (self.costs.ahead(), self.engine.reads(queue));
        let complete = match self.way(place, hops) {
            None => reads.fetch(&mut self.pcie, ahead, at, amount, gap),
            Some((pcie, mut way)) => reads.fetch_over(pcie, &mut way, ahead, at, amount, gap),
        };
        self.engine.set_reads(queue, reads);
        complete
    }

    /// The same for the block of the message that a packet lies in: one read for all its packets.
    #[inline]
    fn fetch_block(&mut self, t: &Transmit, queue: usize, begin: Begin, hops: &mut Hops) -> Time {
        let payload = t.fetch.0 as u32;
        let block = self.engine.block(queue);
        if t.retransmission {
            block.again();
            return self.fetch_payload(t.place, queue, begin, t.fetch, hops);
        }
        if t.starts_message {
            // Packets as large as a block are blocks themselves.
            let smaller = !t.ends_message && t.fetch < self.costs.read_block;
            block.begin(if smaller { t.message_bytes } else { 0 });
        }
        if let Some(complete) = block.take(payload) {
            return complete.max(begin.at);
        }
        let amount = block.next(self.costs.read_block.0 as u32, payload);
        let complete = self.fetch_payload(t.place, queue, begin, Bytes(amount.into()), hops);
        self.engine.block(queue).read(amount, payload, complete);
        complete
    }

    /// When the atomic unit takes an operation that is there at `begun`.
    fn atomic_turn(&mut self, begun: Time) -> Time {
        if self.costs.atomic_interval == Span::ZERO {
            return begun;
        }
        let turn = begun.max(self.atomics_free);
        self.atomics_free = turn + self.costs.atomic_interval;
        turn
    }

    /// Writes payload to memory from `begun` on.
    #[inline]
    pub fn store(&mut self, begun: Time, amount: Bytes, place: MemoryId, hops: &mut Hops) -> Written {
        match self.way(place, hops) {
            None => self.pcie.write(begun, amount),
            Some((pcie, mut way)) => pcie.write_over(&mut way, begun, amount),
        }
    }

    /// Writes the completion of a receive whose payload left the NIC at `sent` and is visible at `landed`; returns when a program
    /// sees it.
    #[inline]
    pub fn complete(&mut self, sent: Time, entry: ReceiveEntry, landed: Time) -> Time {
        let extra = match entry {
            ReceiveEntry::Consumed => self.costs.recv_latency,
            ReceiveEntry::None => Span::ZERO,
        };
        (self.notify(sent) + extra).max(landed)
    }

    /// Writes a completion queue entry at `now`; returns when a program sees it.
    #[inline]
    pub fn notify(&mut self, now: Time) -> Time {
        self.pcie.write(now, self.costs.cqe_size).visible
    }

    /// Fetches work requests of `amount` from host memory; returns when they are in the NIC.
    pub fn fetch_requests(&mut self, now: Time, amount: Bytes) -> Time {
        self.pcie.read(now, amount, Span::ZERO)
    }
    /// A core stores work requests of `amount` into the NIC, the last block of which would be there at `now` on an idle bus; returns
    /// when it is.
    pub fn take_requests(&mut self, now: Time, amount: Bytes) -> Time {
        self.pcie.store(now, amount)
    }

    /// Fetches what lies behind pointers; to be called some time after the pipeline itself was fetched. Speed only.
    #[inline(always)]
    pub fn prefetch(&self) {
        self.engine.prefetch();
        self.window.prefetch();
    }

    /// The path to a memory where that is more than the adapter's own link, and that link.
    #[inline(always)]
    fn way<'a>(&'a mut self, place: MemoryId, hops: &'a mut Hops) -> Option<(&'a mut Pcie, DmaHops<'a>)> {
        if place == MemoryId::HOST && self.host_memory == HostMemory::Direct {
            return None;
        }
        let way = self.targets.as_deref()?.way(place, hops)?;
        Some((&mut self.pcie, way))
    }

    /// From now on payload comes from `place`: the adapter reads as far ahead as that is away.
    #[cold]
    fn turn_to(&mut self, place: MemoryId) {
        self.place = place;
        if let Some(window) = self.targets.as_ref().and_then(|targets| targets.window(place)) {
            self.window.set_limit(window);
        }
    }
}

/// Whether a packet answers an atomic operation.
#[inline]
#[must_use]
pub fn is_atomic_response(opcode: u8) -> bool {
    opcode == Opcode::RC_ATOMIC_ACKNOWLEDGE.as_u8()
}

/// Whether a packet begins a WRITE, over any transport.
#[inline]
fn is_write(opcode: u8) -> bool {
    const WRITES: [Operation; 3] = [Operation::WriteFirst, Operation::WriteOnly, Operation::WriteOnlyImm];
    WRITES.iter().any(|write| *write as u8 == opcode & 31)
}

fn is_reliable_datagram(opcode: u8) -> bool {
    opcode >> 5 == Transport::Rud as u8 && opcode & 31 != Operation::Acknowledge as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::ContextLimits;
    use crate::costs::tests::{UPLINK, bus, costs};
    use crate::iommu::IommuLimits;
    use crate::translation::TranslationLimits;
    use fabriscope_verbs::PageUse;
    use fabriscope_verbs::{Packet, WqeIndex};

    /// The first packet of a message of queue pair `qp` with `payload` bytes to fetch.
    fn packet(qp: u32, payload: u16) -> Transmit {
        Transmit {
            packet: Packet { payload, wire_bytes: payload, ..Packet::default() },
            qp: QpNum(qp),
            fetch: Bytes(u64::from(payload)),
            place: MemoryId::HOST,
            responder: false,
            read_response: false,
            starts_message: true,
            ends_message: true,
            inline: false,
            retransmission: false,
            wqe: WqeIndex(0),
            wr_id: 0,
            message_bytes: u32::from(payload),
        }
    }

    fn idle(costs: NicCosts) -> Pipeline {
        Pipeline::new(costs, bus(), UPLINK, bus().read_latency)
    }

    fn ns(ns: u64) -> Time {
        Time::ZERO + Span::from_ns(ns)
    }

    #[test]
    fn a_packet_is_fetched_and_then_sent() {
        // 400 ns for the read, 1000 B at 100 ps, 100 ns to the wire.
        let built = idle(costs()).build(ns(5), &packet(0, 1000), &mut Hops::default());
        assert_eq!(built, Built { begun: ns(5), complete: ns(505), ready: ns(605) });
        // Inline data are there.
        let inline = Transmit { fetch: Bytes::ZERO, ..packet(0, 100) };
        assert_eq!(idle(costs()).build(ns(5), &inline, &mut Hops::default()), Built { begun: ns(5), complete: ns(5), ready: ns(105) });
    }

    /// Two messages of two queues: writes are spaced by their own interval, sends by that of the engine.
    #[test]
    fn writes_may_take_the_engine_longer() {
        let second = |operation: Operation| {
            let mut nic = idle(NicCosts { write_interval: Span::from_ns(800), ..costs() });
            let message = |qp| {
                let opcode = (Transport::Rud as u8) << 5 | operation as u8;
                Transmit { packet: Packet { opcode, ..Packet::default() }, fetch: Bytes::ZERO, ..packet(qp, 100) }
            };
            let _ = nic.build(ns(0), &message(0), &mut Hops::default());
            nic.build(ns(0), &message(1), &mut Hops::default()).begun
        };
        assert_eq!([Operation::SendOnly, Operation::SendFirst].map(second), [ns(10); 2]);
        assert_eq!([Operation::WriteOnly, Operation::WriteFirst, Operation::WriteOnlyImm].map(second), [ns(800); 3]);
    }

    #[test]
    fn the_atomic_unit_reads_changes_and_answers() {
        let opcode = Opcode::RC_ATOMIC_ACKNOWLEDGE.as_u8();
        let answer = Transmit { packet: Packet { opcode, ..Packet::default() }, responder: true, fetch: Bytes::ZERO, ..packet(0, 0) };
        // 400 ns for the read, 8 B at 100 ps, 60 ns in the unit.
        let built = idle(costs()).build(ns(0), &answer, &mut Hops::default());
        assert_eq!(built.complete, ns(460) + Span::from_ps(800));
    }

    #[test]
    fn atomics_of_all_queue_pairs_take_their_turns() {
        let opcode = Opcode::RC_ATOMIC_ACKNOWLEDGE.as_u8();
        let answer = |qp| Transmit { packet: Packet { opcode, ..Packet::default() }, responder: true, fetch: Bytes::ZERO, ..packet(qp, 0) };
        let second = |interval| {
            let mut nic = idle(NicCosts { atomic_interval: Span::from_ns(interval), ..costs() });
            nic.build(ns(0), &answer(0), &mut Hops::default());
            nic.build(ns(0), &answer(1), &mut Hops::default()).begun
        };
        // The answers have no payload to wait for: only the unit keeps the second one back.
        assert_eq!(second(0), ns(0));
        assert_eq!(second(300), ns(300));
    }

    #[test]
    fn a_missing_context_delays_the_packet_by_its_read() {
        let limits = ContextLimits { cached: 1, size: Bytes(250), reads: 4 };
        let mut nic = idle(NicCosts { contexts: Some(limits), ..costs() });
        nic.watch_contexts(|| (1, 0));
        let inline = |qp| Transmit { fetch: Bytes::ZERO, ..packet(qp, 100) };
        assert_eq!(nic.build(ns(0), &inline(0), &mut Hops::default()).complete, ns(0), "one queue pair fits");
        nic.watch_contexts(|| (2, 0));
        // 400 ns and 250 B at 100 ps.
        assert_eq!(nic.build(ns(1000), &inline(0), &mut Hops::default()).complete, ns(1425));
        assert_eq!(nic.build(ns(2000), &inline(0), &mut Hops::default()).complete, ns(2000));
        assert!(nic.build(ns(3000), &inline(1), &mut Hops::default()).complete > ns(3400));
        assert_eq!(nic.context_misses(), 2);
    }

    #[test]
    fn packets_wait_for_their_translations_in_turn() {
        let limits = TranslationLimits { cached: 4, entries: 8, size: Bytes(64), reads: 4, fault: Span::ZERO };
        let mut nic = idle(NicCosts { translations: Some(limits), ..costs() });
        let page = |entry| MemoryUse { entries: vec![PageUse { entry, on_demand: false }], ..MemoryUse::default() };
        // 400 ns and 64 B at 100 ps for the line, 500 ns for the payload behind it; the second, whose line is there, comes after the first.
        nic.translate_next(ns(0), &page(0));
        let first = nic.build(ns(0), &packet(0, 1000), &mut Hops::default()).begun;
        nic.translate_next(ns(10), &page(1));
        let second = nic.build(ns(10), &packet(1, 1000), &mut Hops::default()).begun;
        assert_eq!((first, second >= first), (ns(406) + Span::from_ps(400), true));
        assert_eq!((nic.translations().uses, nic.translations().misses), (2, 1));
    }

    /// The adapter's own translation comes first: 406.4 ns for its line, then 330 for the walk.
    #[test]
    fn the_host_translates_what_the_adapter_has_translated() {
        let limits = TranslationLimits { cached: 4, entries: 8, size: Bytes(64), reads: 4, fault: Span::ZERO };
        let mut nic = idle(NicCosts { translations: Some(limits), ..costs() });
        nic.set_iommu(IoTlb::new(IommuLimits { entries: 64, walk: Span::from_ns(330), walks: 6 }, Bytes(4096)));
        let memory = |address| MemoryUse { entries: vec![PageUse { entry: 0, on_demand: false }], addresses: vec![address] };
        assert_eq!(nic.translate_in_order(ns(0), &memory(0)), ns(736) + Span::from_ps(400));
        assert_eq!(nic.translate_in_order(ns(1000), &memory(4095)), ns(1000));
        assert_eq!(nic.translate_in_order(ns(1000), &memory(4096)), ns(1330));
        assert_eq!((nic.io_translations().uses, nic.io_translations().misses), (3, 2));
    }

    #[test]
    fn a_receive_completes_after_its_payload_and_its_entry() {
        let mut nic = idle(costs());
        // 1000 B at 100 ps leave by 100 ns and are visible 100 ns later; 64 B of the entry follow.
        let written = nic.store(ns(0), Bytes(1000), MemoryId::HOST, &mut Hops::default());
        assert_eq!((written.sent, written.visible), (ns(100), ns(200)));
        assert_eq!(nic.complete(written.sent, ReceiveEntry::None, written.visible), ns(206) + Span::from_ps(400));
        assert_eq!(idle(costs()).complete(ns(0), ReceiveEntry::Consumed, ns(0)), ns(136) + Span::from_ps(400));
    }

    #[test]
    fn payload_takes_room_and_control_packets_take_none() {
        let mut nic = idle(NicCosts { tx_buffer: Bytes::ZERO, ..costs() });
        // Two packets of the largest size.
        for _ in 0..2 {
            assert!(nic.window.has_room(ns(0)));
            let _ = nic.build(ns(0), &packet(0, 4096), &mut Hops::default());
        }
        assert!(!nic.window.has_room(ns(0)));
        let mut other = idle(costs());
        let _ = other.build(ns(0), &packet(0, 0), &mut Hops::default());
        assert!(!other.window.is_full() && other.window.poll_departure().is_none());
    }
}
