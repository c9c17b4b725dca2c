//! Ethernet: priorities, pauses per priority, and classes that are strict or share what is left.
//!
//! Source: IEEE 802.1Q-2022 §8.6.6 (priorities to traffic classes), §8.6.8 (transmission selection), clause 36 (priority flow
//! control), clause 37 (enhanced transmission selection); RFC 2474 (DSCP).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cluster::FlowControl;
use crate::error::Problem;
use crate::part::{Ecn, Pfc, check_ecn};

/// Priorities of Ethernet (standard: three bits).
const PRIORITIES: u32 = 8;

/// A traffic class.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EthernetClass {
    /// Its priorities.
    pub priorities: Vec<u32>,
    /// It goes before all classes above it in the list and all with shares.
    pub strict: bool,
    /// Share of what strict classes leave, in percent; all shares together are 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<u32>,
    /// Congestion marking, where it is not as the switch has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecn: Option<Ecn>,
    /// Thresholds of pauses, where they are not as the switch has them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pfc: Option<Pfc>,
    /// What a queue may take of a shared buffer, as a multiple of what is free, where it is not as the switch has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alpha: Option<f64>,
}

/// Priorities, pauses per priority, strict and shared classes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EthernetQos {
    /// The classes; of two strict ones the later goes first. Priorities of no class travel as the first one of all.
    pub classes: Vec<EthernetClass>,
    /// Priorities with pause frames; the others drop. Default: all where the cluster is lossless, none where it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lossless: Option<Vec<u32>>,
    /// The priority of each DSCP that is not the first three of its six bits.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub dscp: BTreeMap<String, u32>,
}

impl EthernetQos {
    /// The priorities of all classes, each with a lane of its own, with their class.
    pub fn priorities(&self) -> impl Iterator<Item = (u8, usize)> + '_ {
        self.classes.iter().enumerate().flat_map(|(class, of)| of.priorities.iter().map(move |&priority| (priority as u8, class)))
    }
    /// The priority of packets with this DSCP.
    pub fn priority_of(&self, dscp: u8) -> u8 {
        self.dscp.get(&dscp.to_string()).map_or(dscp >> 3, |&priority| priority as u8)
    }
    /// Whether a priority has pause frames on a cluster that is lossless or not.
    pub fn pauses(&self, priority: u8, lossless: bool) -> bool {
        lossless && self.lossless.as_ref().is_none_or(|listed| listed.contains(&u32::from(priority)))
    }

    pub(super) fn check(&self, flow_control: FlowControl) -> Result<(), Problem> {
        if self.classes.is_empty() {
            return Err(Problem::at(&["classes"], "no class of traffic", "write classes = [{ priorities = [0], share = 100 }]"));
        }
        let mut seen: Vec<u32> = Vec::new();
        for (number, class) in self.classes.iter().enumerate() {
            let place = |key: &'static str| ["classes".to_owned(), number.to_string(), key.to_owned()];
            let told = |key, message: String, help: String| {
                let path = place(key);
                Problem::at(&path.each_ref().map(String::as_str), message, help)
            };
            if class.priorities.is_empty() {
                return Err(told("priorities", "a class without a priority".to_owned(), "name at least one of 0 to 7".to_owned()));
            }
            for &priority in &class.priorities {
                if priority >= PRIORITIES {
                    return Err(told("priorities", format!("there is no priority {priority}"), "use 0 to 7".to_owned()));
                }
                if seen.contains(&priority) {
                    return Err(told("priorities", format!("priority {priority} is in two classes"), "name each priority once".to_owned()));
                }
                seen.push(priority);
            }
            match (class.strict, class.share) {
                (true, Some(share)) => {
                    let message = format!("a strict class with a share of {share} %");
                    return Err(told("share", message, "keep `strict` or `share`".to_owned()));
                }
                (false, None | Some(0)) => {
                    let help = "write share = 1 to 100, or strict = true".to_owned();
                    return Err(told("share", "a class that is not strict and has no share".to_owned(), help));
                }
                _ => {}
            }
            if let Some(ecn) = &class.ecn {
                check_ecn(ecn).map_err(|problem| problem.under(&number.to_string()).under("classes"))?;
            }
            if let Some(pfc) = class.pfc.as_ref().filter(|pfc| *pfc.xon > *pfc.xoff) {
                let message = format!("`xon` of {} lies above `xoff` of {}", *pfc.xon, *pfc.xoff);
                return Err(told("pfc", message, "set `xon` to at most `xoff`".to_owned()));
            }
            if let Some(alpha) = class.alpha.filter(|alpha| !(*alpha > 0.0 && *alpha <= 256.0)) {
                return Err(told("alpha", format!("`alpha` of {alpha}"), "use a number above 0 and up to 256".to_owned()));
            }
        }
        let shares: u64 = self.classes.iter().filter_map(|class| class.share).map(u64::from).sum();
        if shares != 100 && self.classes.iter().any(|class| !class.strict) {
            return Err(Problem::at(&["classes"], format!("the shares add up to {shares} %"), "make them 100 % together"));
        }
        if let Some(priority) = self.lossless.iter().flatten().find(|priority| !seen.contains(priority)) {
            let message = format!("priority {priority} is lossless, but in no class");
            return Err(Problem::at(&["lossless"], message, "add it to the priorities of a class"));
        }
        let drops = |priority: &u32| self.lossless.as_ref().is_some_and(|listed| !listed.contains(priority));
        if flow_control == FlowControl::Credits && seen.iter().any(drops) {
            let message = "priorities without credits beside others with them";
            return Err(Problem::at(&["lossless"], message, "remove `lossless`: all have credits; or set flow_control = \"lossless\""));
        }
        if flow_control == FlowControl::Lossy && self.lossless.as_ref().is_some_and(|listed| !listed.is_empty()) {
            let message = "lossless priorities on a cluster that drops";
            return Err(Problem::at(&["lossless"], message, "set flow_control = \"lossless\", or remove `lossless`"));
        }
        for (dscp, priority) in &self.dscp {
            if !dscp.parse::<u32>().is_ok_and(|dscp| dscp < 64) {
                return Err(Problem::at(&["dscp", dscp], format!("there is no DSCP {dscp}"), "use 0 to 63"));
            }
            if !seen.contains(priority) {
                let message = format!("DSCP {dscp} goes to priority {priority}, which is in no class");
                return Err(Problem::at(&["dscp", dscp], message, "name a priority of a class"));
            }
        }
        Ok(())
    }
}
