//! Long messages: both sides meet, the receiver grants windows whose pages have TIDs, the adapter places the packets.
//!
//! Source: PSM2, `ptl_ips/ips_proto_mq.c` (`ips_proto_mq_rts_match_callback`), `ips_proto_expected.c`, `ips_tidcache.c`.
//! Modelled: as many windows outstanding as the context has TID flows; registering pages the first time a peer's messages need
//! them; a window that goes on where the adapter saw a gap.
//! Not modelled: TIDs that leave their cache; more than one receive buffer per peer, so the pages of the longest message count once.

use fabriscope_units::Time;

use crate::adapter::Adapter;
use crate::cpu::Cpu;
use crate::flow::{Item, Sender};
use crate::matching::{Announced, PendingWindow};
use crate::request::Buffer;
use crate::state::{Copy, Endpoint, Grant, Session, Step, Unacknowledged};
use fabriscope_wire::psm2::RequestId;
use fabriscope_wire::psm2::{Flow, Kind, Window};

/// Receiving.
impl Endpoint {
    /// A receive has met its long message.
    pub(crate) fn meet(&mut self, adapter: &mut Adapter, cpu: &mut dyn Cpu, (message, sender): (Announced, RequestId), request: RequestId) {
        self.requests.at(request).left = message.length;
        let mut offset = 0;
        while offset < message.length {
            let length = (message.length - offset).min(self.library.parameters.window.max(1));
            let window = Window { id: 0, flow: 0, offset, length };
            self.wanted.push_back(PendingWindow { peer: message.peer, request, sender, window });
            offset += length;
        }
        self.grant(adapter, cpu);
    }
    /// Grants windows while there are TID flows.
    fn grant(&mut self, adapter: &mut Adapter, cpu: &mut dyn Cpu) {
        while let Some(&PendingWindow { peer, request, sender, window }) = self.wanted.front() {
            let place = self.requests.at(request).buffer.place();
            let Some((flow, generation)) = adapter.receiving(self.me.context).open_flow(place) else { return };
            self.wanted.pop_front();
            let window = Window { id: self.windows, flow, ..window };
            self.windows += 1;
            let tid = self.library.parameters.tid.max(1);
            let registered = self.registered.entry(peer).or_default();
            let end = window.offset + window.length;
            let fresh = end.div_ceil(tid).saturating_sub((*registered).div_ceil(tid));
            *registered = (*registered).max(end);
            let costs = self.library.parameters;
            if fresh > 0 {
                cpu.spend(costs.system_call + costs.page * u64::from(fresh));
            }
            cpu.spend(costs.grant);
            self.sessions.insert(flow, Session { peer, request, sender, window });
            let kind = Kind::ClearToSend { sender, window, generation };
            let payload = window.length.div_ceil(tid) * TID_BYTES;
            self.push(peer, Flow::Pio, Item { kind, payload, asks: false, finishes: None, place: 0 });
            self.flush(adapter, cpu, Unacknowledged::Flow(peer, Flow::Pio));
        }
    }
    /// The last packet of a window is placed.
    pub(crate) fn placed(&mut self, adapter: &mut Adapter, cpu: &mut dyn Cpu, window: Window) {
        if self.sessions.get(&window.flow).is_none_or(|session| session.window.id != window.id) {
            return;
        }
        let Some(Session { peer, request, sender, window }) = self.sessions.remove(&window.flow) else { return };
        adapter.receiving(self.me.context).close_flow(window.flow);
        if self.requests.at(request).buffer == Buffer::Staged {
            self.copies.push_back(Copy { request, length: window.length, step: Step::In });
        } else {
            self.requests.moved(request, window.length);
        }
        let kind = Kind::Complete { sender, window };
        self.push(peer, Flow::Pio, Item { kind, payload: 0, asks: false, finishes: None, place: 0 });
        self.flush(adapter, cpu, Unacknowledged::Flow(peer, Flow::Pio));
        self.grant(adapter, cpu);
    }
    /// A window lacks packets, or its sender wants to know whether it does.
    pub(crate) fn complain(&mut self, adapter: &mut Adapter, cpu: &mut dyn Cpu, window: Window) {
        let Some(peer) = self.sessions.get(&window.flow).filter(|session| session.window.id == window.id).map(|session| session.peer)
        else {
            return; // It is complete, and the sender will hear of that.
        };
        let (generation, next) = adapter.receiving(self.me.context).restart_flow(window.flow);
        self.say(adapter, cpu, peer, (Kind::MissingExpected { window, generation }, Flow::Dma, next));
    }
}

/// Sending.
impl Endpoint {
    pub(crate) fn granted(&mut self, adapter: &mut Adapter, cpu: &mut dyn Cpu, peer: usize, grant: (RequestId, Window, u32)) {
        let (request, window, generation) = grant;
        let place = self.requests.at(request).buffer.place();
        let mut sender = Sender::default();
        // Expected packets begin on pages.
        let mtu = adapter.settings().parameters.mtu;
        let most = (mtu - mtu % PAGE).max(mtu.min(PAGE)).max(1);
        let mut at = 0;
        while at < window.length {
            let payload = (window.length - at).min(most);
            at += payload;
            let last = at == window.length;
            sender.push(Item { kind: Kind::Expected { window, generation, last }, payload, asks: last, finishes: None, place }, u32::MAX);
        }
        self.grants.insert((peer, window.id), Grant { window, generation, request, sender });
        if let Some(index) = self.must_wait(request, window.offset) {
            self.parked.insert((request, index), (peer, window.id));
            return;
        }
        self.flush(adapter, cpu, Unacknowledged::Grant(peer, window.id));
    }
    pub(crate) fn completed(&mut self, peer: usize, window: Window) {
        if let Some(grant) = self.grants.remove(&(peer, window.id)) {
            self.requests.moved(grant.request, window.length);
        }
        let way = Unacknowledged::Grant(peer, window.id);
        self.blocked.remove(&way);
        self.watch(way);
    }
    pub(crate) fn resume(&mut self, adapter: &mut Adapter, cpu: &mut dyn Cpu, peer: usize, again: (Window, u32, u32)) {
        let (window, generation, next) = again;
        let (now, timeout): (Time, _) = (cpu.now(), self.library.parameters.timeout);
        let Some(grant) = self.grants.get_mut(&(peer, window.id)) else { return };
        if generation <= grant.generation {
            return;
        }
        grant.generation = generation;
        let _ = grant.sender.acknowledged(next, now, timeout);
        grant.sender.missing(next);
        self.flush(adapter, cpu, Unacknowledged::Grant(peer, window.id));
    }
}

/// A TID in a grant. Basis: published (PSM2, `ips_expected_proto.h`: list of 32-bit entries).
const TID_BYTES: u32 = 4;
/// Basis: standard (x86-64).
const PAGE: u32 = 4096;
