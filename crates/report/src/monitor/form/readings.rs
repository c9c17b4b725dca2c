//! Names and values as programs list them: `rdma -p statistic show`, and the files of Cassini's telemetry.

use std::fmt::Write;

use crate::counters::{At, Reading};
use crate::monitor::Monitor;

/// What a node has, but for what is counted for jobs.
fn own<'a>(monitor: &'a Monitor, of: Option<&'a str>) -> impl Iterator<Item = &'a Reading> {
    let all = monitor.readings.all.iter().filter(|reading| !reading.is_of_job());
    all.filter(move |reading| of.is_none_or(|of| reading.site.instance == of))
}

pub(super) fn rdma(monitor: &Monitor, of: Option<&str>) -> String {
    let mut text = String::new();
    let mut before = None;
    for reading in own(monitor, of).filter(|reading| reading.site.at == At::Adapter) {
        let site = (reading.site.instance.as_str(), reading.site.device.as_str());
        if before.replace(site) != Some(site) {
            let blank = if text.is_empty() { "" } else { "\n" };
            let _ = writeln!(text, "{blank}# {}\nlink {}/1", site.0, site.1);
        }
        let _ = writeln!(text, "    {} {}", reading.name, reading.total());
    }
    text
}

pub(super) fn cxi(monitor: &Monitor, of: Option<&str>) -> String {
    let mut text = String::new();
    let mut before = None;
    // Time and value stand in each file; the value has no unit.
    let seconds = (monitor.end - fabriscope_units::Time::ZERO).as_s_f64();
    for reading in own(monitor, of).filter(|reading| reading.site.at != At::SwitchPort) {
        let site = (reading.site.instance.as_str(), reading.site.device.as_str());
        if before.replace(site) != Some(site) {
            let blank = if text.is_empty() { "" } else { "\n" };
            let _ = writeln!(text, "{blank}# {}: /sys/class/cxi/{}/device/telemetry", site.0, site.1);
        }
        let _ = writeln!(text, "{}: {}@{seconds:.9}", reading.name, reading.total());
    }
    text
}
