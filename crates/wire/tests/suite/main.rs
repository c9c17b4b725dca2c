//! The tests of `fabriscope-wire` from outside, in one program: built once, run on all cores. A file that is added is named here.
#![allow(missing_docs)]

mod bits;
mod crc_by_division;
mod headers;
mod internet_headers;
mod iwarp_frames;
mod overhead;
mod standards;
mod transport_headers;
