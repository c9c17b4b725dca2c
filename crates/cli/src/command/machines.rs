//! `fabriscope machines`: the machines of the lists, what HPL reaches on them, and what of it is the network.

use fabriscope_lab::machines::{self, Collectives, MachineRow, SIZES};
use fabriscope_report::statistics::percentile;
use fabriscope_report::{Cell, Column, Grid, Outcome};
use fabriscope_units::{Bytes, Remedy};

use crate::context::Context;
use crate::error::{Failure, Verdict};
use crate::output::{Output, OutputArgs};

/// Lists the machines of the TOP500 that the catalogue has: parts, fabric, HPL beside what was published, the network's share of it.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// One machine in detail
    name: Option<String>,
    /// Run osu_allreduce and osu_alltoall on all nodes, as flows
    #[arg(long)]
    run: bool,
    /// Their sizes (default: 8 B and 1 MiB)
    #[arg(long, value_name = "BYTES", value_delimiter = ',', requires = "run")]
    sizes: Vec<String>,
    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "\
Examples:
  fabriscope machines                        all of them, the largest first
  fabriscope machines frontier               one in detail: what of HPL is what, what is assumed
  fabriscope machines frontier --run --sizes 8,64KiB    with collectives on all nodes
  fabriscope machines -o machines.csv        as a table for other programs";

/// Runs the command.
pub fn run(args: &Args, context: &Context, output: &mut Output) -> Result<Verdict, Failure> {
    let catalog = context.catalog()?;
    let sizes = args.sizes.iter().map(|size| self::size(size)).collect::<Result<Vec<Bytes>, Failure>>()?;
    let sizes = if sizes.is_empty() { SIZES.to_vec() } else { sizes };
    let mut outcome = Outcome::new();
    let rows = match &args.name {
        Some(name) => {
            let row = machines::one(catalog, name, context.seed()).map_err(Failure::of)?;
            outcome.text(detail(&row));
            vec![row]
        }
        None => machines::all(catalog, context.seed()).map_err(Failure::of)?,
    };
    outcome.list(table(&rows));
    if let Some(summary) = summary(&rows) {
        outcome.text("\n").note(summary);
    }
    if args.run {
        let mut grid = collectives_grid();
        for row in &rows {
            let found = machines::collectives(catalog, &row.name, &sizes, context.seed()).map_err(Failure::of)?;
            found.iter().for_each(|one| push(&mut grid, &row.name, one));
        }
        outcome.text("\n").list(grid.named("collectives"));
    }
    args.output.write(&outcome, output)
}

fn size(text: &str) -> Result<Bytes, Failure> {
    let read = text.parse::<u64>().map(Bytes).or_else(|_| Bytes::parse(text));
    read.map_err(|error| {
        let (message, help) = error.halves("write sizes as 8,1024 or 64KiB");
        Failure::told(message, help)
    })
}

fn table(rows: &[MachineRow]) -> Grid {
    let mut grid = Grid::new([
        Column::words("machine", "name"),
        Column::number("nodes", "nodes"),
        Column::words("processor", "processor"),
        Column::shown("adapters").left(),
        Column::number("Gb/s", "adapter_gbps"),
        Column::words("topology", "topology"),
        Column::number("bisection", "bisection_share"),
        Column::number("nodes", "hpl_nodes"),
        Column::number("N", "unknowns"),
        Column::number("HPL (PF)", "hpl_pflops").unit("PFLOP/s"),
        Column::number("listed (PF)", "listed_pflops").unit("PFLOP/s"),
        Column::number("of peak", "of_listed_peak"),
        Column::number("listed", "listed_of_peak"),
        Column::number("points off", "points_off"),
        Column::number("network", "network_share"),
        Column::words("list", "list"),
        Column::data("nics"),
        Column::data("nic"),
        Column::data("gpus"),
        Column::data("rank"),
        Column::data("title"),
        Column::data("assumed"),
        Column::data("notes"),
    ]);
    let share = |share: Option<f64>, decimals| share.map_or_else(Cell::none, |share| Cell::number(share, decimals));
    for row in rows {
        let run = row.hpl.as_ref().ok();
        let of_peak = row.of_peak();
        grid.push([
            Cell::word(row.name.clone()),
            Cell::count(row.nodes),
            Cell::word(if row.gpus > 0 { format!("{} x {}", row.gpus, row.processor) } else { row.processor.clone() }),
            Cell::word(format!("{} x {}", row.nics, row.nic)),
            Cell::number(row.rate.as_bps() as f64 / 1e9, 0),
            Cell::word(row.topology.clone()),
            share(row.bisection, 2),
            Cell::count(row.hpl_nodes),
            run.map_or_else(Cell::none, |run| Cell::count(run.problem.unknowns)),
            share(row.predicted().map(|rate| rate / 1e15), 2),
            share(row.published().map(|rate| rate / 1e15), 2),
            share(of_peak.map(|(predicted, _)| predicted), 3),
            share(of_peak.map(|(_, published)| published), 3),
            row.points_off().map_or_else(Cell::none, |points| Cell::told(format!("{points:+.1}"), rounded(points))),
            share(run.map(fabriscope_lab::hpl::HplRun::network_share), 3),
            Cell::word(row.listed.list.clone()),
            Cell::data(row.nics),
            Cell::data(row.nic.clone()),
            Cell::data(row.gpus),
            Cell::data(row.listed.rank),
            Cell::data(row.title.clone()),
            Cell::data(row.assumed.join(". ")),
            Cell::data(row.notes.clone()),
        ]);
    }
    grid.named("machines")
}

fn rounded(points: f64) -> f64 {
    (points * 10.0).round() / 10.0
}

/// How far the predictions are off, at the median.
fn summary(rows: &[MachineRow]) -> Option<String> {
    let mut off: Vec<f64> = rows.iter().filter_map(MachineRow::points_off).map(f64::abs).collect();
    if off.len() < 2 {
        return None;
    }
    off.sort_by(f64::total_cmp);
    let (median, worst) = (percentile(&off, 50), off[off.len() - 1]);
    Some(format!("{} machines with a listed peak: {median:.1} points of it off at the median, {worst:.1} at most", off.len()))
}

fn detail(row: &MachineRow) -> String {
    let mut text = format!("{}\n{}\n\n", row.title, row.notes);
    match &row.hpl {
        Err(error) => text.push_str(&format!("HPL did not run: {error}\n")),
        Ok(run) => {
            let (problem, times) = (run.problem, run.times);
            text.push_str(&format!(
                "HPL of N = {} in panels of {} on {} x {} processes of {} nodes takes {:.0} s\n",
                problem.unknowns, problem.block, problem.grid.rows, problem.grid.columns, row.hpl_nodes, times.total
            ));
            let parts = [
                ("update", times.update),
                ("panels that nothing hides", times.panel),
                ("broadcasts that nothing hides", times.broadcast),
                ("swaps that nothing hides", times.swap),
                ("substitution", times.substitution),
            ];
            for (what, seconds) in parts {
                text.push_str(&format!("  {what:<30} {:>6.2} %\n", seconds / times.total * 100.0));
            }
            text.push_str(&format!("  {:<30} {:>6.2} %\n", "the network, as it would save", run.network_share() * 100.0));
            if let Some(peak) = row.peak {
                text.push_str(&format!("  {:.3} of the {:.1} PFLOP/s of the parts' datasheets\n", times.rate() / peak, peak / 1e15));
            }
        }
    }
    for line in &row.assumed {
        text.push_str(&format!("assumed: {line}\n"));
    }
    text.push('\n');
    text
}

fn collectives_grid() -> Grid {
    Grid::new([
        Column::words("machine", "name"),
        Column::words("benchmark", "benchmark"),
        Column::number("ranks", "ranks"),
        Column::number("size (B)", "size_bytes").unit("B"),
        Column::words("algorithm", "algorithm"),
        Column::number("time (us)", "time_us").unit("us"),
        Column::words("why not", "reason"),
    ])
}

fn push(grid: &mut Grid, name: &str, one: &Collectives) {
    grid.push([
        Cell::word(name),
        Cell::word(one.tool),
        Cell::count(one.ranks),
        Cell::bytes(one.size),
        Cell::word(one.algorithm.clone()),
        Cell::us_or_none(one.time.as_ref().ok().copied()),
        one.time.as_ref().err().map_or_else(Cell::none, |why| Cell::word(why.clone())),
    ]);
}
