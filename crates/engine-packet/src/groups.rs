//! What switches know beyond links and routes: groups that they copy or reduce for, and partitions that they keep apart.

use std::sync::Arc;

use crate::aggregation::Aggregation;
use crate::enforcement::Enforcement;
use crate::multicast::Multicast;

/// Groups and partitions of a part.
pub(crate) struct Groups {
    pub multicast: Multicast,
    pub aggregation: Aggregation,
    /// What switches keep apart, where they do.
    pub enforcement: Option<Arc<Enforcement>>,
}
