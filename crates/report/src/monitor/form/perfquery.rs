//! `perfquery LID PORT` and `perfquery -x LID PORT`, one after the other.

use std::fmt::Write;

use super::{DATA, ERRORS, Field, OTHERS};
use crate::monitor::{Monitor, Port};

/// There are counters of 64 bits, and PortXmitWait.
const CAPABILITIES: u32 = 1 << 9 | 1 << 12;

pub(super) fn text(monitor: &Monitor, ports: &[(u32, &Port)]) -> String {
    let mut text = String::new();
    for (link, port) in ports {
        let _ = writeln!(text, "# Port counters: Lid {} port {} (CapMask: {CAPABILITIES:#x})", port.lid, port.number);
        row(&mut text, "PortSelect", &port.number.to_string());
        row(&mut text, "CounterSelect", "0x0000");
        let shown = |text: &mut String, field: &Field| row(text, field.name, &field.register(monitor, *link).to_string());
        ERRORS.iter().for_each(|field| shown(&mut text, field));
        row(&mut text, "CounterSelect2", "0x00");
        OTHERS.iter().chain(&DATA).for_each(|field| shown(&mut text, field));
    }
    text
}

pub(super) fn extended(monitor: &Monitor, ports: &[(u32, &Port)]) -> String {
    let mut text = String::new();
    for (link, port) in ports {
        let head = format!("CapMask: {CAPABILITIES:#x} CapMask2: 0x0000000");
        let _ = writeln!(text, "# Port extended counters: Lid {} port {} ({head})", port.lid, port.number);
        row(&mut text, "PortSelect", &port.number.to_string());
        row(&mut text, "CounterSelect", "0x0000");
        let [data, received, packets, arrived, _] = &DATA;
        for field in [data, received, packets, arrived] {
            row(&mut text, field.name, &field.whole(monitor, *link).to_string());
        }
        // Packets to groups are counted with the others.
        for (name, value) in [
            ("PortUnicastXmitPkts", packets.whole(monitor, *link)),
            ("PortUnicastRcvPkts", arrived.whole(monitor, *link)),
            ("PortMulticastXmitPkts", 0),
            ("PortMulticastRcvPkts", 0),
        ] {
            row(&mut text, name, &value.to_string());
        }
    }
    text
}

/// A name, a colon, and dots up to the value.
fn row(text: &mut String, name: &str, value: &str) {
    let _ = writeln!(text, "{name}:{}{value}", ".".repeat(32_usize.saturating_sub(name.len())));
}
