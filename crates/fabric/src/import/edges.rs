//! Edge lists: one cable per line, `a b [rate] [delay]`, separated by blanks or commas.
//!
//! A name with more than one cable is a switch, one with a single cable a host; where that is not what is meant, names
//! that begin with `sw`, `leaf`, `spine`, `core`, `S-` are switches and `host`, `node`, `gpu`, `H-` are hosts. Parallel
//! cables are repeated lines. `#` begins a comment. A first line of column names is skipped.
//! Not read: delays (cables get those of the cluster).

use std::collections::BTreeMap;

use fabriscope_units::Rate;

use super::subnet::{Cable, Device, Kind, Plug, Subnet};
use super::{ImportError, Mistake};

/// Whether most lines have two to four words of which the third is a rate.
pub(super) fn looks_like(text: &str) -> bool {
    let lines: Vec<Vec<&str>> = text.lines().filter_map(words).take(50).collect();
    let fits = |words: &Vec<&str>| {
        let names = words.iter().take(2).all(|word| word.chars().all(|c| c.is_alphanumeric() || "-_.:/".contains(c)));
        names && (words.len() == 2 || (words.len() <= 4 && rate(words[2]).is_some()))
    };
    // The head of a table is the only line that need not fit.
    !lines.is_empty() && lines.iter().skip(1).all(fits) && (lines.len() > 1 || fits(&lines[0]))
}

fn words(line: &str) -> Option<Vec<&str>> {
    let line = line.split('#').next()?.trim();
    let words: Vec<&str> = if line.contains(',') { line.split(',').map(str::trim).collect() } else { line.split_whitespace().collect() };
    (words.len() >= 2 && !words[0].is_empty()).then_some(words)
}

/// `400Gbps`, `12.5G`, `100Mb/s`, `1000000000bps`.
pub(super) fn rate(text: &str) -> Option<Rate> {
    let text = text.trim();
    let at = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(at);
    let digits = match unit.chars().next()? {
        'k' | 'K' => 3,
        'M' => 6,
        'G' => 9,
        'T' => 12,
        'b' => 0,
        _ => return None,
    };
    let unit = if digits > 0 { &unit[1..] } else { unit };
    if !(["bps", "b/s", "bit", "bit/s"].contains(&unit) || (digits > 0 && unit.is_empty())) {
        return None;
    }
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let part = part.trim_end_matches('0');
    if part.len() > digits {
        return None;
    }
    let scaled = |text: &str, power: usize| {
        if text.is_empty() { Some(0) } else { text.parse::<u64>().ok()?.checked_mul(10u64.checked_pow(power as u32)?) }
    };
    let bits = scaled(whole, digits)?.checked_add(scaled(part, digits - part.len())?)?;
    Some(Rate::from_bps(bits)).filter(|rate| rate.as_bps() > 0)
}

/// Reads a list.
pub(super) fn read(text: &str) -> Result<Subnet, ImportError> {
    let mut subnet = Subnet::default();
    let mut index: BTreeMap<String, u32> = BTreeMap::new();
    for (number, line) in text.lines().enumerate() {
        let line_number = number as u32 + 1;
        let Some(words) = words(line) else {
            if !line.trim().is_empty() && !line.trim_start().starts_with('#') {
                subnet.skip(line_number, line);
            }
            continue;
        };
        let wrong = |mistake| ImportError::Line { line: line_number, mistake };
        let rate = match words.get(2) {
            None | Some(&"") => None,
            Some(text) => match rate(text) {
                Some(rate) => Some(rate),
                None if subnet.cables.is_empty() => continue,
                None => {
                    let expected = "write it as 400Gbps";
                    return Err(wrong(Mistake::Number { text: (*text).to_owned(), what: "rate", expected }));
                }
            },
        };
        let mut plug = |name: &str| {
            let device = *index.entry(name.to_owned()).or_insert_with(|| {
                let device = Device {
                    id: name.to_owned(),
                    guid: None,
                    kind: Kind::Switch,
                    description: name.to_owned(),
                    ports: 0,
                    lid: None,
                    system: None,
                    line: line_number,
                };
                subnet.devices.push(device);
                subnet.devices.len() as u32 - 1
            });
            let ports = &mut subnet.devices[device as usize].ports;
            *ports = ports.saturating_add(1);
            Plug { device, port: *ports }
        };
        let (a, b) = (plug(words[0]), plug(words[1]));
        subnet.cables.push(Cable { ends: [a.min(b), a.max(b)], speed: None, rate, seen_twice: true, line: line_number });
    }
    subnet.devices.iter_mut().for_each(|device| device.kind = kind(&device.id, u32::from(device.ports)));
    if subnet.devices.is_empty() { Err(ImportError::Empty) } else { Ok(subnet) }
}

/// What a device with this name and so many cables is, where nothing else says it.
pub(super) fn kind(name: &str, cables: u32) -> Kind {
    let name = name.to_ascii_lowercase();
    let begins = |words: &[&str]| words.iter().any(|word| name.starts_with(word));
    let switch = begins(&["sw", "leaf", "spine", "core", "tor", "s-"]);
    let host = begins(&["host", "node", "gpu", "server", "h-"]);
    if host || (cables == 1 && !switch) { Kind::Adapter } else { Kind::Switch }
}
