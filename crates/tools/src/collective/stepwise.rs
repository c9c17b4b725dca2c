//! A collective benchmark as data: what its ranks call in which order, for engines that run no programs.
//!
//! Modelled: blocking operations on data of hosts that ranks carry out in rounds, with the tool's iterations and what is between them.
//! Not modelled, and refused: computation beside operations, data of GPUs, switches that reduce, multicast, workers on adapters.

use std::sync::Arc;

use fabriscope_collectives::{Algorithm, Call};
use fabriscope_mpi::{Buffer, Packing};
use fabriscope_platform::Target;
use fabriscope_tool::{Rows, ToolOutput, UsageError, mpi_for};
use fabriscope_units::Span;

use super::contents;
use super::measure::{Mean, Report, runs};
use super::plan::{Form, Implementation, Plan};

/// One row of the table.
#[derive(Debug, Clone)]
pub struct StepwiseRow {
    /// What is called.
    pub call: Call,
    /// How it is carried out.
    pub algorithm: Algorithm,
    /// Iterations before those that are measured.
    pub warm_up: u32,
    /// Those that are.
    pub iterations: u32,
}

/// What stands between two iterations.
#[derive(Debug, Clone)]
pub enum Between {
    /// Nothing.
    Nothing,
    /// All ranks wait for each other out of band.
    Meeting,
    /// A barrier of the library.
    Barrier(Call, Algorithm),
}

/// A benchmark whose ranks do the same operations one after the other.
#[derive(Clone)]
pub struct Stepwise {
    /// The rows, in order.
    pub rows: Vec<StepwiseRow>,
    /// What stands between two iterations.
    pub between: Between,
    /// What collecting blocks costs.
    pub packing: Packing,
    plan: Plan,
    ways: Vec<(Call, Implementation)>,
    report: Arc<Report>,
    listened: Rows,
}

impl Stepwise {
    /// The benchmark of a plan; or what of it no engine but that of packets can do.
    pub(super) fn of(tool: &str, plan: Plan, target: &Target, report: Report) -> Result<Result<Stepwise, String>, UsageError> {
        let mpi = mpi_for(tool, target)?;
        plan.check(target)?;
        if plan.form != Form::Blocking {
            return Ok(Err("computation beside operations".to_owned()));
        }
        if plan.buffers.sender != Buffer::Host || plan.buffers.receiver != Buffer::Host {
            return Ok(Err("data of GPUs".to_owned()));
        }
        if plan.offloaded(tool, mpi, target)?.is_some() {
            return Ok(Err("workers on adapters".to_owned()));
        }
        let ways = plan.choices(tool, mpi, target)?.each;
        if plan.validate {
            contents::check(tool, &ways)?;
        }
        let mut rows = Vec::with_capacity(ways.len());
        for (call, way) in &ways {
            let Implementation::Rounds(algorithm) = way else { return Ok(Err("datagrams to groups".to_owned())) };
            if algorithm.is_in_network() {
                return Ok(Err("switches that reduce".to_owned()));
            }
            let iterations = plan.iterations(way, call);
            rows.push(StepwiseRow { call: *call, algorithm: algorithm.clone(), warm_up: plan.warm_up(iterations), iterations });
        }
        let between = match plan.barrier(tool, mpi, target) {
            _ if !plan.separate => Between::Nothing,
            Some((call, algorithm)) => Between::Barrier(call, algorithm),
            None => Between::Meeting,
        };
        let listened = Rows::default();
        Ok(Ok(Stepwise { rows, between, packing: Packing::from(mpi), plan, ways, report: Arc::new(report), listened }))
    }

    /// Where a listener hears of rows as they are done.
    #[must_use]
    pub fn listened(&self) -> &Rows {
        &self.listened
    }

    /// What the tool prints when the first rows are done: of each the means of all ranks.
    #[must_use]
    pub fn printed(&self, means: &[Vec<Span>]) -> ToolOutput {
        let of_row = |(row, means): (&StepwiseRow, &Vec<Span>)| {
            means.iter().map(|mean| Mean { overall: *mean, iterations: row.iterations, ..Mean::default() }).collect()
        };
        let results: Vec<_> = self.rows.iter().zip(means).map(of_row).collect();
        let output = (self.report)(&self.plan, &results);
        self.listened.tell((means.len(), self.rows.len()), || output.text.clone());
        let ways = self.ways.iter().map(|(call, way)| (call.size.0, way));
        ToolOutput { remarks: runs(self.plan.operation, ways), ..output }
    }
}
