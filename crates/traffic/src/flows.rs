//! Flows at random times, of random sizes, between random hosts: the traffic by which transports of data centres are judged.
//!
//! Source: M. Alizadeh et al., "pFabric", SIGCOMM 2013, §5 (Poisson arrivals, sizes of a measured distribution); Y. Li et al.,
//! "HPCC", SIGCOMM 2019, §5.1 (the same, with incasts beside it that take a small share of the capacity).
//! Modelled: a number of flows whose arrivals are drawn evenly over a window: given its number of arrivals, that is what a Poisson
//! process is. The window is as long as the payload takes at the offered load, so the load is met exactly. Flow number k has the
//! same ends and size at every load. Incasts begin at times drawn in the same way; their senders begin at once.
//! Not modelled: dependence between flows, applications that wait for a flow before they begin the next.

use fabriscope_schedule::{After, Builder, OpKind, Schedule};
use fabriscope_streams::{Stream, Streams};
use fabriscope_units::{Bytes, Rate, Span};

use super::{Draw, Pattern, PatternError};
use crate::sizes::SizeDistribution;

/// One flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow {
    /// The rank that sends.
    pub from: u32,
    /// The rank that receives.
    pub to: u32,
    /// Payload.
    pub bytes: Bytes,
    /// When it arrives at its sender, from the beginning.
    pub at: Span,
    /// It belongs to an incast.
    pub incast: bool,
}

/// Incasts beside the flows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Incasts {
    /// How many ranks send at once.
    pub senders: u32,
    /// What each of them sends.
    pub bytes: Bytes,
    /// Share of what the links of all ranks carry [0..1].
    pub load: f64,
}

/// How many flows there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// So many; the window follows.
    Flows(u32),
    /// As many as the load gives in this window, on the average.
    Window(Span),
}

/// Flows of a distribution.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowTraffic {
    /// Where they go.
    pub pattern: Pattern,
    /// How large they are.
    pub sizes: SizeDistribution,
    /// Rate of the link of a rank.
    pub rate: Rate,
    /// How many there are.
    pub extent: Extent,
    /// Incasts beside them.
    pub incasts: Option<Incasts>,
}

/// The flows of one load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offered {
    /// Those of the distribution, then those of the incasts; each kind in the order in which it was drawn, so that those of a smaller
    /// number are the first of a larger one.
    pub flows: Vec<Flow>,
    /// Flows of the distribution.
    pub background: usize,
    /// The window in which they arrive.
    pub window: Span,
}

impl FlowTraffic {
    /// The flows at an offered load: payload, as a share of what the links of all ranks carry.
    ///
    /// # Errors
    /// The pattern does not exist among so many ranks, or an incast has no room.
    pub fn offered(&self, ranks: u32, load: f64, seed: u64) -> Result<Offered, PatternError> {
        if let Some(incasts) = self.incasts.filter(|incasts| incasts.senders == 0 || incasts.senders >= ranks) {
            return Err(PatternError::Senders { senders: incasts.senders, ranks });
        }
        // Bytes in a picosecond.
        let capacity = self.rate.as_bytes_per_s_f64() * f64::from(ranks) / 1e12;
        let offered = (capacity * load).max(f64::MIN_POSITIVE);
        let count = match self.extent {
            Extent::Flows(count) => count,
            Extent::Window(window) => (window.as_ps() as f64 * offered / self.sizes.mean().max(1.0)).round().min(MOST) as u32,
        };
        let mut flows = self.background(ranks, count.max(1), seed)?;
        let window = match self.extent {
            Extent::Window(window) => window,
            Extent::Flows(_) => {
                let bytes: f64 = flows.iter().map(|(flow, _)| flow.bytes.as_u64() as f64).sum();
                Span::from_ps((bytes / offered) as u64)
            }
        };
        let background = flows.len();
        if let Some(incasts) = &self.incasts {
            let each = f64::from(incasts.senders) * incasts.bytes.as_u64() as f64;
            let events = (window.as_ps() as f64 * capacity * incasts.load / each.max(1.0)).round().min(MOST) as u32;
            let streams = Streams::new(seed);
            for event in 0..events {
                incast(incasts, ranks, &mut streams.stream("incasts", event.into()), &mut flows);
            }
        }
        let at = |share: f64| Span::from_ps((window.as_ps() as f64 * share) as u64);
        let flows = flows.into_iter().map(|(flow, share)| Flow { at: at(share), ..flow }).collect();
        Ok(Offered { flows, background, window })
    }

    /// The flows of the distribution, each with its time as a share of the window.
    fn background(&self, ranks: u32, count: u32, seed: u64) -> Result<Vec<(Flow, f64)>, PatternError> {
        let mut draw = Draw::new(self.pattern, ranks, seed)?;
        let streams = Streams::new(seed);
        let mut flows = Vec::with_capacity(count as usize);
        let mut to = Vec::new();
        for number in 0..count {
            let mut stream = streams.stream("flows", number.into());
            let (share, bytes) = (stream.unit(), self.sizes.quantile(stream.unit()));
            // Ranks to whom the pattern gives no receiver send nothing: others are drawn.
            for _ in 0..ATTEMPTS {
                let from = stream.below(ranks.into()) as u32;
                to.clear();
                draw.receivers(from, &mut to);
                if let Some(&to) = to.first() {
                    flows.push((Flow { from, to, bytes, at: Span::ZERO, incast: false }, share));
                    break;
                }
            }
        }
        Ok(flows)
    }
}

/// One incast: senders and a receiver drawn among all ranks.
fn incast(incasts: &Incasts, ranks: u32, stream: &mut Stream, flows: &mut Vec<(Flow, f64)>) {
    let share = stream.unit();
    // The first places of a random order, without drawing the rest of it.
    let mut order: Vec<u32> = (0..ranks).collect();
    let chosen = incasts.senders as usize + 1;
    for place in 0..chosen.min(order.len()) {
        let other = place + stream.below(u64::from(ranks) - place as u64) as usize;
        order.swap(place, other);
    }
    let to = order[0];
    flows.extend(order[1..chosen].iter().map(|&from| (Flow { from, to, bytes: incasts.bytes, at: Span::ZERO, incast: true }, share)));
}

/// The most flows of a run. Basis: assumed; some gigabytes of memory.
const MOST: f64 = 10_000_000.0;
/// How often a sender is drawn until it has a receiver. Basis: assumed; of every pattern at least half of the ranks have one.
const ATTEMPTS: u32 = 64;

/// Where a flow stands in a schedule: its rank and its operation there.
pub type FlowOp = (u32, u32);

/// Each flow as a write at its time.
///
/// # Errors
/// The schedule would be too large.
pub fn at_their_times(ranks: u32, flows: &[Flow]) -> Result<(Schedule, Vec<FlowOp>), PatternError> {
    let times: Vec<Span> = flows.iter().map(|flow| flow.at).collect();
    timed(ranks, flows, &times)
}

/// Each flow as a write alone: the next begins when this one has long been over, at a rate of `rate` and after `rest` more.
///
/// # Errors
/// The schedule would be too large.
pub fn one_by_one(ranks: u32, flows: &[Flow], rate: Rate, rest: Span) -> Result<(Schedule, Vec<FlowOp>), PatternError> {
    let mut clock = Span::ZERO;
    let times: Vec<Span> = flows
        .iter()
        .map(|flow| {
            let at = clock;
            clock = clock + rate.time(flow.bytes) * PATIENCE + rest;
            at
        })
        .collect();
    timed(ranks, flows, &times)
}

/// How many times the time of a flow on its link is left to it alone. Basis: assumed; headers and acknowledgements take a few percent.
const PATIENCE: u64 = 3;

fn timed(ranks: u32, flows: &[Flow], times: &[Span]) -> Result<(Schedule, Vec<FlowOp>), PatternError> {
    let mut builder = Builder::new(ranks);
    let mut order: Vec<usize> = (0..flows.len()).collect();
    order.sort_by_key(|&flow| (flows[flow].from, times[flow], flow));
    let mut ops = vec![(0, 0); flows.len()];
    let mut before: Option<(u32, fabriscope_schedule::OpId, Span)> = None;
    for place in order {
        let flow = &flows[place];
        let last = before.filter(|(rank, ..)| *rank == flow.from);
        let waited = last.map_or(Span::ZERO, |(.., waited)| waited);
        let wait = builder.compute(flow.from, times[place].saturating_sub(waited));
        if let Some((_, last, _)) = last {
            builder.requires(flow.from, wait, last);
        }
        let put = builder.op_after(flow.from, OpKind::Put { to: flow.to, bytes: flow.bytes }, &[After::End(wait)]);
        ops[place] = (flow.from, put.0);
        before = Some((flow.from, wait, times[place]));
    }
    Ok((builder.build()?, ops))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traffic(extent: Extent, incasts: Option<Incasts>) -> FlowTraffic {
        let sizes = SizeDistribution::parse("0 0\n1000 50\n9000 100").unwrap();
        FlowTraffic { pattern: Pattern::Uniform, sizes, rate: Rate::from_bps(400_000_000_000), extent, incasts }
    }

    #[test]
    fn the_offered_load_is_met_exactly_by_a_number_of_flows() {
        let offered = traffic(Extent::Flows(1000), None).offered(16, 0.5, 1).unwrap();
        let bytes: u64 = offered.flows.iter().map(|flow| flow.bytes.as_u64()).sum();
        // 16 links of 400 Gb/s carry 0.8 bytes in a picosecond; half of it in the window is what there is.
        let window = offered.window.as_ps() as f64;
        assert!((bytes as f64 / (0.8 * window) - 0.5).abs() < 1e-6);
        assert!(offered.flows.iter().all(|flow| flow.from != flow.to && flow.at <= offered.window && !flow.incast));
        // The mean size is 0.5 · 500 + 0.5 · 5000 = 2750; its standard error over 1000 flows is some 80.
        assert!((2450..3050).contains(&(bytes / 1000)), "{bytes}");
        // At another load they are the same flows at times that stretch.
        let half = traffic(Extent::Flows(1000), None).offered(16, 0.25, 1).unwrap();
        for (fast, slow) in offered.flows.iter().zip(&half.flows) {
            assert_eq!((fast.from, fast.to, fast.bytes), (slow.from, slow.to, slow.bytes));
            assert!(slow.at.as_ps().abs_diff(2 * fast.at.as_ps()) <= 3);
        }
    }

    #[test]
    fn a_window_has_as_many_flows_as_the_load_gives() {
        let window = Span::from_us(1000);
        let count = |load| traffic(Extent::Window(window), None).offered(16, load, 1).unwrap().flows;
        // 0.8 B/ps · 10⁹ ps · 0.275 / 2750 B = 80,000.
        let (more, fewer) = (count(0.275), count(0.11));
        assert_eq!((more.len(), fewer.len()), (80_000, 32_000));
        assert_eq!(more[..32_000], fewer[..]);
        // Arrivals are even: a tenth of the window has a tenth of them, 8000 ± 5 standard deviations of 85.
        let early = more.iter().filter(|flow| flow.at < Span::from_us(100)).count();
        assert!((7_575..8_425).contains(&early), "{early}");
    }

    #[test]
    fn incasts_have_their_share() {
        let incasts = Incasts { senders: 8, bytes: Bytes(100_000), load: 0.05 };
        let offered = traffic(Extent::Window(Span::from_us(1000)), Some(incasts)).offered(16, 0.1, 1).unwrap();
        let waves = &offered.flows[offered.background..];
        // 0.8 B/ps · 10⁹ ps · 0.05 / 800 kB = 50 of them.
        assert_eq!(waves.len(), 8 * 50);
        for wave in waves.chunks(8) {
            assert!(wave.iter().all(|flow| (flow.to, flow.at, flow.incast) == (wave[0].to, wave[0].at, true) && flow.from != flow.to));
            let mut senders: Vec<u32> = wave.iter().map(|flow| flow.from).collect();
            senders.sort_unstable();
            senders.dedup();
            assert_eq!(senders.len(), 8);
        }
        let crowd = Incasts { senders: 16, ..incasts };
        assert!(traffic(Extent::Flows(1), Some(crowd)).offered(16, 0.1, 1).is_err());
    }

    #[test]
    fn schedules_begin_each_flow_at_its_time() {
        let offered = traffic(Extent::Flows(200), None).offered(4, 0.5, 3).unwrap();
        let rate = Rate::from_bps(400_000_000_000);
        let (busy, places) = at_their_times(4, &offered.flows).unwrap();
        let begins = |schedule: &Schedule, places: &[FlowOp]| -> Vec<Span> {
            let mut at = std::collections::BTreeMap::new();
            for rank in 0..4 {
                let mut clock = Span::ZERO;
                for op in schedule.ops(rank) {
                    match op.kind {
                        OpKind::Compute { span } => clock += span,
                        _ => _ = at.insert((rank, op.id.0), clock),
                    }
                }
            }
            places.iter().map(|place| at[place]).collect()
        };
        assert_eq!(begins(&busy, &places), offered.flows.iter().map(|flow| flow.at).collect::<Vec<_>>());
        let (alone, places) = one_by_one(4, &offered.flows, rate, Span::from_us(10)).unwrap();
        let times = begins(&alone, &places);
        for (flow, pair) in offered.flows.iter().zip(times.windows(2)) {
            assert!(pair[1] - pair[0] >= rate.time(flow.bytes) * 3 + Span::from_us(10));
        }
    }
}
