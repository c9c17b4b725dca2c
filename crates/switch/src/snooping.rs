//! A switch that learns from IGMP or MLD messages behind which ports the members of a multicast group are.
//!
//! Source: RFC 4541 §2.1 (what a snooping switch does with reports, leaves, queries and data), RFC 2236 §3 and §8 (IGMPv2:
//! general query, report, leave, questions to the group that was left), RFC 3376 §4.2.12 (version 3: joining and leaving
//! are records of one report), RFC 4541 §2.1.1 (proxy reporting: only the first report and the last leave go on).
//! Modelled: ports of members with their life time, the port of the querier, last-member queries, proxy reporting.
//! Not modelled: sources (version 3 filters by sender), election of the querier, immediate leave, a limit of the table.

use std::collections::BTreeMap;

use fabriscope_units::{Span, Time};

/// What a host says of a group: IGMPv2 messages, or the records of IGMPv3 that mean the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Report {
    /// Report of version 2; record `CHANGE_TO_EXCLUDE {}` or `MODE_IS_EXCLUDE {}` of version 3.
    Member,
    /// Leave of version 2; record `CHANGE_TO_INCLUDE {}` of version 3.
    Leave,
}

/// The times of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// A port without a report is pruned after this.
    pub membership: Span,
    /// After a leave: between two questions to the group, and after the last one until the port is pruned.
    pub last_member_query: Span,
    /// How many such questions there are.
    pub last_member_count: u32,
}

impl Default for Timing {
    /// RFC 2236 §8: robustness 2, general queries every 125 s answered within 10 s, 2 questions of 1 s.
    fn default() -> Timing {
        Timing { membership: Span::from_us(260_000_000), last_member_query: Span::from_us(1_000_000), last_member_count: 2 }
    }
}

/// What a switch does about a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Nothing changes.
    None,
    /// The port is new; `forward`: it is the first of the group, so the querier hears of it.
    Added {
        /// Whether the report goes on to the querier.
        forward: bool,
    },
    /// The port is asked whether members are left; it is pruned at this time if nobody answers.
    Asked {
        /// When.
        until: Time,
    },
}

/// The table of a switch.
#[derive(Debug, Clone, Default)]
pub struct Snooper {
    timing: Timing,
    /// By group and port: when the port is pruned.
    members: BTreeMap<u32, BTreeMap<u16, Time>>,
    /// The port behind which the querier is, once it was heard.
    querier: Option<u16>,
}

impl Snooper {
    /// A switch that has heard nothing.
    #[must_use]
    pub fn new(timing: Timing) -> Snooper {
        Snooper { timing, ..Snooper::default() }
    }

    /// A general query came by `port`: the querier is there, and everybody will answer.
    pub fn handle_query(&mut self, port: u16) {
        self.querier = Some(port);
    }

    /// A report of `group` came by `port`.
    pub fn handle_report(&mut self, now: Time, group: u32, port: u16, report: Report) -> Action {
        match report {
            Report::Member => {
                let ports = self.members.entry(group).or_default();
                let forward = ports.is_empty();
                match ports.insert(port, now + self.timing.membership) {
                    None => Action::Added { forward },
                    Some(_) => Action::None,
                }
            }
            Report::Leave => {
                let Some(until) = self.members.get_mut(&group).and_then(|ports| ports.get_mut(&port)) else { return Action::None };
                *until = (*until).min(now + self.timing.last_member_query * u64::from(self.timing.last_member_count));
                Action::Asked { until: *until }
            }
        }
    }

    /// When to call [`Snooper::handle_timeout`].
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        self.members.values().flat_map(BTreeMap::values).min().copied()
    }

    /// Prunes what is due by `now`; returns the groups that nobody is left of, in order: the querier hears of their leave.
    pub fn handle_timeout(&mut self, now: Time) -> Vec<u32> {
        let mut gone = Vec::new();
        self.members.retain(|group, ports| {
            ports.retain(|_, until| *until > now);
            if ports.is_empty() {
                gone.push(*group);
            }
            !ports.is_empty()
        });
        gone
    }

    /// The ports that a packet of `group` goes to, in order, but for the one it came by: those of members and of the
    /// querier. Packets of a group that nobody has reported go to the querier alone.
    pub fn ports(&self, group: u32) -> impl Iterator<Item = u16> + '_ {
        let members = self.members.get(&group).into_iter().flat_map(BTreeMap::keys).copied();
        let querier = self.querier.filter(|port| !self.members.get(&group).is_some_and(|ports| ports.contains_key(port)));
        members.chain(querier)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time::ZERO + Span::from_us(1_000_000) * seconds
    }
    fn ports(snooper: &Snooper, group: u32) -> Vec<u16> {
        snooper.ports(group).collect()
    }

    #[test]
    fn ports_come_with_reports_and_go_with_leaves() {
        let mut snooper = Snooper::new(Timing::default());
        snooper.handle_query(9);
        assert_eq!(ports(&snooper, 1), [9], "nobody has reported");
        assert_eq!(snooper.handle_report(at(0), 1, 3, Report::Member), Action::Added { forward: true });
        assert_eq!(snooper.handle_report(at(1), 1, 5, Report::Member), Action::Added { forward: false });
        assert_eq!(snooper.handle_report(at(2), 1, 5, Report::Member), Action::None);
        assert_eq!((ports(&snooper, 1), ports(&snooper, 2)), (vec![3, 5, 9], vec![9]));
        // Two questions of a second each.
        assert_eq!(snooper.handle_report(at(10), 1, 3, Report::Leave), Action::Asked { until: at(12) });
        assert_eq!(snooper.poll_timeout(), Some(at(12)));
        assert_eq!(snooper.handle_timeout(at(11)), [0u32; 0]);
        assert_eq!(ports(&snooper, 1), [3, 5, 9], "packets go there until it is known that nobody is left");
        assert_eq!(snooper.handle_timeout(at(12)), [0u32; 0]);
        assert_eq!(ports(&snooper, 1), [5, 9]);
        snooper.handle_report(at(12), 1, 5, Report::Leave);
        assert_eq!(snooper.handle_timeout(at(14)), [1], "the last one");
        assert_eq!((ports(&snooper, 1), snooper.poll_timeout()), (vec![9], None));
        assert_eq!(snooper.handle_report(at(15), 1, 5, Report::Leave), Action::None);
    }

    #[test]
    fn who_answers_the_question_stays() {
        let mut snooper = Snooper::new(Timing::default());
        snooper.handle_report(at(0), 1, 3, Report::Member);
        snooper.handle_report(at(10), 1, 3, Report::Leave);
        // Another host behind the same port.
        assert_eq!(snooper.handle_report(at(11), 1, 3, Report::Member), Action::None);
        assert_eq!(snooper.handle_timeout(at(12)), [0u32; 0]);
        assert_eq!(ports(&snooper, 1), [3]);
    }

    #[test]
    fn silence_prunes_after_the_membership_interval() {
        let mut snooper = Snooper::new(Timing::default());
        snooper.handle_report(at(0), 1, 3, Report::Member);
        snooper.handle_report(at(125), 1, 3, Report::Member);
        assert!(snooper.handle_timeout(at(384)).is_empty());
        assert_eq!(snooper.handle_timeout(at(385)), [1]);
    }
}
