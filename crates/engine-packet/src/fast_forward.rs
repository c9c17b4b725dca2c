//! Steady states left out of a run: where every window is like the one before, the run goes on where the first message ends or the
//! first computation does.
//!
//! Source: the aim is that of Wormhole (F. Long et al., "Supercharging Packet-level Network Simulation of Large Model Training via
//! Memoization and Fast-Forwarding", NSDI 2026), which moves partitions of the network on; here the whole run is moved on, and nothing
//! in it changes. A message that sends at a pace of p packets per second is made p·D packets shorter at its end, both at its
//! sender and at its receiver (`verbs/src/nic/shortening.rs`), and D is added to an offset (`agenda.rs`). Packets on their way, credits,
//! queues, windows, numbers, timers and congestion control are what they were, so that the run is as steady after as it was before.
//!
//! ```text
//!   D = min over messages of (unsent - guard) / p,   D ≤ next end of a computation - now
//!   guard = what is sent in a window: ends are simulated packet by packet
//! ```
//! Counts (packets, hops, marks, pauses) grow by D over the windows compared times what they grew there; bytes by what was taken out.
//!
//! Modelled: SENDs and WRITEs of schedules over RC, SRD, UET and ROD; what `steady.rs` calls steady.
//! Not modelled: anything that looks at single packets or at times of the network (faults, losses on purpose, taps, counters, series,
//! link loads), libraries, other transports: such runs skip nothing and say so. Messages that share no link wait for each other: one that is
//! not steady keeps all others from being skipped.

use std::collections::BTreeMap;

use fabriscope_engine::{Counting, EngineError, Loss, Run, Service, Skipped, Stats, Unsteady};
use fabriscope_units::{Bytes, Span, Time};
use fabriscope_verbs::{AhId, Lid, Outstanding, QpNum};

use crate::agenda::Agenda;
use crate::links::Scheduling;
use crate::scenario::Scenario;
use crate::services::Address;
use crate::steady::{FlowPoint, Pace, Point, Steadiness, Verdict};
use crate::transfer::Transferring;
use crate::world::{EVENTS_OF_A_LOOK, World};

/// What a schedule keeps in mind for those who skip.
#[derive(Debug, Default)]
pub(crate) struct Tracked {
    pub agenda: Agenda,
    /// Messages that were posted and have not ended, by operation.
    messages: BTreeMap<u32, Sender>,
    /// READs among what was posted.
    reads: usize,
    /// Grows whenever a message begins or ends.
    changes: u64,
    /// Operations that are due, for use while they are handled.
    pub due: Vec<(u32, u32)>,
}

/// Where a message is sent from.
#[derive(Debug, Clone, Copy)]
struct Sender {
    host: u32,
    qp: QpNum,
    /// The address of the peer, where requests name it.
    ah: Option<AhId>,
}

impl Tracked {
    /// Operation `op` was posted to `qp` of `host`.
    pub fn posted(&mut self, op: u32, host: u32, (qp, address): (QpNum, Address), is_read: bool) {
        let ah = if let Address::Datagram(destination) = address { Some(destination.ah) } else { None };
        self.changes += 1;
        if is_read {
            self.reads += 1;
        } else {
            self.messages.insert(op, Sender { host, qp, ah });
        }
    }
    /// It ended.
    pub fn ended(&mut self, op: u32, is_read: bool) {
        self.changes += 1;
        if is_read {
            self.reads -= 1;
        } else {
            self.messages.remove(&op);
        }
    }
}

/// Whether a run can skip anything, and why not.
pub(crate) fn refusal(scenario: &Scenario, world: &World<'_>) -> Option<String> {
    let transfers = &scenario.transfers;
    let service = transfers.service;
    let iwarp = world.cluster.parts.groups.iter().any(|group| group.node.nic.iwarp.is_some());
    let reasons = [
        (scenario.faults.is_some() || scenario.loss != Loss::None, "faults and losses happen at times of their own"),
        (!scenario.taps.is_empty(), "a capture holds every packet"),
        (scenario.counting != Counting::Off, "counters hold every packet"),
        (scenario.series.is_some(), "series hold queues at every step"),
        (scenario.link_loads, "the loads of links hold every packet"),
        (transfers.library.is_some() || !scenario.libraries.is_empty(), "a library on the cores carries the messages"),
        (iwarp, "messages go over TCP"),
    ];
    let known = matches!(service, Service::Rc | Service::Srd | Service::Uet | Service::UetRod);
    let reason = reasons.into_iter().find(|(holds, _)| *holds).map(|(_, reason)| reason.to_owned());
    reason.or_else(|| (!known).then(|| format!("messages go over {}", service.name())))
}

/// A run that skips steady states.
pub(crate) struct FastForward {
    steadiness: Steadiness,
    /// When to look next, by the clock of the queue; nothing to look for before a message begins or ends.
    next: Option<Time>,
    /// How long to wait after that.
    settle: Span,
    seen: u64,
    skipped: Skipped,
}

impl FastForward {
    fn new(world: &World<'_>) -> FastForward {
        let mtu = world.cluster.parts.mtu;
        let line = world.hosts.iter().next().and_then(|host| host.rnic()).map(fabriscope_verbs::Nic::line).unwrap_or_default();
        let least = (line.base_rtt * 2).max(line.rate.time(Bytes(mtu.0 * LEAST_PACKETS)));
        FastForward { steadiness: Steadiness::new(least, mtu.0), next: None, settle: line.base_rtt, seen: 0, skipped: Skipped::default() }
    }

    /// Runs a schedule.
    fn run(&mut self, world: &mut World<'_>, transfers: &mut Transferring) -> Result<(), EngineError> {
        let mut events = 0usize;
        loop {
            let end = self.next.unwrap_or(Time::MAX);
            let mut changed = None;
            while let Some((time, event)) = world.queue.pop_before(end) {
                if events.is_multiple_of(EVENTS_OF_A_LOOK) {
                    world.is_wanted()?;
                }
                events += 1;
                world.step(transfers, time, event)?;
                if transfers.finished_or_failed() {
                    return Ok(());
                }
                if transfers.tracked().changes != self.seen {
                    changed = Some(time);
                    break;
                }
            }
            match changed {
                Some(time) => {
                    self.seen = transfers.tracked().changes;
                    self.steadiness.begin();
                    self.next = Some(time + self.settle);
                }
                None if world.queue.is_empty() => return Ok(()),
                None => self.look(world, transfers, end),
            }
        }
    }

    /// Looks at the run at `now`, before which nothing is left to happen.
    fn look(&mut self, world: &mut World<'_>, transfers: &mut Transferring, now: Time) {
        let (point, messages) = point(world, transfers.tracked());
        if point.flows.is_empty() {
            // Only a message that begins changes that.
            self.next = None;
            return;
        }
        let verdict = self.steadiness.look(point);
        match verdict {
            Verdict::Wait => {}
            Verdict::Unsteady(reason) => {
                self.skipped.windows += 1;
                self.skipped.note(reason);
            }
            Verdict::Steady(paces) => {
                self.skipped.windows += 1;
                self.skip(world, transfers, now, (&messages, &paces));
                // It stays as it is until a message begins or ends.
                self.next = None;
                return;
            }
        }
        self.next = Some(now + self.steadiness.window());
    }

    /// Takes out of all messages what they would send until the first of them ends, or a computation does.
    fn skip(&mut self, world: &mut World<'_>, transfers: &mut Transferring, now: Time, (messages, paces): (&[Message], &[Pace])) {
        let Some((first, last)) = self.steadiness.ends() else { return };
        let window = self.steadiness.window();
        let offset = transfers.tracked().agenda.offset();
        let mut span = transfers.tracked().agenda.earliest().map_or(Span::MAX, |at| at.since(now + offset));
        for (message, pace) in messages.iter().zip(paces) {
            let guard = pace.packets_in(window).max(LEAST_LEFT);
            span = span.min(pace.time_of(u64::from(message.state.unsent).saturating_sub(guard)));
        }
        if span < window || span == Span::MAX {
            return;
        }
        let (before, after) = (first.stats, last.stats);
        let in_windows: u64 = first.flows.iter().zip(&last.flows).map(|(first, last)| u64::from(last.sent - first.sent)).sum();
        let mut taken = 0u64;
        for (message, pace) in messages.iter().zip(paces) {
            let packets = pace.packets_in(span).min(u64::from(message.state.unsent.saturating_sub(1))) as u32;
            let Message { sender, state } = message;
            let World { hosts, ext_headers, .. } = world;
            if packets == 0 || !hosts[sender.host].nic().shorten(sender.qp, sender.ah, packets, ext_headers) {
                continue;
            }
            hosts[state.dest.0].nic().expect_less(Lid(sender.host), state, packets);
            taken += u64::from(packets);
        }
        let payload = taken * world.cluster.parts.mtu.0;
        grow(&mut world.watch.stats, (&before, &after), (taken, in_windows), payload);
        if let Some(at) = transfers.tracked_mut().agenda.skip(now, span) {
            world.queue.push(at, crate::event::Event::due());
        }
        self.skipped.jumps += 1;
        self.skipped.span += span;
        self.skipped.packets += taken;
    }
}

/// A message that is being sent, with its state.
struct Message {
    sender: Sender,
    state: Outstanding,
}

/// What the run looks like now.
fn point(world: &World<'_>, tracked: &Tracked) -> (Point, Vec<Message>) {
    let mut flows = Vec::with_capacity(tracked.messages.len());
    let mut messages = Vec::with_capacity(tracked.messages.len());
    let mut trouble = (tracked.reads > 0).then_some(Unsteady::Messages);
    for (&op, &sender) in &tracked.messages {
        let Some(nic) = world.hosts[sender.host].rnic() else { continue };
        // What waits behind another message of its queue pair does not count.
        let Some(state) = nic.outstanding(sender.qp, sender.ah).filter(|state| state.wr_id == u64::from(op)) else { continue };
        if state.recovering {
            trouble = trouble.or(Some(Unsteady::Control));
        }
        if !state.in_order {
            trouble = trouble.or(Some(Unsteady::Losses));
        }
        let known = world.hosts[state.dest.0].rnic().is_some_and(|nic| nic.receives(Lid(sender.host), &state));
        if !known {
            trouble = trouble.or(Some(Unsteady::Messages));
        }
        let allowed = state.allowance.map(|allowance| (allowance.window.0, allowance.rate.as_bps()));
        let Outstanding { first, sent, unsent, .. } = state;
        flows.push(FlowPoint { op, first: first.as_u32(), sent, unsent, at: taken_up_to(world, sender.host), allowed });
        messages.push(Message { sender, state });
    }
    (Point { flows, stats: world.watch.stats, trouble }, messages)
}

/// Up to when the link out of `host` is taken.
fn taken_up_to(world: &World<'_>, host: u32) -> Time {
    let links = &world.links;
    let (_, place) = links.slots.of(world.hosts[host].uplink);
    match links.scheduling {
        Scheduling::Reserved => links.lanes[place].free_at(),
        Scheduling::Arbitrated => links.wires[links.wire_of(place)].free,
    }
}

/// Lets counts grow as they grew from `before` to `after`, in which `in_windows` packets were sent, for `taken` more.
fn grow(stats: &mut Stats, (before, after): (&Stats, &Stats), (taken, in_windows): (u64, u64), payload: u64) {
    let more = |before: u64, after: u64| {
        let grown = u128::from(after.saturating_sub(before)) * u128::from(taken) / u128::from(in_windows.max(1));
        u64::try_from(grown).unwrap_or(u64::MAX)
    };
    stats.packets += more(before.packets, after.packets);
    stats.packet_hops += more(before.packet_hops, after.packet_hops);
    stats.ecn_marks += more(before.ecn_marks, after.ecn_marks);
    stats.pauses += more(before.pauses, after.pauses);
    stats.context_misses += more(before.context_misses, after.context_misses);
    stats.bytes_sent += payload;
    stats.bytes_delivered += payload;
}

/// Runs a schedule that may skip, from its first event to its last.
pub(crate) fn run_schedule(mut world: World<'_>, mut transfers: Transferring, refused: Option<String>) -> Result<Run, EngineError> {
    if let Some(why) = refused {
        let run = crate::run::run_schedule(world, transfers)?;
        return Ok(Run { skipped: Some(Skipped::refused(why)), ..run });
    }
    transfers.track();
    let mut forward = FastForward::new(&world);
    transfers.begin(&mut world)?;
    forward.run(&mut world, &mut transfers)?;
    let at = world.queue.now() + transfers.tracked().agenda.offset();
    let run = Transferring::join(vec![transfers], at, world.into_run())?;
    Ok(Run { skipped: Some(forward.skipped), ..run })
}

/// Packets at the rate of the link that a window has at least, and that are left of a message. Basis: assumed.
const LEAST_PACKETS: u64 = 64;
const LEAST_LEFT: u64 = 32;
