//! What a core and a GPU do for a program beside the network, noted where a run is traced (`explain`).
//!
//! Modelled: copies that the core waits for, copies that an engine makes meanwhile, stores and loads through the window, messages
//! within a node.
//! Not modelled: other copies within host memory, which are the program's own time.

use fabriscope_units::{Span, Time};

use crate::activity::Activity;
use crate::copies::CopyId;

/// A piece of work and the parts of its time, which add up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Work {
    /// Whose core asked for it.
    pub rank: u32,
    /// On which node.
    pub node: u32,
    /// When the core began.
    pub begun: Time,
    /// When it was over.
    pub done: Time,
    /// What happened, in order.
    pub parts: Vec<(String, Span)>,
}

/// An engine's copy in progress.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) id: CopyId,
    pub(crate) begun: Time,
    pub(crate) asked: Time,
    pub(crate) starts: Time,
    pub(crate) what: String,
}

/// What one core has noted.
#[derive(Debug, Default)]
pub(crate) struct WorkLog {
    pub(crate) done: Vec<Work>,
    pub(crate) open: Vec<Open>,
    /// What the program did, where that is asked for.
    pub(crate) activities: Option<Vec<Activity>>,
}

/// The part of a copy that is the call of the driver.
pub(crate) const CALLING: &str = "call of a copy";
/// The same where the core does not wait.
pub(crate) const ASKING: &str = "call of an asynchronous copy";
/// From the call to the engine.
pub(crate) const STARTING: &str = "start of the copy engine";
