//! Counters under the names that operators know: a table, CSV, OpenMetrics, Parquet.
//!
//! Source: see [`names`].
//! Modelled: every counter of a run under the names, and in the units, of the machine that the cluster is.
//! Not modelled: registers that stop at their largest value, and the moment between two reads.

pub mod names;
mod openmetrics;
mod parquet;

use std::collections::BTreeMap;
use std::io::{self, Write};

use fabriscope_engine::{Counter, CounterPlace, Counters};

pub use names::{At, Dialect, Unit};

use crate::Table;

/// A port or an adapter, as others may know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    /// What it is.
    pub at: At,
    /// The node or switch: `node 3`, `leaf 0`.
    pub instance: String,
    /// The device of a node: `mlx5_0`; empty for a switch.
    pub device: String,
    /// The port: 1 at an adapter, as the switch numbers it there; empty for what an adapter counts.
    pub port: String,
    /// The rate of its link (bit/s).
    pub rate: u64,
}

impl std::fmt::Display for Site {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts = [&self.instance, &self.device].into_iter().filter(|part| !part.is_empty());
        f.write_str(&parts.map(String::as_str).collect::<Vec<_>>().join(" "))?;
        if self.port.is_empty() { Ok(()) } else { write!(f, ":{}", self.port) }
    }
}

/// A counter of one port or adapter under one name, over time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// Where.
    pub site: Site,
    /// Its name there.
    pub name: String,
    /// The unit of its values.
    pub unit: Unit,
    metric: String,
    counter: Counter,
    doubles: bool,
    /// The job that it was counted for, where it was for one.
    job: Option<String>,
    /// Bytes, picoseconds or things, by interval.
    amounts: BTreeMap<u32, u64>,
}

impl Reading {
    /// The value at the end.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.unit.of(self.amounts.values().sum(), self.site.rate)
    }
    /// Whether it was counted for a job.
    #[must_use]
    pub fn is_of_job(&self) -> bool {
        self.job.is_some()
    }
    /// The value at the end of each interval, in its own unit or in `unit`.
    fn values(&self, intervals: u32, unit: Unit) -> impl Iterator<Item = u64> {
        let mut sum = 0;
        (0..intervals).map(move |interval| {
            sum += self.amounts.get(&interval).copied().unwrap_or(0);
            unit.of(sum, self.site.rate)
        })
    }
}

/// Everything that was counted, ready to be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Readings {
    /// By place, in the order of the graph; then by counter.
    pub all: Vec<Reading>,
    /// Length of an interval (ps), where there is more than the end.
    every: Option<u64>,
    intervals: u32,
    /// When the run ended (ps).
    end: u64,
    /// What the link of each port carries is written beside what it carried.
    rates: bool,
}

/// Too many values to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{readings} counters at {intervals} times are {values} values, and {most} are the most that a file gets")]
pub struct TooMany {
    /// Counters.
    pub readings: u64,
    /// Intervals.
    pub intervals: u64,
    /// Both multiplied.
    pub values: u64,
    /// The limit.
    pub most: u64,
}

/// Basis: assumed; files of some gigabytes.
const MOST_VALUES: u64 = 50_000_000;

impl Readings {
    /// Gives names to what was counted until `end_ps`; `site` says what a place is.
    ///
    /// # Errors
    /// More values than a file should have.
    pub fn new(counters: &Counters, dialect: Dialect, end_ps: u64, site: impl Fn(CounterPlace) -> Site) -> Result<Readings, TooMany> {
        let mut all: Vec<Reading> = Vec::new();
        let (mut place, mut first) = (None, 0);
        for series in counters.series() {
            if place.replace(series.place) != Some(series.place) {
                first = all.len();
            }
            let here = site(series.place);
            for known in names::names(dialect, here.at, series.counter) {
                let named = |text: &str| text.replace('#', &priority(series.counter).to_string());
                let name = named(known.name);
                let found = all[first..].iter().position(|reading| reading.name == name);
                let index = found.map_or(all.len(), |index| first + index);
                if found.is_none() {
                    let (site, metric) = (here.clone(), named(known.metric));
                    let (unit, counter, doubles) = (known.unit, series.counter, known.doubles);
                    all.push(Reading { site, name, unit, metric, counter, doubles, job: None, amounts: BTreeMap::new() });
                }
                for (bin, amount) in series.amounts() {
                    *all[index].amounts.entry(bin).or_default() += amount * known.scale;
                }
            }
        }
        let intervals = counters.bins();
        Readings::within(all.len(), intervals)?;
        let every = counters.every.map(|every| every.as_ps());
        Ok(Readings { all, every, intervals, end: end_ps, rates: false })
    }

    /// The same with what links carried for each job, and the rates of the links, so that their use can be computed.
    ///
    /// # Errors
    /// More values than a file should have.
    pub fn with_jobs(mut self, counters: &Counters, jobs: &[String], site: impl Fn(CounterPlace) -> Site) -> Result<Readings, TooMany> {
        for series in counters.series() {
            let (job, name, metric, unit) = match series.counter {
                Counter::XmitBytesOf(job) => (job, "xmit_data", "fabriscope_job_port_xmit_data_bytes", Unit::Bytes),
                Counter::XmitWaitOf(job) => (job, "xmit_wait", "fabriscope_job_port_xmit_wait", Unit::Nanoseconds),
                _ => continue,
            };
            let Some(job) = jobs.get(usize::from(job)) else { continue };
            self.all.push(Reading {
                site: site(series.place),
                name: format!("{name}[{job}]"),
                unit,
                metric: metric.to_owned(),
                counter: series.counter,
                doubles: true,
                job: Some(job.clone()),
                amounts: series.amounts().collect(),
            });
        }
        self.rates = true;
        Readings::within(self.all.len(), self.intervals).map(|()| self)
    }

    /// Whether a file gets so many.
    fn within(readings: usize, intervals: u32) -> Result<(), TooMany> {
        let (readings, intervals_64) = (readings as u64, u64::from(intervals));
        let values = readings.saturating_mul(intervals_64);
        if values > MOST_VALUES {
            return Err(TooMany { readings, intervals: intervals_64, values, most: MOST_VALUES });
        }
        Ok(())
    }

    /// The end of each interval (ps).
    fn times(&self) -> impl Iterator<Item = u64> {
        let (every, end) = (self.every, self.end);
        (1..=u64::from(self.intervals)).map(move |interval| every.map_or(end, |every| every.saturating_mul(interval)))
    }

    /// The sums: ports in columns, then everything else that is not zero.
    #[must_use]
    pub fn table(&self) -> String {
        let mut text = String::new();
        for at in [At::AdapterPort, At::SwitchPort] {
            if let Some(table) = self.ports(at) {
                text += &format!("{table}\n");
            }
        }
        let mut others = Table::new(["place", "counter", "value", "unit"]).words(1).words(3);
        let mut any = false;
        for reading in self.all.iter().filter(|reading| !reading.doubles && !is_column(reading.counter) && reading.total() > 0) {
            any = true;
            let unit = reading.unit.symbol().to_owned();
            others.push([reading.site.to_string(), short(&reading.name).to_owned(), reading.total().to_string(), unit]);
        }
        if any {
            text += &format!("{others}\n");
        }
        text.truncate(text.trim_end_matches('\n').len());
        if text.is_empty() { "# nothing was counted\n".to_owned() } else { text + "\n" }
    }

    /// Ports of one kind, a column for what every port counts.
    fn ports(&self, at: At) -> Option<Table> {
        let shown: Vec<&Reading> =
            self.all.iter().filter(|reading| reading.site.at == at && !reading.doubles && is_column(reading.counter)).collect();
        let mut heads: Vec<(Counter, String)> = Vec::new();
        for reading in &shown {
            let unit = reading.unit.symbol();
            let head = if unit.is_empty() { short(&reading.name).to_owned() } else { format!("{} ({unit})", short(&reading.name)) };
            if !heads.iter().any(|(_, known)| *known == head) {
                heads.push((reading.counter, head));
            }
        }
        heads.sort_by_key(|(counter, _)| *counter);
        if heads.is_empty() {
            return None;
        }
        let mut rows: Vec<(String, Vec<u64>)> = Vec::new();
        for reading in shown {
            let site = reading.site.to_string();
            if rows.last().is_none_or(|(last, _)| *last != site) {
                rows.push((site, vec![0; heads.len()]));
            }
            let column = heads.iter().position(|(counter, _)| *counter == reading.counter);
            if let (Some((_, row)), Some(column)) = (rows.last_mut(), column) {
                row[column] = reading.total();
            }
        }
        let mut table = Table::with(std::iter::once("port".to_owned()).chain(heads.into_iter().map(|(_, head)| head)));
        rows.into_iter().for_each(|(site, row)| table.push(std::iter::once(site).chain(row.iter().map(u64::to_string))));
        Some(table)
    }

    /// A row for each value: `time_ps,instance,device,port,counter,unit,value`.
    ///
    /// # Errors
    /// What `writer` says.
    pub fn csv<W: Write + ?Sized>(&self, writer: &mut W) -> io::Result<()> {
        let mut csv = csv::Writer::from_writer(writer);
        csv.write_record(["time_ps", "instance", "device", "port", "counter", "unit", "value"])?;
        for reading in &self.all {
            let (Reading { name, unit, .. }, Site { instance, device, port, .. }) = (reading, &reading.site);
            for (time, value) in self.times().zip(reading.values(self.intervals, *unit)) {
                csv.write_record([&time.to_string(), instance, device, port, name, unit.symbol(), &value.to_string()])?;
            }
        }
        csv.flush()
    }
}

/// What every port counts.
const fn is_column(counter: Counter) -> bool {
    matches!(
        counter,
        Counter::XmitBytes | Counter::RcvBytes | Counter::XmitPackets | Counter::RcvPackets | Counter::XmitWait
            // Cassini has packets by traffic class only.
            | Counter::XmitPacketsAt(_) | Counter::RcvPacketsAt(_)
    )
}

/// A name without what all its kind begin with.
fn short(name: &str) -> &str {
    name.strip_prefix("SAI_PORT_STAT_").unwrap_or(name)
}

/// The priority of a counter that has one.
const fn priority(counter: Counter) -> u8 {
    match counter {
        Counter::XmitBytesAt(priority)
        | Counter::RcvBytesAt(priority)
        | Counter::XmitPacketsAt(priority)
        | Counter::RcvPacketsAt(priority)
        | Counter::TxPause(priority)
        | Counter::RxPause(priority)
        | Counter::TxPauseTime(priority)
        | Counter::RxPauseTime(priority) => priority,
        _ => 0,
    }
}
