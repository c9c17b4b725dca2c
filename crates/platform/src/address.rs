//! PCI addresses as Linux writes them, in numbers.

use std::fmt;

/// Domain, bus and device of a function on PCI Express.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PciAddress {
    /// The domain.
    pub domain: u32,
    /// The bus.
    pub bus: u32,
    /// The device on the bus.
    pub device: u32,
}

impl PciAddress {
    /// Reads `0000:17:00.0`; the domain may be left out.
    #[must_use]
    pub fn parse(address: &str) -> Option<PciAddress> {
        let (rest, _) = address.rsplit_once('.')?;
        let mut fields = rest.rsplit(':').map(|field| u32::from_str_radix(field, 16).ok());
        let device = fields.next()??;
        let bus = fields.next()??;
        let domain = fields.next().unwrap_or(Some(0))?;
        Some(PciAddress { domain, bus, device })
    }
}

impl fmt::Display for PciAddress {
    /// As CUDA prints it: domain, bus and device.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PciAddress { domain, bus, device } = self;
        write!(f, "{domain:04x}:{bus:02x}:{device:02x}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_hexadecimal_with_or_without_domain() {
        let at = |domain, bus, device| Some(PciAddress { domain, bus, device });
        assert_eq!(PciAddress::parse("0000:17:00.0"), at(0, 0x17, 0));
        assert_eq!(PciAddress::parse("c1:1f.3"), at(0, 0xc1, 0x1f));
        assert_eq!(PciAddress::parse("0009:01:00.0"), at(9, 1, 0));
        assert!(["", "17:00", "17.0", "zz:00.0"].into_iter().all(|text| PciAddress::parse(text).is_none()));
    }
}
