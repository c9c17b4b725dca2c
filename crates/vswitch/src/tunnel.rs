//! Headers that isolate a tenant: a tunnel around the packets of its machines, and encryption around the tunnel.
//!
//! Source: RFC 7348 §5 (VXLAN: 8 B in UDP), RFC 8926 §3.4 (Geneve: 8 B and options), RFC 4303 §2 (ESP: 8 B before, 2 B and padding to a
//! multiple of 4 B behind), RFC 4106 §8 (AES-GCM: an IV of 8 B and a check of 16 B).
//! Modelled: bytes on the wire, and what is left of the MTU. Not modelled: keys and their exchange, ESP in UDP.

/// The tunnel of a tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Tunnel {
    /// None: packets go as they are.
    #[default]
    None,
    /// Virtual extensible LAN.
    Vxlan,
    /// Geneve without options.
    Geneve,
}

/// What goes around an IP packet of a virtual machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Encapsulation {
    /// The tunnel.
    pub tunnel: Tunnel,
    /// ESP in transport mode with AES-GCM.
    pub esp: bool,
}

impl Encapsulation {
    /// Bytes of the IP packet on the wire that carries one of `inner` bytes.
    #[must_use]
    pub const fn outer(self, inner: u32) -> u32 {
        let bytes = inner + self.tunnel.header();
        if !self.esp {
            return bytes;
        }
        // All behind the outer header of IP, and the two bytes that name it, fill words of four bytes.
        let body = (bytes.saturating_sub(IP) + ESP_TRAILER).next_multiple_of(WORD);
        IP + ESP_HEADER + body + ESP_CHECK
    }
    /// The largest IP packet of a machine where those of the wire have `mtu` bytes.
    #[must_use]
    pub const fn inner_mtu(self, mtu: u32) -> u32 {
        let mut inner = mtu.saturating_sub(self.tunnel.header());
        while inner > 0 && self.outer(inner) > mtu {
            inner -= 1;
        }
        inner
    }
    /// Whether it changes packets.
    #[must_use]
    pub const fn is_some(self) -> bool {
        self.esp || !matches!(self.tunnel, Tunnel::None)
    }
}

impl Tunnel {
    /// IPv4 20 B, UDP 8 B, the tunnel's own 8 B, and the Ethernet header of the packet inside, 14 B.
    const fn header(self) -> u32 {
        match self {
            Tunnel::None => 0,
            Tunnel::Vxlan | Tunnel::Geneve => IP + UDP + OVERLAY + ETHERNET,
        }
    }
}

/// Basis: standard, RFC 791.
const IP: u32 = 20;
/// Basis: standard, RFC 768.
const UDP: u32 = 8;
/// Basis: standard, RFC 7348 §5 and RFC 8926 §3.4.
const OVERLAY: u32 = 8;
/// Addresses and type, without a VLAN. Basis: standard, IEEE 802.3.
const ETHERNET: u32 = 14;
/// SPI and sequence number 8 B, IV 8 B. Basis: standard, RFC 4303 and RFC 4106.
const ESP_HEADER: u32 = 16;
/// Length of the padding and next header. Basis: standard, RFC 4303.
const ESP_TRAILER: u32 = 2;
/// Integrity check of AES-GCM. Basis: standard, RFC 4106.
const ESP_CHECK: u32 = 16;
/// Basis: standard, RFC 4303 §2.4.
const WORD: u32 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_those_of_the_standards() {
        // The well-known 50 bytes of VXLAN over IPv4: 1450 B are left of 1500.
        for tunnel in [Tunnel::Vxlan, Tunnel::Geneve] {
            let plain = Encapsulation { tunnel, esp: false };
            assert_eq!((plain.outer(1450), plain.inner_mtu(1500)), (1500, 1450));
        }
        assert_eq!(Encapsulation::default().inner_mtu(1500), 1500);
        // ESP alone: 1500 − 20 − 16 − 16 = 1448 B, a multiple of four, of which two are the trailer: 1466 B with the header of IP.
        let esp = Encapsulation { tunnel: Tunnel::None, esp: true };
        assert_eq!((esp.outer(1466), esp.outer(1467), esp.inner_mtu(1500)), (1500, 1504, 1466));
        let both = Encapsulation { tunnel: Tunnel::Vxlan, esp: true };
        assert_eq!((both.inner_mtu(1500), both.outer(1416)), (1416, 1500));
        assert_eq!(both.inner_mtu(10), 0);
    }
}
