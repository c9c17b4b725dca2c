//! Adapters as programs see them: `shim/verbs.h` has the same layout.

use fabriscope_catalog::{AdapterIdentity, Interface, ResolvedCluster, keys, pci_identity};
use fabriscope_platform::Target;
use fabriscope_verbs::Lid;
use fabriscope_wire::Mtu;

use crate::address::{self, Addresses};

const PKEYS: usize = 16;
/// A release of firmware, which programs print where the cluster names none. Basis: assumed.
const FIRMWARE: &str = "28.39.1002";
/// What a port says that it can, extended speeds included: `ports/1/cap_mask` of a host, and its agent on the fabric.
pub(crate) const CAPABILITIES: u32 = 0x2259_e848;

/// An adapter with one port.
#[derive(Debug, Clone)]
pub(crate) struct Device {
    name: String,
    pub lid: Lid,
    pub addresses: Addresses,
    /// What it says of itself, where that is not its model's.
    says: AdapterIdentity,
    /// What a subnet manager is told of it, and what is in its own file.
    description: (String, String),
    kind: Kind,
    mtu: Mtu,
    width: u32,
    speed: u32,
    /// Rate in Gbit/s.
    gbps: u64,
    max_inline: u32,
    max_rd_atomic: u32,
    identity: (u32, u32),
    pkeys: Vec<u16>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Verbs,
    Iwarp,
    Other,
}

impl Device {
    /// The adapters of each node of `parts`, which are alike; `host` is one node's name, `lids` are the addresses of its adapters.
    pub fn of_node((parts, host): (&ResolvedCluster, &str), target: &Target, lids: impl Iterator<Item = Lid>) -> Vec<Device> {
        let kind = match target.interface {
            Interface::Verbs | Interface::Sockets => Kind::Verbs,
            Interface::Iwarp => Kind::Iwarp,
            _ => Kind::Other,
        };
        let addresses = Addresses::of(parts);
        let rate = parts.sole().link.data_rate();
        let (width, speed) = rate_codes(rate.as_bps() as f64 / 1e9);
        let description = |number: usize, name: &str| match &parts.identity.description {
            Some(template) => {
                let text = template.replace("{node_name}", host).replace("{idx}", &number.to_string());
                (text.clone(), text)
            }
            None => (format!("{host} {name}"), name.to_owned()),
        };
        let device = |(number, (name, lid)): (usize, (&String, Lid))| Device {
            name: name.clone(),
            lid,
            addresses,
            says: parts.identity.clone(),
            description: description(number, name),
            kind,
            mtu: fabriscope_platform::path_mtu(target.mtu),
            width,
            speed,
            gbps: rate.as_bps() / 1_000_000_000,
            max_inline: target.max_inline,
            max_rd_atomic: target.max_outstanding_reads.into(),
            identity: pci_identity(&parts.sole().node.nic.name),
            pkeys: keys(&parts.partitions, lid.0).into_iter().take(PKEYS).collect(),
        };
        target.devices.iter().zip(lids).enumerate().map(device).collect()
    }

    pub fn name(&self) -> &str {
        &self.name
    }
    /// The address of its interface.
    pub fn address(&self) -> u32 {
        address::of_port(self.lid)
    }
    pub fn guid(&self) -> u64 {
        self.addresses.guid(self.lid)
    }
    /// The keys of the partitions that it is a member of.
    pub fn pkeys(&self) -> &[u16] {
        &self.pkeys
    }
    /// What a subnet manager is told of it.
    pub fn description(&self) -> &str {
        &self.description.0
    }
    fn firmware(&self) -> &str {
        self.says.firmware.as_deref().unwrap_or(FIRMWARE)
    }
    /// The code of its MTU.
    pub fn mtu_code(&self) -> u32 {
        self.mtu as u32
    }

    /// The file below the folder of the host that says where the subnet manager is.
    pub fn manager_file(&self) -> String {
        format!("sys/class/infiniband/{}/ports/1/sm_lid", self.name)
    }

    /// Files below the folder of the host that tell of the adapter, with what is in them.
    pub fn files(&self) -> Vec<(String, String)> {
        let class = format!("sys/class/infiniband/{}", self.name);
        let guid = self.guid();
        let halves = [48, 32, 16, 0].map(|shift| format!("{:04x}", guid >> shift & 0xffff)).join(":");
        let words = |gid: [u8; 16]| gid.chunks(2).map(|pair| format!("{:02x}{:02x}", pair[0], pair[1])).collect::<Vec<_>>().join(":");
        let (vendor, part) = self.identity;
        let layer = if self.addresses.ethernet { "Ethernet" } else { "InfiniBand" };
        let says = &self.says;
        let files = [
            ("node_type", "1: CA".to_owned()),
            ("node_guid", halves.clone()),
            ("sys_image_guid", halves),
            ("fw_ver", self.firmware().to_owned()),
            ("hw_rev", says.revision.clone().unwrap_or_else(|| "0".to_owned())),
            ("node_desc", self.description.1.clone()),
            ("device/vendor", format!("{:#06x}", 0x15b3)),
            ("device/device", format!("{part:#06x}")),
            ("device/numa_node", "0".to_owned()),
            ("device/local_cpus", "ffffffff".to_owned()),
            ("hca_type", says.kind.clone().unwrap_or_else(|| format!("MT{part}"))),
            ("board_id", says.board.clone().unwrap_or_else(|| format!("FS_{vendor:04x}"))),
            ("ports/1/state", "4: ACTIVE".to_owned()),
            ("ports/1/phys_state", "5: LinkUp".to_owned()),
            ("ports/1/link_layer", layer.to_owned()),
            ("ports/1/lid", format!("{:#x}", if self.addresses.ethernet { 0 } else { self.lid.0 + 1 })),
            ("ports/1/sm_lid", "0x1".to_owned()),
            ("ports/1/lid_mask_count", "0".to_owned()),
            ("ports/1/sm_sl", "0".to_owned()),
            ("ports/1/rate", format!("{} Gb/sec (4X)", self.gbps)),
            ("ports/1/cap_mask", format!("{CAPABILITIES:#x}")),
            ("ports/1/gids/0", words(self.addresses.link_local(self.lid))),
            ("ports/1/gid_attrs/types/0", "IB/RoCE v1".to_owned()),
        ];
        let keys = (0..).zip(&self.pkeys).map(|(place, key): (u32, &u16)| (format!("ports/1/pkeys/{place}"), format!("{key:#06x}")));
        let files = files.into_iter().map(|(file, text)| (file.to_owned(), text)).chain(keys);
        files.map(|(file, text)| (format!("{class}/{file}"), format!("{text}\n"))).collect()
    }

    /// The structure that the stand-in reads.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(64 + 64 + 16 + 16 * 4 + 2 * PKEYS);
        bytes.extend(text(&self.name));
        bytes.extend(text(self.firmware()));
        bytes.extend(self.guid().to_ne_bytes());
        bytes.extend(self.addresses.interface(self.lid).to_ne_bytes());
        let (node_type, transport) = match self.kind {
            Kind::Verbs => (1, 0),
            Kind::Iwarp => (4, 1),
            Kind::Other => (7, 4),
        };
        let link_layer = if self.addresses.ethernet { 2 } else { 1 };
        let (vendor, part) = self.identity;
        let numbers = [
            node_type,
            transport,
            link_layer,
            self.lid.0,
            self.mtu as u32,
            Mtu::B4096 as u32,
            self.width,
            self.speed,
            self.max_inline,
            self.max_rd_atomic,
            32_768,
            30,
            vendor,
            part,
            4,
            self.pkeys.len() as u32,
        ];
        bytes.extend(numbers.iter().flat_map(|number| number.to_ne_bytes()));
        let keys = self.pkeys.iter().copied().chain(std::iter::repeat(0)).take(PKEYS);
        bytes.extend(keys.flat_map(u16::to_ne_bytes));
        bytes
    }
}

fn text(of: &str) -> [u8; 64] {
    let mut field = [0; 64];
    let length = of.len().min(63);
    field[..length].copy_from_slice(&of.as_bytes()[..length]);
    field
}

/// Codes of width and speed that stand for a rate in Gbit/s (standard): four lanes of what comes next.
fn rate_codes(gbps: f64) -> (u32, u32) {
    let lanes = [(10.0, 1), (20.0, 2), (40.0, 4), (56.0, 16), (100.0, 32), (200.0, 64), (400.0, 128), (800.0, 256)];
    let code = lanes.iter().find(|(rate, _)| gbps <= *rate + 0.5).map_or(256, |(_, code)| *code);
    // The field has eight bits: faster ports say it elsewhere.
    (2, if code > 128 { 128 } else { code })
}
