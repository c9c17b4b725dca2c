//! What a program notes of its calls for whoever explains them.

use crate::copies::CopyId;
use crate::device::Memory;
use crate::process::Process;
use crate::work::{ASKING, Open, STARTING, Work};
use fabriscope_units::{Span, Time};

impl Process {
    /// What has been noted since this was last asked, in the order of its ends.
    #[must_use]
    pub fn take_works(&self) -> Vec<Work> {
        self.work_log(|log| std::mem::take(&mut log.done)).unwrap_or_default()
    }

    /// Notes work that began at `begun` and ends now; the last of `parts` is what remains.
    pub fn note_work(&self, begun: Time, parts: &[(&str, Span)], last: impl FnOnce() -> String) {
        let (rank, node, done) = (self.rank(), self.node(), self.now());
        self.work_log(|log| {
            let named: Vec<(String, Span)> = parts.iter().map(|(name, span)| ((*name).to_owned(), *span)).collect();
            let before: Span = named.iter().map(|(_, span)| *span).sum();
            let rest = (last(), done.since(begun).saturating_sub(before));
            log.done.push(Work { rank, node, begun, done, parts: named.into_iter().chain([rest]).collect() });
        });
    }

    /// Notes that the core asked an engine for a copy: from `begun` to `asked`; the engine does not begin before `starts`.
    pub(crate) fn note_begun(&self, id: CopyId, (begun, asked, starts): (Time, Time, Time), what: impl FnOnce() -> String) {
        self.work_log(|log| log.open.push(Open { id, begun, asked, starts, what: what() }));
    }

    /// Notes that such a copy ended.
    pub(crate) fn note_ended(&self, id: CopyId, end: Time) {
        let (rank, node) = (self.rank(), self.node());
        self.work_log(|log| {
            let Some(place) = log.open.iter().position(|open| open.id == id) else { return };
            let Open { begun, asked, starts, what, .. } = log.open.remove(place);
            let parts =
                vec![(ASKING.to_owned(), asked.since(begun)), (STARTING.to_owned(), starts.since(asked)), (what, end.since(starts))];
            log.done.push(Work { rank, node, begun, done: end, parts });
        });
    }

    /// The way of a copy, for people.
    pub(crate) fn describe_copy(&self, from: Memory, to: Memory) -> String {
        let name = |memory| match (memory, self.devices()) {
            (Memory::Host(numa), _) => format!("host memory of numa{numa}"),
            (Memory::Device(gpu), Ok(devices)) => devices.name(gpu),
            (Memory::Device(gpu), Err(_)) => format!("gpu{gpu}"),
            (Memory::Dpu(dpu), _) => format!("memory of dpu{dpu}"),
        };
        format!("copy, {} to {}", name(from), name(to))
    }
}
