//! The fabriscope command.
fn main() {}
