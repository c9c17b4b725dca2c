//! How a family of topologies registers its algorithms.

use super::{Route, Routing, RoutingError};
use crate::topology::Fabric;

/// An algorithm that computes with the coordinates `C` of a family.
pub(super) trait Prepare<C>: Route + Sized {
    /// The algorithm on `fabric`; `routing` is the name it was chosen by, with its parameters.
    ///
    /// # Errors
    /// This member of the family is beyond the algorithm.
    fn prepare(fabric: &Fabric, coordinates: &C, routing: Routing) -> Result<Self, RoutingError>;
}

/// Declares the algorithms of a family: the file, and by which names of [`Routing`] which type of it is chosen.
///
/// A line is all that an algorithm needs besides its file. The table becomes the modules, an enum with a variant for each
/// name, and its [`Route`].
macro_rules! family {
    ($(#[$about:meta])* $visibility:vis enum $family:ident of $coordinates:ty { $($file:ident: $($routing:ident => $route:ty),+;)* }) => {
        $(mod $file;)*

        $(#[$about])*
        #[derive(Clone, Debug)]
        $visibility enum $family {
            $($(#[doc = concat!("[`Routing::", stringify!($routing), "`].")] $routing($route),)+)*
        }

        impl $family {
            /// Whether the family has an algorithm of its own under this name.
            $visibility const fn knows(routing: $crate::Routing) -> bool {
                match routing {
                    $($($crate::Routing::$routing { .. })|+ => true,)*
                    _ => false,
                }
            }
            /// The algorithm on one fabric; `None` where the family has none of its own under this name.
            $visibility fn new(
                fabric: &$crate::Fabric,
                coordinates: &$coordinates,
                routing: $crate::Routing,
            ) -> Option<Result<$family, $crate::RoutingError>> {
                match routing {
                    $($($crate::Routing::$routing { .. } => {
                        let route = $crate::routing::family::Prepare::prepare(fabric, coordinates, routing);
                        Some(route.map($family::$routing))
                    })+)*
                    _ => None,
                }
            }
        }

        impl $crate::Route for $family {
            #[inline(always)]
            fn output(&self, at: $crate::SwitchId, head: $crate::Head, view: &mut impl $crate::SwitchView) -> $crate::Hop {
                match self { $($($family::$routing(route) => route.output(at, head, view),)+)* }
            }
            #[inline]
            fn options(&self, at: $crate::SwitchId, head: $crate::Head, visit: &mut dyn FnMut($crate::Hop)) {
                match self { $($($family::$routing(route) => route.options(at, head, visit),)+)* }
            }
            fn options_by_input(&self) -> bool {
                match self { $($($family::$routing(route) => route.options_by_input(),)+)* }
            }
            #[inline]
            fn oblivious(&self) -> bool {
                match self { $($($family::$routing(route) => route.oblivious(),)+)* }
            }
            fn lanes(&self) -> u8 {
                match self { $($($family::$routing(route) => route.lanes(),)+)* }
            }
            fn longest(&self) -> u32 {
                match self { $($($family::$routing(route) => route.longest(),)+)* }
            }
            fn proof(&self) -> Option<&'static str> {
                match self { $($($family::$routing(route) => route.proof(),)+)* }
            }
        }
    };
}

pub(super) use family;
