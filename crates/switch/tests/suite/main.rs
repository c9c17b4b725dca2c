//! Tests from outside: laws of the parts of a port.

mod arbiters;
mod groups;
mod lanes;
mod marks_and_room;
mod reductions;
