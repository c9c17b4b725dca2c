//! Links that repeat damaged packets and rest while idle: what that adds to the start of a packet.
//!
//! Source: see `catalog::line`. Modelled: a damaged packet occupies the wire, its loss is known one way later, and it goes again after a
//! turn-around and the way back, before all that stands behind it (go-back-N), as often as it is damaged; a resting link wakes
//! when a packet wants to leave, and carries nothing, or at the rate of the lanes that are awake, until it is back.
//! Not modelled: the energy saved; control symbols of the retry; a replay buffer that is full.

use fabriscope_catalog::Line as Part;
use fabriscope_streams::Stream;

use crate::world::World;

/// The settings of all links, and the state of each.
#[derive(Debug)]
pub(crate) struct Line {
    /// Bit error rate, and turn-around (ps).
    retry: Option<(f64, u64)>,
    /// Idle time before a link rests, time to wake (ps), and how much slower it is meanwhile; `None` when it carries nothing.
    rest: Option<(u64, u64, Option<f64>)>,
    /// Until when each link wakes (ps), by place.
    awake: Vec<u64>,
    stream: Stream,
}

impl Line {
    /// `None` where links do neither.
    pub fn new(part: &Part, links: usize, stream: Stream) -> Option<Box<Line>> {
        if part.retry.is_none() && part.rest.is_none() {
            return None;
        }
        let retry = part.retry.as_ref().map(|retry| (retry.bit_errors, retry.latency.as_ps()));
        let rest = part.rest.as_ref().map(|rest| {
            let slower = rest.lanes.map(|lanes| 1.0 / lanes.as_f64());
            (rest.after.as_ps(), rest.wake.as_ps(), slower)
        });
        Some(Box::new(Line { retry, rest, awake: vec![0; links], stream }))
    }
}

impl World<'_> {
    /// When a packet of `bytes` really starts on the link at `place` whose wire it has from `start` on.
    #[cold]
    pub(crate) fn line_start(&mut self, place: usize, bytes: u32, start: u64) -> u64 {
        let number = place / self.vls as usize;
        let lane = &self.lanes[place];
        let (length, delay) = (lane.serialisation(bytes), u64::from(lane.delay));
        let Some(line) = &mut self.line else { return start };
        let mut at = start;
        if let Some((after, wake, slower)) = line.rest {
            // All links are awake when the run begins.
            if start >= self.wires[number].free + after {
                line.awake[number] = start + wake;
                self.stats.link_wakes += 1;
            }
            if at < line.awake[number] {
                at = match slower {
                    None => line.awake[number],
                    // The tail comes as late as the lanes that are awake bring it.
                    Some(slower) => at + ((slower - 1.0) * length as f64) as u64,
                };
            }
        }
        if let Some((errors, turn)) = line.retry {
            // 1 − (1 − p)ⁿ without a power: p is small, and n p at most 1.
            let bits = f64::from(bytes) * 8.0 * errors;
            let damaged = bits - bits * bits / 2.0 + bits * bits * bits / 6.0;
            while (line.stream.next_u32() as f64) < damaged * 4_294_967_296.0 {
                at += length + 2 * delay + turn;
                self.stats.link_retries += 1;
            }
        }
        at
    }
}
