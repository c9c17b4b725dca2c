//! An iWARP adapter for tests.

use fabriscope_tcp::{Algorithm, Config};
use fabriscope_units::Span;
use fabriscope_verbs::iwarp::Settings;
use fabriscope_wire::Mpa;

/// Segments of 300 B, timeouts of 50 us, seven repetitions in a row.
pub fn iwarp() -> Settings {
    let tcp = Config {
        mss: 300,
        algorithm: Algorithm::NewReno,
        timestamps: false,
        quick_acks: u32::MAX,
        min_rto: Span::from_us(50),
        retries: 7,
        ..Config::default()
    };
    Settings { mpa: Mpa::default(), tcp }
}
