//! Encoded quantities of the standard: MTU, acknowledge timeout, RNR timer.
//!
//! Source: InfiniBand volume 1, §9.7.6.1.3 (timeout 4.096 us · 2ⁿ), table 45 (RNR NAK timer field), §14.2.5.6 (MTU codes).

use fabriscope_units::{Bytes, Span};

use crate::WireError;

/// The largest payload of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Mtu {
    /// 256 B, code 1.
    B256 = 1,
    /// 512 B, code 2.
    B512 = 2,
    /// 1 KiB, code 3.
    B1024 = 3,
    /// 2 KiB, code 4.
    B2048 = 4,
    /// 4 KiB, code 5.
    B4096 = 5,
}

impl Mtu {
    /// All sizes, ascending.
    pub const ALL: [Mtu; 5] = [Mtu::B256, Mtu::B512, Mtu::B1024, Mtu::B2048, Mtu::B4096];

    /// The size in bytes.
    #[inline]
    #[must_use]
    pub const fn bytes(self) -> Bytes {
        Bytes(128 << self as u8)
    }
    /// The code of the standard, 1 to 5.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }
    /// The size with this code.
    ///
    /// # Errors
    /// A code outside 1 to 5.
    pub fn from_code(code: u8) -> Result<Mtu, WireError> {
        let known = Mtu::ALL.into_iter().find(|mtu| mtu.code() == code);
        known.ok_or(WireError::Code { what: "an MTU code", value: u32::from(code), allowed: "1 (256 B) to 5 (4096 B)" })
    }
    /// The MTU of exactly this size.
    ///
    /// # Errors
    /// Any other size.
    pub fn from_bytes(size: Bytes) -> Result<Mtu, WireError> {
        let known = Mtu::ALL.into_iter().find(|mtu| mtu.bytes() == size);
        let value = size.saturating_u32();
        known.ok_or(WireError::Code { what: "an MTU in bytes", value, allowed: "256, 512, 1024, 2048 or 4096" })
    }
    /// How many packets a message of `size` takes; an empty message takes one.
    #[inline]
    #[must_use]
    pub const fn packets(self, size: Bytes) -> u64 {
        let packets = size.0.div_ceil(self.bytes().0);
        if packets == 0 { 1 } else { packets }
    }
}

/// How long a requester waits for an acknowledgement: 4.096 us · 2ⁿ, or for ever with n = 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AckTimeout(u8);

impl AckTimeout {
    /// The timeout with this exponent.
    ///
    /// # Errors
    /// An exponent above 31: the field has five bits.
    pub fn from_code(exponent: u8) -> Result<AckTimeout, WireError> {
        if exponent > 31 {
            return Err(WireError::Code { what: "a timeout exponent", value: u32::from(exponent), allowed: "0 (none) or 1 to 31" });
        }
        Ok(AckTimeout(exponent))
    }
    /// The shortest timeout that is not below `span`; the longest there is when none reaches it.
    #[must_use]
    pub fn at_least(span: Span) -> AckTimeout {
        let exponent = (1..31).find(|exponent| TIMEOUT_BASE.as_ps() << exponent >= span.as_ps());
        AckTimeout(exponent.unwrap_or(31))
    }
    /// The exponent.
    #[must_use]
    pub const fn code(self) -> u8 {
        self.0
    }
    /// The time to wait; `None` waits for ever.
    #[must_use]
    pub fn span(self) -> Option<Span> {
        (self.0 != 0).then(|| TIMEOUT_BASE * (1 << self.0))
    }
}

/// How long a requester has to wait after "receiver not ready".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RnrTimer(u8);

impl RnrTimer {
    /// The timer with this code.
    ///
    /// # Errors
    /// A code above 31: the field has five bits.
    pub fn from_code(code: u8) -> Result<RnrTimer, WireError> {
        if code > 31 {
            return Err(WireError::Code {
                what: "an RNR timer code",
                value: u32::from(code),
                allowed: "0 (655.36 ms) or 1 (0.01 ms) to 31",
            });
        }
        Ok(RnrTimer(code))
    }
    /// The shortest timer that is not below `span`; the longest there is when none reaches it.
    #[must_use]
    pub fn at_least(span: Span) -> RnrTimer {
        // Code 0 is the longest, so it comes last.
        let code = (1..32).find(|code| RnrTimer(*code).span() >= span);
        RnrTimer(code.unwrap_or(0))
    }
    /// The code, five bits.
    #[must_use]
    pub const fn code(self) -> u8 {
        self.0
    }
    /// The time to wait.
    #[must_use]
    pub fn span(self) -> Span {
        Span::from_us(RNR_TIMERS_US[usize::from(self.0)])
    }
}

/// Basis: standard, §9.7.6.1.3.
const TIMEOUT_BASE: Span = Span::from_ps(4_096_000);

/// RNR timer by code, in us. Basis: standard, table 45.
const RNR_TIMERS_US: [u64; 32] = [
    655_360, 10, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480, 640, 960, 1_280, 1_920, //
    2_560, 3_840, 5_120, 7_680, 10_240, 15_360, 20_480, 30_720, 40_960, 61_440, 81_920, 122_880, 163_840, 245_760, 327_680, 491_520,
];

#[cfg(test)]
mod tests {
    use fabriscope_units::Remedy;

    use super::*;

    #[test]
    fn mtu_codes() {
        let sizes: Vec<u64> = (1..=5).map(|code| Mtu::from_code(code).unwrap().bytes().as_u64()).collect();
        assert_eq!(sizes, [256, 512, 1024, 2048, 4096]);
        assert!(Mtu::from_code(0).is_err() && Mtu::from_code(6).is_err());
        assert_eq!(Mtu::from_bytes(Bytes(1024)), Ok(Mtu::B1024));
        assert!(Mtu::from_bytes(Bytes(1500)).unwrap_err().in_full().contains("1024"));
        assert_eq!([0, 1, 4096, 4097].map(|size| Mtu::B4096.packets(Bytes(size))), [1, 1, 1, 2]);
    }

    #[test]
    fn timeouts() {
        // The usual setting 14: 4.096 us · 16384 = 67.1 ms.
        assert_eq!(AckTimeout::from_code(14).unwrap().span(), Some(Span::from_ps(67_108_864_000)));
        assert_eq!(AckTimeout::from_code(0).unwrap().span(), None);
        assert!(AckTimeout::from_code(32).is_err());
        assert_eq!(AckTimeout::at_least(Span::from_ps(8_192_000)).code(), 1);
        assert_eq!(AckTimeout::at_least(Span::from_ps(8_192_001)).code(), 2);
        assert_eq!(AckTimeout::at_least(Span::MAX).code(), 31);
    }

    #[test]
    fn rnr_timers() {
        // Codes and times as in the manual page of ibv_modify_qp.
        for (code, us) in [(0, 655_360), (1, 10), (12, 640), (16, 2_560), (31, 491_520)] {
            assert_eq!(RnrTimer::from_code(code).unwrap().span(), Span::from_us(us));
        }
        assert!((1..31).all(|code| RNR_TIMERS_US[code] < RNR_TIMERS_US[code + 1]));
        assert_eq!(RnrTimer::at_least(Span::from_us(600)).code(), 12);
        assert_eq!(RnrTimer::at_least(Span::from_us(500_000)).code(), 0);
    }
}
