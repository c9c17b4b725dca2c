//! `opensm-subnet.lst`, also written by ibdiagnet as `.lst`: one line for each direction of a cable.
//!
//! Source: the output of OpenSM 3.3 (`osm_dump.c`). All numbers but the speed are hexadecimal.
//!
//! ```text
//! { CA Ports:01 SystemGUID:… NodeGUID:… PortGUID:… VenID:… DevID:… Rev:… {name} LID:000B PN:01 } { SW … } PHY=4x LOG=ACT SPD=25
//! ```

use std::collections::BTreeMap;

use super::ImportError;
use super::subnet::{Device, Kind, PortLine, Speed, Subnet};

/// Whether a line belongs to this format.
pub(super) fn looks_like(line: &str) -> bool {
    line.starts_with("{ ") && line.contains("NodeGUID:") && line.contains("PN:")
}

/// One side of a cable.
struct CableEnd<'a> {
    kind: Kind,
    ports: u16,
    guid: u64,
    system: Option<u64>,
    description: &'a str,
    lid: u16,
    port: u16,
}

/// Reads a file.
pub(super) fn read(text: &str) -> Result<Subnet, ImportError> {
    let mut subnet = Subnet::default();
    let mut index: BTreeMap<u64, u32> = BTreeMap::new();
    let mut lines = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let number = number as u32 + 1;
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let Some((left, rest)) = side(line) else {
            subnet.skip(number, line);
            continue;
        };
        let Some((right, rest)) = side(rest) else {
            subnet.skip(number, line);
            continue;
        };
        let mut device = |side: &CableEnd<'_>| {
            *index.entry(side.guid).or_insert_with(|| {
                let sharp = side.kind == Kind::Adapter && side.description.contains("Aggregation Node");
                let kind = if sharp { Kind::Aggregation } else { side.kind };
                let id = format!("{:#018x}", side.guid);
                let description = side.description.to_owned();
                subnet.devices.push(Device {
                    id,
                    guid: Some(side.guid),
                    kind,
                    description,
                    ports: side.ports,
                    lid: Some(side.lid),
                    system: side.system,
                    line: number,
                });
                subnet.devices.len() as u32 - 1
            })
        };
        let (here, far) = (device(&left), device(&right));
        let far = subnet.devices[far as usize].id.clone();
        lines.push(PortLine { device: here, port: left.port, far, far_port: right.port, speed: speed(rest), rate: None, line: number });
    }
    subnet.plug(lines)?;
    Ok(subnet)
}

/// `{ … }` at the beginning of `text`, and what follows.
fn side(text: &str) -> Option<(CableEnd<'_>, &str)> {
    let text = text.trim_start().strip_prefix('{')?;
    let (head, rest) = text.split_once('{')?;
    let (description, rest) = rest.split_once("} LID:")?;
    let (tail, rest) = rest.split_once('}')?;
    let kind = match head.split_whitespace().next()?.split('-').next()? {
        "SW" => Kind::Switch,
        "CA" => Kind::Adapter,
        "RT" => Kind::Router,
        _ => return None,
    };
    let number = |key: &str| u64::from_str_radix(head.split_whitespace().find_map(|word| word.strip_prefix(key))?, 16).ok();
    let mut words = tail.split_whitespace();
    let lid = u16::from_str_radix(words.next()?, 16).ok()?;
    let port = u16::from_str_radix(words.next()?.strip_prefix("PN:")?, 16).ok()?;
    let (ports, guid) = (number("Ports:")?.try_into().ok()?, number("NodeGUID:")?);
    let system = number("SystemGUID:").filter(|guid| *guid != 0);
    Some((CableEnd { kind, ports, guid, system, description, lid, port }, rest))
}

/// `PHY=4x … SPD=25`: the speed of a lane in Gb/s, or the name of a generation (`FDR10`, which runs at another rate than QDR
/// although both signal at 10 Gb/s), or `??`.
fn speed(text: &str) -> Option<Speed> {
    let value = |key: &str| text.split_whitespace().find_map(|word| word.strip_prefix(key));
    let (width, lane) = (value("PHY=")?, value("SPD=")?);
    if let Some(named) = Speed::parse(&format!("{width}{lane}")) {
        return Some(named);
    }
    let lanes = width.strip_suffix('x')?.parse().ok()?;
    let (whole, part) = lane.split_once('.').unwrap_or((lane, "0"));
    let hundredths: u64 = format!("{part:0<2}").get(..2)?.parse().ok()?;
    let of_lane = whole.parse::<u64>().ok().and_then(|whole| whole.checked_mul(100)?.checked_add(hundredths));
    of_lane.and_then(|lane| Speed::of_lane(lanes, lane))
}
