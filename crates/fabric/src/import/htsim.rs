//! `.topo` files of htsim: a fat tree of two or three tiers, given by its numbers.
//!
//! Source: csg-htsim, `FatTreeTopology` (how a file is read and what is wired) and its example files.
//! Read: nodes, pods, ports up and down, bundles, over-subscription, speed of each tier. Every switch of the lower tier of
//! a pod is joined to every one of the upper tier; the upper switch at place *p* of its pod to the core switches *p*,
//! *p* + *s*, *p* + 2 *s* … with *s* upper switches in a pod.
//! Not read: queues and latencies (those of the cluster's switch and cables).

use std::collections::BTreeMap;

use fabriscope_units::Rate;

use super::subnet::{Kind, Subnet};
use super::{ImportError, Mistake};

/// Whether a line begins this format.
pub(super) fn looks_like(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let key = words.next().unwrap_or("").to_ascii_lowercase();
    ["nodes", "tiers", "podsize"].contains(&key.as_str())
        && words.next().is_some_and(|value| value.parse::<u32>().is_ok())
        && words.next().is_none()
}

/// A number and where it stands.
#[derive(Clone, Copy)]
struct Given {
    value: u64,
    line: u32,
}

/// The numbers of a file: the tier (none in the head) and the key.
type Numbers = BTreeMap<(Option<u8>, &'static str), Given>;

const HEAD: [&str; 3] = ["nodes", "tiers", "podsize"];
const OF_TIER: [&str; 5] = ["radix_down", "radix_up", "downlink_speed_gbps", "oversubscribed", "bundle"];
/// What htsim reads and a fabric does not have.
const PASSED_OVER: [&str; 6] = ["queue_up", "queue_down", "downlink_latency_ns", "switch_latency_ns", "queue_size", "latency"];

/// Reads a file.
pub(super) fn read(text: &str) -> Result<Subnet, ImportError> {
    let mut subnet = Subnet::default();
    let mut numbers = Numbers::new();
    let mut tier = None;
    let mut last = 1;
    for (line, number) in text.lines().zip(1u32..) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some(key) = words.first().filter(|key| !key.starts_with('#')).map(|key| key.to_ascii_lowercase()) else { continue };
        last = number;
        let value = words.get(1).and_then(|value| value.parse::<u64>().ok()).filter(|&value| value <= MOST_NODES);
        let known = HEAD.into_iter().chain(OF_TIER).find(|known| *known == key);
        if key == "tier" {
            tier = match value {
                Some(value @ 0..=2) => Some(value as u8),
                _ => return Err(wrong(number, format!("`{}`", shown(line)), "tiers are 0, 1 and 2")),
            };
        } else if let Some(known) = known {
            let of = if HEAD.contains(&known) { None } else { tier };
            let Some(value) = value else {
                return Err(wrong(number, format!("`{}`", shown(line)), "write a whole number, at most 131072"));
            };
            if of.is_none() && OF_TIER.contains(&known) {
                return Err(wrong(number, format!("`{known}` before the first tier"), "put it below a line `Tier 0`"));
            }
            if let Some(before) = numbers.insert((of, known), Given { value, line: number }) {
                let what = format!("`{known}` a second time, after line {}", before.line);
                return Err(wrong(number, what, "keep one of them"));
            }
        } else if key == "connections" {
            return Err(wrong(number, "traffic of htsim (`.cm`)".to_owned(), "give the topology, a `.topo` file"));
        } else if !PASSED_OVER.contains(&key.as_str()) {
            subnet.skip(number, line);
        }
    }
    Plan::new(&numbers, last)?.wire(&mut subnet)?;
    Ok(subnet)
}

fn wrong(line: u32, what: String, remedy: &'static str) -> ImportError {
    ImportError::Line { line, mistake: Mistake::Malformed { what, remedy } }
}

fn shown(line: &str) -> String {
    line.trim().chars().take(40).collect()
}

/// How many switches of each tier there are, and what joins them.
struct Plan {
    nodes: u64,
    hosts_per_tor: u64,
    tors_per_pod: u64,
    aggs_per_pod: u64,
    cores: u64,
    /// Cables from each lower to each upper switch of a pod, and from an upper switch to a core switch.
    bundles: [u64; 2],
    cores_per_agg: u64,
    rates: [Rate; 3],
    line: u32,
}

impl Plan {
    fn new(numbers: &Numbers, last: u32) -> Result<Plan, ImportError> {
        let missing = |key: &str, tier: Option<u8>| {
            let place = tier.map_or_else(|| "before the tiers".to_owned(), |tier| format!("of tier {tier}"));
            wrong(last, format!("a file without `{key}` {place}"), "is it cut off?")
        };
        let given = |tier, key: &'static str| numbers.get(&(tier, key)).copied();
        let needed = |tier, key: &'static str| match given(tier, key) {
            Some(Given { value: 0, line }) => Err(wrong(line, format!("`{key} 0`"), "write at least 1")),
            Some(given) => Ok(given),
            None => Err(missing(key, tier)),
        };
        let or_one = |tier, key: &'static str| given(tier, key).map_or(Ok(Given { value: 1, line: last }), |_| needed(tier, key));
        let (nodes, tiers, pod) = (needed(None, "nodes")?, needed(None, "tiers")?, needed(None, "podsize")?);
        if !(2..=3).contains(&tiers.value) {
            return Err(wrong(tiers.line, format!("`Tiers {}`", tiers.value), "htsim has 2 or 3"));
        }
        if tiers.value == 2 && pod.value != nodes.value {
            return Err(wrong(pod.line, format!("`Podsize {}` of {} nodes in two tiers", pod.value, nodes.value), "two tiers are one pod"));
        }
        // Numbers that must divide each other, with the line of the second one.
        let divide = |a: u64, b: u64, by: Given, what: &str| {
            if b > 0 && a.is_multiple_of(b) {
                Ok(a / b)
            } else {
                Err(wrong(by.line, format!("{what}, {a} / {b}, is no whole number and"), "correct one of the numbers"))
            }
        };
        let (down0, down1, up0) = (needed(Some(0), "radix_down")?, needed(Some(1), "radix_down")?, needed(Some(0), "radix_up")?);
        let (speed0, speed1) = (needed(Some(0), "downlink_speed_gbps")?, needed(Some(1), "downlink_speed_gbps")?);
        let (over0, bundle1) = (or_one(Some(0), "oversubscribed")?, or_one(Some(1), "bundle")?);
        let pods = divide(nodes.value, pod.value, pod, "nodes by pod size")?;
        let tors_per_pod = divide(pod.value, down0.value, down0, "pod size by ports down of tier 0")?;
        let uplinks = divide(nodes.value * speed0.value, speed1.value * over0.value, over0, "speed of all nodes by speed up of tier 0")?;
        let aggs_per_pod = divide(uplinks, pods * down1.value, down1, "cables up of tier 0 by ports down of tier 1")?;
        let expect = |given: Given, value: u64, what: &str| {
            let says = format!("`{what} {}` with {value} that the other numbers make", given.value);
            if given.value == value { Ok(()) } else { Err(wrong(given.line, says, "correct one of the numbers")) }
        };
        expect(up0, aggs_per_pod * bundle1.value, "Radix_Up")?;
        let mut plan = Plan {
            nodes: nodes.value,
            hosts_per_tor: down0.value,
            tors_per_pod,
            aggs_per_pod,
            cores: 0,
            bundles: [bundle1.value, 1],
            cores_per_agg: 0,
            rates: [speed0, speed1, speed1].map(|speed| Rate::from_bps(speed.value * 1_000_000_000)),
            line: nodes.line,
        };
        if tiers.value == 3 {
            let (down2, up1) = (needed(Some(2), "radix_down")?, needed(Some(1), "radix_up")?);
            let (speed2, over1) = (needed(Some(2), "downlink_speed_gbps")?, or_one(Some(1), "oversubscribed")?);
            let bundle2 = or_one(Some(2), "bundle")?;
            let uplinks = divide(uplinks * speed1.value, speed2.value * over1.value, over1, "speed up of tier 0 by speed up of tier 1")?;
            plan.cores = divide(uplinks, down2.value, down2, "cables up of tier 1 by ports down of tier 2")?;
            plan.cores_per_agg = divide(up1.value, bundle2.value, bundle2, "ports up of tier 1 by the bundle")?;
            plan.bundles[1] = bundle2.value;
            plan.rates[2] = Rate::from_bps(speed2.value * 1_000_000_000);
            expect(Given { value: plan.aggs_per_pod * plan.cores_per_agg, line: up1.line }, plan.cores, "cores above a pod")?;
        }
        let pods_cables = pods * tors_per_pod * aggs_per_pod * plan.bundles[0];
        if nodes.value + pods_cables + pods * aggs_per_pod * plan.cores_per_agg * plan.bundles[1] > MOST_CABLES {
            return Err(wrong(nodes.line, format!("more than {MOST_CABLES} cables"), "is a number mistyped?"));
        }
        Ok(plan)
    }

    fn wire(&self, subnet: &mut Subnet) -> Result<(), ImportError> {
        let pods = self.nodes / (self.tors_per_pod * self.hosts_per_tor);
        let mut add = |kind, name: &str, count: u64| {
            let first = subnet.devices.len() as u32;
            for number in 0..count {
                subnet.add(kind, format!("{name}{number}"), self.line);
            }
            first
        };
        let host = add(Kind::Adapter, "host", self.nodes);
        let tor = add(Kind::Switch, "tor", pods * self.tors_per_pod);
        let agg = add(Kind::Switch, "agg", pods * self.aggs_per_pod);
        let core = add(Kind::Switch, "core", self.cores);
        let at = |first: u32, number: u64| first + number as u32;
        for number in 0..self.nodes {
            subnet.connect([at(host, number), at(tor, number / self.hosts_per_tor)], Some(self.rates[0]), self.line)?;
        }
        for number in 0..pods * self.tors_per_pod {
            let pod = number / self.tors_per_pod;
            for upper in pod * self.aggs_per_pod..(pod + 1) * self.aggs_per_pod {
                for _ in 0..self.bundles[0] {
                    subnet.connect([at(tor, number), at(agg, upper)], Some(self.rates[1]), self.line)?;
                }
            }
        }
        for number in 0..pods * self.aggs_per_pod {
            for step in 0..self.cores_per_agg {
                let above = number % self.aggs_per_pod + self.aggs_per_pod * step;
                for _ in 0..self.bundles[1] {
                    subnet.connect([at(agg, number), at(core, above)], Some(self.rates[2]), self.line)?;
                }
            }
        }
        Ok(())
    }
}

/// The largest number that is read, and the most cables that are made of them: htsim itself ends at some ten thousand nodes.
const MOST_NODES: u64 = 1 << 17;
const MOST_CABLES: u64 = 1 << 19;
