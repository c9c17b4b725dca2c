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

/// For the adapter and for whoever asks what switching takes.
impl Interface {
    /// What the virtual switch of the node has taken so far, where there is one.
    #[must_use]
    pub fn switching(&self) -> Option<Usage> {
        Some(self.switching.as_ref()?.switch.usage())
    }
    /// A frame goes down to the adapter, through the switch if there is one.
    pub(super) fn post(&mut self, frame: Frame, queue: usize) {
        match &mut self.switching {
            Some(switching) => {
                let before = switching.switch.usage().host;
                switching.post(frame, queue);
                let took = switching.switch.usage().host - before;
                self.queues[queue].handled += took;
            }
            None => self.outgoing.push_back(frame),
        }
    }
    /// Frames that have not left.
    pub(super) fn waiting(&self) -> usize {
        self.outgoing.len() + self.switching.as_ref().map_or(0, |switching| switching.waiting())
    }
    /// What landed for the program of a queue passes the switch: the queue it goes to, and when; `None` if it was dropped.
    pub(super) fn switch_up(&mut self, at: Time, landed: &Landed, queue: usize) -> Option<(usize, Time)> {
        let Some(switching) = &mut self.switching else { return Some((queue, at)) };
        let Some((flow, bytes)) = landed.flow() else { return Some((queue, at)) };
        if switching.is_host() {
            return Some((self.bringer(queue), at));
        }
        let work = Work::packet(Bytes(self.settings.outer(bytes).into()));
        let before = switching.switch.usage().host;
        let passed = switching.switch.receive(at, flow, queue, work);
        self.queues[queue].handled += switching.switch.usage().host - before;
        passed.map(|(at, _)| (queue, at))
    }
    /// The host's core has brought up what is for a machine: it goes over the machine's ring.
    pub(super) fn hand_over(&mut self, now: Time, landed: &Landed, queue: usize) {
        let Some(switching) = &mut self.switching else { return };
        let Some((flow, bytes)) = landed.flow() else { return };
        let before = switching.switch.usage().host;
        let verdict = switching.switch.decide(now, flow, queue);
        // Its packets were decrypted one by one; only the ring is left.
        let (at, _) = switching.switch.pass_ring(verdict, Work { packets: 0, bytes: Bytes(bytes.into()) });
        self.queues[queue].handled += switching.switch.usage().host - before;
        self.queues[queue].add(at, *landed, self.settings.kernel.interrupt);
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
