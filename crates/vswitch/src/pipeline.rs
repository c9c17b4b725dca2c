//! Stages that packets pass one after the other: parser, tables, deparser, engines, or the core that does all of it.
//!
//! A stage `i` is busy for `sᵢ` with a packet and hands it on after `dᵢ`. A packet that enters at `t` reaches it at `t + oᵢ`, where `oᵢ` is
//! the sum of `dⱼ` over the stages `j < i`, and has to find it free:
//!
//! ```text
//!  entry = max(arrival, maxᵢ (freeᵢ − oᵢ))      freeᵢ = entry + oᵢ + sᵢ      exit = entry + Σ dᵢ
//! ```
//!
//! Waiting before the first stage instead of in between changes no exit: with packets alike, the next entry is `maxᵢ sᵢ` after this one,
//! so that the slowest stage bounds the rate and the sum of latencies is what a packet takes that finds all stages free.
//!
//! Modelled: as said. Not modelled: room between stages (who waits, waits in front), packets that go through it again.

use fabriscope_units::{Bytes, Rate, Span, Time};

/// What passes at once: one packet, or a segment that is cut into packets later or was merged of some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// Packets on the wire.
    pub packets: u64,
    /// Their bytes.
    pub bytes: Bytes,
}

impl Work {
    /// One packet.
    #[must_use]
    pub const fn packet(bytes: Bytes) -> Work {
        Work { packets: 1, bytes }
    }
}

/// When a stage hands on what it got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discipline {
    /// After its latency, however long it is busy: hardware that has several packets in it.
    Pipelined,
    /// When it is ready with it, and its latency later: a core.
    Whole,
}

/// One stage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stage {
    /// It is busy so long with each thing that passes,
    pub interval: Span,
    /// so much longer for each packet of it,
    pub packet: Span,
    /// and for its bytes at this rate, where they count.
    pub rate: Option<Rate>,
    /// What it adds to the way.
    pub latency: Span,
    /// When it hands on.
    pub discipline: Discipline,
}

impl Stage {
    /// A table, parser or deparser of hardware.
    #[must_use]
    pub const fn table(interval: Span, latency: Span) -> Stage {
        Stage { interval, packet: Span::ZERO, rate: None, latency, discipline: Discipline::Pipelined }
    }
    /// How long it is busy.
    #[must_use]
    pub fn service(&self, work: Work) -> Span {
        self.interval + self.packet * work.packets + self.rate.map_or(Span::ZERO, |rate| rate.time(work.bytes))
    }
    /// From entering it to leaving it.
    #[must_use]
    pub fn transit(&self, work: Work) -> Span {
        match self.discipline {
            Discipline::Pipelined => self.latency,
            Discipline::Whole => self.latency + self.service(work),
        }
    }
}

/// Stages in their order, each with the time from which on it is free.
#[derive(Clone, Debug, Default)]
pub struct Pipeline {
    stages: Vec<(Stage, Time)>,
}

impl Pipeline {
    /// All free.
    #[must_use]
    pub fn new(stages: impl IntoIterator<Item = Stage>) -> Pipeline {
        Pipeline { stages: stages.into_iter().map(|stage| (stage, Time::ZERO)).collect() }
    }
    /// When something that is there at `at` enters: when it will find every stage free.
    #[must_use]
    pub fn entry(&self, at: Time, work: Work) -> Time {
        let (mut entry, mut offset) = (at, Span::ZERO);
        for (stage, free) in &self.stages {
            entry = entry.max(free.saturating_sub(offset));
            offset += stage.transit(work);
        }
        entry
    }
    /// From entry to exit.
    #[must_use]
    pub fn transit(&self, work: Work) -> Span {
        self.stages.iter().map(|(stage, _)| stage.transit(work)).sum()
    }
    /// The longest that a stage is busy with it: the time between two of a row.
    #[must_use]
    pub fn interval(&self, work: Work) -> Span {
        self.stages.iter().map(|(stage, _)| stage.service(work)).max().unwrap_or(Span::ZERO)
    }
    /// Something that is there at `at` passes; when it leaves.
    pub fn pass(&mut self, at: Time, work: Work) -> Time {
        let mut here = self.entry(at, work);
        for (stage, free) in &mut self.stages {
            *free = here + stage.service(work);
            here += stage.transit(work);
        }
        here
    }
}

impl Pipeline {
    /// The same through the first stage alone, which takes as long as `stage` says.
    pub(crate) fn pass_through(&mut self, stage: &Stage, at: Time, work: Work) -> Time {
        let Some((_, free)) = self.stages.first_mut() else { return at };
        let entry = at.max(*free);
        *free = entry + stage.service(work);
        entry + stage.transit(work)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ns: u64) -> Time {
        Time::ZERO + Span::from_ns(ns)
    }
    const fn ns(ns: u64) -> Span {
        Span::from_ns(ns)
    }
    fn small() -> Work {
        Work::packet(Bytes(64))
    }

    #[test]
    fn a_lone_packet_takes_the_sum_of_latencies() {
        let mut pipeline =
            Pipeline::new([(10, 100), (15, 50), (5, 200)].map(|(interval, latency)| Stage::table(ns(interval), ns(latency))));
        assert_eq!(pipeline.transit(small()), ns(350));
        assert_eq!(pipeline.pass(at(7), small()), at(357));
        // Long after that all is free again.
        assert_eq!(pipeline.pass(at(1000), small()), at(1350));
    }

    #[test]
    fn the_slowest_stage_bounds_the_rate() {
        // Packets that are all there at once leave one interval of the slowest after the other, wherever it stands.
        for intervals in [[15, 5, 10], [5, 15, 10], [5, 10, 15]] {
            let mut pipeline = Pipeline::new(intervals.map(|interval| Stage::table(ns(interval), ns(100))));
            assert_eq!(pipeline.interval(small()), ns(15));
            for packet in 0..100 {
                assert_eq!(pipeline.pass(at(0), small()), at(300 + 15 * packet));
            }
        }
    }

    /// Exits are those of queues in front of each stage: `exitᵢ = max(exitᵢ₋₁, freeᵢ) + dᵢ`, also where services follow the bytes.
    #[test]
    fn waiting_in_front_changes_no_exit() {
        let engine = Stage { rate: Some(Rate::from_gbps(10)), ..Stage::table(ns(2), ns(30)) };
        let stages = [Stage::table(ns(20), ns(40)), engine, Stage::table(ns(9), ns(25))];
        let mut pipeline = Pipeline::new(stages);
        let mut free = [Time::ZERO; 3];
        let mut arrival = 0;
        for packet in 0..500_u64 {
            // Sizes and gaps without a period that matters.
            let work = Work::packet(Bytes(64 + packet * packet % 1400));
            arrival += packet * 37 % 900;
            let mut here = at(arrival);
            for (stage, free) in stages.iter().zip(&mut free) {
                here = here.max(*free);
                *free = here + stage.service(work);
                here += stage.transit(work);
            }
            // A packet held in front leaves earlier stages occupied later, so that exits may only be later where a long one follows a short
            // one through an earlier stage: never earlier, and by no more than that stage takes.
            let exit = pipeline.pass(at(arrival), work);
            assert!(exit >= here && exit <= here + ns(20), "packet {packet}: {exit:?} against {here:?}");
        }
    }

    #[test]
    fn a_core_hands_on_what_it_has_done() {
        // 300 ns each, 100 ns a packet, 8 b/ns: a segment of 3 packets and 3000 B takes 3.6 us, and the next waits for it.
        let stage =
            Stage { interval: ns(300), packet: ns(100), rate: Some(Rate::from_gbps(8)), latency: ns(1000), discipline: Discipline::Whole };
        let work = Work { packets: 3, bytes: Bytes(3000) };
        let mut core = Pipeline::new([stage]);
        assert_eq!([core.pass(at(0), work), core.pass(at(0), work)], [at(4600), at(8200)]);
        assert_eq!(core.entry(at(0), work), at(7200));
    }
}
