//! What happens to a packet on a link that sends again.

use crate::link_level::Start;
use crate::world::World;
use fabriscope_units::{Bytes, Span, Time};

impl World<'_> {
    /// When a packet of `amount` really starts on the link at `place` whose wire it has from `start` on.
    #[cold]
    pub(crate) fn link_level_start(&mut self, place: usize, amount: Bytes, start: Time) -> Time {
        let number = place / self.links.vls as usize;
        let lane = &self.links.lanes[place];
        let (length, delay) = (lane.serialisation(amount), lane.delay());
        let Some(link_level) = &mut self.links.link_level else { return start };
        let Start { at, woke } = link_level.wake(number, self.links.wires[number].free, start, length);
        let damages = link_level.damages(amount);
        self.watch.stats.link_wakes += u64::from(woke);
        self.watch.stats.link_retries += damages;
        let turn_around = link_level.retry.map_or(Span::ZERO, |retry| retry.turn_around);
        at + (length + delay * 2 + turn_around) * damages
    }
}
