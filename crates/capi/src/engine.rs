//! Which engine computes an answer.

use fabriscope_lab::EngineChoice;
use fabriscope_lab::bench::BenchEngine;

/// Which engine; `fabriscope_engine` of the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(i32)]
pub enum Engine {
    /// Packets, and rates where a collective operation is too large for these.
    Auto = 0,
    /// Every packet.
    Packet = 1,
    /// Rates of fluids.
    Flow = 2,
}

impl Engine {
    /// Every engine, in the order of the codes.
    pub const ALL: [Engine; 3] = [Engine::Auto, Engine::Packet, Engine::Flow];
}

impl From<Engine> for BenchEngine {
    fn from(engine: Engine) -> BenchEngine {
        match engine {
            Engine::Auto => BenchEngine::Auto,
            Engine::Packet => BenchEngine::Packet,
            Engine::Flow => BenchEngine::Flow,
        }
    }
}

impl From<Engine> for EngineChoice {
    fn from(engine: Engine) -> EngineChoice {
        match engine {
            Engine::Auto | Engine::Packet => EngineChoice::Packet,
            Engine::Flow => EngineChoice::Flow,
        }
    }
}
