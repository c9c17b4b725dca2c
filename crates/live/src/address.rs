//! Addresses as programs see them: LIDs, GUIDs and GIDs of ports, IP addresses of hosts.
//!
//! Every address of a port ends with its number plus one, in 24 bits; `shim/verbs_device.c` makes the same GIDs of a GUID.
//! Basis: assumed, except for what the standards say (link-local prefix, IPv4-mapped addresses, the version and next header of a GRH).

use fabriscope_catalog::{GuidPrefix, Layer, ResolvedCluster};
use fabriscope_verbs::Lid;

/// The vendor's part of GUIDs.
const VENDOR: u64 = 0xb83f_d203_0000_0000;
/// Hosts on the management network: 192.168.x.y.
const MANAGEMENT: u32 = 0xc0a8_0000;
/// Interfaces of the adapters: 10.x.y.z.
const FABRIC: u32 = 0x0a00_0000;

/// How the ports of a cluster are called.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Addresses {
    pub ethernet: bool,
    /// What GUIDs begin with, where the cluster says so, and the adapters of a node.
    prefix: Option<(GuidPrefix, u32)>,
}

impl Addresses {
    pub fn of(parts: &ResolvedCluster) -> Addresses {
        let nics = parts.sole().node.nics.max(1);
        Addresses { ethernet: parts.link_layer.layer() == Layer::Ethernet, prefix: parts.identity.guid_prefix.map(|prefix| (prefix, nics)) }
    }
    /// The GUID of an adapter.
    pub fn guid(self, lid: Lid) -> u64 {
        self.prefix.map_or(VENDOR | u64::from(lid.0 + 1), |(prefix, nics)| prefix.guid(lid.0 / nics, lid.0 % nics))
    }
    /// The lower half of the link-local GID of its port: on InfiniBand the GUID of that; on Ethernet made of another number, which shows whose it is.
    pub fn interface(self, lid: Lid) -> u64 {
        if self.ethernet { VENDOR | u64::from(lid.0 + 1) } else { self.guid(lid) | u64::from(self.prefix.is_some()) }
    }
    /// The link-local GID of its port.
    pub fn link_local(self, lid: Lid) -> [u8; 16] {
        let mut gid = [0; 16];
        gid[..8].copy_from_slice(&0xfe80_0000_0000_0000_u64.to_be_bytes());
        gid[8..].copy_from_slice(&self.interface(lid).to_be_bytes());
        gid
    }
    /// The GID that datagrams of a port carry.
    pub fn gid(self, lid: Lid) -> [u8; 16] {
        if lid.mlid().is_none() && !self.ethernet { self.link_local(lid) } else { numbered_gid(self.ethernet, lid) }
    }
    /// The 40 bytes in front of a datagram of so many bytes.
    pub fn global_header(self, from: Lid, to: Lid, bytes: u32) -> [u8; 40] {
        let mut header = [0; 40];
        header[0] = 6 << 4;
        // Base and datagram headers, and the check at the end.
        let [.., high, low] = (bytes + 12 + 8 + 4).to_be_bytes();
        (header[4], header[5]) = (high, low);
        header[6] = 0x1b;
        header[7] = 0xff;
        header[8..24].copy_from_slice(&self.gid(from));
        header[24..].copy_from_slice(&self.gid(to));
        header
    }
}

/// The address of a host on the management network.
pub(crate) fn management(node: u32) -> u32 {
    MANAGEMENT + node + 1
}

/// The host that has an address on the management network.
pub(crate) fn managed(address: u32) -> Option<u32> {
    if address & 0xffff_0000 == MANAGEMENT { (address & 0xffff).checked_sub(1) } else { None }
}

/// The address of the interface of an adapter's port.
pub(crate) fn of_port(lid: Lid) -> u32 {
    FABRIC + lid.0 + 1
}

/// The GID of the group that an address of IP multicast stands for. Source: the kernel's `ip_ib_mc_map`, with the connection manager's signature;
/// on Ethernet the form of RoCE v1.
pub(crate) fn group(ethernet: bool, address: u32) -> [u8; 16] {
    let mut gid = [0; 16];
    if ethernet {
        (gid[0], gid[1], gid[10], gid[11]) = (0xff, 0x0e, 0xff, 0xff);
        gid[12..].copy_from_slice(&address.to_be_bytes());
    } else {
        gid[..6].copy_from_slice(&[0xff, 0x12, 0x40, 0x01, 0xff, 0xff]);
        gid[12..].copy_from_slice(&(address & 0x0fff_ffff).to_be_bytes());
    }
    gid
}

/// The GID of a multicast group, or of a port by the address of its interface.
pub(crate) fn numbered_gid(ethernet: bool, lid: Lid) -> [u8; 16] {
    let mut gid = [0; 16];
    if let Some(mlid) = lid.mlid() {
        gid[..2].copy_from_slice(&[0xff, 0x12]);
        gid[2..4].copy_from_slice(&if ethernet { [0, 0] } else { [0x40, 0x1b] });
        let [high, low] = (mlid & 0x3fff).to_be_bytes();
        (gid[14], gid[15]) = (high, low);
    } else {
        gid[10..12].copy_from_slice(&[0xff, 0xff]);
        gid[12..].copy_from_slice(&of_port(lid).to_be_bytes());
    }
    gid
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_lead_back_to_hosts() {
        assert_eq!(managed(management(7)), Some(7));
        assert_eq!([0x7f00_0001, MANAGEMENT, FABRIC].map(managed), [None; 3]);
        let ethernet = Addresses { ethernet: true, ..Addresses::default() };
        assert_eq!(ethernet.gid(Lid(258)), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 10, 0, 1, 3]);
        assert_eq!(Addresses::default().gid(Lid(0))[..8], [0xfe, 0x80, 0, 0, 0, 0, 0, 0]);
    }

    /// The second adapter of the third node, of eight: node 2 above five bits, adapter 1 above one, and the bit of ports.
    #[test]
    fn guids_are_those_of_the_cluster() {
        let prefix = GuidPrefix::parse("a088c2:0300:ab").unwrap();
        let addresses = Addresses { ethernet: false, prefix: Some((prefix, 8)) };
        assert_eq!(addresses.guid(Lid(17)), 0xa088_c203_00ab_0042);
        assert_eq!(addresses.gid(Lid(17))[8..], 0xa088_c203_00ab_0043_u64.to_be_bytes());
    }

    #[test]
    fn groups_of_addresses_are_those_of_the_kernel() {
        // 239.1.2.3 in the partition ffff.
        assert_eq!(group(false, 0xef01_0203), [0xff, 0x12, 0x40, 0x01, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0x0f, 1, 2, 3]);
        assert_eq!(group(true, 0xef01_0203)[10..], [0xff, 0xff, 239, 1, 2, 3]);
    }
}
