//! Files of `ibnetdiscover` (infiniband-diags) and, a superset, of `ibsim`.
//!
//! Source: the output of infiniband-diags 44 and the grammar that ibsim 0.12 reads.
//! Read: blocks of switches, adapters and routers with their ports, in the usual form and as terminals paste them, with
//! tabulators lost; `-g` and `-f` add words that are skipped. Not read: `module`, `include`, `do` of ibsim (refused),
//! width and speed masks of ibsim beyond the fastest that they allow.

use super::subnet::{Device, Kind, PortLine, Speed, Subnet};
use super::{ImportError, Mistake};

/// Whether a line belongs to this format.
pub(super) fn looks_like(line: &str) -> bool {
    header(line).is_some() || port(line).is_some() || KEYS.iter().any(|key| line.starts_with(key))
}

/// Keys that stand before a block.
const KEYS: [&str; 8] = ["vendid=", "devid=", "sysimgguid=", "switchguid=", "caguid=", "hcaguids=", "rtguid=", "extspeed="];

/// Reads a file.
pub(super) fn read(text: &str) -> Result<Subnet, ImportError> {
    let mut subnet = Subnet::default();
    let mut ports = Vec::new();
    let (mut guid, mut system) = (None, None);
    let mut default = Masks::default();
    for (index, line) in text.lines().enumerate() {
        let number = index as u32 + 1;
        let wrong = |mistake| ImportError::Line { line: number, mistake };
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(found) = header(line) {
            subnet.devices.push(found.device((guid.take(), system.take()), number).map_err(wrong)?);
        } else if let Some(found) = port(line) {
            let device = subnet.devices.len().checked_sub(1).ok_or_else(|| wrong(Mistake::Homeless))?;
            if subnet.devices[device].lid.is_none() {
                subnet.devices[device].lid = found.own_lid;
            }
            let speed = found.speed.or_else(|| found.masks.or(default).speed());
            ports.push(PortLine {
                device: device as u32,
                port: found.port.parse().map_err(|_| wrong(bad_port(found.port)))?,
                far: found.far.to_owned(),
                far_port: if found.far_port.is_empty() {
                    1
                } else {
                    found.far_port.parse().map_err(|_| wrong(bad_port(found.far_port)))?
                },
                speed,
                rate: None,
                line: number,
            });
        } else if let Some((key, value)) = line.split_once('=').filter(|(key, _)| !key.contains(char::is_whitespace)) {
            match key {
                "switchguid" | "caguid" | "hcaguids" | "rtguid" => guid = hex(value),
                "width" => default.width = value.trim().parse().ok(),
                "speed" => default.speed = value.trim().parse().ok(),
                "extspeed" => default.extended = value.trim().parse().ok(),
                "sysimgguid" => system = hex(value).filter(|guid| *guid != 0),
                "vendid" | "devid" => {}
                "module" => return Err(wrong(Mistake::Unsupported { word: key.to_owned() })),
                _ => subnet.skip(number, line),
            }
        } else if let Some(word) = ["include ", "do "].iter().find(|word| line.starts_with(*word)) {
            return Err(wrong(Mistake::Unsupported { word: word.trim().to_owned() }));
        } else if !is_chassis(line) {
            subnet.skip(number, line);
        }
    }
    subnet.plug(ports)?;
    Ok(subnet)
}

/// Lines that `ibnetdiscover -g` adds.
fn is_chassis(line: &str) -> bool {
    (line.starts_with("Chassis ") && line.contains("guid")) || line == "Non-Chassis Nodes"
}

fn bad_port(text: &str) -> Mistake {
    Mistake::Number { text: text.to_owned(), what: "port", expected: "ports are numbers from 1 to 65535" }
}

fn hex(text: &str) -> Option<u64> {
    let text = text.trim().trim_start_matches('+');
    let text = text.strip_prefix("0x").unwrap_or(text);
    let end = text.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(text.len());
    u64::from_str_radix(&text[..end], 16).ok()
}

/// The first line of a block.
struct Header<'a> {
    kind: Kind,
    ports: &'a str,
    id: &'a str,
    description: &'a str,
    /// What follows the description.
    rest: &'a str,
}

fn header(line: &str) -> Option<Header<'_>> {
    let (kind, rest) = [("Switch", Kind::Switch), ("Ca", Kind::Adapter), ("Hca", Kind::Adapter), ("Rt", Kind::Router)]
        .into_iter()
        .find_map(|(word, kind)| Some((kind, line.strip_prefix(word)?)))?;
    let rest = rest.trim_start();
    let digits = rest.find(|c: char| !c.is_ascii_digit())?;
    let (ports, rest) = rest.split_at(digits);
    let (id, rest) = rest.trim_start().strip_prefix('"')?.split_once('"')?;
    if ports.is_empty() {
        return None;
    }
    let (description, rest) = quoted(rest).unwrap_or(("", rest));
    Some(Header { kind, ports, id, description, rest })
}

/// The text between the first quote after a `#` and the last one of the line, and what follows.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let (_, comment) = text.split_once('#')?;
    let (_, inside) = comment.split_once('"')?;
    inside.rsplit_once('"')
}

impl Header<'_> {
    fn device(&self, (guid, system): (Option<u64>, Option<u64>), line: u32) -> Result<Device, Mistake> {
        let expected = "switches and adapters have 1 to 65534 ports";
        let ports = self.ports.parse().ok().filter(|&ports: &u16| ports > 0 && ports < u16::MAX);
        let ports = ports.ok_or_else(|| Mistake::Number { text: self.ports.to_owned(), what: "number of ports", expected })?;
        let of_id = || hex(self.id.get(2..).filter(|_| self.id.len() == 18 && self.id.as_bytes()[1] == b'-')?);
        let sharp = self.kind == Kind::Adapter && self.description.contains("Aggregation Node");
        Ok(Device {
            id: self.id.to_owned(),
            guid: of_id().or(guid),
            kind: if sharp { Kind::Aggregation } else { self.kind },
            description: self.description.to_owned(),
            ports,
            lid: lid(self.rest),
            system,
            line,
        })
    }
}

/// The number after the word `lid`.
fn lid(text: &str) -> Option<u16> {
    let mut words = text.split_whitespace();
    words.find(|word| *word == "lid")?;
    words.next()?.parse().ok()
}

/// The line of a port.
struct Port<'a> {
    port: &'a str,
    far: &'a str,
    far_port: &'a str,
    own_lid: Option<u16>,
    speed: Option<Speed>,
    masks: Masks,
}

fn port(line: &str) -> Option<Port<'_>> {
    let (port, rest) = bracket(line)?;
    let rest = skip_extras(rest);
    let (far, rest) = rest.trim_start().strip_prefix('"')?.split_once('"')?;
    let rest = rest.strip_prefix('@').map_or(rest, |alias| alias.trim_start_matches(|c: char| !c.is_whitespace() && c != '['));
    let (far_port, rest) = bracket(rest).unwrap_or(("", rest));
    let (plain, comment) = rest.split_once('#').unwrap_or((rest, ""));
    // An adapter's line tells its own LID before the description of the far end.
    let own = comment.split('"').next().unwrap_or("");
    let speed = comment.split_whitespace().rev().find_map(Speed::parse);
    Some(Port { port, far, far_port, own_lid: lid(own), speed, masks: Masks::parse(plain) })
}

/// `[text]` at the beginning, and what follows.
fn bracket(text: &str) -> Option<(&str, &str)> {
    text.trim_start().strip_prefix('[')?.split_once(']')
}

/// Skips `[ext 3]` and `(guid)`.
fn skip_extras(text: &str) -> &str {
    let text = text.trim_start();
    let text = if text.starts_with("[ext") { bracket(text).map_or(text, |(_, rest)| rest) } else { text };
    match text.strip_prefix('(').and_then(|rest| rest.split_once(')')) {
        Some((_, rest)) => rest,
        None => text,
    }
}

/// Masks of what a port of ibsim supports.
#[derive(Clone, Copy, Default)]
struct Masks {
    width: Option<u8>,
    speed: Option<u8>,
    extended: Option<u8>,
}

impl Masks {
    fn parse(text: &str) -> Masks {
        let value = |key: &str| text.split_whitespace().find_map(|word| word.strip_prefix(key)?.parse().ok());
        Masks { width: value("w="), speed: value("s="), extended: value("e=") }
    }
    fn or(self, other: Masks) -> Masks {
        Masks { width: self.width.or(other.width), speed: self.speed.or(other.speed), extended: self.extended.or(other.extended) }
    }
    /// The fastest that the masks allow (InfiniBand Architecture Specification §14.2.5.6, PortInfo).
    fn speed(self) -> Option<Speed> {
        if self.width.is_none() && self.speed.is_none() && self.extended.is_none() {
            return None;
        }
        let highest =
            |mask: u8, names: &[&'static str]| names.iter().enumerate().rev().find(|(bit, _)| mask >> bit & 1 == 1).map(|(_, &name)| name);
        let extended = self.extended.and_then(|mask| highest(mask, &["FDR", "EDR", "HDR", "NDR"]));
        let name = extended.or_else(|| highest(self.speed.unwrap_or(1), &["SDR", "DDR", "QDR"]))?;
        let width = self.width.unwrap_or(2);
        let lanes = [(8, 12), (4, 8), (2, 4), (16, 2), (1, 1)].into_iter().find(|(bit, _)| width & bit != 0)?.1;
        Some(Speed { lanes, name })
    }
}
