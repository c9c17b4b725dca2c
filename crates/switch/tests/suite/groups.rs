//! A snooping switch against a list of what hosts said, and the conservation of what it tells the querier.

use std::collections::BTreeMap;

use fabriscope_switch::snooping::Action;
use fabriscope_switch::{Report, Snooper, Timing};
use fabriscope_units::{Span, Time};
use proptest::prelude::*;

fn at(ms: u64) -> Time {
    Time::ZERO + Span::from_us(1000 * ms)
}

/// Members time out after 260 ms, a leave after 2 · 10 ms: RFC 2236 §8, a thousand times as fast.
const TIMING: Timing = Timing { membership: Span::from_us(260_000), last_member_query: Span::from_us(10_000), last_member_count: 2 };

#[test]
fn the_times_of_the_standard() {
    // RFC 2236 §8.4: group membership interval = robustness · query interval + query response interval = 2 · 125 s + 10 s. §8.10: last member query
    // interval 1 s, §8.11: count = robustness.
    let timing = Timing::default();
    assert_eq!(timing.membership, Span::from_us(1_000_000) * (2 * 125 + 10));
    assert_eq!((timing.last_member_query, timing.last_member_count), (Span::from_us(1_000_000), 2));
}

#[test]
fn a_leave_never_keeps_a_port_longer() {
    // A port that would go in 5 ms of itself does not stay for the 20 ms of the questions.
    let mut snooper = Snooper::new(TIMING);
    snooper.handle_report(at(0), 7, 1, Report::Member);
    assert_eq!(snooper.handle_report(at(255), 7, 1, Report::Leave), Action::Asked { until: at(260) });
    assert_eq!(snooper.handle_timeout(at(260)), [7]);
}

#[test]
fn the_querier_hears_of_every_group_and_is_no_member() {
    // RFC 4541 §2.1.2: all data of a group goes to its members and to routers; a port that is both is named once.
    let mut snooper = Snooper::new(TIMING);
    assert_eq!(snooper.ports(1).count(), 0, "nobody is known");
    snooper.handle_query(4);
    snooper.handle_report(at(0), 1, 4, Report::Member);
    snooper.handle_report(at(0), 1, 2, Report::Member);
    assert_eq!((snooper.ports(1).collect::<Vec<_>>(), snooper.ports(2).collect::<Vec<_>>()), (vec![2, 4], vec![4]));
    // Another querier takes its place.
    snooper.handle_query(9);
    assert_eq!((snooper.ports(1).collect::<Vec<_>>(), snooper.ports(2).collect::<Vec<_>>()), (vec![2, 4, 9], vec![9]));
}

#[derive(Debug, Clone, Copy)]
struct Said {
    after: u64,
    group: u32,
    port: u16,
    report: Report,
}

fn said() -> impl Strategy<Value = Said> {
    let report = prop_oneof![3 => Just(Report::Member), 1 => Just(Report::Leave)];
    (0u64..80, 0u32..4, 0u16..6, report).prop_map(|(after, group, port, report)| Said { after, group, port, report })
}

proptest! {
    /// By a list of when each port of each group is due, with the timer called at any time or only when it asks: the same ports, the same news for
    /// the querier. Of every group it hears once that there is a member before it hears once that there is none.
    #[test]
    fn ports_are_those_of_a_list(steps in prop::collection::vec(said(), 1..120), eager: bool) {
        let mut snooper = Snooper::new(TIMING);
        let mut due: BTreeMap<(u32, u16), u64> = BTreeMap::new();
        let (mut now, mut told) = (0, BTreeMap::<u32, bool>::new());
        for said in steps {
            now += said.after;
            if eager || snooper.poll_timeout().is_some_and(|timeout| timeout <= at(now)) {
                for group in snooper.handle_timeout(at(now)) {
                    prop_assert_eq!(told.insert(group, false), Some(true), "group {} was left twice", group);
                }
                due.retain(|_, until| *until > now);
            }
            let key = (said.group, said.port);
            let alone = !due.keys().any(|(group, _)| *group == said.group);
            let expected = match (said.report, due.get(&key).copied()) {
                (Report::Member, None) => Action::Added { forward: alone },
                (Report::Leave, Some(until)) => Action::Asked { until: at(until.min(now + 20)) },
                _ => Action::None,
            };
            prop_assert_eq!(snooper.handle_report(at(now), said.group, said.port, said.report), expected);
            match said.report {
                Report::Member => due.insert(key, now + 260),
                Report::Leave => due.get(&key).copied().and_then(|until| due.insert(key, until.min(now + 20))),
            };
            if expected == (Action::Added { forward: true }) {
                prop_assert_ne!(told.insert(said.group, true), Some(true), "group {} was joined twice", said.group);
            }
            for group in 0..4 {
                let ports: Vec<u16> = due.keys().filter(|(of, _)| *of == group).map(|(_, port)| *port).collect();
                prop_assert_eq!(snooper.ports(group).collect::<Vec<_>>(), ports);
            }
            prop_assert_eq!(snooper.poll_timeout(), due.values().min().map(|until| at(*until)));
        }
        // In silence all of it goes, and the querier has heard of every leave.
        for group in snooper.handle_timeout(at(now + 260)) {
            told.insert(group, false);
        }
        prop_assert!(told.values().all(|is_joined| !is_joined) && snooper.poll_timeout().is_none());
    }
}
