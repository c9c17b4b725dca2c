//! InfiniBand: service levels to virtual lanes, and the arbitration tables, in the words of OpenSM.
//!
//! Source: InfiniBand Architecture Specification vol. 1, §7.6.6 (SL to VL mapping), §7.6.9 (arbitration), §14.2.5.9 (tables of up
//! to 64 entries); OpenSM, doc/qos-config.txt (keys and their text).

use std::fmt;

use fabriscope_fabric::{Graph, SwitchId};
use fabriscope_units::Bytes;
use schemars::JsonSchema;
use serde::de::{self, Deserializer};
use serde::{Deserialize, Serialize, Serializer};

use super::LEVELS;
use super::pairs::{self, PortPairs};
use crate::error::Problem;

/// Lanes that data may use (standard: 15 belongs to management).
const DATA_VLS: u32 = 15;
/// Entries of an arbitration table (standard).
const ENTRIES: usize = 64;
/// What a packet has besides its payload at most: LRH, GRH, BTH, extended headers, ICRC and VCRC, in whole blocks (standard).
const HEADERS: u64 = 128;
/// Weights and the limit have eight bits (standard).
const LARGEST: u32 = 255;

/// One entry of an arbitration table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VlWeight {
    /// The lane.
    pub vl: u32,
    /// What it may send in one turn, in units of 64 bytes; 0 skips the entry.
    pub weight: u32,
}

/// An arbitration table, written as OpenSM writes it: `"0:64,1:192"`.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema)]
#[schemars(transparent)]
pub struct VlArb(#[schemars(with = "String")] pub Vec<VlWeight>);

impl VlArb {
    /// Reads pairs of lane and weight.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn parse(text: &str) -> Result<VlArb, String> {
        let pair = |pair: &str| {
            let (vl, weight) = pair.split_once(':')?;
            Some(VlWeight { vl: vl.trim().parse().ok()?, weight: weight.trim().parse().ok()? })
        };
        let entry = |text: &str| {
            pair(text).ok_or_else(|| format!("`{}` is no entry of an arbitration table; write lane:weight, \"0:64,1:192\"", text.trim()))
        };
        text.split(',').filter(|entry| !entry.trim().is_empty()).map(entry).collect::<Result<_, _>>().map(VlArb)
    }
}

impl fmt::Display for VlArb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, entry) in self.0.iter().enumerate() {
            write!(f, "{}{}:{}", if number > 0 { "," } else { "" }, entry.vl, entry.weight)?;
        }
        Ok(())
    }
}

impl Serialize for VlArb {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for VlArb {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<VlArb, D::Error> {
        let text = String::deserialize(deserializer)?;
        VlArb::parse(&text).map_err(de::Error::custom)
    }
}

/// The tables of a kind of port; what is left out is as in the tables of all ports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PortTables {
    /// The lane of each service level, for levels 0 to 15.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sl2vl: Option<Vec<u32>>,
    /// Bytes of high priority before one opportunity of low priority, in units of 4096; 0 is one packet, 255 no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub high_limit: Option<u32>,
    /// Entries of high priority.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vlarb_high: Option<VlArb>,
    /// Entries of low priority.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vlarb_low: Option<VlArb>,
}

/// Tables of some switches.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SwitchTables {
    /// Numbers of the switches, as `fabriscope topo` and `route` have them.
    pub switches: Vec<u32>,
    /// Their tables.
    pub tables: PortTables,
    /// Lanes of single pairs of ports, where they are not those of `tables`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pairs: Vec<PortPairs>,
}

/// Service levels, virtual lanes and arbitration tables.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VlQos {
    /// How many lanes carry data, 1 to 15.
    pub max_vls: u32,
    /// How the buffer of a port is divided among them: shares by lane. Default: evenly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vl_buffers: Option<Vec<u32>>,
    /// The lane of each service level, for levels 0 to 15. Default: the level modulo the number of lanes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sl2vl: Option<Vec<u32>>,
    /// Bytes of high priority before one opportunity of low priority, in units of 4096; 0 is one packet, 255 no limit.
    #[serde(default)]
    pub high_limit: u32,
    /// Entries of high priority: lane:weight, the weight in units of 64 bytes.
    #[serde(default)]
    pub vlarb_high: VlArb,
    /// Entries of low priority. Default: every lane that has none of high priority, 4 KiB each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vlarb_low: Option<VlArb>,
    /// What is different at the ports of adapters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<PortTables>,
    /// What is different at the ports of some switches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub switches: Vec<SwitchTables>,
}

/// The tables of one kind of port, complete.
#[derive(Clone, Debug, PartialEq)]
pub struct FullTables {
    /// The lane of each service level.
    pub sl2vl: [u8; LEVELS as usize],
    /// The limit of high priority as written.
    pub high_limit: u8,
    /// Entries of high priority.
    pub high: Vec<VlWeight>,
    /// Entries of low priority.
    pub low: Vec<VlWeight>,
}

impl VlQos {
    /// So many lanes in turn, service levels modulo them.
    pub fn even(max_vls: u32) -> VlQos {
        VlQos {
            max_vls,
            vl_buffers: None,
            sl2vl: None,
            high_limit: 0,
            vlarb_high: VlArb::default(),
            vlarb_low: None,
            ca: None,
            switches: Vec::new(),
        }
    }

    /// The tables of a kind of port, or those of all ports.
    pub fn full(&self, ports: Option<&PortTables>) -> FullTables {
        let lanes = self.max_vls.clamp(1, DATA_VLS);
        let sl2vl = ports.and_then(|ports| ports.sl2vl.as_ref()).or(self.sl2vl.as_ref());
        let high = ports.and_then(|ports| ports.vlarb_high.as_ref()).unwrap_or(&self.vlarb_high).0.clone();
        let raised = |vl: u32| high.iter().any(|entry| entry.vl == vl && entry.weight > 0);
        let low = ports.and_then(|ports| ports.vlarb_low.as_ref()).or(self.vlarb_low.as_ref());
        let low =
            low.map_or_else(|| (0..lanes).filter(|&vl| !raised(vl)).map(|vl| VlWeight { vl, weight: 64 }).collect(), |low| low.0.clone());
        FullTables {
            sl2vl: std::array::from_fn(|sl| sl2vl.and_then(|map| map.get(sl).copied()).unwrap_or(sl as u32 % lanes) as u8),
            high_limit: ports.and_then(|ports| ports.high_limit).unwrap_or(self.high_limit) as u8,
            high,
            low,
        }
    }

    pub(super) fn check(&self) -> Result<(), Problem> {
        if self.max_vls == 0 || self.max_vls > DATA_VLS {
            let message = format!("{} virtual lanes for data", self.max_vls);
            return Err(Problem::at(&["max_vls"], message, "use 1 to 15; lane 15 is that of management"));
        }
        let own = PortTables {
            sl2vl: self.sl2vl.clone(),
            high_limit: Some(self.high_limit),
            vlarb_high: Some(self.vlarb_high.clone()),
            vlarb_low: self.vlarb_low.clone(),
        };
        self.check_ports(&own, &self.full(None))?;
        if let Some(ca) = &self.ca {
            self.check_ports(ca, &self.full(Some(ca))).map_err(|problem| problem.under("ca"))?;
        }
        for (number, of) in self.switches.iter().enumerate() {
            let under = |problem: Problem| problem.under("tables").under(&number.to_string()).under("switches");
            let full = self.full(Some(&of.tables));
            self.check_ports(&of.tables, &full).map_err(under)?;
            let weights = [full.high, full.low].concat();
            pairs::check(self, &of.pairs, &weights).map_err(|problem| problem.under(&number.to_string()).under("switches"))?;
        }
        Ok(())
    }

    /// `written` are the tables of a kind of port, `full` the same with what they leave out.
    fn check_ports(&self, written: &PortTables, full: &FullTables) -> Result<(), Problem> {
        let lanes = self.max_vls;
        if let Some(map) = &written.sl2vl {
            pairs::check_levels(map, lanes)?;
        }
        if let Some(limit) = written.high_limit.filter(|limit| *limit > LARGEST) {
            return Err(Problem::at(
                &["high_limit"],
                format!("a limit of {limit}"),
                "use 0 to 255, in units of 4096 bytes; 255 is no limit",
            ));
        }
        for (key, table) in [("vlarb_high", &written.vlarb_high), ("vlarb_low", &written.vlarb_low)] {
            let Some(table) = table else { continue };
            if table.0.len() > ENTRIES {
                let message = format!("{} entries in an arbitration table", table.0.len());
                return Err(Problem::at(&[key], message, "a table has at most 64; join those of the same lane"));
            }
            if let Some(entry) = table.0.iter().find(|entry| entry.vl >= lanes) {
                return Err(no_lane(&[key], format!("the entry {}:{} is of lane {}", entry.vl, entry.weight, entry.vl), entry.vl, lanes));
            }
            if let Some(entry) = table.0.iter().find(|entry| entry.weight > LARGEST) {
                let message = format!("lane {} has a weight of {}", entry.vl, entry.weight);
                return Err(Problem::at(&[key], message, "use 0 to 255, in units of 64 bytes; write the lane twice for more"));
            }
        }
        let served = |vl: u32| full.high.iter().chain(&full.low).any(|entry| entry.vl == vl && entry.weight > 0);
        if let Some((sl, vl)) = full.sl2vl.iter().enumerate().find(|(_, vl)| !served(u32::from(**vl))) {
            let message =
                format!("service level {sl} goes to lane {vl}, which has a weight in neither table: its packets would never leave");
            return Err(Problem::at(&["vlarb_low"], message, format!("add {vl}:64 to vlarb_low")));
        }
        Ok(())
    }

    /// The share of lane `vl` in the buffer of a port of `buffer` bytes.
    pub fn buffer(&self, buffer: Bytes, vl: u32) -> Bytes {
        let (share, all) = match &self.vl_buffers {
            Some(shares) => (shares.get(vl as usize).copied().unwrap_or(0), shares.iter().map(|&share| u64::from(share)).sum()),
            None => (1, u64::from(self.max_vls)),
        };
        Bytes((u128::from(buffer.0) * u128::from(share) / u128::from(all.max(1))) as u64)
    }

    /// Whether each lane has room for a packet of `mtu` in `buffer`, the smallest of a port.
    pub(super) fn check_buffers(&self, buffer: Bytes, mtu: Bytes) -> Result<(), Problem> {
        if let Some(shares) = &self.vl_buffers
            && shares.len() != self.max_vls as usize
        {
            let message = format!("shares of the buffer for {} lanes, but there are {}", shares.len(), self.max_vls);
            return Err(Problem::at(&["vl_buffers"], message, "write a share for each lane"));
        }
        let least = mtu.0 + HEADERS;
        match (0..self.max_vls).find(|&vl| self.buffer(buffer, vl).0 < least) {
            Some(vl) if self.max_vls > 1 => {
                let message = format!("lane {vl} has {} of the buffer of {buffer} of a port, less than a packet", self.buffer(buffer, vl));
                let key = if self.vl_buffers.is_some() { "vl_buffers" } else { "max_vls" };
                Err(Problem::at(&[key], message, format!("leave it at least {}, with fewer lanes or another share", Bytes(least))))
            }
            _ => Ok(()),
        }
    }

    /// Whether the switches that have tables of their own exist, once each, with the ports that are named.
    pub(super) fn check_switches(&self, graph: &Graph) -> Result<(), Problem> {
        let count = graph.switch_count();
        let mut named: Vec<u32> = Vec::new();
        for (number, of) in self.switches.iter().enumerate() {
            let place = ["switches", &number.to_string(), "switches"];
            if let Some(switch) = of.switches.iter().find(|switch| **switch >= count) {
                return Err(Problem::at(
                    &place,
                    format!("there is no switch {switch}"),
                    format!("the fabric has switches 0 to {}", count.max(1) - 1),
                ));
            }
            for switch in &of.switches {
                if named.contains(switch) {
                    return Err(Problem::at(&place, format!("switch {switch} has tables twice"), "name each switch once"));
                }
                named.push(*switch);
                let ports = u32::from(graph.port_count(SwitchId(*switch)));
                let under = |problem: Problem| problem.under(&number.to_string()).under("switches");
                pairs::check_ports(&of.pairs, *switch, ports).map_err(under)?;
            }
        }
        Ok(())
    }
}

pub(super) fn no_lane(path: &[&str], what: String, vl: u32, lanes: u32) -> Problem {
    let why = if vl == DATA_VLS { ", which carries management only".to_owned() } else { format!(", but there are {lanes}") };
    Problem::at(path, what + &why, format!("use lanes 0 to {}, or raise `max_vls`", lanes - 1))
}
