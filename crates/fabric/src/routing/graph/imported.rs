//! The forwarding tables that an imported fabric brought along.
//!
//! Modelled: tables that lead from every endpoint to every address. Not modelled: multicast entries, tables that change.

use std::sync::Arc;

use super::{Forward, Router};
use crate::routing::{Routing, RoutingError};
use crate::topology::{Coordinates, Fabric, Irregular};

/// Prepares `table`.
pub(super) fn prepare(fabric: &Fabric, routing: Routing) -> Result<Router, RoutingError> {
    let Coordinates::Irregular(Irregular { tables: Some(tables), .. }) = &fabric.coordinates else {
        let what = "no tables came with it".to_owned();
        return Err(RoutingError::Cannot { routing, what, remedy: "import the fabric with its tables, or choose min_hop" });
    };
    Forward::new(fabric, routing, Arc::clone(tables), None).map(Router::Forward)
}
