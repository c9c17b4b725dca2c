//! The views: hot links, waiting links, jobs, which job makes which link hot, who sends again.

use fabriscope_engine::{Counter, CounterPlace};
use fabriscope_units::Span;

use super::{Hot, Monitor};
use crate::{Cell, Column, Grid, Outcome};

/// All views, with `top` links in each, and the same links over time for programs.
#[must_use]
pub fn outcome(monitor: &Monitor, top: usize) -> Outcome {
    let mut outcome = Outcome::new();
    for note in &monitor.notes {
        outcome.note(note.clone());
    }
    let bins = monitor.counters.bins();
    let (end, every) = (monitor.whole(), monitor.every());
    outcome.note(format!("{:.3} us in {bins} intervals of {:.3} us", end.as_us_f64(), every.as_us_f64()));
    outcome.set("end_ps", end.as_ps()).set("every_ps", every.as_ps()).set("intervals", bins);
    outcome.text("\n").note("hot links: by use").keyed_table("hot", links(monitor, Hot::Use, top));
    let waiting = links(monitor, Hot::Wait, top);
    if waiting.is_empty() {
        outcome.text("\n").note("no packet waited for credits or because of a pause");
    } else {
        outcome
            .text("\n")
            .note("hot links: by the time in which packets waited for credits or because of a pause")
            .keyed_table("waiting", waiting);
    }
    outcome.text("\n").note("jobs").keyed_table("jobs", jobs(monitor));
    if monitor.jobs.len() > 1 {
        outcome.text("\n").note("which job makes which link hot").keyed_table("shares", shares(monitor, top));
    }
    let retries = retries(monitor);
    if retries.is_empty() {
        outcome.text("\n").note("nobody sent anything again");
    } else {
        outcome.text("\n").note("who sends again").keyed_table("retries", retries);
    }
    let broken = broken(monitor);
    if !broken.is_empty() {
        outcome.text("\n").note("links with losses").keyed_table("losses", broken);
    }
    outcome.data_table("series", series(monitor, top));
    outcome
}

/// Percent of what was possible.
fn percent(share: f64) -> Cell {
    Cell::number((share * 1000.0).round() / 10.0, 1)
}

fn links(monitor: &Monitor, by: Hot, top: usize) -> Grid {
    let mut grid = Grid::new([
        Column::words("link", "link"),
        Column::number("Gb/s", "gbps"),
        Column::number("use (%)", "use").unit("%"),
        Column::number("most (%)", "most").unit("%"),
        Column::number("at (us)", "most_at_ps").unit("ps"),
        Column::number("wait (us)", "wait_ps").unit("ps"),
        Column::number("wait (%)", "wait").unit("%"),
        Column::number("marks", "marks"),
        Column::number("discards", "discards"),
        Column::words("jobs", "jobs"),
    ]);
    let whole = monitor.whole();
    let every = monitor.every();
    for link in monitor.hottest(by, top) {
        let place = CounterPlace::Port(link);
        let over = monitor.counters.over_time(place, Counter::XmitBytes, monitor.counters.bins());
        // The first of the busiest.
        let most = (0..over.len()).max_by(|one, other| over[*one].cmp(&over[*other]).then(other.cmp(one))).unwrap_or(0);
        let wait = monitor.total(link, Counter::XmitWait);
        grid.push([
            Cell::word(monitor.name(link)),
            Cell::number(monitor.ports[link as usize].site.rate as f64 / 1e9, 0),
            percent(monitor.share(link, monitor.total(link, Counter::XmitBytes), whole)),
            percent(monitor.share(link, over.get(most).copied().unwrap_or(0), every.min(whole))),
            Cell::us(every * most as u64),
            Cell::us(Span::from_ps(wait)),
            percent(wait as f64 / whole.as_ps().max(1) as f64),
            Cell::count(monitor.total(link, Counter::XmitMarks)),
            Cell::count(monitor.total(link, Counter::XmitDiscards)),
            Cell::word(named(monitor, link)),
        ]);
    }
    grid
}

/// `simulation 62 %, backup 38 %`: those with the most bytes first.
fn named(monitor: &Monitor, link: u32) -> String {
    let mut jobs = monitor.jobs_on(link);
    let all = jobs.iter().map(|(_, bytes, _)| bytes).sum::<u64>().max(1);
    jobs.sort_by_key(|(job, bytes, _)| (std::cmp::Reverse(*bytes), *job));
    let one = |(job, bytes, _): &(u16, u64, u64)| {
        let name = &monitor.jobs[usize::from(*job)].name;
        if jobs.len() == 1 { name.clone() } else { format!("{name} {:.0} %", *bytes as f64 / all as f64 * 100.0) }
    };
    jobs.iter().take(3).map(one).collect::<Vec<_>>().join(", ")
}

fn jobs(monitor: &Monitor) -> Grid {
    let mut grid = Grid::new([
        Column::words("job", "job"),
        Column::number("hosts", "hosts"),
        Column::number("first (us)", "first_ps").unit("ps"),
        Column::number("last (us)", "last_ps").unit("ps"),
        Column::number("received (MB)", "received_bytes").unit("B"),
        Column::number("links", "links"),
        Column::number("wait (us)", "wait_ps").unit("ps"),
        Column::number("sent again", "retransmitted_packets"),
        Column::number("timeouts", "timeouts"),
        Column::words("its hottest link", "hottest"),
        Column::number("use by it (%)", "hottest_use").unit("%"),
    ]);
    let whole = monitor.whole();
    let mut links: Vec<Vec<(u32, u64, u64)>> = vec![Vec::new(); monitor.jobs.len()];
    for link in monitor.used() {
        monitor.jobs_on(link).into_iter().for_each(|(job, bytes, wait)| links[usize::from(job)].push((link, bytes, wait)));
    }
    for ((number, job), mine) in monitor.jobs.iter().enumerate().zip(links) {
        let to_host = |link: u32| monitor.far(link).is_some_and(|port| port.site.at == crate::counters::At::AdapterPort);
        let received: u64 = mine.iter().filter(|(link, ..)| to_host(*link)).map(|(_, bytes, _)| bytes).sum();
        let wait: u64 = mine.iter().map(|(.., wait)| wait).sum();
        let hottest = mine.iter().map(|(link, bytes, _)| (monitor.share(*link, *bytes, whole), *link));
        let hottest = hottest.max_by(|one, other| one.0.total_cmp(&other.0).then(other.1.cmp(&one.1)));
        let (first, last) = monitor.active(number, &mine);
        let own = |counter| -> u64 {
            let adapters = monitor.adapters.iter().filter(|adapter| adapter.job.map(usize::from) == Some(number));
            adapters.map(|adapter| monitor.counters.total(CounterPlace::Adapter(adapter.endpoint), counter)).sum()
        };
        grid.push([
            Cell::word(job.name.clone()),
            Cell::count(job.hosts),
            Cell::us(first),
            Cell::us(last),
            Cell::told(format!("{:.3}", received as f64 / 1e6), received),
            Cell::count(mine.len()),
            Cell::us(Span::from_ps(wait)),
            Cell::count(own(Counter::Retransmissions)),
            Cell::count(own(Counter::LocalAckTimeoutErr)),
            hottest.map_or_else(Cell::none, |(_, link)| Cell::word(monitor.name(link))),
            hottest.map_or_else(Cell::none, |(share, _)| percent(share)),
        ]);
    }
    grid
}

impl Monitor {
    /// From the beginning of the first interval in which links carried anything of a job to the end of the last.
    fn active(&self, job: usize, links: &[(u32, u64, u64)]) -> (Span, Span) {
        let bins = self.counters.bins();
        let counter = self.counter_of(job);
        let (mut first, mut last) = (None::<usize>, 0);
        for (link, ..) in links {
            let over = self.counters.over_time(CounterPlace::Port(*link), counter, bins);
            let from = over.iter().position(|bytes| *bytes > 0);
            first = [first, from].into_iter().flatten().min();
            last = last.max(over.iter().rposition(|bytes| *bytes > 0).map_or(0, |at| at + 1));
        }
        let end = self.whole();
        (self.every() * first.unwrap_or(0) as u64, (self.every() * last as u64).min(end))
    }

    /// What counts the bytes of a job on a link.
    pub(super) fn counter_of(&self, job: usize) -> Counter {
        match u16::try_from(job) {
            Ok(job) if self.jobs.len() > 1 => Counter::XmitBytesOf(job),
            _ => Counter::XmitBytes,
        }
    }
}

fn shares(monitor: &Monitor, top: usize) -> Grid {
    let mut grid = Grid::new([
        Column::words("link", "link"),
        Column::words("job", "job"),
        Column::number("use by it (%)", "use").unit("%"),
        Column::number("of what it sent (%)", "share").unit("%"),
        Column::number("wait (us)", "wait_ps").unit("ps"),
    ]);
    let whole = monitor.whole();
    for link in monitor.hottest(Hot::Use, top) {
        let all = monitor.total(link, Counter::XmitBytes).max(1);
        for (job, bytes, wait) in monitor.jobs_on(link) {
            grid.push([
                Cell::word(monitor.name(link)),
                Cell::word(monitor.jobs[usize::from(job)].name.clone()),
                percent(monitor.share(link, bytes, whole)),
                percent(bytes as f64 / all as f64),
                Cell::us(Span::from_ps(wait)),
            ]);
        }
    }
    grid
}

fn retries(monitor: &Monitor) -> Grid {
    const COUNTED: [(&str, &str, Counter); 6] = [
        ("sent again", "retransmitted_packets", Counter::Retransmissions),
        ("timeouts", "timeouts", Counter::LocalAckTimeoutErr),
        ("NAKs of gaps", "packet_seq_err", Counter::PacketSeqErr),
        ("not ready", "rnr_nak_retry_err", Counter::RnrNakRetryErr),
        ("out of sequence", "out_of_sequence", Counter::OutOfSequence),
        ("duplicates", "duplicate_request", Counter::DuplicateRequest),
    ];
    let heads = COUNTED.iter().map(|(head, key, _)| Column::number(head, key));
    let mut grid = Grid::new([Column::words("adapter", "adapter"), Column::words("job", "job")].into_iter().chain(heads));
    for adapter in &monitor.adapters {
        let counts = COUNTED.map(|(.., counter)| monitor.counters.total(CounterPlace::Adapter(adapter.endpoint), counter));
        if counts.iter().all(|count| *count == 0) {
            continue;
        }
        let job =
            adapter.job.and_then(|job| monitor.jobs.get(usize::from(job))).map_or_else(Cell::none, |job| Cell::word(job.name.clone()));
        grid.push([Cell::word(super::short(&adapter.site)), job].into_iter().chain(counts.map(Cell::count)));
    }
    grid
}

/// What was sent on a link and did not arrive, and why, where that happened.
fn broken(monitor: &Monitor) -> Grid {
    let mut grid = Grid::new([
        Column::words("link", "link"),
        Column::number("sent", "sent_packets"),
        Column::number("arrived", "received_packets"),
        Column::number("damaged", "damaged_packets"),
        Column::number("discards", "discards"),
        Column::number("downs", "downs"),
        Column::number("recoveries", "recoveries"),
    ]);
    for link in 0..monitor.ports.len() as u32 {
        let far = |counter| monitor.counters.total(CounterPlace::far(link), counter);
        let (sent, arrived) = (monitor.total(link, Counter::XmitPackets), far(Counter::RcvPackets));
        let (damaged, discards) = (far(Counter::RcvErrors), monitor.total(link, Counter::XmitDiscards));
        let (downs, recoveries) = (monitor.total(link, Counter::LinkDowned), monitor.total(link, Counter::LinkRecoveries));
        if damaged + discards + downs + recoveries > 0 {
            let counts = [sent, arrived, damaged, discards, downs, recoveries].map(Cell::count);
            grid.push(std::iter::once(Cell::word(monitor.name(link))).chain(counts));
        }
    }
    grid
}

/// A row for each interval of each hot or waiting link: all that it sent, then each job's part, where there are several.
fn series(monitor: &Monitor, top: usize) -> Grid {
    let mut grid = Grid::new([
        Column::number("time (us)", "time_ps").unit("ps"),
        Column::words("link", "link"),
        Column::words("job", "job"),
        Column::number("sent (B)", "sent_bytes").unit("B"),
        Column::number("wait (us)", "wait_ps").unit("ps"),
    ]);
    let mut links = monitor.hottest(Hot::Use, top);
    links.extend(monitor.hottest(Hot::Wait, top));
    links.sort_unstable();
    links.dedup();
    let bins = monitor.counters.bins();
    for link in links {
        let place = CounterPlace::Port(link);
        let several = if monitor.jobs.len() > 1 { monitor.jobs_on(link) } else { Vec::new() };
        let jobs = several.iter().map(|(job, ..)| (monitor.jobs[usize::from(*job)].name.as_str(), Some(*job)));
        for (name, job) in std::iter::once(("", None)).chain(jobs) {
            let [bytes, waits] = match job {
                None => [Counter::XmitBytes, Counter::XmitWait],
                Some(job) => [Counter::XmitBytesOf(job), Counter::XmitWaitOf(job)],
            }
            .map(|counter| monitor.counters.over_time(place, counter, bins));
            for (bin, (bytes, wait)) in bytes.into_iter().zip(waits).enumerate() {
                grid.push([
                    Cell::us(monitor.every() * (bin as u64 + 1)),
                    Cell::word(monitor.name(link)),
                    Cell::word(name),
                    Cell::count(bytes),
                    Cell::us(Span::from_ps(wait)),
                ]);
            }
        }
    }
    grid
}
