//! What joining takes.

use fabriscope_units::{Bytes, Rate, Span, Time};

/// The pace of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// From the last byte of the last operand to the first byte of the result at the output.
    pub latency: Span,
    /// Between two operations.
    pub interval: Span,
    /// Messages up to this length are operations of their own; longer ones stream.
    pub payload: Bytes,
    /// Bytes of result of streams; nothing where switches do not stream.
    pub rate: Option<Rate>,
}

/// The unit of a switch, which all groups share.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unit {
    free: Time,
}

impl Unit {
    /// Joins operands of `bytes`, the last of which came at `at` and which belong to messages of `length`: when the result leaves.
    pub fn join(&mut self, pace: &Pace, at: Time, bytes: Bytes, length: Bytes) -> Time {
        let begin = at.max(self.free);
        let streams = pace.rate.filter(|_| length > pace.payload);
        self.free = begin + streams.map_or(pace.interval, |rate| rate.time(bytes));
        begin + pace.latency
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_follow_each_other_and_streams_take_their_bytes() {
        let pace =
            Pace { latency: Span::from_ns(200), interval: Span::from_ns(20), payload: Bytes(1024), rate: Some(Rate::from_gbps(400)) };
        let mut unit = Unit::default();
        let at = |ns| Time::ZERO + Span::from_ns(ns);
        let small = |unit: &mut Unit, ns| unit.join(&pace, at(ns), Bytes(8), Bytes(8));
        assert_eq!([small(&mut unit, 0), small(&mut unit, 0), small(&mut unit, 100)], [at(200), at(220), at(300)]);
        let large = |unit: &mut Unit| unit.join(&pace, at(1000), Bytes(4000), Bytes(1 << 20));
        assert_eq!([large(&mut unit), large(&mut unit)], [at(1200), at(1280)]);
    }
}
