//! From a plan of faults to spans of time, and to the tables that the manager of the fabric will make of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use fabriscope_engine::{Chance, Effect, FaultPlan, Feature};
use fabriscope_engine::{Cluster, EngineError, FaultReport};
use fabriscope_fabric::routing::{Sharing, Survivors};
use fabriscope_fabric::{Graph, LinkId, Routing};
use fabriscope_streams::Stream;
use fabriscope_units::{Pace, Remedy, Span, Time};
use rustc_hash::FxHashMap;

use super::reroute::{Epoch, Reroute};
use super::{Down, Faults, Interval, NEVER, Odds, PaceChange, RandomLoss, SlowReceiver, at};
use crate::event::Event;
use crate::support::refusal;
use crate::world::World;
use crate::{Loss, Scenario};

/// Gives a world its faults, if there are any; `tables` are those of the first part, which all others have too.
pub(crate) fn set_up(world: &mut World<'_>, engine: &Scenario, stream: Stream, tables: &mut Tables) -> Result<(), EngineError> {
    let cluster = world.cluster;
    let mut faults = Faults {
        down: FxHashMap::default(),
        everywhere: Vec::new(),
        on_link: FxHashMap::default(),
        hindered: FxHashMap::default(),
        free: FxHashMap::default(),
        changes: Vec::new(),
        paces: FxHashMap::default(),
        reroute: None,
        symbol_lanes: cluster.parts.groups.first().map_or(1, |group| u64::from(group.link.lanes)),
        stream,
        reports: Vec::new(),
        missing: FxHashMap::default(),
        planned: engine.faults.is_some(),
    };
    if let Loss::Random(share) = engine.loss {
        let odds = Odds::new(Chance::Packet(f64::from(share) / 4_294_967_296.0));
        faults.everywhere.push(RandomLoss { fault: 0, when: Interval { from: Time::ZERO, until: NEVER }, odds, bits: false });
    } else if engine.faults.is_none() {
        return Ok(());
    }
    if let Some(other) = cluster.parts.groups.iter().find(|group| u64::from(group.link.lanes) != faults.symbol_lanes) {
        let what = format!("faults on links of unlike widths, as those of the group `{}`", other.name);
        return Err(refusal(Feature::NodeGroups, what, "name one group of nodes").into());
    }
    if let Some(plan) = &engine.faults {
        for (number, fault) in plan.faults.iter().enumerate() {
            let when = Interval { from: at(fault.from), until: fault.until.map_or(NEVER, at) };
            faults.reports.push(FaultReport {
                what: fault.what.clone(),
                from: Time::ZERO + fault.from,
                until: fault.until.map(|until| Time::ZERO + until),
                cuts: matches!(fault.effect, Effect::Down { quiet: false, .. }),
                ..FaultReport::default()
            });
            faults.add(world, number as u32, when, &fault.effect);
        }
        faults.reroute = match tables {
            Some(known) => known.clone(),
            None => tables.insert(reroute(plan, cluster, world)?).clone(),
        };
        world.routes.table.oblivious &= faults.reroute.is_none();
    }
    world.watch.faults = Some(Box::new(faults));
    Ok(())
}

/// New tables over time, once they are made.
pub(crate) type Tables = Option<Option<Reroute>>;

impl Faults {
    fn add(&mut self, world: &mut World<'_>, fault: u32, when: Interval, effect: &Effect) {
        match effect {
            Effect::Loss { links, chance } => {
                let bits = matches!(chance, Chance::Bit(_));
                let loss = || RandomLoss { fault, when, odds: Odds::new(*chance), bits };
                match links {
                    None => self.everywhere.push(loss()),
                    Some(links) => links.iter().for_each(|link| self.on_link.entry(*link).or_default().push(loss())),
                }
            }
            Effect::Down { cables, spans, quiet } => {
                let spans: Vec<Interval> =
                    spans.iter().map(|(from, until)| Interval { from: at(*from), until: until.map_or(NEVER, at) }).collect();
                for cable in cables {
                    self.down.entry(*cable).or_default().push(Down { fault, spans: spans.clone(), quiet: *quiet });
                }
            }
            Effect::Lanes { cables, lanes, of } => {
                for link in cables.iter().flat_map(|cable| [2 * cable, 2 * cable + 1]) {
                    let usual = Pace::of(world.links.graph.link(LinkId(link)).rate);
                    let slow = usual.on_lanes(*lanes, *of);
                    for (time, pace) in [(when.from, slow), (when.until, usual)].into_iter().filter(|(time, _)| *time < NEVER) {
                        world.queue.push(time, Event::fault(self.changes.len() as u32));
                        self.changes.push(PaceChange { link, pace });
                    }
                }
            }
            Effect::Slow { endpoint, rate } => {
                self.hindered.entry(*endpoint).or_default().push(SlowReceiver { when, pace: Some(Pace::of(*rate)) });
            }
            Effect::Paused { endpoint } if world.links.backpressure.pauses() => {
                let link = world.cluster.fabric.graph.uplink(fabriscope_fabric::EndpointId(*endpoint)).reverse();
                let own = world.links.slots.of(link.0 * world.links.vls).0 == world.links.part;
                for lane in (link.0 * world.links.vls..(link.0 + 1) * world.links.vls).filter(|_| own) {
                    world.links.lane(lane).add_storm(when.from, if when.until < NEVER { when.until } else { Time::MAX });
                }
            }
            Effect::Paused { endpoint } => self.hindered.entry(*endpoint).or_default().push(SlowReceiver { when, pace: None }),
            _ => {}
        }
    }
}

/// What switches and the manager of the fabric will do about dead links; nothing where none dies or there is no switch.
fn reroute(plan: &FaultPlan, cluster: &Cluster, world: &World<'_>) -> Result<Option<Reroute>, EngineError> {
    let graph = &cluster.fabric.graph;
    // Times at which cables go down (true) or come back.
    let mut changes: Vec<(Time, u32, bool)> = Vec::new();
    for fault in &plan.faults {
        if let Effect::Down { cables, spans, quiet: false } = &fault.effect {
            for (from, until) in spans {
                let ends = [(Some(*from), true), (*until, false)];
                let ends = ends.into_iter().filter_map(|(time, down)| Some((at(time?), down)));
                changes.extend(ends.flat_map(|(time, down)| cables.iter().map(move |cable| (time, *cable, down))));
            }
        }
    }
    if changes.is_empty() || graph.switch_count() == 0 {
        return Ok(None);
    }
    changes.sort_unstable();
    let manager = &plan.manager;
    let routing = cluster.parts.routing;
    let detection = manager.detection.value;
    let failover = manager.failover.as_ref().filter(|_| has_choice(routing));
    let sweeps = Sweeps {
        look: manager.discovery.value * u64::from(graph.endpoint_count() + graph.switch_count()),
        compute: manager.computing.value * (u64::from(graph.endpoint_count()) * u64::from(graph.switch_count())),
        write: manager.programming.value * u64::from(graph.endpoint_count().div_ceil(64)),
        told: detection + manager.report.value,
    };
    let lanes = u8::try_from(world.links.per_level).unwrap_or(u8::MAX);
    let waits = cluster.parts.flow_control != fabriscope_catalog::FlowControl::Lossy;
    let mut known: BTreeMap<Vec<u32>, Arc<Survivors>> = BTreeMap::new();
    let mut routes = |dead: &Vec<u32>| -> Made {
        if dead.is_empty() {
            return Ok(None);
        }
        if let Some(routes) = known.get(dead) {
            return Ok(Some(Arc::clone(routes)));
        }
        let is_dead = |cable: u32| dead.binary_search(&cable).is_ok();
        let made = Survivors::new(&cluster.fabric, routing, is_dead, lanes, waits).map_err(|e| EngineError::Setup(e.in_full()))?;
        let made = Arc::new(made);
        known.insert(dead.clone(), Arc::clone(&made));
        Ok(Some(made))
    };
    let epochs = sweeps.epochs(graph, &changes, &mut routes)?;
    Ok(Some(Reroute { failover: failover.map(|failover| detection + failover.value), epochs, begun: 0 }))
}

/// The routes without some cables; none for those of the whole fabric.
type Made = Result<Option<Arc<Survivors>>, EngineError>;

/// How long the steps of a sweep take.
struct Sweeps {
    told: Span,
    look: Span,
    compute: Span,
    /// Per switch.
    write: Span,
}

impl Sweeps {
    fn epochs(
        &self,
        graph: &Graph,
        changes: &[(Time, u32, bool)],
        routes: &mut dyn FnMut(&Vec<u32>) -> Made,
    ) -> Result<Vec<Epoch>, EngineError> {
        let switches = graph.switch_count();
        let mut epochs: Vec<Epoch> = Vec::new();
        // Cables that are down, with how many faults have them down.
        let mut down: BTreeMap<u32, u32> = BTreeMap::new();
        let (mut seen, mut told, mut idle) = (0, 0, Time::ZERO);
        let mut last: Vec<u32> = Vec::new();
        while told < changes.len() && epochs.len() < MOST_SWEEPS {
            let started = (changes[told].0 + self.told).max(idle);
            // The sweep sees what is down when it begins; it answers everything that was reported until then.
            while let Some(&(_, cable, is_down)) = changes.get(seen).filter(|change| change.0 <= started) {
                let count = down.entry(cable).or_insert(0);
                *count = if is_down { *count + 1 } else { count.saturating_sub(1) };
                seen += 1;
            }
            while changes.get(told).is_some_and(|change| change.0 + self.told <= started) {
                told += 1;
            }
            let dead: Vec<u32> = down.iter().filter(|(_, count)| **count > 0).map(|(cable, _)| *cable).collect();
            let computed = started + self.look + self.compute;
            idle = computed;
            if dead != last {
                let step = self.write;
                let (first, routes) = (computed + step, routes(&dead)?);
                let epoch = Epoch { started, first, step, switches, dead: dead.as_slice().into(), routes };
                idle = epoch.written();
                epochs.push(epoch);
                last = dead;
            }
        }
        Ok(epochs)
    }
}

/// Whether a switch knows several ways, so that it can leave one of them out.
fn has_choice(routing: Routing) -> bool {
    routing.sharing() != Sharing::Destination
}

/// Sweeps that a run plans. Basis: assumed, a bound against slips of the pen.
const MOST_SWEEPS: usize = 100_000;

/// Both directions of a cable have one number.
const _: () = assert!(LinkId(7).cable() == LinkId(6).cable());

#[cfg(test)]
mod tests {
    use super::*;

    fn sweeps() -> Sweeps {
        Sweeps { told: Span::from_us(10), look: Span::from_us(100), compute: Span::from_us(5), write: Span::from_us(1) }
    }

    fn graph() -> Graph {
        let builder = fabriscope_fabric::Builder::new(0, [4, 4, 4]).expect("three switches");
        builder.build().expect("no endpoint is left out")
    }

    fn us(time: u64) -> Time {
        Time::ZERO + Span::from_us(time)
    }

    /// One link goes down at 50 us and comes back at 400 us: told after 10 us, 105 us of looking and computing, 1 us a switch.
    #[test]
    fn a_sweep_takes_its_time() {
        let changes = [(us(50), 7, true), (us(400), 7, false)];
        let mut asked = Vec::new();
        let epochs = sweeps().epochs(&graph(), &changes, &mut |dead| {
            asked.push(dead.clone());
            Ok(None)
        });
        let epochs = epochs.expect("no routes fail");
        assert_eq!(asked, [vec![7], vec![]]);
        let times: Vec<_> = epochs.iter().map(|epoch| (epoch.started, epoch.first, epoch.written())).collect();
        assert_eq!(times, [(us(60), us(166), us(168)), (us(410), us(516), us(518))]);
    }

    /// A link that flaps faster than a sweep: the sweep in progress is finished first, and what came and went is never seen.
    #[test]
    fn a_sweep_under_way_is_finished_first() {
        let mut changes: Vec<_> = (0..10).flat_map(|n| [(us(20 * n), 3, true), (us(20 * n + 10), 3, false)]).collect();
        changes.push((us(25), 5, true));
        changes.sort_unstable();
        let mut asked = Vec::new();
        let epochs = sweeps().epochs(&graph(), &changes, &mut |dead| {
            asked.push(dead.clone());
            Ok(None)
        });
        assert_eq!(epochs.expect("no routes fail").len(), asked.len());
        // At 10 us the link is up again: nothing to write. At 115 us it is up, and the other one is down.
        assert_eq!(asked, [vec![5]]);
    }
}
