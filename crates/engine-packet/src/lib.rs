//! engine-packet
