//! Addresses on the PCI bus: `0000:17:00.0` is domain, bus, device and function.
//!
//! Source: Linux, Documentation/PCI/sysfs-pci.rst.

use std::fmt;

/// One function of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    domain: u32,
    bus: u8,
    device: u8,
    function: u8,
}

impl Address {
    /// From `0000:17:00.0`, `17:00.0`, or `00000000:17:00.0` as NVIDIA's tools write it.
    pub(crate) fn parse(text: &str) -> Option<Address> {
        let (front, function) = text.trim().rsplit_once('.')?;
        let mut words = front.rsplit(':');
        let hex = |word: &str, most: usize| (1..=most).contains(&word.len()).then(|| u32::from_str_radix(word, 16).ok()).flatten();
        let (device, bus) = (hex(words.next()?, 2)?, hex(words.next()?, 2)?);
        let domain = words.next().map_or(Some(0), |word| hex(word, 8))?;
        let function = hex(function, 1)?;
        if words.next().is_some() || device > 31 || function > 7 {
            return None;
        }
        Some(Address { domain, bus: u8::try_from(bus).ok()?, device: device as u8, function: function as u8 })
    }
    /// The address of the device: that of its first function.
    pub(crate) fn of_device(self) -> Address {
        Address { function: 0, ..self }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}:{:02x}:{:02x}.{:x}", self.domain, self.bus, self.device, self.function)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_all_tools_are_written_alike() {
        for (text, same) in [
            ("0000:17:00.0", "0000:17:00.0"),
            ("17:1F.7", "0000:17:1f.7"),
            ("00000000:E3:00.0", "0000:e3:00.0"),
            ("10001:01:00.0", "10001:01:00.0"),
        ] {
            assert_eq!(Address::parse(text).unwrap().to_string(), same);
        }
        assert_eq!(Address::parse("0000:17:00.3").unwrap().of_device(), Address::parse("17:00.0").unwrap());
        for text in ["", "17", "17:00", "0000:17:20.0", "0000:17:00.8", "0000:117:00.0", "a:b:c:d.0", "fffffff:ffff:ff", "0000:17:00.+1"] {
            assert_eq!(Address::parse(text), None, "{text}");
        }
    }
}
