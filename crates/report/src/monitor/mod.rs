//! A run as operators watch it: links that are hot or wait, which job makes them so, who sends again, all over time.
//!
//! Source: the views of OSU INAM (jobs, links, hot links); `perfquery`, `ibqueryerrors` and ibdiagnet, `ethtool -S`, `rdma statistic`
//! and the telemetry of Cassini for the forms in [`form`].
//! Modelled: sums and intervals of what ports and adapters counted ([`fabriscope_engine::Counters`]), by job where jobs are told apart.
//! Not modelled: the moment between two reads; clocks of agents that read at different times.

pub mod form;
mod picture;
mod views;

use fabriscope_engine::{Counter, CounterPlace, Counters};
use fabriscope_units::{Span, Time};

use crate::counters::{At, Dialect, Readings, Site};

pub use form::{Form, FormError, Threshold};
pub use picture::figures;
pub use views::outcome;

/// A port as a manager of the fabric knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// Where it is.
    pub site: Site,
    /// The GUID of its device.
    pub guid: u64,
    /// The LID of its device.
    pub lid: u32,
    /// Its number there, from 1.
    pub number: u32,
    /// What the device says of itself.
    pub description: String,
}

/// An adapter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adapter {
    /// Which endpoint of the fabric it is.
    pub endpoint: u32,
    /// Where it is.
    pub site: Site,
    /// Its job, by number.
    pub job: Option<u16>,
}

/// A job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// Its name.
    pub name: String,
    /// How many hosts it has.
    pub hosts: u32,
}

/// A run that was watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Monitor {
    /// What was counted.
    pub counters: Counters,
    /// The same under the names of the machines.
    pub readings: Readings,
    /// Whose names they are.
    pub dialect: Dialect,
    /// The port that each link leaves.
    pub ports: Vec<Port>,
    /// All adapters.
    pub adapters: Vec<Adapter>,
    /// The jobs, by number.
    pub jobs: Vec<Job>,
    /// When the run ended.
    pub end: Time,
    /// What was watched, a line each.
    pub notes: Vec<String>,
}

impl Monitor {
    /// How long it was watched.
    fn whole(&self) -> Span {
        self.end - Time::ZERO
    }
    /// The length of an interval.
    #[must_use]
    pub fn every(&self) -> Span {
        self.counters.every.unwrap_or_else(|| self.whole())
    }

    /// The port at the far end of the link that leaves a port.
    fn far(&self, link: u32) -> Option<&Port> {
        let CounterPlace::Port(back) = CounterPlace::far(link) else { return None };
        self.ports.get(back as usize)
    }

    /// `node 3 to leaf 0`.
    fn name(&self, link: u32) -> String {
        let name = |port: Option<&Port>| port.map(|port| short(&port.site)).unwrap_or_default();
        format!("{} to {}", name(self.ports.get(link as usize)), name(self.far(link)))
    }

    fn total(&self, link: u32, counter: Counter) -> u64 {
        self.counters.total(CounterPlace::Port(link), counter)
    }

    /// Bytes over what the link carries in a time [0..1].
    fn share(&self, link: u32, bytes: u64, time: Span) -> f64 {
        let rate = self.ports.get(link as usize).map_or(0, |port| port.site.rate);
        let carried = rate as f64 / 8.0 * time.as_s_f64();
        if carried > 0.0 { bytes as f64 / carried } else { 0.0 }
    }

    /// Bytes and waiting (ps) of each job on a link; with one job, all are its own.
    fn jobs_on(&self, link: u32) -> Vec<(u16, u64, u64)> {
        if let [_] = &self.jobs[..] {
            return vec![(0, self.total(link, Counter::XmitBytes), self.total(link, Counter::XmitWait))];
        }
        let numbers = (0..self.jobs.len()).filter_map(|job| u16::try_from(job).ok());
        let of = |job| (job, self.total(link, Counter::XmitBytesOf(job)), self.total(link, Counter::XmitWaitOf(job)));
        numbers.map(of).filter(|(_, bytes, _)| *bytes > 0).collect()
    }

    /// Links that sent anything.
    fn used(&self) -> Vec<u32> {
        (0..self.ports.len() as u32).filter(|link| self.total(*link, Counter::XmitBytes) > 0).collect()
    }

    /// The links that were used most, by what they carry, and those on which packets waited longest.
    fn hottest(&self, by: Hot, count: usize) -> Vec<u32> {
        let heat = |link: u32| match by {
            Hot::Use => self.total(link, Counter::XmitBytes) as f64 / self.ports[link as usize].site.rate.max(1) as f64,
            Hot::Wait => self.total(link, Counter::XmitWait) as f64,
        };
        let mut links: Vec<(f64, u32)> = self.used().into_iter().map(|link| (heat(link), link)).filter(|(heat, _)| *heat > 0.0).collect();
        links.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(&other.1)));
        links.truncate(count);
        links.into_iter().map(|(_, link)| link).collect()
    }
}

/// What makes a link hot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hot {
    Use,
    Wait,
}

/// Without the port of an adapter, which has one.
fn short(site: &Site) -> String {
    match site.at {
        At::SwitchPort => site.instance.clone(),
        At::AdapterPort | At::Adapter if site.device.is_empty() => site.instance.clone(),
        At::AdapterPort | At::Adapter => format!("{} {}", site.instance, site.device),
    }
}
