//! `ibqueryerrors`: devices with counters over their thresholds, all ports of a device together and each by itself.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::{DATA, ERRORS, Field, FormError, OTHERS, Threshold};
use crate::monitor::{Monitor, Port};

pub(super) fn text(monitor: &Monitor, ports: &[(u32, &Port)], thresholds: &[Threshold]) -> Result<String, FormError> {
    let fields: Vec<&Field> = ERRORS.iter().chain(&OTHERS).chain(&DATA[4..]).collect();
    if let Some(unknown) = thresholds.iter().find(|threshold| !fields.iter().any(|field| field.name == threshold.counter)) {
        return Err(FormError::Threshold { name: unknown.counter.clone() });
    }
    let most = |field: &Field| thresholds.iter().rev().find(|threshold| threshold.counter == field.name).map_or(0, |found| found.most);
    let over = |value: &dyn Fn(&Field) -> u64| -> String {
        let shown = fields.iter().filter(|field| value(field) > most(field));
        shown.map(|field| format!(" [{} == {}]", field.name, value(field))).collect()
    };
    let mut devices: BTreeMap<u64, Vec<(u32, &Port)>> = BTreeMap::new();
    let mut order = Vec::new();
    for (link, port) in ports {
        let own = devices.entry(port.guid).or_default();
        if own.is_empty() {
            order.push(port.guid);
        }
        own.push((*link, port));
    }
    let (mut text, mut bad_devices, mut bad_ports) = (String::new(), 0, 0);
    for guid in &order {
        let own = &devices[guid];
        let bad: Vec<(u32, &Port, String)> = own
            .iter()
            .map(|(link, port)| (*link, *port, over(&|field| field.register(monitor, *link))))
            .filter(|(.., counters)| !counters.is_empty())
            .collect();
        let Some((_, first, _)) = bad.first() else { continue };
        bad_devices += 1;
        bad_ports += bad.len();
        let _ = writeln!(text, "Errors for {guid:#018x} \"{}\"", first.description);
        let largest = |field: &Field| u64::MAX >> (64 - field.bits);
        let sum = |field: &Field| own.iter().map(|(link, _)| field.register(monitor, *link)).sum::<u64>().min(largest(field));
        if own.len() > 1 {
            let _ = writeln!(text, "   GUID {guid:#x} port ALL:{}", over(&sum));
        }
        for (link, port, counters) in bad {
            let _ = writeln!(text, "   GUID {guid:#x} port {}:{counters}", port.number);
            if let Some(far) = monitor.far(link) {
                let rate = port.site.rate as f64 / 1e9;
                let _ = writeln!(
                    text,
                    "         Link info: {:6} {:4}[  ] ==({rate:.0} Gb/s Active/  LinkUp)==>  {:#018x} {:6} {:4}[  ] \"{}\" ( )",
                    port.lid, port.number, far.guid, far.lid, far.number, far.description
                );
            }
        }
    }
    let _ = writeln!(text, "\n## Summary: {} nodes checked, {bad_devices} bad nodes found", order.len());
    let _ = writeln!(text, "##          {} ports checked, {bad_ports} ports have errors beyond threshold", ports.len());
    let told: Vec<String> = thresholds.iter().map(|threshold| format!(" {}={}", threshold.counter, threshold.most)).collect();
    let _ = writeln!(text, "## Thresholds:{}\n## Suppressed:", told.concat());
    Ok(text)
}
