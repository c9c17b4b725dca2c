//! `ibdiagnet2.pm`: a block of names and hexadecimal values for each port.

use std::fmt::Write;

use super::{DATA, ERRORS, Field, OTHERS};
use crate::counters::At;
use crate::monitor::{Monitor, Port};

pub(super) fn text(monitor: &Monitor, ports: &[(u32, &Port)]) -> String {
    let line = "-".repeat(79);
    let mut text = String::new();
    for (link, port) in ports {
        // A switch's port is named by its place, an adapter's by its host.
        let name = match port.site.at {
            At::SwitchPort => format!("{}/P{}", port.description, port.number),
            At::AdapterPort | At::Adapter => format!("{}/{}/P{}", port.site.instance, port.site.device, port.number),
        };
        let head = format!("Port={} Lid={:#06x} GUID={:#018x} Device=0 Port Name={name}", port.number, port.lid, port.guid);
        let _ = writeln!(text, "{line}\n{head}\n{line}");
        let register = |field: &Field| format!("{}={:#x}\n", field.pm, field.register(monitor, *link));
        text.extend(ERRORS.iter().chain(&OTHERS).chain(&DATA).map(register));
        let [data, received, packets, arrived, wait] = &DATA;
        for field in [data, received, packets, arrived, wait] {
            let _ = writeln!(text, "{}_extended={:#x}", field.pm, field.whole(monitor, *link));
        }
        text.push('\n');
    }
    text
}
