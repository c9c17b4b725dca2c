//! InfiniBand: lanes by the pair of ports that a packet crosses a switch by.
//!
//! Source: InfiniBand Architecture Specification vol. 1, §7.6.6 and §14.2.5.8 (SLtoVLMappingTable: a switch has one for each pair of
//! input and output port).
//! Modelled: tables for sets of pairs; what is in none goes by the table of the switch.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::vl::{VlQos, no_lane};
use super::{LEVELS, VlWeight};
use crate::error::Problem;

/// The lanes of packets that cross a switch from some of its ports to some others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PortPairs {
    /// Ports by which packets come; all where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs: Option<Vec<u32>>,
    /// Ports by which packets leave; all where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outputs: Option<Vec<u32>>,
    /// The lane of each service level, for levels 0 to 15.
    pub sl2vl: Vec<u32>,
}

impl PortPairs {
    /// Whether packets from port `input` to port `output` go by this table.
    pub fn covers(&self, input: u32, output: u32) -> bool {
        has(&self.inputs, input) && has(&self.outputs, output)
    }
    /// The lane of each service level.
    pub fn map(&self) -> [u8; LEVELS as usize] {
        std::array::from_fn(|sl| self.sl2vl.get(sl).copied().unwrap_or(0) as u8)
    }
}

fn has(ports: &Option<Vec<u32>>, port: u32) -> bool {
    ports.as_ref().is_none_or(|ports| ports.contains(&port))
}

/// A port that is in both sets; `None` within where both are all ports.
fn common(a: &Option<Vec<u32>>, b: &Option<Vec<u32>>) -> Option<Option<u32>> {
    match (a, b) {
        (None, None) => Some(None),
        (Some(ports), other) | (other @ None, Some(ports)) => ports.iter().find(|port| has(other, **port)).map(|port| Some(*port)),
    }
}

/// Whether the tables of one switch fit its lanes and each other; `weights` are the entries of both its arbitration tables.
pub(super) fn check(qos: &VlQos, pairs: &[PortPairs], weights: &[VlWeight]) -> Result<(), Problem> {
    for (number, table) in pairs.iter().enumerate() {
        let at =
            |key: &'static str, message: String, help: String| Problem::at(&[key], message, help).under(&number.to_string()).under("pairs");
        for (key, ports) in [("inputs", &table.inputs), ("outputs", &table.outputs)] {
            if ports.as_ref().is_some_and(Vec::is_empty) {
                return Err(at(key, "a table between no ports".to_owned(), format!("name ports, or leave `{key}` out for all")));
            }
        }
        check_levels(&table.sl2vl, qos.max_vls).map_err(|problem| problem.under(&number.to_string()).under("pairs"))?;
        let served = |vl: u32| weights.iter().any(|entry| entry.vl == vl && entry.weight > 0);
        if let Some((sl, vl)) = table.sl2vl.iter().enumerate().find(|(_, vl)| !served(**vl)) {
            let message = format!("service level {sl} goes to lane {vl}, which has a weight in neither table of the switch");
            return Err(at("sl2vl", message, format!("add {vl}:64 to vlarb_low")));
        }
        for (before, other) in pairs[..number].iter().enumerate() {
            if let (Some(input), Some(output)) = (common(&table.inputs, &other.inputs), common(&table.outputs, &other.outputs)) {
                let name = |port: Option<u32>| port.map_or("any port".to_owned(), |port| format!("port {port}"));
                let message = format!("packets from {} to {} have two tables: entries {before} and {number}", name(input), name(output));
                return Err(at("sl2vl", message, "name each pair of ports once".to_owned()));
            }
        }
    }
    Ok(())
}

/// Whether a table has a lane of `lanes` for each service level.
pub(super) fn check_levels(map: &[u32], lanes: u32) -> Result<(), Problem> {
    if map.len() != LEVELS as usize {
        let message = format!("lanes for {} service levels", map.len());
        return Err(Problem::at(&["sl2vl"], message, "write 16 lanes, those of levels 0 to 15"));
    }
    match map.iter().enumerate().find(|(_, vl)| **vl >= lanes) {
        Some((sl, vl)) => Err(no_lane(&["sl2vl"], format!("service level {sl} goes to lane {vl}"), *vl, lanes)),
        None => Ok(()),
    }
}

/// Whether a switch with so many ports has those that its tables name.
pub(super) fn check_ports(pairs: &[PortPairs], switch: u32, ports: u32) -> Result<(), Problem> {
    for (number, table) in pairs.iter().enumerate() {
        for (key, named) in [("inputs", &table.inputs), ("outputs", &table.outputs)] {
            if let Some(port) = named.iter().flatten().find(|port| **port >= ports) {
                let message = format!("switch {switch} has no port {port}");
                let problem = Problem::at(&[key], message, format!("it has ports 0 to {}", ports.max(1) - 1));
                return Err(problem.under(&number.to_string()).under("pairs"));
            }
        }
    }
    Ok(())
}
