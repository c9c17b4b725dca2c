//! What programs on a parallel file system print, what binds them, and tables of IO500 beside predictions.

use fabriscope_catalog::Catalog;
use fabriscope_report::statistics::percentile;
use fabriscope_report::{Cell, Column, Grid, Measured, Outcome};
use fabriscope_storage::{Mount, MountError, Phase, StorageNode, StorageTool, Striping, phases, typed};
use fabriscope_tools::ToolOutput;
use fabriscope_units::{Bytes, Remedy};

use crate::ask::catalog;
use crate::error::Error;
use crate::on_cluster::OnCluster;

/// A program on a parallel file system: `ior`, `mdtest`, `io500`, `fio`, `gdsio`, `lfs`, `lctl`.
#[derive(Debug, Clone)]
pub struct Storage<'c> {
    tool: StorageTool,
    on: OnCluster,
    catalog: Option<&'c Catalog>,
    file_system: Option<String>,
    nodes: Option<u32>,
    per_node: Option<u32>,
    options: Vec<String>,
    counted: bool,
}

/// Asks what a program on a parallel file system prints on clients of a cluster.
#[must_use]
pub fn storage<'c>(tool: StorageTool, on: impl Into<OnCluster>) -> Storage<'c> {
    Storage { tool, on: on.into(), catalog: None, file_system: None, nodes: None, per_node: None, options: Vec::new(), counted: false }
}

/// Clients where nothing is said. Basis: standard (IO500 has a list of ten nodes).
const USUAL_CLIENTS: u32 = 10;

impl<'c> Storage<'c> {
    /// Parts from this catalogue instead of the built-in one.
    #[must_use]
    pub fn catalog(mut self, catalog: &'c Catalog) -> Storage<'c> {
        self.catalog = Some(catalog);
        self
    }
    /// The file system: a name of the catalogue or a TOML file; the first that the cluster mounts where nothing is said.
    #[must_use]
    pub fn file_system(mut self, name: impl Into<String>) -> Storage<'c> {
        self.file_system = Some(name.into());
        self
    }
    /// Clients (default: those of `CLUSTER:N`, at most ten).
    #[must_use]
    pub fn nodes(mut self, nodes: u32) -> Storage<'c> {
        self.nodes = Some(nodes);
        self
    }
    /// Processes on each (default: 16, or the cores).
    #[must_use]
    pub fn ranks_per_node(mut self, ranks: u32) -> Storage<'c> {
        self.per_node = Some(ranks);
        self
    }
    /// The program's own options.
    #[must_use]
    pub fn args<S: Into<String>>(mut self, options: impl IntoIterator<Item = S>) -> Storage<'c> {
        self.options = options.into_iter().map(Into::into).collect();
        self
    }

    /// Adds what Lustre counted, as `lctl get_param` prints it, under `counters`; of `ior` and `mdtest`.
    #[must_use]
    pub fn counted(mut self) -> Storage<'c> {
        self.counted = true;
        self
    }

    fn mount(&self) -> Result<Mount, Error> {
        let catalog = catalog(self.catalog)?;
        let parts = self.on.resolve_alike(catalog)?;
        let cores = parts.sole().node.cpu.cores.saturating_mul(parts.sole().node.sockets);
        let nodes = self.nodes.unwrap_or_else(|| parts.nodes().min(USUAL_CLIENTS));
        let per_node = self.per_node.unwrap_or_else(|| cores.min(USUAL_PROCESSES));
        Mount::new(catalog, &parts, self.file_system.as_deref(), (nodes, per_node)).map_err(|error| match error {
            MountError::Catalog(error) => error.into(),
            other => told(&other),
        })
    }

    /// What the program prints, and its numbers.
    ///
    /// # Errors
    /// No such cluster or file system, a wrong command line, more processes than cores.
    pub fn outcome(&self) -> Result<Outcome, Error> {
        if self.tool.has_node_drives() && self.file_system.is_none() {
            return self.on_node_drives();
        }
        let mount = self.mount()?;
        let (printed, counters) = if self.counted {
            let (printed, counters) = self.tool.run_counted(&self.options, &mount)?;
            (printed, Some(counters))
        } else {
            (self.tool.run(&self.options, &mount)?, None)
        };
        let mut outcome = self.shown(&mount.cluster, Some(&mount), printed);
        if let Some(counters) = counters {
            outcome.set("counters", counters);
        }
        Ok(outcome)
    }

    /// What it printed, on a file system if there is one.
    fn shown(&self, cluster: &str, mount: Option<&Mount>, printed: ToolOutput) -> Outcome {
        let mut outcome = Outcome::new();
        outcome.set("tool", self.tool.name()).set("options", self.options.clone()).set("cluster", cluster);
        if let Some(Mount { system, files, .. }) = mount {
            outcome
                .set("file_system", files.part.name.clone())
                .set("nodes", system.clients.nodes)
                .set("ranks_per_node", system.clients.per_node)
                .set("osts", system.osts())
                .set("mdts", system.mdts());
        }
        let table = points(&printed);
        outcome.set("remarks", printed.remarks).data_table("points", table).set("text", printed.text.clone()).text(printed.text);
        outcome
    }

    /// The same on drives of a node, without a file system.
    fn on_node_drives(&self) -> Result<Outcome, Error> {
        let parts = self.on.resolve_alike(catalog(self.catalog)?)?;
        let node = StorageNode::new(&parts).map_err(|error| told(&error))?;
        let printed = fabriscope_storage::gdsio(&self.options, &node, None)?;
        Ok(self.shown(&parts.name, None, printed))
    }

    /// What binds it, client, network, server or disk, and what other stripe counts give; of `ior`.
    ///
    /// # Errors
    /// As [`Storage::outcome`]; another program than `ior`.
    pub fn explained(&self) -> Result<Outcome, Error> {
        if self.tool != StorageTool::Ior {
            let help = "explain ior; the others tell what binds in their remarks (--json)".to_owned();
            return Err(Error::Storage { message: format!("there is no explanation of {}", self.tool.name()), help });
        }
        let mount = self.mount()?;
        let explained = fabriscope_storage::explain(&self.options, &mount)?;
        let mut outcome = Outcome::new();
        outcome.text(format!("{}\n\n", mount.describe()));
        let mut shares = Grid::new([
            Column::words("direction", "direction"),
            Column::words("whose", "whose"),
            Column::words("what", "what"),
            Column::number("at work %", "at_work_percent"),
        ]);
        for (direction, whose, what, share) in &explained.shares {
            shares.push([Cell::word(*direction), Cell::word(*whose), Cell::word(*what), Cell::number(share * 100.0, 1)]);
        }
        outcome.keyed_table("shares", shares);
        for ((direction, rate), (_, binds)) in explained.rates.iter().zip(&explained.binds) {
            outcome.note(format!("{direction}: {rate:.0} MiB/s, {binds}"));
        }
        let heads = explained.rates.iter().map(|(direction, _)| {
            let (head, key) = if *direction == "write" { ("write MiB/s", "write_mib_per_s") } else { ("read MiB/s", "read_mib_per_s") };
            Column::number(head, key)
        });
        let mut stripings = Grid::new(std::iter::once(Column::number("stripe count", "stripe_count")).chain(heads));
        for (count, rates) in &explained.stripings {
            stripings.push(std::iter::once(Cell::count(*count)).chain(rates.iter().map(|rate| Cell::number(*rate, 0))));
        }
        outcome.text("\n").keyed_table("stripings", stripings);
        // The fewest stripes within a hundredth of the most that the first direction reaches.
        let best = explained.stripings.iter().filter_map(|(_, rates)| rates.first()).fold(0.0_f64, |most, rate| most.max(*rate));
        if let Some((count, _)) = explained.stripings.iter().find(|(_, rates)| rates.first().is_some_and(|rate| *rate >= best * 0.99)) {
            outcome.set("best_stripe_count", *count).note(format!("best: lfs setstripe -c {count}"));
        }
        Ok(outcome)
    }
}

fn points(printed: &ToolOutput) -> Grid {
    let mut points = Grid::new([
        Column::number("size", "size_bytes").unit("B"),
        Column::words("metric", "metric"),
        Column::number("value", "value"),
        Column::words("unit", "unit"),
    ]);
    for point in &printed.points {
        points.push([Cell::bytes(point.size), Cell::word(point.metric), Cell::data(point.value), Cell::word(point.unit)]);
    }
    points
}

/// Processes of a client where nothing is said. Basis: assumed (as many as most submissions of IO500 have).
const USUAL_PROCESSES: u32 = 16;

/// Whether a table is one of IO500, whose rows describe the hardware as submitters typed it.
#[must_use]
pub(crate) fn is_io500(table: &Measured) -> bool {
    !table.rows().is_empty() && table.rows().iter().all(|row| row.benchmark.starts_with(IO500))
}

const IO500: &str = "IO500 ";

/// Predictions beside a table of IO500: each system out of its description, errors by phase.
///
/// # Errors
/// A description that says too little, a phase that does not exist.
pub(crate) fn validate_io500(table: &Measured, catalog: &Catalog, points: bool) -> Result<Outcome, Error> {
    let mut each = Grid::new([
        Column::words("system", "system"),
        Column::words("phase", "phase"),
        Column::number("measured", "measured"),
        Column::number("predicted", "predicted"),
        Column::words("unit", "unit"),
        Column::number("error %", "error_percent"),
        Column::words("binds", "binds"),
    ]);
    let mut errors = Phase::ALL.map(|phase| (phase, [Vec::new(), Vec::new()], "-"));
    let mut mounted: Option<(String, Mount)> = None;
    for row in table.rows() {
        let name = row.benchmark.trim_start_matches(IO500);
        let phase = Phase::by_name(name).ok_or_else(|| Error::Storage {
            message: format!("{}: line {}: `{name}` is no phase of IO500", table.name(), table.line(row)),
            help: format!("the phases are {}", Phase::ALL.map(Phase::name).join(", ")),
        })?;
        if mounted.as_ref().is_none_or(|(variant, _)| *variant != row.variant) {
            let mount = typed::mount(&row.variant, catalog).map_err(|error| {
                let (message, help) = error.halves("see docs/storage.md");
                Error::Storage { message: format!("{}: line {}: {message}", table.name(), table.line(row)), help }
            })?;
            mounted = Some((row.variant.clone(), mount));
        }
        let Some((_, mount)) = &mounted else { continue };
        let striping = Striping::new(mount, -1, Bytes::from_mib(1)).map_err(|error| told(&error))?;
        let otherwise = striping.otherwise(phase, mount).map_err(|error| told(&error))?;
        let Some((_, of_phase, name)) = errors.iter_mut().find(|(other, ..)| *other == phase) else { continue };
        let error = |value: f64| (value / row.value - 1.0) * 100.0;
        if let Some((called, otherwise)) = otherwise {
            *name = called;
            of_phase[1].extend(phases(&[phase], &otherwise, mount)?.iter().map(|result| error(result.value)));
        }
        for result in phases(&[phase], &striping, mount)? {
            let error = error(result.value);
            of_phase[0].push(error);
            let system = row.variant.split(';').next().unwrap_or_default().to_owned();
            let binds = result.usage.binds().map_or("latency", |(what, _)| what.name());
            each.push([
                Cell::word(system),
                Cell::word(phase.name()),
                Cell::number(row.value, 2),
                Cell::number(result.value, 2),
                Cell::word(row.unit.clone()),
                Cell::number(error, 0),
                Cell::word(binds),
            ]);
        }
    }
    let mut grid = Grid::new([
        Column::words("phase", "phase"),
        Column::number("rows", "rows"),
        Column::number("median |error| %", "median_error_percent"),
        Column::number("bias (median) %", "bias_percent"),
        Column::words("otherwise", "otherwise"),
        Column::number("median |error| %", "otherwise_median_error_percent"),
        Column::number("bias (median) %", "otherwise_bias_percent"),
    ]);
    let medians = |all: &mut Vec<f64>| {
        let mut sizes: Vec<f64> = all.iter().map(|error| error.abs()).collect();
        sizes.sort_by(f64::total_cmp);
        all.sort_by(f64::total_cmp);
        match all.as_slice() {
            [] => [Cell::none(), Cell::none()],
            all => [sizes.as_slice(), all].map(|of| Cell::number(percentile(of, 50), 1)),
        }
    };
    for (phase, [all, otherwise], name) in &mut errors {
        if all.is_empty() {
            continue;
        }
        let [error, bias] = medians(all);
        let [error_otherwise, bias_otherwise] = medians(otherwise);
        grid.push([Cell::word(phase.name()), Cell::count(all.len()), error, bias, Cell::word(*name), error_otherwise, bias_otherwise]);
    }
    let mut outcome = Outcome::new();
    if points {
        outcome.keyed_table("points", each).text("\n");
    } else {
        outcome.data_table("points", each);
    }
    outcome.keyed_table("phases", grid);
    outcome.note("each system out of its description alone; what that leaves open is the same for all (docs/storage.md)");
    outcome.note("directories as the release places them, the file of ior-hard on all OSTs; otherwise as that column says");
    Ok(outcome)
}

fn told(error: &(impl Remedy + std::fmt::Display)) -> Error {
    let (message, help) = error.halves("see --help");
    Error::Storage { message, help }
}
