//! A file system as submitters of IO500 type it: numbers of clients and servers, devices, a network; models seldom.
//!
//! `512 clients x 16; MDS 24 x 1 NVMe SSD over OmniPath; OSS 24 x 12 NVMe SSD over OmniPath`
//!
//! Source: the fields of the list of IO500 (clients, processes, servers, storage devices of a server, storage type, interconnect).
//! What words leave open is assumed for all rows alike:
//! - a server of data has as many adapters, at most two, as its drives need for reading; a client and a server of metadata have one;
//! - `SSD` alone is NVMe flash; flash is its own target without parity, disks form groups of eight and two;
//! - no server has more than 24 devices of flash: a larger number that the servers divide counts those of all of them;
//! - `InfiniBand` alone is EDR; `Ethernet` alone has 10 Gb/s; devices without a number are one;
//! - processors are those of a usual server of 2018, in a virtual machine as well.

use fabriscope_catalog::{Catalog, CatalogError, FileSystem, ResolvedFileSystem, Servers, Sourced};
use fabriscope_lustre::{Clients, System, SystemError};
use fabriscope_units::{Bytes, Rate, Remedy, Span};

use crate::mount::Mount;

/// What is wrong with a description.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, miette::Diagnostic)]
pub enum TypedError {
    /// A part of it is missing or unreadable.
    #[error("`{text}` says nothing of {what}")]
    #[diagnostic(
        code(storage::typed),
        help("write it as: NAME; 10 clients x 16; MDS 2 x 4 NVMe over EDR InfiniBand; OSS 8 x 12 NVMe over EDR InfiniBand")
    )]
    Missing {
        /// The description.
        text: String,
        /// What it should say.
        what: &'static str,
    },
    /// A network that is not known.
    #[error("`{word}` is no network that is known here")]
    #[diagnostic(
        code(storage::network),
        help("write InfiniBand with FDR, EDR, HDR or NDR, OmniPath, Ethernet with its Gb/s, Slingshot or Aries")
    )]
    Network {
        /// The words.
        word: String,
    },
    /// What the catalogue has no part for.
    #[error("{what}")]
    #[diagnostic(code(storage::parts), help("{help}"))]
    Parts {
        /// What is wrong.
        what: String,
        /// What to do.
        help: String,
    },
}

impl From<CatalogError> for TypedError {
    fn from(error: CatalogError) -> TypedError {
        let (what, help) = error.halves("see fabriscope parts");
        TypedError::Parts { what, help }
    }
}
impl From<SystemError> for TypedError {
    fn from(error: SystemError) -> TypedError {
        let (what, help) = error.halves("see the description");
        TypedError::Parts { what, help }
    }
}

/// A number of servers, devices of each and what they are, a network.
struct TypedServers<'t> {
    servers: u32,
    devices: u32,
    device: &'t str,
    network: &'t str,
}

/// The file system and the clients of a description.
///
/// # Errors
/// What it does not say.
pub fn mount(text: &str, catalog: &Catalog) -> Result<Mount, TypedError> {
    let missing = |what| TypedError::Missing { text: text.to_owned(), what };
    let part = |key: &str| text.split(';').map(str::trim).find(|part| part.contains(key));
    let clients = part(" clients x ").ok_or_else(|| missing("clients"))?;
    let (nodes, per_node) = clients.split_once(" clients x ").ok_or_else(|| missing("clients"))?;
    let number = |text: &str| text.trim().parse::<u32>().ok().filter(|count| *count > 0);
    let (nodes, per_node) = (number(nodes).ok_or_else(|| missing("clients"))?, number(per_node).ok_or_else(|| missing("clients"))?);
    let mds = part("MDS ").and_then(|part| side(part, "MDS ")).ok_or_else(|| missing("servers of metadata (MDS)"))?;
    let oss = part("OSS ").and_then(|part| side(part, "OSS ")).ok_or_else(|| missing("servers of data (OSS)"))?;
    let cloud = text.contains("GCP");
    let (network, sockets) = link(oss.network)?;
    let files = file_system((&mds, &oss), network, cloud, catalog)?;
    let link = catalog.link(network)?;
    let rate = narrowed(oss.network).unwrap_or(link.data_rate());
    let cpu = catalog.cpu(CPU)?;
    let cores = (cpu.cores * 2).max(per_node);
    let clients = Clients { nodes, per_node, cores, adapters: 1, rate, copy: *cpu.copy_rate_streaming, delay: DELAY };
    let mut files = files;
    if let Some(rate) = narrowed(oss.network) {
        files.oss.link.data_rate.value = rate;
        files.mds.link.data_rate.value = rate;
    }
    let system = System::of(clients, &files, sockets)?;
    Ok(Mount { system, files, cluster: "clients".to_owned(), node: None })
}

/// `OSS 24 x 12 NVMe SSD over OmniPath`.
fn side<'t>(text: &'t str, role: &str) -> Option<TypedServers<'t>> {
    let rest = text.get(text.find(role)? + role.len()..)?;
    let (servers, rest) = rest.split_once(" x ")?;
    let (front, network) = rest.split_once(" over ")?;
    let digits = front.len() - front.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let devices = front[..digits].parse().unwrap_or(1).max(1);
    Some(TypedServers {
        servers: servers.trim().parse().ok().filter(|count| *count > 0)?,
        devices,
        device: front[digits..].trim(),
        network,
    })
}

/// The part of a network's words, and whether messages go through the kernel.
fn link(words: &str) -> Result<(&'static str, bool), TypedError> {
    let lower = words.to_ascii_lowercase();
    let has = |word: &str| lower.contains(word);
    Ok(match () {
        () if has("omni") || has("opa") => ("opa100", false),
        () if has("aries") => ("aries-injection", false),
        () if has("slingshot") => ("200gbe", false),
        () if has("ndr") => ("ndr", false),
        () if has("hdr100") => ("hdr100", false),
        () if has("hdr") => ("hdr", false),
        () if has("edr") => ("edr", false),
        () if has("fdr") => ("fdr", false),
        () if has("qdr") => ("qdr", false),
        () if has("infiniband") || has("ib") => ("edr", false),
        () if has("100g") => ("100gbe", true),
        () if has("25g") => ("25gbe", true),
        () if has("40g") => ("40gbe", true),
        () if has("16g") => ("25gbe", true),
        () if has("ethernet") || has("gbe") => ("10gbe", true),
        () => return Err(TypedError::Network { word: words.to_owned() }),
    })
}

/// What a virtual machine is given of its adapter.
fn narrowed(words: &str) -> Option<Rate> {
    words.to_ascii_lowercase().contains("16g").then(|| Rate::from_gbps(16))
}

/// The drive of a device's words.
fn drive(words: &str, cloud: bool) -> &'static str {
    let lower = words.to_ascii_lowercase();
    let has = |word: &str| lower.contains(word);
    match () {
        () if has("pd-standard") => "cloud-persistent-disk",
        () if has("pd-ssd") => "cloud-persistent-ssd",
        () if has("nvme") && cloud => "cloud-local-nvme",
        () if has("nvme") => "nvme-gen3",
        () if has("sas") && has("ssd") || has("sata") && has("ssd") => "ssd-sas",
        () if has("ssd") || has("flash") => "nvme-gen3",
        () => "hdd-7200",
    }
}

fn file_system(
    (mds, oss): (&TypedServers<'_>, &TypedServers<'_>),
    link: &str,
    cloud: bool,
    catalog: &Catalog,
) -> Result<ResolvedFileSystem, TypedError> {
    let typed = |value: u32| Sourced::assumed(value, "as the submitter typed it, or by the rules of the description");
    let servers = |side: &TypedServers<'_>, data: bool| -> Result<Servers, TypedError> {
        let name = drive(side.device, cloud);
        let part = catalog.drive(name)?;
        let disks = part.positioning.is_some();
        let all_of_them = !disks && side.devices > FLASH && side.devices.is_multiple_of(side.servers);
        let devices = if all_of_them { side.devices / side.servers } else { side.devices };
        // Flash: each its own target. Disks: groups of ten, two of them parity. Metadata: one target, mirrored where it can be.
        let (targets, drives, parity) = match (data, disks) {
            (true, false) => (devices, 1, 0),
            (true, true) if devices >= GROUP => (devices / GROUP, GROUP, 2),
            (true, true) => (1, devices, devices / 5),
            (false, _) => (1, devices, devices / 2),
        };
        let reads = part.read_rate.as_bps().saturating_mul(devices.into());
        let adapter = catalog.link(link)?.data_rate().as_bps().max(1);
        let adapters = if data { u32::try_from(reads.div_ceil(adapter)).unwrap_or(2).clamp(1, 2) } else { 1 };
        Ok(Servers {
            servers: typed(side.servers),
            targets: typed(targets),
            drives: typed(drives),
            parity: typed(parity),
            drive: name.to_owned(),
            link: link.to_owned(),
            adapters: typed(adapters),
            cpu: CPU.to_owned(),
            sockets: 2,
            controller: None,
        })
    };
    let part = FileSystem {
        name: "typed".to_owned(),
        title: "as a submitter of IO500 typed it".to_owned(),
        notes: String::new(),
        software: RELEASE.to_owned(),
        oss: servers(oss, true)?,
        mds: servers(mds, false)?,
        routers: None,
        uplinks: None,
        stripe_count: Sourced::assumed(1, "default"),
        stripe_size: Sourced::assumed(Bytes::from_mib(1), "default"),
        mounted_by: Vec::new(),
        published: None,
    };
    Ok(catalog.with_parts(&part)?)
}

/// Basis: assumed (a usual server of 2018).
const CPU: &str = "xeon-gold-6248";
/// Basis: assumed (submissions of 2018 and 2019 ran 2.10 to 2.12).
const RELEASE: &str = "lustre-2.12";
/// Basis: assumed (bays of a server of two units).
const FLASH: u32 = 24;
/// Basis: published (Lustre Operations Manual: RAID 6 of eight and two).
const GROUP: u32 = 10;
/// Basis: estimated (a few switches and cables).
const DELAY: Span = Span::from_us(1);

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: &str = "Lab (Somewhere); 10 clients x 16; MDS 2 x 4 NVMe over EDR InfiniBand; OSS 8 x 12 NVMe SSD over EDR InfiniBand";

    fn shape(text: &str) -> (u32, u32, u32, u64, u64) {
        let Mount { system, .. } = mount(text, &Catalog::embedded().unwrap()).unwrap();
        (system.processes(), system.osts(), system.oss.adapters, system.oss.array.drives, system.oss.array.data)
    }

    /// Flash is a target each, and 12 x 3.2 GB/s want two adapters; disks form groups of ten, two of them parity.
    #[test]
    fn words_become_hardware() {
        assert_eq!(shape(ROW), (160, 96, 2, 1, 1));
        assert_eq!(shape(&ROW.replace("12 NVMe SSD", "12 HDD")), (160, 8, 1, 10, 8));
        // 96 devices of flash do not go into a server: they are those of all eight.
        assert_eq!(shape(&ROW.replace("12 NVMe SSD", "96 SSD")), (160, 96, 2, 1, 1));
        assert_eq!(shape(&ROW.replace("OSS 8 x 12", "OSS 8 x ")).1, 8);
    }

    #[test]
    fn what_is_missing_is_said() {
        let catalog = Catalog::embedded().unwrap();
        let told = |text: &str| mount(text, &catalog).unwrap_err().in_full();
        assert!(told("Lab; 10 clients x 16").contains("says nothing of servers of metadata (MDS)"));
        assert!(told(&ROW.replace("10 clients", "no clients")).contains("says nothing of clients"));
        let unknown = told(&ROW.replace("EDR InfiniBand", "string"));
        assert!(unknown.starts_with("`string` is no network that is known here; write InfiniBand"), "{unknown}");
    }
}
