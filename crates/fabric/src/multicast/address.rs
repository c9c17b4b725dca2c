//! What groups are called: 128 bits for programs, 16 bits for switches, a MAC address on Ethernet.
//!
//! Source: InfiniBand vol. 1 §4.1.1 (`ff`, flags and scope, group), §4.1.3 (MLIDs 0xC000 to 0xFFFE); RFC 4391 §4 (IPv4
//! over InfiniBand, signature 0x401b); RFC 1112 §6.4 and RFC 2464 §7 (MAC addresses of IP groups).

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The global identifier of a group; on RoCE the IP address of the group, IPv4 mapped into IPv6.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mgid(pub [u8; 16]);

impl Mgid {
    /// A group of InfiniBand: transient, local to the subnet, with this number.
    #[must_use]
    pub const fn infiniband(number: u32) -> Mgid {
        let [a, b, c, d] = number.to_be_bytes();
        Mgid([0xFF, 0x12, 0xA0, 0x1B, 0, 0, 0, 0, 0, 0, 0, 0, a, b, c, d])
    }
    /// The group of an IPv4 address over InfiniBand, in a partition.
    #[must_use]
    pub const fn ipoib(address: Ipv4Addr, pkey: u16) -> Mgid {
        let ([a, b, c, d], [high, low]) = (address.octets(), pkey.to_be_bytes());
        Mgid([0xFF, 0x12, 0x40, 0x1B, high, low, 0, 0, 0, 0, 0, 0, a & 0x0F, b, c, d])
    }
    /// The group of an IP address on RoCE.
    #[must_use]
    pub const fn ip(address: IpAddr) -> Mgid {
        match address {
            IpAddr::V4(address) => Mgid(address.to_ipv6_mapped().octets()),
            IpAddr::V6(address) => Mgid(address.octets()),
        }
    }
    /// Whether it names a group: `ff…`, or an IPv4 address of class D.
    #[must_use]
    pub fn is_multicast(self) -> bool {
        let address = Ipv6Addr::from(self.0);
        match address.to_ipv4_mapped() {
            Some(address) => address.is_multicast(),
            None => address.is_multicast(),
        }
    }
    /// The Ethernet address to which packets for the group go. 32 IPv4 groups share one.
    #[must_use]
    pub fn mac(self) -> [u8; 6] {
        let [.., a, b, c, d] = self.0;
        match Ipv6Addr::from(self.0).to_ipv4_mapped() {
            Some(_) => [0x01, 0x00, 0x5E, b & 0x7F, c, d],
            None => [0x33, 0x33, a, b, c, d],
        }
    }
}

impl fmt::Display for Mgid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ipv6Addr::from(self.0).fmt(f)
    }
}
impl fmt::Debug for Mgid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The number under which switches know a group.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mlid(pub u16);

impl Mlid {
    /// The first. Basis: standard.
    pub const FIRST: Mlid = Mlid(0xC000);
    /// How many there are: up to 0xFFFE, for 0xFFFF is the permissive address. Basis: standard.
    pub const COUNT: u32 = 0xFFFF - 0xC000;

    /// The number of the group, counted from 0.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0.wrapping_sub(Mlid::FIRST.0) as usize
    }
    /// The MLID of group `index`, where there is one.
    #[must_use]
    pub const fn of(index: u32) -> Option<Mlid> {
        if index < Mlid::COUNT { Some(Mlid(Mlid::FIRST.0 + index as u16)) } else { None }
    }
}

impl fmt::Display for Mlid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#06x}", self.0)
    }
}
impl fmt::Debug for Mlid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_ip() {
        let v4 = Mgid::ip("239.129.2.3".parse().unwrap());
        assert!(v4.is_multicast());
        // 23 bits of the address: the top bit of 129 is lost.
        assert_eq!(v4.mac(), [0x01, 0, 0x5E, 1, 2, 3]);
        let v6 = Mgid::ip("ff0e::102:304".parse().unwrap());
        assert_eq!((v6.is_multicast(), v6.mac()), (true, [0x33, 0x33, 1, 2, 3, 4]));
        assert!(!Mgid::ip("10.0.0.1".parse().unwrap()).is_multicast());
        assert!(!Mgid::ip("fe80::1".parse().unwrap()).is_multicast());
    }

    #[test]
    fn groups_of_infiniband() {
        // The broadcast group of IP over InfiniBand in the default partition, as `ibstat` and `saquery` show it.
        let broadcast = Mgid::ipoib(Ipv4Addr::BROADCAST, 0xFFFF);
        assert_eq!(broadcast.to_string(), "ff12:401b:ffff::fff:ffff");
        assert!(broadcast.is_multicast() && Mgid::infiniband(7).is_multicast());
        assert_eq!((Mlid::of(0), Mlid::of(16_382), Mlid::of(16_383)), (Some(Mlid(0xC000)), Some(Mlid(0xFFFE)), None));
        assert_eq!(Mlid(0xC007).index(), 7);
    }
}
