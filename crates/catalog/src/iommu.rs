//! Addresses of devices that the IOMMU translates: virtual functions of guests (SR-IOV), kernels that protect memory from devices.
//!
//! ```toml
//! [iommu]
//! page = "4 KiB"                         # by which memory is mapped for devices
//! ```
//!
//! Source: PCI-SIG, Single Root I/O Virtualization 1.1; what it costs: [`fabriscope_nic::IommuLimits`].
//! Modelled: the cache of translations of each adapter's port and walks behind it, by the `iommu` of the processor's root complex; all
//! adapters of all nodes alike.
//! Not modelled: what a hypervisor does when an event wakes a guest, limits of rate of a function, memory of GPUs in guests.

use fabriscope_units::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::Problem;
use crate::part::Cpu;

/// How memory is mapped for devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IommuMaps {
    /// Pages by which it is mapped: 4 KiB where a kernel maps single pages, 2 MiB or 1 GiB where a hypervisor backs guests with large ones.
    pub page: Bytes,
}

impl IommuMaps {
    /// Whether all processors have one, and pages are pages.
    pub(crate) fn check<'c>(self, mut processors: impl Iterator<Item = &'c Cpu>) -> Result<(), Problem> {
        if !self.page.0.is_power_of_two() || self.page < SMALLEST {
            let message = format!("pages of {}, which are no power of two of {SMALLEST} or more", self.page);
            return Err(Problem::at(&["iommu", "page"], message, "write \"4 KiB\", \"2 MiB\" or \"1 GiB\""));
        }
        match processors.find(|cpu| cpu.root_complex.iommu.is_none()) {
            Some(cpu) => {
                let message = format!("nothing is known of the IOMMU of `{}`", cpu.name);
                Err(Problem::at(&["iommu"], message, "add [root_complex.iommu] to a part of your own, or remove [iommu]"))
            }
            None => Ok(()),
        }
    }
}

/// Basis: published (Intel VT-d, AMD-Vi).
const SMALLEST: Bytes = Bytes(4096);
