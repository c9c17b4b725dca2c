//! The drives of the catalogue that tools find by name.

use fabriscope_catalog::{Drive, Medium, Shared};

use crate::error::UsageError;

/// Those on PCI Express.
fn of_pcie(known: &[Shared<Drive>]) -> impl Iterator<Item = &Shared<Drive>> {
    known.iter().filter(|drive| drive.medium == Medium::Nvme)
}

/// The names of NVMe drives among `known`, with commas between them.
#[must_use]
pub fn nvme_names(known: &[Shared<Drive>]) -> String {
    of_pcie(known).map(|drive| drive.name.as_str()).collect::<Vec<_>>().join(", ")
}

/// The NVMe drive of that name.
///
/// # Errors
/// There is none; the names that there are.
pub fn nvme_drive(known: &[Shared<Drive>], name: &str) -> Result<Shared<Drive>, UsageError> {
    of_pcie(known).find(|drive| drive.name == name).cloned().ok_or_else(|| UsageError::Conflict {
        what: format!("no NVMe drive of the catalogue is called `{name}`"),
        remedy: format!("use one of {}", nvme_names(known)),
    })
}
