//! Packets of virtual machines on their way through the virtual switch of an interface, and whose core time that is.
//!
//! Modelled: what goes down waits in the lanes of [`super::switching`]; what came passes one packet after the other, or is brought up by a
//! core of the host from a queue of its own, merged, and handed over the ring of its machine.
//! Not modelled: as there.

use fabriscope_units::{Bytes, Span, Time};
use fabriscope_vswitch::{Usage, Work};

use super::frame::Frame;
use super::interface::Interface;
use super::moderation::Moderation;
use super::queue::{Landed, Queue};
use super::switching::Switching;

/// For the adapter and for whoever asks what switching takes.
impl Interface {
    /// What the virtual switch of the node has taken so far, where there is one.
    #[must_use]
    pub fn switching(&self) -> Option<Usage> {
        Some(self.switching.as_ref()?.switch.usage())
    }
    /// The switch does something for the machine of a queue, to which what that takes of the host's cores is charged.
    fn switch_for<R>(&mut self, queue: usize, act: impl FnOnce(&mut Switching) -> R) -> Option<R> {
        let switching = self.switching.as_mut()?;
        let before = switching.switch.usage().host;
        let result = act(switching);
        self.queues[queue].handled += switching.switch.usage().host - before;
        Some(result)
    }
    /// A frame goes down to the adapter, through the switch if there is one.
    pub(super) fn post(&mut self, frame: Frame, queue: usize) {
        if self.switching.is_none() {
            return self.outgoing.push_back(frame);
        }
        self.switch_for(queue, |switching| switching.post(frame, queue));
    }
    /// Frames that have not left.
    pub(super) fn waiting(&self) -> usize {
        self.outgoing.len() + self.switching.as_ref().map_or(0, |switching| switching.waiting())
    }
    /// What landed for the program of a queue passes the switch: the queue it goes to, and when; `None` if it was dropped.
    pub(super) fn switch_up(&mut self, at: Time, landed: &Landed, queue: usize) -> Option<(usize, Time)> {
        let Some(switching) = &self.switching else { return Some((queue, at)) };
        let Some((flow, bytes)) = landed.flow() else { return Some((queue, at)) };
        if switching.is_host() {
            return Some((self.bringer(queue), at));
        }
        let work = Work::packet(Bytes(self.settings.outer(bytes).into()));
        let (at, _) = self.switch_for(queue, |switching| switching.switch.receive(at, flow, queue, work))??;
        Some((queue, at))
    }
    /// The host's core has brought up what is for a machine: it goes over the machine's ring.
    pub(super) fn hand_over(&mut self, now: Time, landed: &Landed, queue: usize) {
        let Some((flow, bytes)) = landed.flow() else { return };
        let over_ring = |switching: &mut Switching| {
            let verdict = switching.switch.decide(now, flow, queue);
            // Its packets were decrypted one by one; only the ring is left.
            switching.switch.pass_ring(verdict, Work { packets: 0, bytes: Bytes(bytes.into()) })
        };
        if let Some((at, _)) = self.switch_for(queue, over_ring) {
            self.queues[queue].add(at, *landed, self.settings.kernel.interrupt);
        }
    }
    /// The host's queue from which what is for the program of a queue is brought up.
    fn bringer(&mut self, queue: usize) -> usize {
        if let Some(known) = self.queues.iter().position(|known| known.machine == Some(queue)) {
            return known;
        }
        let bringer = Queue::of(HOST, Moderation::new(self.settings.kernel));
        self.queues.push(Queue { machine: Some(queue), ..bringer });
        self.queues.len() - 1
    }
    /// A core was busy with a queue; where that is the host's for a machine, both are charged.
    pub(super) fn charge(&mut self, queue: usize, took: Span) {
        self.queues[queue].handled += took;
        if let Some(machine) = self.queues[queue].machine {
            self.queues[machine].handled += took;
            if let Some(switching) = &mut self.switching {
                switching.switch.charge(took);
            }
        }
    }
}

/// Owner of the queues from which the host's cores bring packets up.
const HOST: u32 = u32::MAX - 1;
