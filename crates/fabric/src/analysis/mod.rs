//! What a fabric is worth before anything runs on it: counts, distances, bisection, diversity of paths, load of a pattern.
//!
//! ```text
//!  Fabric ──┬── Census      switches and ports by class, cables by kind and length
//!           ├── Backbone    switches and the trunks between them, parallel cables merged
//!           │     ├── Distances   switches on the shortest paths, all pairs at once
//!           │     ├── Diversity   how many shortest paths, how many without a cable in common
//!           │     └── Bisection   the least capacity found between two halves of the endpoints
//!           └── Pressure    the busiest link of a pattern under a routing
//! ```
//!
//! Everything is computed from the graph alone, so that it holds for imported fabrics as for built ones; coordinates
//! only propose splits and name classes. What is too large to be looked at in full is sampled with a fixed seed, and the
//! result says so.

mod backbone;
mod bisection;
mod census;
mod distance;
mod diversity;
mod flow;
mod halves;
mod levels;
mod pressure;
mod refine;
mod sample;

pub use backbone::{Backbone, Trunk};
pub use bisection::{Bisection, bisection};
pub use census::{CableClass, CableKind, Census, SwitchClass, census};
pub use distance::{Distances, distances, shortest_hops};
pub use diversity::{Diversity, Spread, diversity};
pub use levels::levels;
pub use pressure::{Offer, Pressure, mean_hops, pressure};
