//! Forwarding tables in the form of `opensm-lfts.dump`, which `opensm -R file -U` reads.
//!
//! Source: OpenSM 3.3, `osm_dump.c`. Service levels are written in the same form, a level in the place of a port: OpenSM answers
//! path records with them, but dumps none.
//! Modelled: entries for the addresses of endpoints.
//! Not modelled: entries for other switches and for aggregation nodes, for which no tables are made.

use std::fmt::Write;

use super::names::identified;
use crate::graph::{EndpointId, SwitchId};
use crate::import::Subnet;
use crate::routing::{ServiceLevels, Tables};

/// The text of the file: `tables` of the fabric that [`Subnet::fabric`] makes of `subnet`.
///
/// Endpoints keep their LIDs where each has one of its own and one address; else they get new ones after the switches.
pub fn lfts(subnet: &Subnet, tables: &Tables) -> String {
    let port = |at, dest, path| tables.port(at, dest, path).map(|port| port.0 + 1);
    entries(subnet, "Unicast lids", tables.lmc(), port)
}

/// The service level of every path, switch by switch that it begins at.
pub fn service_levels(subnet: &Subnet, tables: &Tables, levels: &ServiceLevels) -> String {
    let level = |at, dest, path| tables.port(at, dest, path).filter(|_| levels.serves(at)).map(|_| u16::from(levels.level(at, dest)));
    entries(subnet, "Service levels to lids", tables.lmc(), level)
}

/// A number for each switch and address, where there is one.
fn entries(subnet: &Subnet, heading: &str, lmc: u8, value: impl Fn(SwitchId, EndpointId, u32) -> Option<u16>) -> String {
    let subnet = &*identified(subnet);
    let wiring = subnet.wiring();
    let (switches, addresses) = (wiring.switches.len() as u32, 1u32 << lmc);
    let known: Option<Vec<u32>> = wiring.endpoints.iter().map(|plug| subnet.device(*plug).lid.map(u32::from)).collect();
    let lids = known.filter(|lids| addresses == 1 && distinct(lids)).unwrap_or_else(|| {
        // 2^lmc addresses begin at a multiple of 2^lmc.
        let first = (switches + 1).next_multiple_of(addresses);
        (0..wiring.endpoints.len() as u32).map(|number| first + number * addresses).collect()
    });
    let mut order: Vec<usize> = (0..lids.len()).collect();
    order.sort_unstable_by_key(|&number| lids[number]);
    let last = lids.iter().max().map_or(0, |lid| lid + addresses - 1);
    let mut text = String::new();
    for (at, &device) in wiring.switches.iter().enumerate() {
        let device = &subnet.devices[device as usize];
        let (lid, guid) = (device.lid.map_or(at as u32 + 1, u32::from), device.guid.unwrap_or_default());
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{heading} [0-{last}] of switch Lid {lid} guid {guid:#018x} ('{}'):", device.description);
        let mut entries = 0;
        for &number in &order {
            let plug = wiring.endpoints[number];
            let adapter = subnet.device(plug);
            let port_guid = adapter.guid.unwrap_or_default().wrapping_add(if adapter.ports == 1 { 0 } else { u64::from(plug.port) });
            for path in 0..addresses {
                if let Some(value) = value(SwitchId(at as u32), EndpointId(number as u32), path) {
                    let (lid, name) = (lids[number] + path, &adapter.description);
                    let _ = writeln!(text, "{lid:#06x} {value:03} # Channel Adapter portguid {port_guid:#018x}: '{name}'");
                    entries += 1;
                }
            }
        }
        let _ = writeln!(text, "{entries} lids dumped\n");
    }
    text
}

fn distinct(lids: &[u32]) -> bool {
    let mut sorted = lids.to_vec();
    sorted.sort_unstable();
    sorted.windows(2).all(|pair| pair[0] != pair[1])
}
