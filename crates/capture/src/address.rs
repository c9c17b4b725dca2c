//! Who is who in a capture: the addresses of adapters and of switch ports.
//!
//! Modelled: one address of each kind per adapter, counted from 1, so that a reader of a capture recognises it at once.
//! Not modelled: path bits of a LID, VLANs, several addresses of one port.
//!
//! | adapter *n*, counted from 0 | |
//! |---|---|
//! | MAC | `02:00` and *n* + 1 in four bytes |
//! | IPv4 | 10.0.0.0 + *n* + 1 |
//! | GID, IPv6 | `fe80::` and *n* + 1 |
//! | LID | *n* + 1 |

/// The addresses of an adapter, or of nobody in particular.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address(u32);

impl Address {
    /// The sender is not known: all addresses are zero.
    pub const UNKNOWN: Address = Address(0);

    /// The addresses of adapter `endpoint`.
    #[must_use]
    pub const fn of(endpoint: u32) -> Address {
        Address(endpoint.wrapping_add(1))
    }
    /// The adapter; `None` where it is not known.
    #[must_use]
    pub const fn endpoint(self) -> Option<u32> {
        self.0.checked_sub(1)
    }
    /// The Ethernet address; locally administered.
    #[must_use]
    pub const fn mac(self) -> [u8; 6] {
        let [a, b, c, d] = self.0.to_be_bytes();
        [0x02, 0, a, b, c, d]
    }
    /// The IPv4 address.
    #[must_use]
    pub const fn ipv4(self) -> [u8; 4] {
        (0x0A00_0000 + (self.0 & 0xFF_FFFF)).to_be_bytes()
    }
    /// The GID, or IPv6 address.
    #[must_use]
    pub const fn gid(self) -> [u8; 16] {
        let [a, b, c, d] = self.0.to_be_bytes();
        [0xFE, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, a, b, c, d]
    }
    /// The local identifier; meaningful in subnets of up to 49,151 adapters.
    #[must_use]
    pub const fn lid(self) -> u16 {
        self.0 as u16
    }
    /// The Ethernet address of a port of a switch, which sends pause frames.
    #[must_use]
    pub const fn switch_mac(switch: u32, port: u16) -> [u8; 6] {
        let ([_, a, b, c], [_, d]) = (switch.to_be_bytes(), port.to_be_bytes());
        [0x06, a, b, c, 0, d]
    }
}
