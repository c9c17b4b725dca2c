//! Routing on grids: one algorithm, one file.
//!
//! All walk by dimension order ([`walk`]), which says for a switch and a target the port and the lane of the next step:
//! [`dimension_order`] to the destination, [`valiant`] to a random switch first, [`adaptive`] in the better of two orders.

mod walk;

use super::family::family;
use crate::topology::grid::Grid;

family! {
    /// A routing of grids on one fabric.
    pub(super) enum Router of Grid {
        adaptive: Adaptive => adaptive::Adaptive;
        dimension_order: DimensionOrder => dimension_order::DimensionOrder;
        ugal: UgalL => ugal::Ugal;
        valiant: Valiant => valiant::Valiant;
    }
}
