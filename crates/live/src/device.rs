//! Adapters as programs see them: `shim/verbs.h` has the same layout.

use fabriscope_catalog::{Interface, Layer, ResolvedCluster};
use fabriscope_platform::Target;
use fabriscope_verbs::Lid;
use fabriscope_wire::Mtu;

use crate::address;

const PKEYS: usize = 16;
/// A release of firmware, which programs print. Basis: assumed.
const FIRMWARE: &str = "28.39.1002";
/// What a port says that it can, extended speeds included: `ports/1/cap_mask` of a host, and its agent on the fabric.
pub(crate) const CAPABILITIES: u32 = 0x2259_e848;

/// An adapter with one port.
#[derive(Debug, Clone)]
pub(crate) struct Device {
    name: String,
    pub lid: Lid,
    pub ethernet: bool,
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
    /// The adapters of each node of `parts`, which are alike; `lids` are the addresses of one node's.
    pub fn of_node(parts: &ResolvedCluster, target: &Target, lids: impl Iterator<Item = Lid>) -> Vec<Device> {
        let kind = match target.interface {
            Interface::Verbs | Interface::Sockets => Kind::Verbs,
            Interface::Iwarp => Kind::Iwarp,
            _ => Kind::Other,
        };
        let ethernet = parts.link_layer.layer() == Layer::Ethernet;
        let rate = parts.sole().link.data_rate();
        let (width, speed) = rate_codes(rate.as_bps() as f64 / 1e9);
        let device = |(name, lid): (&String, Lid)| Device {
            name: name.clone(),
            lid,
            ethernet,
            kind,
            mtu: fabriscope_platform::path_mtu(target.mtu),
            width,
            speed,
            gbps: rate.as_bps() / 1_000_000_000,
            max_inline: target.max_inline,
            max_rd_atomic: target.max_outstanding_reads.into(),
            identity: identity(&parts.sole().node.nic.name),
            pkeys: vec![0xffff],
        };
        target.devices.iter().zip(lids).map(device).collect()
    }

    pub fn name(&self) -> &str {
        &self.name
    }
    /// The address of its interface.
    pub fn address(&self) -> u32 {
        address::of_port(self.lid)
    }
    pub fn guid(&self) -> u64 {
        address::guid(self.lid)
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
        let guid = address::guid(self.lid);
        let halves = [48, 32, 16, 0].map(|shift| format!("{:04x}", guid >> shift & 0xffff)).join(":");
        let words = |gid: [u8; 16]| gid.chunks(2).map(|pair| format!("{:02x}{:02x}", pair[0], pair[1])).collect::<Vec<_>>().join(":");
        let (vendor, part) = self.identity;
        let layer = if self.ethernet { "Ethernet" } else { "InfiniBand" };
        let kind = if self.ethernet { "RoCE v2" } else { "IB/RoCE v1" };
        let files = [
            ("node_type", "1: CA".to_owned()),
            ("node_guid", halves.clone()),
            ("sys_image_guid", halves),
            ("fw_ver", FIRMWARE.to_owned()),
            ("hw_rev", "0".to_owned()),
            ("node_desc", self.name.clone()),
            ("device/vendor", format!("{:#06x}", 0x15b3)),
            ("device/device", format!("{part:#06x}")),
            ("device/numa_node", "0".to_owned()),
            ("device/local_cpus", "ffffffff".to_owned()),
            ("hca_type", format!("MT{part}")),
            ("board_id", format!("FS_{vendor:04x}")),
            ("ports/1/state", "4: ACTIVE".to_owned()),
            ("ports/1/phys_state", "5: LinkUp".to_owned()),
            ("ports/1/link_layer", layer.to_owned()),
            ("ports/1/lid", format!("{:#x}", if self.ethernet { 0 } else { self.lid.0 + 1 })),
            ("ports/1/sm_lid", "0x1".to_owned()),
            ("ports/1/lid_mask_count", "0".to_owned()),
            ("ports/1/sm_sl", "0".to_owned()),
            ("ports/1/rate", format!("{} Gb/sec (4X)", self.gbps)),
            ("ports/1/cap_mask", format!("{CAPABILITIES:#x}")),
            ("ports/1/pkeys/0", "0xffff".to_owned()),
            ("ports/1/gids/0", words(address::gid(false, self.lid))),
            ("ports/1/gid_attrs/types/0", if self.ethernet { "IB/RoCE v1" } else { kind }.to_owned()),
        ];
        files.into_iter().map(|(file, text)| (format!("{class}/{file}"), format!("{text}\n"))).collect()
    }

    /// The structure that the stand-in reads.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(64 + 64 + 8 + 16 * 4 + 2 * PKEYS);
        bytes.extend(text(&self.name));
        bytes.extend(text(FIRMWARE));
        bytes.extend(address::guid(self.lid).to_ne_bytes());
        let (node_type, transport) = match self.kind {
            Kind::Verbs => (1, 0),
            Kind::Iwarp => (4, 1),
            Kind::Other => (7, 4),
        };
        let link_layer = if self.ethernet { 2 } else { 1 };
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

/// The numbers of vendor and part on the PCI bus, by which programs choose settings; no part where no program knows it.
/// Source: the PCI ID database.
fn identity(nic: &str) -> (u32, u32) {
    const MELLANOX: u32 = 0x02c9;
    let parts = [
        ("connectx-3", MELLANOX, 4099),
        ("connect-ib", MELLANOX, 4113),
        ("connectx-4", MELLANOX, 4115),
        ("connectx-5", MELLANOX, 4119),
        ("slingshot-10", MELLANOX, 4119),
        ("connectx-6", MELLANOX, 4123),
        ("connectx-7", MELLANOX, 4129),
        ("connectx-8", MELLANOX, 4131),
        ("bluefield-2", MELLANOX, 41_686),
        ("bluefield-3", MELLANOX, 41_692),
        ("chelsio-t5", 0x1425, 0x5401),
        ("chelsio-t6", 0x1425, 0x6401),
        ("thor", 0x14e4, 0x1750),
    ];
    parts.iter().find(|(name, ..)| *name == nic).map_or((MELLANOX, 0), |(_, vendor, part)| (*vendor, *part))
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
