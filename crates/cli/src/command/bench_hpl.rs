//! `fabriscope bench hpl`: HPL on a cluster; what xhpl prints.

use fabriscope_hpl::{ABOUT, NAME, OPTIONS, PROGRAM, printed, read};
use fabriscope_lab::LabError;
use fabriscope_lab::hpl::HplMachine;
use fabriscope_report::{Cell, Column, Grid, Outcome};

use crate::context::Context;
use crate::error::{Failure, Verdict};
use crate::output::{Output, OutputArgs};

/// Whether a tool of this name is HPL.
pub fn is(tool: &str) -> bool {
    tool == NAME || tool == PROGRAM
}

/// The help of the tool.
pub fn help() -> String {
    let mut text = format!("{NAME}: {ABOUT}\n\nUsage: fabriscope bench {NAME} --on CLUSTER [OPTIONS]\n\nOptions:\n");
    for (option, what) in OPTIONS {
        text.push_str(&format!("  {option:<18} {what}\n"));
    }
    text.push_str("\nNo numbers are computed: the residual stands as zero for programs that look for it.\n");
    text
}

/// Runs it.
pub fn run(
    options: &[String],
    (on, nodes): (&str, Option<u32>),
    (context, file): (&Context, &OutputArgs),
    output: &mut Output,
) -> Result<Verdict, Failure> {
    let wanted = read(options).map_err(Failure::of)?;
    if wanted.help {
        output.text(&help())?;
        return Ok(Verdict::Good);
    }
    let parts = context.cluster(on)?;
    let found = HplMachine::with(&parts, context.seed(), &wanted).map_err(Failure::of)?;
    let nodes = match nodes {
        Some(nodes) if nodes > found.nodes => {
            let message = format!("the job takes {nodes} nodes, and {} has {}", parts.name, found.nodes);
            return Err(Failure::told(message, format!("give --nodes {} or less, or another cluster", found.nodes)));
        }
        other => other.unwrap_or(found.nodes),
    };
    let machine = HplMachine { nodes, ..found };
    let run = machine.problem(&wanted).and_then(|problem| machine.run(&problem)).map_err(|error: LabError| Failure::of(error))?;
    let mut outcome = Outcome::new();
    outcome.text(printed(&run.problem, &run.times));
    let times = run.times;
    let mut grid = Grid::new([
        Column::data("unknowns"),
        Column::data("block"),
        Column::data("rows"),
        Column::data("columns"),
        Column::data("nodes"),
        Column::data("seconds"),
        Column::data("gflops"),
        Column::data("update_seconds"),
        Column::data("panel_seconds"),
        Column::data("broadcast_seconds"),
        Column::data("swap_seconds"),
        Column::data("substitution_seconds"),
        Column::data("network_share"),
    ]);
    grid.push([
        Cell::data(run.problem.unknowns),
        Cell::data(run.problem.block),
        Cell::data(run.problem.grid.rows),
        Cell::data(run.problem.grid.columns),
        Cell::data(nodes),
        Cell::data(times.total),
        Cell::data(times.rate() / 1e9),
        Cell::data(times.update),
        Cell::data(times.panel),
        Cell::data(times.broadcast),
        Cell::data(times.swap),
        Cell::data(times.substitution),
        Cell::data(run.network_share()),
    ]);
    outcome.data_table("rows", grid);
    file.write(&outcome, output)
}
