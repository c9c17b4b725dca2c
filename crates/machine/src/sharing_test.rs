//! Closed forms of sharing, and what holds for any transfers.

use fabriscope_units::{Bytes, Rate, Span, Time};
use proptest::prelude::*;

use crate::graph::ResourceId;
use crate::sharing::{FlowId, Sharing, Use, Weight};

fn uses(resources: &[u32]) -> Vec<Use> {
    resources.iter().map(|id| Use { resource: ResourceId(*id), weight: Weight::ONE }).collect()
}
fn at(us: u64) -> Time {
    Time::ZERO + Span::from_us(us)
}
const NO_LIMIT: Rate = Rate::from_bps(u64::MAX);

#[test]
fn m_transfers_take_m_times_as_long() {
    // 1 MB at 8 Gb/s takes 1 ms; m at once take m ms each.
    for m in 1..=9 {
        let mut sharing = Sharing::new(vec![Rate::from_gbps(8)]);
        let ids: Vec<FlowId> = (0..m).map(|_| sharing.start(Time::ZERO, Bytes(1_000_000), uses(&[0]), NO_LIMIT)).collect();
        let last = ids.iter().map(|id| sharing.end(*id).unwrap()).max().unwrap();
        let expected = 1_000_000_000 * m;
        assert!(last.as_ps().abs_diff(expected) <= expected / 1_000_000, "{m}: {last}");
    }
}

#[test]
fn who_comes_later_slows_who_is_there() {
    // Alone for 0.5 ms: half is done. Then half the rate: 1 ms for the other half. The second has half left and the link to itself.
    let mut sharing = Sharing::new(vec![Rate::from_gbps(8)]);
    let first = sharing.start(Time::ZERO, Bytes(1_000_000), uses(&[0]), NO_LIMIT);
    assert_eq!(sharing.end(first), Some(at(1000)));
    let second = sharing.start(at(500), Bytes(1_000_000), uses(&[0]), NO_LIMIT);
    assert_eq!((sharing.end(first), sharing.end(second)), (Some(at(1500)), Some(at(2000))));
    sharing.advance(at(1600));
    assert_eq!((sharing.take_ended(first), sharing.take_ended(first), sharing.take_ended(second)), (Some(at(1500)), None, None));
    assert_eq!(sharing.rate(second), Some(Rate::from_gbps(8)));
}

#[test]
fn the_classic_line_of_three_links() {
    // One long transfer over three links of 10, 6 and 20 Gb/s and one short on each: 3 each on the second link, then 7 and 17.
    let mut sharing = Sharing::new([10, 6, 20].map(Rate::from_gbps).to_vec());
    let flows = [&[0, 1, 2][..], &[0], &[1], &[2]].map(|path| sharing.start(Time::ZERO, Bytes(1 << 30), uses(path), NO_LIMIT));
    let rates = flows.map(|id| sharing.rate(id).unwrap().as_bps() as f64 / 1e9);
    assert_eq!(rates, [3.0, 7.0, 3.0, 17.0]);
}

#[test]
fn framing_and_own_limits_count() {
    // 24 bytes beside 256: 8 Gb/s carry 7.314 Gb/s of payload.
    let framed = vec![Use { resource: ResourceId(0), weight: Weight::of(280, 256) }];
    let mut sharing = Sharing::new(vec![Rate::from_gbps(8)]);
    let one = sharing.start(Time::ZERO, Bytes(1 << 20), framed.clone(), NO_LIMIT);
    assert!((sharing.rate(one).unwrap().as_bps() as f64 / 1e9 - 8.0 * 256.0 / 280.0).abs() < 1e-3);
    let slow = sharing.start(Time::ZERO, Bytes(1 << 20), framed, Rate::from_gbps(1));
    assert_eq!(sharing.rate(slow), Some(Rate::from_gbps(1)));
    assert!((sharing.rate(one).unwrap().as_bps() as f64 / 1e9 - (8.0 * 256.0 / 280.0 - 1.0)).abs() < 1e-3);
}

#[test]
fn nothing_to_move_ends_at_once() {
    let mut sharing = Sharing::new(vec![Rate::from_gbps(8)]);
    let id = sharing.start(at(3), Bytes::ZERO, uses(&[0]), NO_LIMIT);
    assert_eq!((sharing.end(id), sharing.is_empty()), (Some(at(3)), true));
    // A resource that carries nothing holds its transfer for ever, and no other.
    let mut still = Sharing::new(vec![Rate::from_bps(0), Rate::from_gbps(8)]);
    let never = still.start(Time::ZERO, Bytes(1), uses(&[0]), NO_LIMIT);
    let other = still.start(Time::ZERO, Bytes(1_000_000), uses(&[1]), NO_LIMIT);
    assert_eq!((still.end(never), still.end(other)), (None, Some(at(1000))));
}

#[test]
fn streams_without_an_end_leave_what_they_do_not_want() {
    let mut sharing = Sharing::new([30, 100].map(Rate::from_gbps).to_vec());
    let streams = [(uses(&[0]).into(), Rate::from_gbps(1)), (uses(&[0]).into(), NO_LIMIT)];
    let streams = sharing.hold(Time::ZERO, streams);
    assert_eq!((sharing.next_end(), sharing.fair(&uses(&[0]), None)), (None, None));
    let copy = sharing.start(Time::ZERO, Bytes(1 << 20), uses(&[0, 1]), NO_LIMIT);
    let gbps = |rate: Option<Rate>| rate.map(|rate| rate.as_bps() as f64 / 1e9);
    assert_eq!([streams[0], streams[1], copy].map(|id| gbps(sharing.rate(id))), [1.0, 14.5, 14.5].map(Some));
    // If the slow one wanted all, the three would share; another one besides finds 29 for three, and on the second link what is left.
    assert_eq!(gbps(sharing.fair(&uses(&[0]), Some(streams[0]))), Some(10.0));
    assert_eq!(gbps(sharing.fair(&uses(&[0]), Some(streams[1]))), Some(14.5));
    assert_eq!(gbps(sharing.fair(&uses(&[0]), None)), Some(29.0 / 3.0).map(|rate: f64| (rate * 1e9).floor() / 1e9));
    assert_eq!(gbps(sharing.fair(&uses(&[1]), None)), Some(85.5));
    // The copy ends as it would alone at its rate; then nothing is shared with transfers that end. New streams take the place of old ones.
    let end = sharing.next_end().unwrap();
    assert!(end.as_ps().abs_diff((8 << 20) * 1_000_000 / 14_500) <= 1);
    assert_eq!(sharing.end(copy), Some(end));
    sharing.hold(end, []);
    assert_eq!((sharing.take_ended(copy), sharing.len()), (Some(end), 0));
}

proptest! {
    #[test]
    fn fair_and_full(
        capacities in prop::collection::vec(1u64..100, 1..6),
        paths in prop::collection::vec((prop::collection::btree_set(0u32..6, 1..4), 1u64..1_000_000, 1u64..50), 1..12),
    ) {
        let mut sharing = Sharing::new(capacities.iter().map(|gbps| Rate::from_gbps(*gbps)).collect());
        let count = capacities.len() as u32;
        let flows: Vec<(Vec<u32>, FlowId, u64)> = paths.iter().map(|(path, bytes, most)| {
            let mut path: Vec<u32> = path.iter().map(|id| id % count).collect();
            path.dedup();
            path.sort_unstable();
            path.dedup();
            let id = sharing.start(Time::ZERO, Bytes(*bytes), uses(&path), Rate::from_gbps(*most));
            (path, id, *most)
        }).collect();
        let rate = |id: &FlowId| sharing.rate(*id).unwrap().as_bps();
        let load = |resource: u32| flows.iter().filter(|(path, ..)| path.contains(&resource)).map(|(_, id, _)| rate(id)).sum::<u64>();
        for resource in 0..count {
            prop_assert!(load(resource) <= capacities[resource as usize] * 1_000_000_000);
        }
        // Max-min: who is below its own limit has a full resource where nobody is faster.
        for (path, id, most) in &flows {
            let mine = rate(id);
            let bound = path.iter().any(|resource| {
                let full = load(*resource) + 64 >= capacities[*resource as usize] * 1_000_000_000;
                full && flows.iter().filter(|(path, ..)| path.contains(resource)).all(|(_, id, _)| rate(id) <= mine + 64)
            });
            prop_assert!(mine == most * 1_000_000_000 || bound);
        }
        // All end, and no earlier than their bytes allow.
        for (index, (_, id, most)) in flows.iter().enumerate() {
            let end = sharing.end(*id).unwrap();
            prop_assert!(end >= Time::ZERO + Rate::from_gbps(*most).time(Bytes(paths[index].1)));
        }
    }
}
