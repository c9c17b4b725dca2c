//! The format of `ibnetdiscover`, which `ibsim` reads as well.
//!
//! Source: the output of infiniband-diags 44.
//! Modelled: cables at the width and speed that they have, `4x???` where the file that was read says none. A rate that no width
//! and speed has is written as the next lower one. ibsim 0.10 (Debian 12) stops at speeds that it does not know: for it NDR, XDR
//! and unknown speeds are written as EDR. Whatever is written otherwise than it is stands in the file as a comment, and
//! [`ibnetdiscover_notes`] says it.
//! Not modelled: vendor and device numbers; devices without any port, which no tool can find, get one.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::names::identified;
use crate::import::{Cable, Device, Kind, Speed, Subnet};

/// Who is to read the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Tools of infiniband-diags, and whatever reads their output.
    Ibnetdiscover,
    /// ibsim 0.10 and later.
    Ibsim,
}

/// The text of the file.
pub fn ibnetdiscover(subnet: &Subnet, dialect: Dialect) -> String {
    let subnet = &*identified(subnet);
    let mut ports = vec![Vec::new(); subnet.devices.len()];
    for cable in &subnet.cables {
        let [a, b] = cable.ends;
        ports[a.device as usize].push((a.port, b, cable));
        if a != b {
            ports[b.device as usize].push((b.port, a, cable));
        }
    }
    let mut text = String::from("#\n# Topology file: written by fabriscope\n#\n");
    text.extend(ibnetdiscover_notes(subnet, dialect).iter().map(|note| format!("# {note}\n")));
    for (device, ports) in subnet.devices.iter().zip(&mut ports) {
        ports.sort_unstable_by_key(|(port, ..)| *port);
        let guid = device.guid.unwrap_or_default();
        let lid = device.lid.unwrap_or(0);
        let (key, word) = match device.kind {
            Kind::Switch => ("switchguid", "Switch"),
            Kind::Adapter | Kind::Aggregation => ("caguid", "Ca"),
            Kind::Router => ("rtguid", "Rt"),
        };
        let description = device.description.replace(['"', '\n'], "'");
        let of_switch = device.kind == Kind::Switch;
        let more = if of_switch { format!(" enhanced port 0 lid {lid} lmc 0") } else { String::new() };
        let own = if of_switch { format!("({guid:x})") } else { String::new() };
        let system = device.system.unwrap_or(guid);
        let _ = write!(text, "\nvendid=0x2c9\ndevid=0x0\nsysimgguid={system:#x}\n{key}={guid:#x}{own}\n");
        let _ = writeln!(text, "{word}\t{} \"{}\"\t\t# \"{description}\"{more}", device.ports.max(1), device.id);
        for (port, far, cable) in ports {
            let other = subnet.device(*far);
            let name = other.description.replace(['"', '\n'], "'");
            let far_lid = other.lid.unwrap_or(0);
            let speed = speed(cable, dialect);
            let far_guid = if other.kind == Kind::Switch { String::new() } else { format!("({:x}) ", port_guid(other, far.port)) };
            let _ = if of_switch {
                writeln!(text, "[{port}]\t\"{}\"[{}]{far_guid}\t\t# \"{name}\" lid {far_lid} {speed}", other.id, far.port)
            } else {
                let own_guid = port_guid(device, *port);
                writeln!(
                    text,
                    "[{port}]({own_guid:x}) \t\"{}\"[{}]\t\t# lid {lid} lmc 0 \"{name}\" lid {far_lid} {speed}",
                    other.id, far.port
                )
            };
        }
    }
    text
}

/// Adapters with one port have one GUID for both; else the ports follow the adapter.
fn port_guid(device: &Device, port: u16) -> u64 {
    let guid = device.guid.unwrap_or_default();
    if device.ports == 1 { guid } else { guid.wrapping_add(u64::from(port)) }
}

/// What the file says otherwise than it is.
pub fn ibnetdiscover_notes(subnet: &Subnet, dialect: Dialect) -> Vec<String> {
    let mut changed: BTreeMap<(String, String), u32> = BTreeMap::new();
    for cable in &subnet.cables {
        let (own, written) = (cable.speed.filter(|speed| speed.rate().is_some()), speed(cable, dialect));
        if cable.speed != Some(written) && (cable.data_rate().is_none() || cable.data_rate() != written.rate()) {
            let own = match (own, cable.data_rate()) {
                (Some(speed), _) => format!("run at {speed}"),
                (None, Some(rate)) => format!("run at {rate}"),
                (None, None) => "have no known speed".to_owned(),
            };
            *changed.entry((own, written.to_string())).or_default() += 1;
        }
    }
    let changes = changed.into_iter().map(|((own, written), cables)| format!("{cables} cables {own} and are written as {written}"));
    let bare = subnet.devices.iter().filter(|device| device.ports == 0).count();
    changes.chain((bare > 0).then(|| format!("{bare} devices without a cable are written with one port"))).collect()
}

/// The width and speed that are written for a cable.
fn speed(cable: &Cable, dialect: Dialect) -> Speed {
    let of_rate = |rate| Speed::of_rate(rate).or_else(|| Speed::below(rate));
    let known = cable.speed.or_else(|| of_rate(cable.rate?)).unwrap_or(Speed { lanes: 4, name: "???" });
    match (dialect, known.name) {
        (Dialect::Ibsim, "NDR" | "XDR" | "???") => Speed { name: "EDR", ..known },
        _ => known,
    }
}
