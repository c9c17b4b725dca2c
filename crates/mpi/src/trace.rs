//! What a core does, noted for those who follow a message.

use fabriscope_node::Process;
use fabriscope_units::{Span, Time};

/// Notes work for `explain`; parts that take no time are left out.
pub(super) fn note(process: &Process, begun: Time, parts: &[(&str, Span)], last: impl FnOnce() -> String) {
    let parts: Vec<(&str, Span)> = parts.iter().copied().filter(|(_, span)| *span > Span::ZERO).collect();
    if process.now() > begun {
        process.note_work(begun, &parts, last);
    }
}
