//! The parts of the exercise that run one benchmark in several ways: MTU, inline data, connections against datagrams.
//!
//! Source: the HotI 2025 tutorial's scripts `run_mtu.sh`, `run_inline.sh` and `run_rc_ud.sh`; it shows their results as pictures, without numbers.

use fabriscope_lab::bench::{BenchRequest, Stack};
use fabriscope_report::{Cell, Column, Grid, Outcome};
use serde_json::json;

use crate::context::Context;
use crate::error::Failure;
use crate::progress::Progress;

/// What a column is called, its options, its transport.
type Variant = (&'static str, &'static [&'static str], Option<&'static str>);

/// A benchmark in several ways.
pub(super) struct Variants {
    pub name: &'static str,
    /// What there is to see.
    lesson: &'static str,
    cluster: &'static str,
    tool: &'static str,
    /// Nodes and ranks on each, for benchmarks of many ranks.
    jobs: &'static [(u32, u32)],
    /// Options of each run: a size each.
    sizes: &'static [&'static [&'static str]],
    ways: &'static [Variant],
    metric: &'static str,
    decimals: usize,
}

pub(super) const VARIANTS: [Variants; 3] = [
    Variants {
        name: "ri2-mtu",
        lesson: "every packet has headers and work of its own: small ones take from the bandwidth",
        cluster: "ri2",
        tool: "ib_read_bw",
        jobs: &[],
        sizes: &[&["-s", "256", "-n", "200"], &["-s", "4096", "-n", "200"], &["-s", "65536", "-n", "200"], &["-s", "1048576", "-n", "50"]],
        ways: &[("MTU 256 B", &["-m", "256"], None), ("MTU 4096 B", &["-m", "4096"], None)],
        metric: "bandwidth",
        decimals: 1,
    },
    Variants {
        name: "ri2-inline",
        lesson: "what travels within the work request need not be read from memory",
        cluster: "ri2",
        tool: "ib_write_lat",
        jobs: &[],
        sizes: &[&["-s", "2", "-n", "100"], &["-s", "32", "-n", "100"], &["-s", "128", "-n", "100"], &["-s", "256", "-n", "100"]],
        ways: &[("inline 0 B", &["-I", "0"], None), ("inline 128 B", &["-I", "128"], None)],
        metric: "latency",
        decimals: 2,
    },
    Variants {
        name: "frontera-rc-ud",
        lesson: "connections are ahead while their contexts fit into the adapter, datagrams when they do not",
        cluster: "frontera",
        tool: "osu_alltoallv",
        jobs: &[(2, 56), (4, 56)],
        sizes: &[&["-m", "4:8", "-i", "2", "-x", "1"]],
        ways: &[("RC", &[], Some("rc")), ("UD", &[], Some("ud"))],
        metric: "latency",
        decimals: 2,
    },
];

/// A size, its unit and its value.
type Measured = (u64, &'static str, f64);

impl Variants {
    /// Runs them all and puts them beside each other.
    pub fn run(&self, context: &Context, outcome: &mut Outcome) -> Result<serde_json::Value, Failure> {
        let spinner = Progress::spinner(self.name);
        let jobs: Vec<Option<(u32, u32)>> = if self.jobs.is_empty() { vec![None] } else { self.jobs.iter().copied().map(Some).collect() };
        let mut commands = Vec::new();
        let mut rows: Vec<(Option<u32>, Vec<Measured>)> = Vec::new();
        for (job, size) in jobs.iter().flat_map(|job| self.sizes.iter().map(move |size| (*job, *size))) {
            let columns: Vec<_> =
                self.ways.iter().map(|way| self.measure(context, job, size, way, &mut commands)).collect::<Result<_, _>>()?;
            let processes = job.map(|(nodes, per_node)| nodes * per_node);
            let lengths = columns.iter().map(Vec::len).min().unwrap_or(0);
            rows.extend((0..lengths).map(|at| (processes, columns.iter().map(|column| column[at]).collect())));
        }
        drop(spinner);
        let unit = rows.first().and_then(|(_, row)| row.first()).map_or("", |(_, unit, _)| unit);
        let first = (!self.jobs.is_empty()).then(|| Column::number("processes", "processes"));
        let ways = self.ways.iter().map(|(name, ..)| Column::number(&format!("{name} ({unit})"), name));
        let mut grid = Grid::new(first.into_iter().chain([Column::number("bytes", "bytes")]).chain(ways));
        for (processes, row) in &rows {
            let numbers = row.iter().map(|(_, _, value)| Cell::number(*value, self.decimals));
            grid.push(
                processes.map(|processes| Cell::word(processes.to_string())).into_iter().chain([Cell::count(row[0].0)]).chain(numbers),
            );
        }
        outcome.text(format!("\n$ {}\n# {}\n", commands.join("\n$ "), self.lesson)).table(grid.named(self.name));
        Ok(json!({ "table": self.name, "commands": commands, "unit": unit }))
    }

    /// One run: what it measured, by size; its command line is added to `commands`.
    fn measure(
        &self,
        context: &Context,
        job: Option<(u32, u32)>,
        size: &[&str],
        (_, more, transport): &Variant,
        commands: &mut Vec<String>,
    ) -> Result<Vec<Measured>, Failure> {
        let mut request = BenchRequest::named(self.tool)?;
        request.options = size.iter().chain(*more).map(|option| (*option).to_owned()).collect();
        request.seed = context.seed();
        (request.nodes, request.per_node) = job.unzip();
        if let Some(transport) = transport {
            request.stack = Stack::parse(transport)?;
        }
        commands.push(command(self, job, &request.options, *transport));
        let run = request.set_up(context.catalog()?, context.cluster(self.cluster)?)?.run()?;
        let points = run.printed.points.iter().filter(|point| point.metric == self.metric);
        Ok(points.map(|point| (point.size.as_u64(), point.unit, point.value)).collect())
    }
}

/// The command line of one run.
fn command(of: &Variants, job: Option<(u32, u32)>, options: &[String], transport: Option<&str>) -> String {
    let mut text = format!("fabriscope bench {} --on {}", of.tool, of.cluster);
    if let Some((nodes, per_node)) = job {
        text += &format!(" --nodes {nodes} --ppn {per_node}");
    }
    if let Some(transport) = transport {
        text += &format!(" --transport {transport}");
    }
    text + " " + &options.join(" ")
}
