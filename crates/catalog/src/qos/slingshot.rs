//! Slingshot: classes with a priority, a guaranteed and a largest share of the link.
//!
//! Source: D. De Sensi et al., "An In-Depth Analysis of the Slingshot Interconnect", SC 2020 (arXiv 2008.08886), on traffic
//! classes. HPE publishes no default tables: those here are assumed.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::Problem;

/// A traffic class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrafficClass {
    /// Its name.
    pub name: String,
    /// The higher goes first with what no minimum claims.
    #[serde(default)]
    pub priority: u32,
    /// Share of the link that it can rely on, in percent.
    #[serde(default)]
    pub minimum: u32,
    /// Share of the link that it never exceeds, in percent.
    #[serde(default = "all")]
    pub maximum: u32,
}

fn all() -> u32 {
    100
}

/// Classes with a guaranteed and a largest rate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SlingshotQos {
    /// The classes; the first is that of traffic which asks for none. Default: `standard`, `high_priority`, `low_latency`,
    /// `bulk_io` and `scavenger`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<TrafficClass>,
}

/// Name, priority, minimum and maximum of the usual classes. Basis: assumed; names and roles as HPE describes them.
const USUAL: [(&str, u32, u32, u32); 5] = [
    ("standard", 1, 30, 100),
    ("high_priority", 2, 30, 100),
    ("low_latency", 3, 10, 50),
    ("bulk_io", 1, 10, 100),
    ("scavenger", 0, 0, 100),
];

/// Classes that a packet can name (four bits), and the highest priority.
const MOST: usize = 16;

impl SlingshotQos {
    /// The classes, as written or the usual ones.
    pub fn classes(&self) -> Cow<'_, [TrafficClass]> {
        if !self.classes.is_empty() {
            return Cow::Borrowed(&self.classes);
        }
        let class = |&(name, priority, minimum, maximum): &(&str, u32, u32, u32)| TrafficClass {
            name: name.to_owned(),
            priority,
            minimum,
            maximum,
        };
        Cow::Owned(USUAL.iter().map(class).collect())
    }

    pub(super) fn class(&self, name: &str) -> Result<u8, Problem> {
        let classes = self.classes();
        if let Some(number) = classes.iter().position(|class| class.name == name) {
            return Ok(number as u8);
        }
        let known = classes.iter().map(|class| format!("`{}`", class.name)).collect::<Vec<_>>().join(", ");
        Err(Problem::at(&["traffic_class"], format!("there is no traffic class `{name}`"), format!("use one of {known}")))
    }

    pub(super) fn check(&self) -> Result<(), Problem> {
        let classes = self.classes();
        if classes.len() > MOST {
            return Err(Problem::at(&["classes"], format!("{} classes", classes.len()), "use at most 16"));
        }
        for (number, class) in classes.iter().enumerate() {
            let number_text = number.to_string();
            let told = |key: &str, message: String, help: &str| Problem::at(&["classes", &number_text, key], message, help);
            if classes[..number].iter().any(|other| other.name == class.name) {
                return Err(told("name", format!("there are two classes `{}`", class.name), "give each a name of its own"));
            }
            if class.maximum == 0 || class.maximum > 100 {
                return Err(told("maximum", format!("`{}` has a maximum of {} %", class.name, class.maximum), "use 1 to 100"));
            }
            if class.minimum > class.maximum {
                let message = format!("`{}` has a minimum of {} % above its maximum of {} %", class.name, class.minimum, class.maximum);
                return Err(told("minimum", message, "lower `minimum`, or raise `maximum`"));
            }
            if class.priority > 255 {
                return Err(told("priority", format!("a priority of {}", class.priority), "use 0 to 255"));
            }
        }
        let minimums: u64 = classes.iter().map(|class| u64::from(class.minimum)).sum();
        if minimums > 100 {
            let message = format!("the minimums add up to {minimums} % of the link");
            return Err(Problem::at(&["classes"], message, "lower them to 100 % together"));
        }
        Ok(())
    }
}
