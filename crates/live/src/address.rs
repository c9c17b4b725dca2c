//! Addresses as programs see them: LIDs, GUIDs and GIDs of ports, IP addresses of hosts.
//!
//! Every address of a port ends with its number plus one, in 24 bits; `shim/verbs_device.c` makes the same GIDs of a GUID.
//! Basis: assumed, except for what the standards say (link-local prefix, IPv4-mapped addresses, the version and next header of a GRH).

use fabriscope_verbs::Lid;

/// The vendor's part of GUIDs.
const VENDOR: u64 = 0xb83f_d203_0000_0000;
/// Hosts on the management network: 192.168.x.y.
const MANAGEMENT: u32 = 0xc0a8_0000;
/// Interfaces of the adapters: 10.x.y.z.
const FABRIC: u32 = 0x0a00_0000;

/// The GUID of an adapter's port.
pub(crate) fn guid(lid: Lid) -> u64 {
    VENDOR | u64::from(lid.0 + 1)
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

/// The GID that datagrams of a port carry.
pub(crate) fn gid(ethernet: bool, lid: Lid) -> [u8; 16] {
    let mut gid = [0; 16];
    if let Some(mlid) = lid.mlid() {
        gid[..2].copy_from_slice(&[0xff, 0x12]);
        gid[2..4].copy_from_slice(&if ethernet { [0, 0] } else { [0x40, 0x1b] });
        let [high, low] = (mlid & 0x3fff).to_be_bytes();
        (gid[14], gid[15]) = (high, low);
    } else if ethernet {
        gid[10..12].copy_from_slice(&[0xff, 0xff]);
        gid[12..].copy_from_slice(&of_port(lid).to_be_bytes());
    } else {
        gid[..8].copy_from_slice(&0xfe80_0000_0000_0000_u64.to_be_bytes());
        gid[8..].copy_from_slice(&guid(lid).to_be_bytes());
    }
    gid
}

/// The 40 bytes in front of a datagram of so many bytes.
pub(crate) fn global_header(ethernet: bool, from: Lid, to: Lid, bytes: u32) -> [u8; 40] {
    let mut header = [0; 40];
    header[0] = 6 << 4;
    // Base and datagram headers, and the check at the end.
    let [.., high, low] = (bytes + 12 + 8 + 4).to_be_bytes();
    (header[4], header[5]) = (high, low);
    header[6] = 0x1b;
    header[7] = 0xff;
    header[8..24].copy_from_slice(&gid(ethernet, from));
    header[24..].copy_from_slice(&gid(ethernet, to));
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_lead_back_to_hosts() {
        assert_eq!(managed(management(7)), Some(7));
        assert_eq!([0x7f00_0001, MANAGEMENT, FABRIC].map(managed), [None; 3]);
        assert_eq!(gid(true, Lid(258)), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 10, 0, 1, 3]);
        assert_eq!(gid(false, Lid(0))[..8], [0xfe, 0x80, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn groups_of_addresses_are_those_of_the_kernel() {
        // 239.1.2.3 in the partition ffff.
        assert_eq!(group(false, 0xef01_0203), [0xff, 0x12, 0x40, 0x01, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0x0f, 1, 2, 3]);
        assert_eq!(group(true, 0xef01_0203)[10..], [0xff, 0xff, 239, 1, 2, 3]);
    }
}
