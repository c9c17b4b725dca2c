//! A storage device of a server: a disk or flash.
//!
//! Source: data sheets of the drives.
//! Modelled: rates of long accesses, operations a second of short ones, what an access takes by itself, positioning of disks.
//! Not modelled: caches of drives, flash that slows down when it is full or worn, zones of disks.

use fabriscope_units::{Bytes, Rate, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Kind, Part};
use crate::error::Problem;
use crate::sourced::Sourced;

/// How data lie on a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Medium {
    /// Turning platters under a head.
    Disk,
    /// Flash behind SATA or SAS.
    Ssd,
    /// Flash behind PCI Express.
    Nvme,
}

/// How long the head of a disk takes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Positioning {
    /// To the next track.
    pub track_to_track: Sourced<Span>,
    /// To any other, on average.
    pub seek: Sourced<Span>,
    /// A turn of the platters.
    pub rotation: Sourced<Span>,
}

/// One model of drive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Drive {
    /// The name others refer to it by; equals the name of its file.
    pub name: String,
    /// One line that tells a person what it is.
    pub title: String,
    /// What a reader should know besides.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub notes: String,
    /// How data lie on it.
    pub medium: Medium,
    /// What it holds.
    pub capacity: Sourced<Bytes>,
    /// Long reads.
    pub read_rate: Sourced<Rate>,
    /// Long writes.
    pub write_rate: Sourced<Rate>,
    /// Reads of 4 KiB a second, many at a time; of a disk what its head takes decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reads: Option<Sourced<u64>>,
    /// Writes of 4 KiB a second, many at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writes: Option<Sourced<u64>>,
    /// A short read by itself, apart from positioning.
    pub read_latency: Sourced<Span>,
    /// A short write by itself, apart from positioning.
    pub write_latency: Sourced<Span>,
    /// How long the head takes; of disks only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub positioning: Option<Positioning>,
}

impl Part for Drive {
    const KIND: Kind = Kind::Drive;
    fn name(&self) -> &str {
        &self.name
    }
    fn title(&self) -> &str {
        &self.title
    }
    fn check(&self) -> Result<(), Problem> {
        for (key, rate) in [("read_rate", &self.read_rate), ("write_rate", &self.write_rate)] {
            if rate.as_bps() == 0 {
                return Err(Problem::at(
                    &[key, "value"],
                    format!("`{key}` is zero: an access would never end"),
                    "use the rate of the data sheet",
                ));
            }
        }
        match (self.medium, &self.positioning) {
            (Medium::Disk, None) => Err(Problem::at(&["medium"], "a disk without [positioning]", "say how long its head takes")),
            (Medium::Disk, Some(_)) => Ok(()),
            (_, Some(_)) => Err(Problem::at(&["positioning"], "flash has no head", "remove [positioning]")),
            (_, None) if self.reads.is_none() || self.writes.is_none() => {
                Err(Problem::at(&["medium"], "flash without `reads` and `writes`", "give the operations a second of its data sheet"))
            }
            (_, None) => Ok(()),
        }
    }
}
