//! What a subnet consists of, as tools that look at real ones print it.

use std::collections::BTreeMap;
use std::fmt;

use fabriscope_units::Rate;

use super::{ImportError, Mistake};

/// What a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A switch.
    Switch,
    /// A channel adapter of a host.
    Adapter,
    /// An aggregation node: the engine for SHARP collectives inside a switch, which looks like an adapter.
    Aggregation,
    /// A router between subnets.
    Router,
}

/// Width and speed of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Speed {
    /// Lanes: 1, 2, 4, 8 or 12.
    pub lanes: u8,
    /// Name of the generation, such as `HDR`; `???` where the tool did not know it.
    pub name: &'static str,
}

/// Names of generations and data rate of a lane in Gb/s × 100, after encoding (InfiniBand Architecture Specification).
const GENERATIONS: [(&str, u64); 9] = [
    ("SDR", 200),
    ("DDR", 400),
    ("QDR", 800),
    ("FDR10", 1000),
    ("FDR", 1364),
    ("EDR", 2500),
    ("HDR", 5000),
    ("NDR", 10_000),
    ("XDR", 20_000),
];

impl Speed {
    /// From text such as `4xHDR`.
    pub fn parse(text: &str) -> Option<Speed> {
        let (lanes, name) = text.split_once('x')?;
        let lanes = lanes.parse().ok().filter(|lanes| matches!(lanes, 1 | 2 | 4 | 8 | 12))?;
        let known = GENERATIONS.iter().map(|(name, _)| *name).chain(["???"]);
        known.into_iter().find(|known| *known == name).map(|name| Speed { lanes, name })
    }
    /// From a data rate per lane in Gb/s × 100, as `opensm-subnet.lst` has it.
    pub(super) fn of_lane(lanes: u8, lane: u64) -> Option<Speed> {
        // The list rounds: 2.5, 5, 10, 14, 25, 50 stand for the signalling rate of SDR to FDR and the data rate since; some
        // tools write the signalling rate of these as well: 14.0625, 25.78125, 53.125, 106.25, 212.5.
        let name = match lane {
            250 => "SDR",
            500 => "DDR",
            1000 => "QDR",
            1400 | 1406 => "FDR",
            2500 | 2578 => "EDR",
            5000 | 5312 => "HDR",
            10_000 | 10_625 => "NDR",
            20_000 | 21_250 => "XDR",
            _ => return None,
        };
        Some(Speed { lanes, name })
    }
    /// The width and speed with exactly this data rate; four lanes where possible.
    pub fn of_rate(rate: Rate) -> Option<Speed> {
        let speeds = [4, 2, 1, 12, 8].into_iter().flat_map(|lanes| GENERATIONS.iter().map(move |(name, _)| Speed { lanes, name }));
        speeds.into_iter().find(|speed| speed.rate() == Some(rate))
    }
    /// The fastest of four lanes that is not faster.
    pub(crate) fn below(rate: Rate) -> Option<Speed> {
        let speeds = GENERATIONS.iter().rev().map(|(name, _)| Speed { lanes: 4, name });
        speeds.into_iter().find(|speed| speed.rate().is_some_and(|known| known.as_bps() <= rate.as_bps()))
    }
    /// Data rate; `None` where the generation is unknown.
    pub fn rate(self) -> Option<Rate> {
        let (_, lane) = GENERATIONS.iter().find(|(name, _)| *name == self.name)?;
        Some(Rate::from_bps(u64::from(self.lanes) * lane * 10_000_000))
    }
}

impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.lanes, self.name)
    }
}

/// A switch, an adapter, a router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// What other lines call it.
    pub id: String,
    /// Its globally unique number, where the file has one.
    pub guid: Option<u64>,
    /// What it is.
    pub kind: Kind,
    /// Description, as its owner set it.
    pub description: String,
    /// How many ports it has.
    pub ports: u16,
    /// Local identifier, where known: of the switch, or of the first port of an adapter.
    pub lid: Option<u16>,
    /// The system image GUID, where the file has one: that of all modules of a director chassis.
    pub system: Option<u64>,
    /// Where it is described, counted from 1.
    pub line: u32,
}

impl Device {
    /// What people call it: a switch's own name out of `MF0;name:model/U1`, else the description, else the id.
    pub fn name(&self) -> &str {
        let text = self.description.trim();
        let inner = text.split_once(';').and_then(|(_, rest)| rest.split_once(':')).map(|(name, _)| name);
        match inner {
            Some(name) if self.kind == Kind::Switch && !name.is_empty() => name,
            _ if text.is_empty() => &self.id,
            _ => text,
        }
    }
    /// The host of an adapter: the first word of its description; its own id where that names no host.
    pub fn host(&self) -> &str {
        if self.is_unnamed() { &self.id } else { self.first_word() }
    }
    /// The first word of what people call it.
    pub(super) fn first_word(&self) -> &str {
        self.name().split_whitespace().next().unwrap_or(&self.id)
    }
    /// Whether nobody told an adapter its host: it has the description that it left the factory with (`MT4129 ConnectX7
    /// Mellanox Technologies`, or the number of the part alone), or that of a host that had no name when it was set.
    pub fn is_unnamed(&self) -> bool {
        let is_part = |word: &str| word.strip_prefix("MT").is_some_and(|rest| rest.len() >= 4 && rest.bytes().all(|b| b.is_ascii_digit()));
        let word = self.first_word();
        let nobody = ["localhost", "localhost.localdomain", "(none)"].contains(&word) && !self.adapter().is_empty();
        self.kind == Kind::Adapter && (self.description.contains("Mellanox Technologies") || is_part(word) || nobody)
    }
    /// The module of a director chassis that a switch is: `L16/U2` out of `MF0;name:MCS8500/L16/U2`.
    pub fn module(&self) -> Option<&str> {
        let (_, place) = self.description.trim().split_once(';')?.1.split_once(':')?.1.split_once('/')?;
        (self.kind == Kind::Switch && place.contains('/')).then_some(place)
    }
    /// Which of its host's adapters it is: the rest of the description, such as `mlx5_0`.
    pub fn adapter(&self) -> &str {
        self.name().split_once(char::is_whitespace).map_or("", |(_, rest)| rest.trim())
    }
}

/// One end of a cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Plug {
    /// Index of the device.
    pub device: u32,
    /// Port, as its owner counts: from 1.
    pub port: u16,
}

/// A cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cable {
    /// Its ends; the smaller one first.
    pub ends: [Plug; 2],
    /// Width and speed, where known.
    pub speed: Option<Speed>,
    /// Data rate, where the file gives a rate instead.
    pub rate: Option<Rate>,
    /// Whether both ends list it.
    pub seen_twice: bool,
    /// Where it was seen first.
    pub line: u32,
}

impl Cable {
    /// Data rate, where known.
    pub fn data_rate(&self) -> Option<Rate> {
        self.rate.or_else(|| self.speed?.rate())
    }
}

/// A line that the reader did not understand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unread {
    /// Counted from 1.
    pub line: u32,
    /// Its beginning.
    pub text: String,
}

/// All that a file says of a subnet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subnet {
    /// In the order of the file.
    pub devices: Vec<Device>,
    /// In the order in which they were seen first.
    pub cables: Vec<Cable>,
    /// Lines that were not understood.
    pub unread: Vec<Unread>,
    /// Whether the file says what is connected, but neither by how many cables nor at which ports.
    pub structure_only: bool,
    /// What else the reader has to say of the file.
    pub notes: Vec<String>,
    /// Ports of adapters that are the first endpoints, in this order; the others follow, sorted by name.
    pub first: Vec<Plug>,
    /// The level of each switch by device, where the file itself says who is above whom; empty where it does not.
    pub stated: Vec<Option<u32>>,
}

/// The most ports that can be numbered.
pub(super) const MOST_PORTS: u16 = u16::MAX - 1;

/// One line of a port, before the far end is looked up.
pub(super) struct PortLine {
    pub device: u32,
    pub port: u16,
    pub far: String,
    pub far_port: u16,
    pub speed: Option<Speed>,
    pub rate: Option<Rate>,
    pub line: u32,
}

impl Subnet {
    /// Notes a line that was not understood.
    pub(super) fn skip(&mut self, line: u32, text: &str) {
        self.unread.push(Unread { line, text: text.chars().take(60).collect() });
    }

    /// Joins the lines of all ports to cables: each is listed at both ends, told apart by device and port.
    pub(super) fn plug(&mut self, lines: Vec<PortLine>) -> Result<(), ImportError> {
        let wrong = |line, mistake| ImportError::Line { line, mistake };
        let mut index = BTreeMap::new();
        for (number, device) in self.devices.iter().enumerate() {
            if let Some(before) = index.insert(device.id.clone(), number as u32) {
                let before = self.devices[before as usize].line;
                return Err(wrong(device.line, Mistake::Twice { id: device.id.clone(), before }));
            }
        }
        let mut guids = BTreeMap::new();
        for device in &self.devices {
            if let Some(before) = device.guid.and_then(|guid| guids.insert(guid, device.line)) {
                return Err(wrong(device.line, Mistake::Twice { id: format!("{:#x}", device.guid.unwrap_or_default()), before }));
            }
        }
        // The cable in each port that is known so far, and whether its own line was read.
        let mut taken: BTreeMap<Plug, (usize, Option<u32>)> = BTreeMap::new();
        for entry in lines {
            let PortLine { device, port, far, far_port, speed, rate, line } = entry;
            let far_device = *index.get(&far).ok_or_else(|| wrong(line, Mistake::NoSuchDevice { id: far.clone() }))?;
            let (here, there) = (Plug { device, port }, Plug { device: far_device, port: far_port });
            for plug in [here, there] {
                let owner = &self.devices[plug.device as usize];
                if plug.port > owner.ports || plug.port == 0 {
                    return Err(wrong(line, Mistake::NoSuchPort { id: owner.id.clone(), ports: owner.ports, port: plug.port }));
                }
            }
            let id = || self.devices[device as usize].id.clone();
            match taken.get(&here).copied() {
                Some((_, Some(before))) => return Err(wrong(line, Mistake::PortTwice { id: id(), port, before })),
                Some((cable, None)) => {
                    let other = if self.cables[cable].ends[0] == here { self.cables[cable].ends[1] } else { self.cables[cable].ends[0] };
                    if other != there {
                        let before = self.cables[cable].line;
                        return Err(wrong(line, Mistake::Disagree { id: id(), port, far, far_port, before }));
                    }
                    self.cables[cable].seen_twice = true;
                    taken.insert(here, (cable, Some(line)));
                }
                None => {
                    if let Some((cable, _)) = taken.get(&there) {
                        let before = self.cables[*cable].line;
                        return Err(wrong(line, Mistake::Disagree { id: id(), port, far, far_port, before }));
                    }
                    let cable = self.cables.len();
                    self.cables.push(Cable { ends: [here.min(there), here.max(there)], speed, rate, seen_twice: false, line });
                    taken.insert(here, (cable, Some(line)));
                    if here != there {
                        taken.insert(there, (cable, None));
                    }
                }
            }
        }
        if self.devices.is_empty() { Err(ImportError::Empty) } else { Ok(()) }
    }

    /// Adds a device without cables, called by its name; its number.
    pub(super) fn add(&mut self, kind: Kind, name: String, line: u32) -> u32 {
        self.devices.push(Device { id: name.clone(), guid: None, kind, description: name, ports: 0, lid: None, system: None, line });
        self.devices.len() as u32 - 1
    }
    /// Adds a cable between the next ports of two devices.
    pub(super) fn connect(&mut self, devices: [u32; 2], rate: Option<Rate>, line: u32) -> Result<(), ImportError> {
        let mut ends = [Plug { device: 0, port: 0 }; 2];
        for (end, device) in ends.iter_mut().zip(devices) {
            let owner = &mut self.devices[device as usize];
            if owner.ports >= MOST_PORTS {
                let mistake = Mistake::TooManyCables { id: owner.id.clone(), most: MOST_PORTS };
                return Err(ImportError::Line { line, mistake });
            }
            owner.ports += 1;
            *end = Plug { device, port: owner.ports };
        }
        ends.sort_unstable();
        self.cables.push(Cable { ends, speed: None, rate, seen_twice: true, line });
        Ok(())
    }

    /// The same with `uplinks` cables for each between two switches.
    ///
    /// # Errors
    /// More cables than a switch can have ports.
    pub fn with_uplinks(&self, uplinks: u16) -> Result<Subnet, ImportError> {
        let mut subnet = Subnet { cables: Vec::new(), ..self.clone() };
        subnet.devices.iter_mut().for_each(|device| device.ports = 0);
        for cable in &self.cables {
            let between = cable.ends.iter().all(|end| self.device(*end).kind == Kind::Switch);
            for _ in 0..if between { uplinks } else { 1 } {
                subnet.connect(cable.ends.map(|end| end.device), cable.rate, cable.line)?;
            }
        }
        Ok(subnet)
    }

    /// The device at the end of a cable.
    pub fn device(&self, plug: Plug) -> &Device {
        &self.devices[plug.device as usize]
    }
    /// Devices of a kind, with their indices.
    pub fn of_kind(&self, kind: Kind) -> impl Iterator<Item = (u32, &Device)> {
        self.devices.iter().enumerate().filter(move |(_, device)| device.kind == kind).map(|(index, device)| (index as u32, device))
    }
}

/// The words of a name without its numbers: `CSPINE1-80` and `A09-P1-IBLEAF-04-04` are a `CSPINE` and an `IBLEAF`.
pub(super) fn words(name: &str) -> String {
    let tokens: Vec<&str> = name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|token| !token.is_empty()).collect();
    let plain: Vec<&str> = tokens.iter().copied().filter(|token| token.chars().all(|c| c.is_ascii_alphabetic())).collect();
    if !plain.is_empty() {
        return plain.join("-");
    }
    let letters = |token: &&str| token.chars().take_while(char::is_ascii_alphabetic).collect::<String>();
    tokens.iter().map(letters).find(|word| !word.is_empty()).unwrap_or_else(|| "switch".to_owned())
}

/// Compares names as people sort them: runs of digits by their value.
pub(crate) fn natural(text: &str) -> Vec<(String, u64)> {
    let mut parts = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let words = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let (word, tail) = rest.split_at(words);
        let digits = tail.find(|c: char| !c.is_ascii_digit()).unwrap_or(tail.len());
        let (number, tail) = tail.split_at(digits);
        parts.push((word.to_owned(), number.parse().unwrap_or(u64::MAX)));
        rest = tail;
    }
    parts
}
