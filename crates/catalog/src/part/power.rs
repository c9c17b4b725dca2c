//! What switches, adapters and cables draw: one file of figures for one part or several that draw the same.
//!
//! Source: form of the model, a base, a part for each port that is up and an energy for each bit: Vishwanath et al., "Modeling Energy
//! Consumption in High-Capacity Routers and Switches" (IEEE JSAC 32(8), 2014); IEEE 802.3az and Reviriego et al., "Performance
//! evaluation of Energy Efficient Ethernet" (IEEE Communications Letters 13(9), 2009) for ports at rest.
//! Modelled: the published figure of a device with all ports up, split into base, ports and traffic; a port down, idle, at work or at
//! rest, each direction by itself; cables by their rate at each end.
//! Not modelled: power supplies by load, fans by temperature, voltage by speed; what a packet costs apart from its bits; ports that run
//! slower than the figures say.

use std::collections::BTreeMap;

use fabriscope_units::{EnergyPerBit, Power, Rate, Ratio};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Kind, Part};
use crate::error::Problem;
use crate::sourced::Sourced;

/// What parts draw.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PowerFigures {
    /// The name others refer to it by; equals the name of its file.
    pub name: String,
    /// One line that tells a person what it is.
    pub title: String,
    /// What a reader should know besides.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub notes: String,
    /// The switches that draw this.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub switches: Vec<String>,
    /// The adapters that draw this.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nics: Vec<String>,
    /// The cables that draw this.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cables: Vec<String>,
    /// What a switch or an adapter draws.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<DevicePower>,
    /// What one end of a cable draws, by a name for each speed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub end: BTreeMap<String, CableEndPower>,
}

/// What a switch or an adapter draws.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DevicePower {
    /// The ports that are up in `typical`.
    pub ports: u32,
    /// The rate of each of them there.
    pub rate: Rate,
    /// What the device draws with these ports up, passive cables in them, at `typical_load`.
    pub typical: Sourced<Power>,
    /// The share of `rate` that each port carries in `typical`: a switch sends it, an adapter sends it and receives as much.
    pub typical_load: Sourced<Ratio>,
    /// What a port draws while it is up, both directions together, whether it carries anything or not.
    pub port: Sourced<Power>,
    /// What a bit costs besides: in a switch a bit that leaves, in an adapter a bit that leaves or arrives.
    pub per_bit: Sourced<EnergyPerBit>,
    /// The share of `port` that is left of a port at rest all of whose lanes sleep.
    pub at_rest: Sourced<Ratio>,
}

/// What one end of a cable draws.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CableEndPower {
    /// The fastest link that it is for.
    pub up_to: Rate,
    /// What it draws, as long as the link is up.
    pub power: Sourced<Power>,
}

/// Which bits of a device count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BitsCounted {
    /// Those that leave.
    Sent,
    /// Those that leave and those that arrive.
    Both,
}

impl DevicePower {
    /// What the traffic of `typical` draws.
    fn typical_traffic(&self, bits: BitsCounted) -> Power {
        let sent = self.per_bit.at(self.typical_load.of(self.rate)).saturating_mul(u64::from(self.ports));
        match bits {
            BitsCounted::Sent => sent,
            BitsCounted::Both => sent.saturating_mul(2),
        }
    }
    /// What the device draws whatever its ports do: `typical` without its ports and without its traffic.
    #[must_use]
    pub fn base(&self, bits: BitsCounted) -> Option<Power> {
        let ports = self.port.saturating_mul(u64::from(self.ports));
        self.typical.checked_sub(ports.saturating_add(self.typical_traffic(bits)))
    }
}

impl PowerFigures {
    /// Which bits count in what it describes.
    #[must_use]
    pub fn bits(&self) -> BitsCounted {
        if self.nics.is_empty() { BitsCounted::Sent } else { BitsCounted::Both }
    }
    /// What one end of a cable draws on a link of this rate; nothing where no figure reaches so far.
    #[must_use]
    pub fn at_end(&self, rate: Rate) -> Option<Power> {
        self.end.values().filter(|end| end.up_to >= rate).min_by_key(|end| end.up_to).map(|end| *end.power)
    }
    /// Whether it describes this part.
    #[must_use]
    pub fn describes(&self, kind: Kind, name: &str) -> bool {
        let names = match kind {
            Kind::Switch => &self.switches,
            Kind::Nic => &self.nics,
            Kind::Cable => &self.cables,
            _ => return false,
        };
        names.iter().any(|other| other == name)
    }
}

impl Part for PowerFigures {
    const KIND: Kind = Kind::Power;
    fn name(&self) -> &str {
        &self.name
    }
    fn title(&self) -> &str {
        &self.title
    }
    fn check(&self) -> Result<(), Problem> {
        let kinds = [&self.switches, &self.nics, &self.cables].iter().filter(|names| !names.is_empty()).count();
        if kinds != 1 {
            let help = "name parts of one kind: switches = [\"…\"], nics = [\"…\"] or cables = [\"…\"]";
            return Err(Problem::at(&["name"], "figures of no part, or of parts of several kinds", help));
        }
        let of_cables = !self.cables.is_empty();
        if of_cables != self.device.is_none() || of_cables == self.end.is_empty() {
            let help = "give [device] to switches and adapters, and [end.NAME] to cables";
            return Err(Problem::at(&["name"], "figures that do not suit the parts", help));
        }
        if let Some(device) = &self.device
            && device.base(self.bits()).is_none()
        {
            let message = format!(
                "{} ports of {} and their traffic of {} draw more than {}",
                device.ports,
                *device.port,
                device.typical_traffic(self.bits()),
                *device.typical
            );
            return Err(Problem::at(&["device", "port", "value"], message, "lower `port` or `per_bit`, or correct `typical`"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(text: &str) -> PowerFigures {
        toml::from_str(text).expect("it is right")
    }

    const SWITCH: &str = r#"
        name = "x"
        title = "x"
        switches = ["x"]
        [device]
        ports = 40
        rate = "200 Gb/s"
        typical = { value = "253 W", basis = "assumed", note = "test" }
        typical_load = { value = "1/4", basis = "assumed", note = "test" }
        port = { value = "2 W", basis = "assumed", note = "test" }
        per_bit = { value = "5 pJ/b", basis = "assumed", note = "test" }
        at_rest = { value = "1/10", basis = "assumed", note = "test" }
    "#;

    /// 40 ports of 2 W are 80 W, a quarter of 40 · 200 Gb/s at 5 pJ/b 10 W; 253 W less these are 163 W. An adapter counts bits twice.
    #[test]
    fn the_base_is_what_ports_and_traffic_leave_of_the_published_figure() {
        let figures = figures(SWITCH);
        let device = figures.device.as_ref().unwrap();
        assert!(figures.check().is_ok());
        assert_eq!(device.base(BitsCounted::Sent), Some(Power::from_watts(163)));
        assert_eq!(device.base(BitsCounted::Both), Some(Power::from_watts(153)));
    }

    #[test]
    fn contradictions_are_refused() {
        let hot = figures(&SWITCH.replace("\"2 W\"", "\"7 W\""));
        assert!(hot.check().unwrap_err().message.contains("draw more than 253 W"));
        let nobody = figures(&SWITCH.replace("switches = [\"x\"]", ""));
        assert!(nobody.check().unwrap_err().message.contains("of no part"));
        let cable = figures(&SWITCH.replace("switches", "cables"));
        assert!(cable.check().unwrap_err().message.contains("do not suit"));
    }

    #[test]
    fn an_end_of_a_cable_is_that_of_the_next_faster_speed() {
        let ends = figures(
            r#"
            name = "c"
            title = "c"
            cables = ["c"]
            [end.slow]
            up_to = "100 Gb/s"
            power = { value = "2 W", basis = "assumed", note = "test" }
            [end.fast]
            up_to = "400 Gb/s"
            power = { value = "9 W", basis = "assumed", note = "test" }
        "#,
        );
        assert!(ends.check().is_ok());
        for (gigabits, watts) in [(56, Some(2)), (100, Some(2)), (200, Some(9)), (400, Some(9)), (800, None)] {
            assert_eq!(ends.at_end(Rate::from_gbps(gigabits)), watts.map(Power::from_watts), "{gigabits}");
        }
    }
}
