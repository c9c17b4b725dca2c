//! What a GPU and a processor are, as far as the library tells them apart.

use std::str::FromStr;

use fabriscope_units::Rate;

use crate::error::NcclError;
use crate::tables;

/// The architecture of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Architecture {
    /// NVIDIA's, by compute capability: 90 for Hopper.
    Sm(u32),
    /// AMD's, as the digits of its name: 0x90a for the MI250X, 0x942 for the MI300.
    Gfx(u32),
}

impl Architecture {
    /// Whether it runs RCCL.
    #[must_use]
    pub const fn is_amd(self) -> bool {
        matches!(self, Architecture::Gfx(_))
    }
    /// The number by which the library's rules go: compute capability, and for AMD what HIP says in its place (major and minor version).
    #[must_use]
    pub const fn capability(self) -> u32 {
        match self {
            Architecture::Sm(capability) => capability,
            Architecture::Gfx(name) => (name >> 8) * 10 + ((name >> 4) & 0xf),
        }
    }
    /// What the library takes one link between GPUs to carry.
    #[must_use]
    pub const fn link_rate(self) -> Rate {
        match self {
            Architecture::Sm(capability) => tables::nvlink_rate(capability),
            Architecture::Gfx(name) => tables::xgmi_rate(name),
        }
    }
}

impl FromStr for Architecture {
    type Err = NcclError;
    fn from_str(text: &str) -> Result<Architecture, NcclError> {
        let number = |rest: &str, radix| u32::from_str_radix(rest, radix).ok().filter(|number| (10..0x10000).contains(number));
        let nvidia = text.strip_prefix("sm_").and_then(|rest| number(rest, 10)).map(Architecture::Sm);
        let amd = || text.strip_prefix("gfx").and_then(|rest| number(rest, 16)).map(Architecture::Gfx);
        nvidia.or_else(amd).ok_or_else(|| NcclError::Architecture(text.to_owned()))
    }
}

/// The processor of a node: what is between sockets, and who passes traffic between devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Processor {
    /// Intel before Skylake (QPI).
    IntelBroadwell,
    /// Intel from Skylake on (UPI).
    IntelSkylake,
    /// AMD.
    Amd,
    /// Arm: Grace and others.
    Arm,
    /// POWER9.
    Power,
    /// Any other.
    #[default]
    Other,
}

impl Processor {
    /// Whether it is Intel's.
    #[must_use]
    pub const fn is_intel(self) -> bool {
        matches!(self, Processor::IntelBroadwell | Processor::IntelSkylake)
    }
}

impl FromStr for Processor {
    type Err = NcclError;
    fn from_str(text: &str) -> Result<Processor, NcclError> {
        Ok(match text {
            "intel-broadwell" => Processor::IntelBroadwell,
            "intel-skylake" => Processor::IntelSkylake,
            "amd" => Processor::Amd,
            "arm" => Processor::Arm,
            "power" => Processor::Power,
            _ => return Err(NcclError::Processor(text.to_owned())),
        })
    }
}
