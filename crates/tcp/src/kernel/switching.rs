//! The virtual switch between the sockets of virtual machines and the adapter.
//!
//! With the host's kernel as the switch, what a machine sends waits for the core that serves its ring, a segment at a time, and what comes
//! is brought up and merged by a core of the host before it goes over that ring. With cores of the adapter or its pipeline, packets pass one
//! by one between the adapter and the wire; the machine has the adapter for itself.
//!
//! Source: as `fabriscope_vswitch`; Linux `vhost_net` (one worker for each machine, which copies).
//! Modelled: lanes in which packets keep their order; whose core it takes. Not modelled: zero-copy of the ring, exits of the machine.

use std::collections::VecDeque;

use fabriscope_units::{Bytes, Span, Time};
use fabriscope_vswitch::{Flow, Lane, Switcher, Verdict, VirtualSwitch, Work};

use super::frame::{Carried, Content, Frame};
use super::queue::Landed;
use super::settings::Settings;

/// The switch with what waits for it on the way down.
#[derive(Debug)]
pub(super) struct Switching {
    pub switch: VirtualSwitch,
    /// By lane: the adapter's stages, then cores.
    lanes: Vec<VecDeque<Waiting>>,
}

/// A frame, and the machine whose core time it is.
#[derive(Debug)]
struct Waiting {
    frame: Frame,
    machine: usize,
    /// When its next packet, or all of it, has passed, once that has begun.
    leaves: Option<Time>,
}

impl Switching {
    pub fn new(settings: &Settings) -> Option<Box<Switching>> {
        let switch = VirtualSwitch::new(settings.switching.clone()?);
        Some(Box::new(Switching { switch, lanes: Vec::new() }))
    }
    /// Frames that wait.
    pub fn waiting(&self) -> usize {
        self.lanes.iter().map(VecDeque::len).sum()
    }
    /// A frame comes down.
    pub fn post(&mut self, mut frame: Frame, machine: usize) {
        let verdict = self.switch.decide(frame.ready, frame.flow(), machine);
        frame.ready = verdict.from;
        let lane = index(verdict.lane);
        if lane >= self.lanes.len() {
            self.lanes.resize_with(lane + 1, VecDeque::new);
        }
        self.lanes[lane].push_back(Waiting { frame, machine, leaves: None });
    }
    /// When a lane can begin with what is first in it, or when that leaves.
    pub fn next(&self) -> Option<Time> {
        let heads = self.lanes.iter().filter_map(VecDeque::front);
        heads.map(|head| head.leaves.unwrap_or(head.frame.ready)).min()
    }
    /// Lanes begin with what is first in them by `now`: it takes its turn among what comes up. `charge` is told for which
    /// machine a core of the host was busy with it.
    pub fn start(&mut self, settings: &Settings, now: Time, mut charge: impl FnMut(usize, Span)) {
        let whole = self.is_host();
        for (lane, frames) in self.lanes.iter_mut().enumerate() {
            let Some(head) = frames.front_mut().filter(|head| head.leaves.is_none() && head.frame.ready <= now) else { continue };
            let work = match whole {
                true => head.frame.whole(settings.mtu),
                false => Work::packet(Bytes(settings.outer(head.frame.cut(settings.mtu).bytes).into())),
            };
            let (leaves, took) = self.switch.pass(Verdict { lane: of(lane), from: head.frame.ready }, work);
            head.leaves = Some(leaves);
            if self.switch.settings().software.of_host {
                charge(head.machine, took);
            }
        }
    }
    /// The lane whose next packet has passed by `now`; of several the one whose packet passed first.
    pub fn passed(&self, now: Time) -> Option<usize> {
        let heads = self.lanes.iter().enumerate().filter_map(|(lane, frames)| Some((frames.front()?.leaves?, lane)));
        heads.min().filter(|(leaves, _)| *leaves <= now).map(|(_, lane)| lane)
    }
    /// The first frame of a lane.
    pub fn head(&mut self, lane: usize) -> Option<&mut Frame> {
        Some(&mut self.lanes.get_mut(lane)?.front_mut()?.frame)
    }
    /// A packet of the first frame of a lane has left, `last` of it.
    pub fn left(&mut self, lane: usize, last: bool) {
        let whole = self.is_host();
        let Some(frames) = self.lanes.get_mut(lane) else { return };
        if last {
            frames.pop_front();
        } else if let Some(head) = frames.front_mut().filter(|_| !whole) {
            // The next one passes on its own; a segment passes as a whole.
            head.leaves = None;
        }
    }
    /// The host's cores bring packets up.
    pub fn is_host(&self) -> bool {
        self.switch.settings().switcher == Switcher::Host
    }
    /// What a core of the host pays that brings `packets` with so many bytes up: for all together, and for each.
    pub fn bringing_up(&self, bytes: u64) -> (Span, Span) {
        let costs = &self.switch.settings().software.costs;
        let (each, ciphered) = costs.cipher.map_or((Span::ZERO, Span::ZERO), |(packet, rate)| (packet, rate.time(Bytes(bytes))));
        (costs.packet + ciphered, each)
    }
}

impl Frame {
    fn flow(&self) -> Flow {
        let (ports, protocol) = match &self.content {
            Content::Segment { segment, .. } => ((segment.header.source, segment.header.destination), TCP),
            Content::Datagram { whole, .. } => ((whole.source, whole.destination), UDP),
        };
        Flow { peer: self.remote, ports, protocol, outbound: true }
    }
    /// All that it holds.
    fn whole(&self, mtu: u32) -> Work {
        let (bytes, packets) = match &self.content {
            Content::Segment { segment, mss, .. } => (segment.payload, segment.payload.div_ceil((*mss).max(1))),
            Content::Datagram { whole, .. } => (whole.payload, whole.payload.div_ceil(mtu.max(1))),
        };
        Work { packets: u64::from(packets.max(1)), bytes: Bytes(bytes.into()) }
    }
}

impl Landed {
    /// The flow it is of, and its bytes of IP; none where the adapter tells of a stream.
    pub fn flow(&self) -> Option<(Flow, u32)> {
        let (peer, carried, bytes) = match self {
            Landed::Segment(packet) => {
                (packet.from, Carried::Tcp(packet.segment), packet.segment.payload + packet.segment.header.header_bytes())
            }
            Landed::Datagram { from, packet } => (*from, Carried::Udp(*packet), packet.bytes()),
            Landed::Placed { .. } => return None,
        };
        let protocol = if matches!(carried, Carried::Tcp(_)) { TCP } else { UDP };
        Some((Flow { peer, ports: carried.ports(), protocol, outbound: false }, bytes + super::settings::IP))
    }
}

const fn index(lane: Lane) -> usize {
    match lane {
        Lane::Stages => 0,
        Lane::Core(core) => core + 1,
    }
}
const fn of(lane: usize) -> Lane {
    match lane.checked_sub(1) {
        Some(core) => Lane::Core(core),
        None => Lane::Stages,
    }
}

/// Numbers of protocols. Basis: standard, IANA.
const TCP: u8 = 6;
const UDP: u8 = 17;
