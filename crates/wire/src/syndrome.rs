//! The syndrome of an acknowledgement: ACK with credits, RNR NAK with a timer, NAK with a reason.
//!
//! Source: InfiniBand volume 1, §9.7.5.1 (tables 43 to 46).

use crate::{RnrTimer, WireError};

/// What an AETH says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Syndrome {
    /// Everything up to this packet arrived.
    Ack(Credits),
    /// There was no receive request; try again after this time.
    RnrNak(RnrTimer),
    /// The request was refused.
    Nak(NakCode),
}

impl Syndrome {
    /// An ACK without end-to-end flow control.
    pub const ACK: Syndrome = Syndrome::Ack(Credits::UNLIMITED);

    /// The byte on the wire.
    #[must_use]
    pub const fn encode(self) -> u8 {
        match self {
            Syndrome::Ack(credits) => credits.0,
            Syndrome::RnrNak(timer) => 0b001 << 5 | timer.code(),
            Syndrome::Nak(code) => 0b011 << 5 | code as u8,
        }
    }
    /// Reads the byte. The top bit is reserved and ignored, as the standard asks of receivers.
    ///
    /// # Errors
    /// The reserved kind, an unknown reason.
    pub fn decode(byte: u8) -> Result<Syndrome, WireError> {
        let low = byte & 0x1F;
        match byte >> 5 & 0b11 {
            0b00 => Ok(Syndrome::Ack(Credits(low))),
            0b01 => RnrTimer::from_code(low).map(Syndrome::RnrNak),
            0b11 => NakCode::decode(low).map(Syndrome::Nak),
            _ => Err(WireError::Code {
                what: "an AETH syndrome",
                value: u32::from(byte),
                allowed: "ACK 0x00.., RNR NAK 0x20.. or NAK 0x60..",
            }),
        }
    }
}

/// Encoded count of receive requests that are waiting at the responder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Credits(u8);

impl Credits {
    /// Code 31: the responder does not count.
    pub const UNLIMITED: Credits = Credits(31);

    /// The largest code that promises no more than `requests`.
    #[must_use]
    pub fn of(requests: u32) -> Credits {
        Credits(CREDITS.partition_point(|count| *count <= requests).saturating_sub(1) as u8)
    }
    /// The code, five bits.
    #[must_use]
    pub const fn code(self) -> u8 {
        self.0
    }
    /// The count; `None` where the responder does not count.
    #[must_use]
    pub fn count(self) -> Option<u32> {
        CREDITS.get(usize::from(self.0)).copied()
    }
}

/// Why a request was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum NakCode {
    /// A packet is missing; resend from the PSN of this NAK.
    PsnSequenceError = 0,
    /// The request makes no sense to the responder.
    InvalidRequest = 1,
    /// The key, range or permission does not allow it.
    RemoteAccessError = 2,
    /// The responder failed on its own side.
    RemoteOperationalError = 3,
    /// Reliable datagram only.
    InvalidRdRequest = 4,
}

impl NakCode {
    /// All reasons, by code.
    pub const ALL: [NakCode; 5] = [
        NakCode::PsnSequenceError,
        NakCode::InvalidRequest,
        NakCode::RemoteAccessError,
        NakCode::RemoteOperationalError,
        NakCode::InvalidRdRequest,
    ];

    fn decode(code: u8) -> Result<NakCode, WireError> {
        let known = NakCode::ALL.get(usize::from(code)).copied();
        known.ok_or(WireError::Code { what: "a NAK code", value: u32::from(code), allowed: "0 to 4" })
    }
}

/// Credit count by code. Basis: standard, table 44.
const CREDITS: [u32; 31] = [
    0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, //
    256, 384, 512, 768, 1_024, 1_536, 2_048, 3_072, 4_096, 6_144, 8_192, 12_288, 16_384, 24_576, 32_768,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_with_a_meaning_comes_back() {
        let mut known = 0;
        for byte in 0..=0x7F {
            if let Ok(syndrome) = Syndrome::decode(byte) {
                assert_eq!(syndrome.encode(), byte);
                known += 1;
            }
        }
        // 32 credit codes, 32 timers, 5 reasons.
        assert_eq!(known, 69);
    }

    #[test]
    fn bytes_of_the_standard() {
        assert_eq!(Syndrome::ACK.encode(), 0x1F);
        assert_eq!(Syndrome::Nak(NakCode::PsnSequenceError).encode(), 0x60);
        assert_eq!(Syndrome::Nak(NakCode::RemoteAccessError).encode(), 0x62);
        assert_eq!(Syndrome::RnrNak(RnrTimer::from_code(12).unwrap()).encode(), 0x2C);
        assert!(Syndrome::decode(0x40).is_err() && Syndrome::decode(0x65).is_err());
    }

    #[test]
    fn credits_round_down() {
        for (requests, count) in [(0, 0), (4, 4), (5, 4), (7, 6), (1_000, 768), (1_000_000, 32_768)] {
            assert_eq!(Credits::of(requests).count(), Some(count));
        }
        assert_eq!(Credits::UNLIMITED.count(), None);
    }
}
