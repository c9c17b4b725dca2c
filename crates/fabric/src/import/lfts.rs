//! Forwarding tables as OpenSM (`opensm-lfts.dump`) and `dump_fts` write them, read line by line.
//!
//! Source: the rules of OpenSM's own reader (`-R file`): a line with `Unicast lids` opens a switch, whose GUID follows
//! ` guid 0x`; a line that begins with `0x` is a LID in hexadecimal and a port in decimal, with the GUID of the destination
//! port after ` portguid 0x` where it is given; everything else is passed over. Real dumps have hundreds of megabytes:
//! only one line is held at a time, and one byte for each switch and destination.

use std::io::{self, BufRead};

use rustc_hash::FxHashMap;

use super::subnet::{Kind, Subnet};
use crate::graph::{EndpointId, SwitchId};
use crate::routing::Tables;

/// Why tables cannot be read.
#[derive(Debug, thiserror::Error, miette::Diagnostic)]
#[non_exhaustive]
pub enum LftsError {
    /// The file cannot be read.
    #[error("the tables cannot be read: {0}")]
    Io(#[from] io::Error),
    /// A switch that the fabric does not have.
    #[error("line {line}: the fabric has no switch with GUID {guid:#018x}")]
    #[diagnostic(help("these are the tables of another fabric"))]
    NoSuchSwitch {
        /// Counted from 1.
        line: u64,
        /// What stands there.
        guid: u64,
    },
    /// A port that the switch does not have.
    #[error("line {line}: switch {switch} has no port {port}")]
    #[diagnostic(help("these are the tables of another fabric, or damaged"))]
    NoSuchPort {
        /// Counted from 1.
        line: u64,
        /// Name of the switch.
        switch: String,
        /// The port.
        port: u32,
    },
    /// A line that cannot be read.
    #[error("line {line}: `{text}` is no entry")]
    #[diagnostic(help("an entry is a LID and a port, such as `0x000b 001`"))]
    Entry {
        /// Counted from 1.
        line: u64,
        /// What stands there.
        text: String,
    },
    /// No table in the file.
    #[error("the file holds no forwarding table")]
    #[diagnostic(help("give opensm-lfts.dump or the output of dump_fts"))]
    Empty,
    /// Tables that lead nowhere.
    #[error("none of the {entries} entries leads to a host of the fabric")]
    #[diagnostic(help("these are the tables of another fabric"))]
    Foreign {
        /// Entries that were read.
        entries: u64,
    },
}

/// What was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct LftsSummary {
    /// Switches with a table.
    pub switches: u32,
    /// Entries, those for switches and aggregation nodes included.
    pub entries: u64,
    /// Entries that lead to an endpoint of the fabric.
    pub to_endpoints: u64,
    /// Lines that are no part of a table.
    pub passed_over: u64,
}

/// Reads tables for the fabric that [`Subnet::fabric`] makes of `subnet`.
///
/// # Errors
/// A file that cannot be read, holds no tables, or those of another fabric.
pub fn read_lfts(subnet: &Subnet, mut lines: impl BufRead) -> Result<(Tables, LftsSummary), LftsError> {
    let wiring = subnet.wiring();
    let mut by_guid = FxHashMap::default();
    for (number, &device) in wiring.switches.iter().enumerate() {
        if let Some(guid) = subnet.devices[device as usize].guid {
            by_guid.insert(guid, number as u32);
        }
    }
    // The destination of a LID, and of a port's GUID where LIDs were given anew since.
    let (mut by_lid, mut by_port_guid) = (FxHashMap::default(), FxHashMap::<u64, Vec<u32>>::default());
    for (number, plug) in wiring.endpoints.iter().enumerate() {
        let device = subnet.device(*plug);
        debug_assert_eq!(device.kind, Kind::Adapter);
        if let Some(lid) = device.lid {
            by_lid.entry(u64::from(lid)).or_insert(number as u32);
        }
        if let Some(guid) = device.guid {
            // The GUID of port p is that of the adapter plus p, or the same where the adapter has one port. Adapters side by
            // side have GUIDs side by side: then one GUID may mean two, and the name in the entry tells which.
            if device.ports == 1 {
                by_port_guid.entry(guid).or_default().push(number as u32);
            }
            by_port_guid.entry(guid.wrapping_add(u64::from(plug.port))).or_default().push(number as u32);
        }
    }
    let mut tables = Tables::new(wiring.switches.len() as u32, wiring.endpoints.len() as u32, 0);
    let mut summary = LftsSummary::default();
    let mut at: Option<u32> = None;
    let (mut text, mut line) = (Vec::new(), 0u64);
    loop {
        text.clear();
        if lines.read_until(b'\n', &mut text)? == 0 {
            break;
        }
        line += 1;
        let entry = String::from_utf8_lossy(&text);
        let entry = entry.trim();
        if entry.contains("Unicast lids") {
            let guid = entry.split_once(" guid 0x").and_then(|(_, rest)| hex(rest));
            let bad = || LftsError::Entry { line, text: entry.chars().take(60).collect() };
            let guid = guid.ok_or_else(bad)?;
            at = Some(*by_guid.get(&guid).ok_or(LftsError::NoSuchSwitch { line, guid })?);
            summary.switches += 1;
        } else if let (Some(rest), Some(switch)) = (entry.strip_prefix("0x"), at) {
            let bad = || LftsError::Entry { line, text: entry.chars().take(60).collect() };
            let lid = hex(rest).ok_or_else(bad)?;
            let port: u32 = rest.split_whitespace().nth(1).and_then(|port| port.parse().ok()).ok_or_else(bad)?;
            summary.entries += 1;
            let device = &subnet.devices[wiring.switches[switch as usize] as usize];
            if port == 255 {
                continue;
            }
            if port > u32::from(device.ports) {
                return Err(LftsError::NoSuchPort { line, switch: device.name().to_owned(), port });
            }
            let named = entry.split_once(" portguid 0x").and_then(|(_, rest)| hex(rest));
            let dest = match named {
                Some(guid) => by_port_guid.get(&guid).and_then(|candidates| {
                    let named = entry.split_once('\'').and_then(|(_, rest)| rest.rsplit_once('\'')).map(|(name, _)| name.trim());
                    let fits = |&&number: &&u32| {
                        named.is_some_and(|named| subnet.device(wiring.endpoints[number as usize]).description.trim() == named)
                    };
                    candidates.iter().find(fits).or(candidates.iter().rev().find(|_| named.is_none() || candidates.len() == 1))
                }),
                None => by_lid.get(&lid),
            };
            if let (Some(&dest), Some(port)) = (dest, port.checked_sub(1)) {
                summary.to_endpoints += 1;
                tables.set(SwitchId(switch), EndpointId(dest), 0, port as u8);
            }
        } else if !entry.is_empty() && !entry.starts_with('#') {
            summary.passed_over += 1;
        }
    }
    match summary {
        LftsSummary { switches: 0, .. } => Err(LftsError::Empty),
        LftsSummary { to_endpoints: 0, entries, .. } => Err(LftsError::Foreign { entries }),
        _ => Ok((tables, summary)),
    }
}

/// The hexadecimal number at the beginning.
fn hex(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(text.len());
    u64::from_str_radix(&text[..end], 16).ok()
}
