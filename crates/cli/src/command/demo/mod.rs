//! `fabriscope demo`: the hands-on exercise of a tutorial, on simulated nodes, beside what the real ones printed.

mod variants;

use fabriscope_report::compare::{Beside, beside};
use fabriscope_report::{Cell, Column, Grid, Measured, Outcome, Point};
use fabriscope_tools::Tool;
use fabriscope_units::Remedy;
use serde_json::json;

use crate::context::Context;
use crate::error::{Failure, Verdict};
use crate::output::{Output, OutputArgs};
use crate::progress::Progress;
use fabriscope_lab::launch::Launch;
use fabriscope_lab::published;

use variants::VARIANTS;

/// Runs perftest and the OSU benchmarks on two simulated nodes of RI2.
///
/// Each tool prints in its own format. Behind its rows stand the figures that the HotI 2025 tutorial published for the
/// real nodes, with the error of each point; below each table stand the errors of the table. Then come the exercises of
/// which only pictures were published: MTU, inline data, and connections against datagrams.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Run these tables only
    tables: Vec<String>,
    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "\
Examples:
  fabriscope demo
  fabriscope demo ri2-osu_bibw
  fabriscope demo ri2-mtu ri2-inline frontera-rc-ud
  fabriscope validate             the same errors, and those of the other clusters";

/// A tool with its options and the table that it is compared with.
struct Exercise {
    tool: &'static str,
    options: &'static [&'static str],
    table: &'static str,
}

const EXERCISES: [Exercise; 9] = [
    Exercise { tool: "ib_write_lat", options: &["-a"], table: "ri2-ib_write_lat" },
    Exercise { tool: "ib_send_lat", options: &["-a"], table: "ri2-ib_send_lat" },
    Exercise { tool: "ib_read_lat", options: &["-a"], table: "ri2-ib_read_lat" },
    Exercise { tool: "ib_write_bw", options: &["-a"], table: "ri2-ib_write_bw" },
    Exercise { tool: "ib_send_bw", options: &["-a"], table: "ri2-ib_send_bw" },
    Exercise { tool: "ib_read_bw", options: &["-a"], table: "ri2-ib_read_bw" },
    Exercise { tool: "osu_latency", options: &["-m", "0:32768"], table: "ri2-osu_latency" },
    Exercise { tool: "osu_bw", options: &["-m", "1:32768"], table: "ri2-osu_bw" },
    Exercise { tool: "osu_bibw", options: &["-m", "1:32768"], table: "ri2-osu_bibw" },
];
const CLUSTER: &str = "ri2";

/// Runs the command.
pub fn run(args: &Args, context: &Context, output: &mut Output) -> Result<Verdict, Failure> {
    let known: Vec<&str> = EXERCISES.iter().map(|e| e.table).chain(VARIANTS.iter().map(|e| e.name)).collect();
    if let Some(unknown) = args.tables.iter().find(|name| !known.contains(&name.as_str())) {
        return Err(Failure::told(format!("the exercise has no table `{unknown}`"), format!("its tables are {}", known.join(", "))));
    }
    let asked = |name: &str| args.tables.is_empty() || args.tables.iter().any(|table| table == name);
    let parts = context.cluster(CLUSTER)?;
    let published = published::tables()?;
    let mut outcome = Outcome::new();
    outcome.note(format!("{}: {}", parts.name, parts.title)).note("predicted by simulation, beside the published figures");
    outcome.set("cluster", parts.name.as_str());
    let mut points = Grid::new(["table", "bytes", "unit", "published", "predicted", "error_percent"].map(Column::data));
    let mut printed = Vec::new();
    for exercise in EXERCISES.iter().filter(|e| asked(e.table)) {
        let spinner = Progress::spinner(exercise.tool);
        let tool = Tool::by_name(exercise.tool).map_err(|e| Failure::told(e.in_full(), "`fabriscope bench` lists the tools"))?;
        let options: Vec<String> = exercise.options.iter().map(|o| (*o).to_owned()).collect();
        let launch = Launch { seed: context.seed(), ..Launch::new(tool, &options, &parts) };
        let (result, _) = launch.run().map_err(Failure::of)?;
        drop(spinner);
        let (rows, unit) = rows(&published, exercise.table, &result.points);
        let command = format!("fabriscope bench {} --on {CLUSTER} {}", exercise.tool, exercise.options.join(" "));
        let text = beside(&result.text, &unit, &rows);
        outcome.text(format!("\n$ {command}\n{text}"));
        for Beside { message_bytes, point } in &rows {
            let [table, unit] = [exercise.table, &unit].map(Cell::data);
            let numbers = [point.measured, point.predicted, point.error_percent()].map(Cell::data);
            points.push([table, Cell::data(*message_bytes), unit].into_iter().chain(numbers));
        }
        printed.push(json!({ "table": exercise.table, "command": command, "text": text }));
    }
    let mut ways = Vec::new();
    for exercise in VARIANTS.iter().filter(|e| asked(e.name)) {
        ways.push(exercise.run(context, &mut outcome)?);
    }
    outcome.set("exercises", printed).set("ways", ways).data_table("points", points).text("\n");
    outcome.note("next: fabriscope explain ib_write_lat --on ri2 -s 64 shows where the time goes; fabriscope validate has all tables");
    args.output.write(&outcome, output)
}

/// The published values of a table, each with the prediction of its size.
fn rows(published: &[Measured], table: &str, points: &[fabriscope_tools::Point]) -> (Vec<Beside>, String) {
    let mut unit = String::new();
    let mut rows = Vec::new();
    for row in published.iter().flat_map(Measured::rows).filter(|row| row.table == table) {
        let Some(size) = row.message_bytes else { continue };
        let same = |p: &&fabriscope_tools::Point| p.size.as_u64() == size && p.metric == row.metric && p.unit == row.unit;
        if let Some(predicted) = points.iter().find(same) {
            unit.clone_from(&row.unit);
            rows.push(Beside { message_bytes: size, point: Point { measured: row.value, predicted: predicted.value } });
        }
    }
    (rows, unit)
}
