//! How fast a part multiplies matrices of double precision: what HPL spends nearly all of its time on.
//!
//! Source: the datasheets for the peaks; published runs of HPL or DGEMM for the shares.
//! Modelled: a peak and one share of it that large multiplications keep up.
//! Not modelled: clocks that fall with power and temperature, shapes of matrices.

use fabriscope_units::{Frequency, OperationRate, Ratio};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::Problem;
use crate::sourced::Sourced;

/// Multiplication of matrices of 64-bit floating point on a GPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GpuDgemm {
    /// The peak of the units that multiply matrices, by the datasheet; zero where there are none for double precision.
    pub peak: Sourced<OperationRate>,
    /// Share of it that the update of HPL keeps up.
    pub sustained: Sourced<Ratio>,
}

impl GpuDgemm {
    /// What a GPU keeps up.
    #[must_use]
    pub fn rate(&self) -> OperationRate {
        self.peak.share(*self.sustained)
    }
}

/// The same on the cores of a processor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CpuDgemm {
    /// Operations of a core in a cycle: a multiplication with its addition counts as two.
    pub per_cycle: Sourced<u32>,
    /// The clock of the peak where it is not the base clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<Sourced<Frequency>>,
    /// Share of the peak that the update of HPL keeps up.
    pub sustained: Sourced<Ratio>,
}

impl CpuDgemm {
    /// The peak of so many cores at this base clock.
    #[must_use]
    pub fn peak(&self, cores: u32, base: Frequency) -> OperationRate {
        let clock = self.clock.as_ref().map_or(base, |clock| **clock);
        OperationRate::per_cycle(clock, u64::from(*self.per_cycle) * u64::from(cores))
    }
    /// What they keep up.
    #[must_use]
    pub fn rate(&self, cores: u32, base: Frequency) -> OperationRate {
        self.peak(cores, base).share(*self.sustained)
    }
    pub(super) fn check(&self, cores: u32, base: Frequency) -> Result<(), Problem> {
        if self.rate(cores, base).as_f64() == 0.0 {
            return Err(Problem::at(&["dgemm", "sustained", "value"], "nothing is left of the peak", "check `per_cycle` and the share"));
        }
        Ok(())
    }
}
