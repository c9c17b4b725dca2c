//! Max-min fair rates of cases that textbooks work out by hand, and completion times of fluids whose rates change as others come and go.

use fabriscope_engine_flow::{FlowId, Network};
use proptest::prelude::*;

/// Rates of flows over links of these capacities, each link used in full.
fn rates(capacities: &[f64], paths: &[&[u32]]) -> Vec<f64> {
    let mut network = Network::new(capacities.iter().copied(), 8);
    let flows: Vec<FlowId> = paths.iter().map(|path| network.add(&path.iter().map(|link| (*link, 1.0)).collect::<Vec<_>>())).collect();
    network.solve(|_, _, _| ());
    flows.into_iter().map(|flow| network.rate(flow)).collect()
}

fn same(found: &[f64], expected: &[f64]) {
    let close = found.len() == expected.len() && found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-9);
    assert!(close, "{found:?}, not {expected:?}");
}

#[test]
fn bertsekas_and_gallager() {
    // As the example of Data Networks §6.5.2, on links of capacity 1: three sessions on the first link have 1/3 each; one of them goes on over the
    // second link, where it leaves 2/3 to a fourth, which goes on over a third link of its own.
    same(&rates(&[1.0, 1.0, 1.0], &[&[0], &[0], &[0, 1], &[1, 2]]), &[1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0, 2.0 / 3.0]);
}

#[test]
fn the_parking_lot() {
    // One flow over k links, one more on each: max-min gives half to everybody, whatever k is (what is fair by proportion gives the long one
    // 1 / (k + 1)).
    for k in 1..8u32 {
        let long: Vec<u32> = (0..k).collect();
        let short: Vec<[u32; 1]> = (0..k).map(|link| [link]).collect();
        let mut paths: Vec<&[u32]> = vec![&long];
        paths.extend(short.iter().map(|path| &path[..]));
        same(&rates(&vec![10.0; k as usize], &paths), &vec![5.0; k as usize + 1]);
    }
}

#[test]
fn a_chain_of_bottlenecks() {
    // Links of 2, 6 and 12. On the first two flows, of which one goes on over the second with another, which goes on over the third with another:
    // 1, 1; 6 − 1 = 5; 12 − 5 = 7. Each link fills after the one before it.
    same(&rates(&[2.0, 6.0, 12.0], &[&[0], &[0, 1], &[1, 2], &[2]]), &[1.0, 1.0, 5.0, 7.0]);
}

#[test]
fn water_filling_with_caps() {
    // One link of 12 and four flows with caps of their own 1, 2, 5, 20, as links of that capacity: 1 and 2 are full, the rest 9 is shared: 4.5
    // each. With 18 the third gets its 5 and the last what is left: 10.
    let paths: [&[u32]; 4] = [&[0, 1], &[0, 2], &[0, 3], &[0, 4]];
    same(&rates(&[12.0, 1.0, 2.0, 5.0, 20.0], &paths), &[1.0, 2.0, 4.5, 4.5]);
    same(&rates(&[18.0, 1.0, 2.0, 5.0, 20.0], &paths), &[1.0, 2.0, 5.0, 10.0]);
}

#[test]
fn incast_and_its_innocents() {
    // n senders to one receiver share its link of 8; another flow of one of them gets what that one's own link has left.
    for n in [2u32, 4, 8] {
        // Links: 0 the receiver's; 1 … n the senders'; n + 1 another receiver's.
        let paths: Vec<Vec<u32>> = (1..=n).map(|sender| vec![sender, 0]).chain([vec![1, n + 1]]).collect();
        let expected: Vec<f64> = vec![8.0 / f64::from(n); n as usize].into_iter().chain([8.0 - 8.0 / f64::from(n)]).collect();
        let slices: Vec<&[u32]> = paths.iter().map(Vec::as_slice).collect();
        same(&rates(&vec![8.0; n as usize + 2], &slices), &expected);
    }
}

#[test]
fn flows_over_several_paths() {
    // A flow that is spread evenly over two links uses half of its rate on each: alone it gets both. Beside a flow on one of them, x / 2 + y = 4
    // with x = y: 8/3 each; the other link has 4 − 4/3 to spare.
    let mut network = Network::new([4.0, 4.0], 4);
    let spread = network.add(&[(0, 0.5), (1, 0.5)]);
    network.solve(|_, _, _| ());
    same(&[network.rate(spread)], &[8.0]);
    let single = network.add(&[(0, 1.0)]);
    network.solve(|_, _, _| ());
    same(&[network.rate(spread), network.rate(single)], &[8.0 / 3.0, 8.0 / 3.0]);
}

/// When each of these fluids ends: (from, bytes, links), all rates solved again whenever one comes or goes.
fn ends(capacities: &[f64], fluids: &[(f64, f64, &[u32])]) -> Vec<f64> {
    let mut network = Network::new(capacities.iter().copied(), 8);
    let mut open: Vec<(usize, FlowId, f64)> = Vec::new();
    let mut coming: Vec<usize> = (0..fluids.len()).collect();
    coming.sort_by(|a, b| fluids[*b].0.total_cmp(&fluids[*a].0));
    let (mut now, mut ends) = (0.0, vec![f64::NAN; fluids.len()]);
    while !open.is_empty() || !coming.is_empty() {
        let first = open.iter().map(|(_, flow, left)| now + left / network.rate(*flow)).min_by(f64::total_cmp);
        let next = coming.last().map(|index| fluids[*index].0);
        let at = [first, next].into_iter().flatten().min_by(f64::total_cmp).unwrap();
        for (_, flow, left) in &mut open {
            *left -= (at - now) * network.rate(*flow);
        }
        now = at;
        open.retain(|(index, flow, left)| {
            let over = *left <= 1e-9 * fluids[*index].1;
            if over {
                ends[*index] = now;
                network.remove(*flow);
            }
            !over
        });
        while let Some(index) = coming.pop_if(|index| fluids[*index].0 <= now) {
            let path: Vec<(u32, f64)> = fluids[index].2.iter().map(|link| (*link, 1.0)).collect();
            open.push((index, network.add(&path), fluids[index].1));
        }
        network.solve(|_, _, _| ());
    }
    ends
}

#[test]
fn sharing_one_link() {
    // Processor sharing at 10 per unit of time. 10, 20 and 30 together: 3 · 10 / 10 = 3; then 2 · 10 / 10 more: 5; then 10 / 10: 6.
    same(&ends(&[10.0], &[(0.0, 10.0, &[0]), (0.0, 20.0, &[0]), (0.0, 30.0, &[0])]), &[3.0, 5.0, 6.0]);
    // One that comes late: alone from 0 to 1 the first has 30 left of 40; then half each until the second's 10 are through at 3, with 20 left: 5.
    same(&ends(&[10.0], &[(0.0, 40.0, &[0]), (1.0, 10.0, &[0])]), &[5.0, 3.0]);
}

#[test]
fn a_flow_that_frees_another() {
    // Links of 10 and 4: the long flow has 2 of the narrow link beside the short one, then all 4, and leaves the wide one 8, then 6. The short one
    // on the narrow link has 8 bytes: until 4. The long one has 8 of 20 by then, 12 left at 4: until 7. The wide one 32 of 50, 18 at 6: until 7.
    let fluids: [(f64, f64, &[u32]); 3] = [(0.0, 20.0, &[0, 1]), (0.0, 50.0, &[0]), (0.0, 8.0, &[1])];
    same(&ends(&[10.0, 4.0], &fluids), &[7.0, 7.0, 4.0]);
}

#[test]
fn patterns_on_a_switch() {
    // n hosts on a switch, links of 1 both ways (up i, down n + i), a message of 1 each. A permutation takes 1; all to all, n − 1 each, n − 1;
    // incast n − 1; and half of the hosts to one each of the others 1.
    let n = 6u32;
    let time = |pairs: Vec<(u32, u32)>| {
        let paths: Vec<[u32; 2]> = pairs.iter().map(|(from, to)| [*from, n + to]).collect();
        let fluids: Vec<(f64, f64, &[u32])> = paths.iter().map(|path| (0.0, 1.0, &path[..])).collect();
        ends(&vec![1.0; 2 * n as usize], &fluids).into_iter().fold(0.0, f64::max)
    };
    let shift = (0..n).map(|from| (from, (from + 2) % n)).collect();
    let all = (0..n).flat_map(|from| (0..n).filter(move |to| *to != from).map(move |to| (from, to))).collect();
    let incast = (1..n).map(|from| (from, 0)).collect();
    let halves = (0..n / 2).map(|from| (from, from + n / 2)).collect();
    same(&[time(shift), time(all), time(incast), time(halves)], &[1.0, f64::from(n - 1), f64::from(n - 1), 1.0]);
}

proptest! {
    /// Two of the laws by which Bertsekas and Gallager define the allocation: no link carries more than it can, and every flow has a link that is
    /// full and on which nobody has more than it.
    #[test]
    fn every_flow_has_a_bottleneck(
        capacities in prop::collection::vec(1.0f64..100.0, 1..8),
        paths in prop::collection::vec(prop::collection::btree_set(0usize..8, 1..5), 1..20),
    ) {
        let count = capacities.len();
        let paths: Vec<Vec<u32>> = paths.into_iter().map(|path| { let mut links: Vec<u32> = path.into_iter().map(|link| (link % count) as u32).collect(); links.sort_unstable(); links.dedup(); links }).collect();
        let slices: Vec<&[u32]> = paths.iter().map(Vec::as_slice).collect();
        let rates = rates(&capacities, &slices);
        let load = |link: u32| paths.iter().zip(&rates).filter(|(path, _)| path.contains(&link)).map(|(_, rate)| rate).sum::<f64>();
        for (link, capacity) in (0u32..).zip(&capacities) {
            prop_assert!(load(link) <= capacity * (1.0 + 1e-9));
        }
        for (path, rate) in paths.iter().zip(&rates) {
            let most = |link: u32| paths.iter().zip(&rates).filter(|(path, _)| path.contains(&link)).map(|(_, rate)| *rate).fold(0.0, f64::max);
            let full = |link: u32| load(link) >= capacities[link as usize] * (1.0 - 1e-9);
            prop_assert!(path.iter().any(|link| full(*link) && most(*link) <= rate * (1.0 + 1e-9)), "{:?} at {} has no bottleneck", path, rate);
        }
    }

    /// Rates scale with the network, and the order in which flows come does not matter.
    #[test]
    fn scale_and_order(paths in prop::collection::vec(prop::collection::btree_set(0u32..5, 1..4), 1..12), by in 1u32..50) {
        let capacities = [3.0, 5.0, 7.0, 11.0, 13.0];
        let paths: Vec<Vec<u32>> = paths.into_iter().map(|path| path.into_iter().collect()).collect();
        let slices: Vec<&[u32]> = paths.iter().map(Vec::as_slice).collect();
        let plain = rates(&capacities, &slices);
        let larger = rates(&capacities.map(|capacity| capacity * f64::from(by)), &slices);
        for (plain, larger) in plain.iter().zip(&larger) {
            prop_assert!((larger - plain * f64::from(by)).abs() <= 1e-9 * larger);
        }
        let turned: Vec<&[u32]> = slices.iter().rev().copied().collect();
        for (plain, other) in plain.iter().zip(rates(&capacities, &turned).iter().rev()) {
            prop_assert!((plain - other).abs() <= 1e-9 * plain);
        }
    }
}
