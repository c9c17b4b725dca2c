//! Messages at a rate, whoever sends them.

use fabriscope_training::{CommunicationTimes, Group, Operation};
use fabriscope_units::{Bytes, Rate, Span};

/// What groups take: bytes at a rate, and so many processors.
pub struct Plain {
    pub rate: Rate,
    pub processors: u32,
}

impl CommunicationTimes for Plain {
    type Error = std::convert::Infallible;
    fn time(&mut self, _: Operation, bytes: Bytes, group: Group) -> Result<Span, Self::Error> {
        Ok(if group.size > 1 { self.rate.time(bytes) } else { Span::ZERO })
    }
    fn processors(&mut self, _: Operation, _: Bytes, _: Group) -> Result<u32, Self::Error> {
        Ok(self.processors)
    }
}
