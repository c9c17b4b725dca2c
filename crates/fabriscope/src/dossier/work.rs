//! What all sections of a report share, and benchmarks that they run.

use fabriscope_catalog::{Catalog, ResolvedCluster};
use fabriscope_lab::bench::{BenchEngine, BenchRequest, BenchRun};
use fabriscope_report::Outcome;

use super::bill::Prices;
use super::design::Design;

/// What all sections share.
pub(super) struct Work<'a> {
    pub catalog: &'a Catalog,
    pub seed: u64,
    /// The seed that the reader gave.
    pub given: Option<u64>,
    pub prices: Option<&'a Prices>,
    pub progress: &'a dyn Fn(usize, usize),
}

impl Work<'_> {
    /// Runs a benchmark; or why it does not run there.
    pub fn bench(
        &self,
        parts: &ResolvedCluster,
        line: &str,
        nodes: Option<u32>,
        per_node: Option<u32>,
        engine: BenchEngine,
    ) -> Result<BenchRun, String> {
        let mut words = line.split(' ').map(str::to_owned);
        let request = BenchRequest::named(&words.next().unwrap_or_default()).map_err(|error| error.to_string())?;
        let request = BenchRequest { options: words.collect(), nodes, per_node, engine, seed: self.seed, ..request };
        let setup = request.set_up(self.catalog, parts.clone()).map_err(|error| error.to_string())?;
        setup.run().map_err(|error| error.to_string())
    }

    /// The same as an outcome with its figure.
    pub fn drawn(&self, design: &Design, line: &str, nodes: Option<u32>) -> Result<Outcome, String> {
        let done = self.bench(&design.parts, line, nodes, None, BenchEngine::Auto)?;
        crate::picture::drawn(self.catalog, &done).map_err(|error| error.to_string())
    }
}
