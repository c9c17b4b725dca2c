//! `ethtool -S INTERFACE`: the statistics of each RoCE adapter's port.

use std::fmt::Write;

use crate::counters::At;
use crate::monitor::Monitor;

pub(super) fn text(monitor: &Monitor, of: Option<&str>) -> String {
    let mut text = String::new();
    let mut before = None;
    let shown = monitor.readings.all.iter().filter(|reading| reading.site.at == At::AdapterPort && !reading.is_of_job());
    // Files of sysfs beside what ethtool shows.
    let shown = shown.filter(|reading| !reading.name.starts_with("port_"));
    for reading in shown.filter(|reading| of.is_none_or(|of| reading.site.instance == of)) {
        let site = (reading.site.instance.as_str(), reading.site.device.as_str());
        if before.replace(site) != Some(site) {
            let blank = if text.is_empty() { "" } else { "\n" };
            let _ = writeln!(text, "{blank}# {} {}\nNIC statistics:", site.0, site.1);
        }
        let _ = writeln!(text, "     {}: {}", reading.name, reading.total());
    }
    text
}
