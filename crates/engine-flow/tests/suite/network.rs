//! The incremental solver against one that starts from nothing after every change.

use fabriscope_engine_flow::{FlowId, Network};
use proptest::prelude::*;

/// Progressive filling from scratch, all links looked at in every round: slow and evidently right.
fn reference(capacities: &[f64], flows: &[Vec<(u32, f64)>]) -> Vec<f64> {
    let mut rates = vec![None; flows.len()];
    loop {
        let offer = |link: u32| {
            let (mut left, mut weight) = (capacities[link as usize], 0.0);
            for (flow, path) in flows.iter().enumerate() {
                for &(_, share) in path.iter().filter(|(on, _)| *on == link) {
                    match rates[flow] {
                        Some(rate) => left -= share * rate,
                        None => weight += share,
                    }
                }
            }
            (weight > 0.0).then(|| f64::max(left, 0.0) / weight)
        };
        let offers: Vec<(u32, f64)> = (0..capacities.len() as u32).filter_map(|link| Some((link, offer(link)?))).collect();
        let Some((link, rate)) = offers.into_iter().min_by(|a, b| a.1.total_cmp(&b.1)) else { break };
        for (flow, path) in flows.iter().enumerate() {
            if rates[flow].is_none() && path.iter().any(|(on, _)| *on == link) {
                rates[flow] = Some(rate);
            }
        }
    }
    rates.into_iter().map(Option::unwrap).collect()
}

const LINKS: u32 = 9;

fn path() -> impl Strategy<Value = Vec<(u32, f64)>> {
    (proptest::sample::subsequence((0..LINKS).collect::<Vec<_>>(), 1..=4), proptest::sample::select(vec![1.0, 1.0, 1.0, 0.5, 0.25]))
        .prop_map(|(links, share)| links.into_iter().map(|link| (link, share)).collect())
}

#[derive(Debug, Clone)]
enum Step {
    Add(Vec<(u32, f64)>),
    Remove(usize),
    Solve,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![4 => path().prop_map(Step::Add), 3 => (0usize..64).prop_map(Step::Remove), 3 => Just(Step::Solve)];
    prop::collection::vec(step, 1..120)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn rates_are_those_of_progressive_filling(capacities in prop::collection::vec(1u32..9, LINKS as usize), steps in steps()) {
        let capacities: Vec<f64> = capacities.into_iter().map(f64::from).collect();
        let mut network = Network::new(capacities.iter().copied(), 4);
        let mut flows: Vec<(FlowId, Vec<(u32, f64)>)> = Vec::new();
        let mut told: std::collections::BTreeMap<FlowId, f64> = std::collections::BTreeMap::new();
        for step in steps.into_iter().chain([Step::Solve]) {
            match step {
                Step::Add(path) => flows.push((network.add(&path), path)),
                Step::Remove(index) if !flows.is_empty() => {
                    let (flow, _) = flows.remove(index % flows.len());
                    network.remove(flow);
                    told.remove(&flow);
                }
                Step::Remove(_) => {}
                Step::Solve => {
                    network.solve(|flow, _, rate| { told.insert(flow, rate); });
                    let paths: Vec<Vec<(u32, f64)>> = flows.iter().map(|(_, path)| path.clone()).collect();
                    for ((flow, path), expected) in flows.iter().zip(reference(&capacities, &paths)) {
                        let rate = network.rate(*flow);
                        prop_assert!((rate - expected).abs() <= 1e-9 * expected.max(1e-3), "{flow:?} on {path:?}: {rate}, not {expected}");
                        prop_assert_eq!(told.get(flow).copied(), Some(rate), "every change is told");
                    }
                }
            }
        }
    }
}

/// One flow over two links against one on each of them.
#[test]
fn a_long_flow_and_two_short_ones() {
    // Links of 10 and 4: the long flow gets half of the narrow one, the short one on the wide link the rest.
    let mut network = Network::new([10.0, 4.0], 2);
    let long = network.add(&[(0, 1.0), (1, 1.0)]);
    let wide = network.add(&[(0, 1.0)]);
    let narrow = network.add(&[(1, 1.0)]);
    network.solve(|_, _, _| ());
    assert_eq!((network.rate(long), network.rate(wide), network.rate(narrow)), (2.0, 8.0, 2.0));
    network.remove(narrow);
    network.solve(|_, _, _| ());
    assert_eq!((network.rate(long), network.rate(wide)), (4.0, 6.0));
}
