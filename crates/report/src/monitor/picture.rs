//! The views over time: links by use and by waiting, jobs by what their hosts receive, packets sent again.

use fabriscope_engine::{Counter, CounterPlace};
use fabriscope_units::Span;

use super::{Hot, Monitor};
use crate::counters::At;
use crate::figure::{Axis, Figure, Heat, Lines, Look, Panel, Series, Unit};

/// Pictures of a run, with `top` links on each.
#[must_use]
pub fn figures(monitor: &Monitor, top: usize) -> Vec<Figure> {
    let links = Figure::new("Links over time", [Hot::Use, Hot::Wait].map(|by| Panel::Heat(heat(monitor, by, top))))
        .told("hot links by what they carried of what they can, and by the share of the time in which a packet was ready and could not go");
    let jobs = Figure::new("Jobs over time", [Panel::Lines(received(monitor)), Panel::Lines(again(monitor))])
        .told("what the links to the hosts of each job carried, and packets that its adapters sent again");
    [links, jobs].into_iter().filter(|figure| !figure.is_empty()).collect()
}

fn seconds(span: Span) -> f64 {
    span.as_s_f64()
}

fn heat(monitor: &Monitor, by: Hot, top: usize) -> Heat {
    let (bins, every) = (monitor.counters.bins(), monitor.every());
    let row = |link: &u32| {
        let place = CounterPlace::Port(*link);
        let values: Vec<f64> = match by {
            Hot::Use => {
                let bytes = monitor.counters.over_time(place, Counter::XmitBytes, bins);
                bytes.into_iter().map(|bytes| monitor.share(*link, bytes, every)).collect()
            }
            Hot::Wait => {
                let waits = monitor.counters.over_time(place, Counter::XmitWait, bins);
                waits.into_iter().map(|wait| (wait as f64 / every.as_ps().max(1) as f64).min(1.0)).collect()
            }
        };
        (monitor.name(*link), values)
    };
    let label = match by {
        Hot::Use => "use of the links that carried most",
        Hot::Wait => "waiting on the links that waited longest",
    };
    Heat {
        label: label.to_owned(),
        unit: Unit::Share,
        x: Axis::linear("time", Unit::Seconds),
        extent: (0.0, seconds(every * u64::from(bins))),
        rows: monitor.hottest(by, top).iter().map(row).collect(),
        most: 1.0,
    }
}

/// Rates at which the links to the hosts of jobs carry.
fn received(monitor: &Monitor) -> Lines {
    let (bins, every) = (monitor.counters.bins(), monitor.every());
    let mut lines = Lines::over(Axis::linear("time", Unit::Seconds), Axis::linear("received by its hosts", Unit::BitsPerSecond));
    let to_host = |link: &u32| monitor.far(*link).is_some_and(|port| port.site.at == At::AdapterPort);
    let links: Vec<u32> = monitor.used().into_iter().filter(to_host).collect();
    for (number, job) in monitor.jobs.iter().enumerate().take(MOST_JOBS) {
        let mut sums = vec![0_u64; bins as usize];
        for link in &links {
            let bytes = monitor.counters.over_time(CounterPlace::Port(*link), monitor.counter_of(number), bins);
            sums.iter_mut().zip(bytes).for_each(|(sum, bytes)| *sum += bytes);
        }
        let rate = |(bin, bytes): (usize, u64)| (seconds(every * (bin as u64 + 1)), bytes as f64 * 8.0 / seconds(every).max(1e-15));
        lines.series.push(Series::new(job.name.clone(), Look::Steps, sums.into_iter().enumerate().map(rate)));
    }
    lines
}

/// Packets that the adapters of jobs sent again.
fn again(monitor: &Monitor) -> Lines {
    let (bins, every) = (monitor.counters.bins(), monitor.every());
    let mut lines = Lines::over(Axis::linear("time", Unit::Seconds), Axis::linear("packets sent again in an interval", Unit::Count));
    for (number, job) in monitor.jobs.iter().enumerate().take(MOST_JOBS) {
        let mut sums = vec![0_u64; bins as usize];
        for adapter in monitor.adapters.iter().filter(|adapter| adapter.job.map(usize::from) == Some(number)) {
            let more = monitor.counters.over_time(CounterPlace::Adapter(adapter.endpoint), Counter::Retransmissions, bins);
            sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
        }
        if sums.iter().any(|sum| *sum > 0) {
            let points = sums.into_iter().enumerate().map(|(bin, sum)| (seconds(every * (bin as u64 + 1)), sum as f64));
            lines.series.push(Series::new(job.name.clone(), Look::Steps, points));
        }
    }
    lines
}

/// Jobs with a curve. Basis: assumed; more cannot be told apart.
const MOST_JOBS: usize = 8;
