//! What a client's pages take of its cores, and how far it reads ahead.
//!
//! Source: the client's path of a page (llite, osc); `llite.*.max_read_ahead_per_file_mb`.

use fabriscope_lustre::System;
use fabriscope_units::{Bytes, Span};

use crate::PAGE;

/// A core's time to copy so many bytes into pages, where they are written, or out of them, and what of it only one process of a client can be in.
#[must_use]
pub fn pages_time(system: &System, bytes: u64, write: bool) -> (Span, Span) {
    let (client, pages) = (&system.costs.client, bytes.div_ceil(PAGE));
    let page = if write { *client.page_write } else { *client.page_read };
    let own = *client.call + system.clients.copy.time(Bytes(bytes)) + page.saturating_mul(pages);
    (own, client.page_shared.saturating_mul(pages))
}

/// RPCs of `unit` bytes of a file that are read ahead within `ahead` bytes.
#[must_use]
pub fn read_window(ahead: u64, unit: u64) -> u32 {
    (ahead / unit).clamp(1, MOST_AHEAD) as u32
}

/// RPCs of a file that are read ahead, at most. Basis: assumed.
const MOST_AHEAD: u64 = 64;
