//! What programs on a parallel file system print, what binds them, and tables of IO500 beside predictions.

use std::path::Path;

use fabriscope_catalog::{Catalog, Kind, ResolvedFileSystem};
use fabriscope_lustre::System;
use fabriscope_report::statistics::percentile;
use fabriscope_report::{Cell, Column, Grid, Measured, Outcome};
use fabriscope_storage::{Mount, Phase, StorageTool, phases, typed};
use fabriscope_units::{Bytes, Remedy};

use crate::ask::catalog;
use crate::error::Error;
use crate::on_cluster::OnCluster;

/// A program on a parallel file system: `ior`, `mdtest`, `io500`, `fio`, `lfs`, `lctl`.
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
        let files = self.files(catalog, &parts.name)?;
        let cores = parts.sole().node.cpu.cores.saturating_mul(parts.sole().node.sockets);
        let nodes = self.nodes.unwrap_or_else(|| parts.nodes().min(USUAL_CLIENTS));
        let per_node = self.per_node.unwrap_or_else(|| cores.min(USUAL_PROCESSES));
        let system = System::new(&parts, nodes, per_node, &files)?;
        Ok(Mount { system, files, cluster: parts.name.clone() })
    }
    fn files(&self, catalog: &Catalog, cluster: &str) -> Result<ResolvedFileSystem, Error> {
        let mounts = |name: &&str| catalog.file_system(name).is_ok_and(|files| files.mounted_by.iter().any(|on| on == cluster));
        match self.file_system.as_deref() {
            Some(file) if Path::new(file).extension().is_some_and(|extension| extension == "toml") => {
                let text = fabriscope_catalog::read_text(Path::new(file))?;
                let name = Path::new(file).file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
                Ok(catalog.parse_file_system(name, file, &text)?)
            }
            Some(name) => Ok(catalog.resolve_file_system(name)?),
            None => match catalog.names(Kind::FileSystem).into_iter().find(mounts) {
                Some(name) => Ok(catalog.resolve_file_system(name)?),
                None => Err(Error::Storage {
                    message: format!("`{cluster}` mounts no file system of the catalogue"),
                    help: "name one: --fs lumi-f; `fabriscope parts --kind file-systems` lists them, --fs mine.toml reads yours".to_owned(),
                }),
            },
        }
    }

    /// What the program prints, and its numbers.
    ///
    /// # Errors
    /// No such cluster or file system, a wrong command line, more processes than cores.
    pub fn outcome(&self) -> Result<Outcome, Error> {
        let mount = self.mount()?;
        let (printed, counters) = if self.counted {
            let (printed, counters) = self.tool.run_counted(&self.options, &mount)?;
            (printed, Some(counters))
        } else {
            (self.tool.run(&self.options, &mount)?, None)
        };
        let mut points = Grid::new([
            Column::number("size", "size_bytes").unit("B"),
            Column::words("metric", "metric"),
            Column::number("value", "value"),
            Column::words("unit", "unit"),
        ]);
        for point in &printed.points {
            points.push([Cell::bytes(point.size), Cell::word(point.metric), Cell::data(point.value), Cell::word(point.unit)]);
        }
        let mut outcome = Outcome::new();
        outcome
            .set("tool", self.tool.name())
            .set("options", self.options.clone())
            .set("cluster", mount.cluster.clone())
            .set("file_system", mount.files.part.name.clone())
            .set("nodes", mount.system.clients.nodes)
            .set("ranks_per_node", mount.system.clients.per_node)
            .set("osts", mount.system.osts())
            .set("mdts", mount.system.mdts())
            .set("remarks", printed.remarks)
            .data_table("points", points)
            .set("text", printed.text.clone())
            .text(printed.text);
        if let Some(counters) = counters {
            outcome.set("counters", counters);
        }
        Ok(outcome)
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
    let mut errors: Vec<(Phase, Vec<f64>)> = Phase::ALL.iter().map(|phase| (*phase, Vec::new())).collect();
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
        let hard = mount.layout(Some(-1), Some(Bytes::from_mib(1))).map_err(|error| told(&error))?;
        for result in phases(&[phase], &hard, mount)? {
            let error = (result.value / row.value - 1.0) * 100.0;
            if let Some((_, all)) = errors.iter_mut().find(|(other, _)| *other == phase) {
                all.push(error);
            }
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
    ]);
    for (phase, all) in &mut errors {
        if all.is_empty() {
            continue;
        }
        let mut sizes: Vec<f64> = all.iter().map(|error| error.abs()).collect();
        sizes.sort_by(f64::total_cmp);
        all.sort_by(f64::total_cmp);
        grid.push([
            Cell::word(phase.name()),
            Cell::count(all.len()),
            Cell::number(percentile(&sizes, 50), 1),
            Cell::number(percentile(all, 50), 1),
        ]);
    }
    let mut outcome = Outcome::new();
    if points {
        outcome.keyed_table("points", each).text("\n");
    } else {
        outcome.data_table("points", each);
    }
    outcome.keyed_table("phases", grid);
    outcome.note("each system out of its description alone; what that leaves open is the same for all (docs/storage.md)");
    Ok(outcome)
}

fn told(error: &(impl Remedy + std::fmt::Display)) -> Error {
    let (message, help) = error.halves("see --help");
    Error::Storage { message, help }
}

impl From<fabriscope_lustre::SystemError> for Error {
    fn from(error: fabriscope_lustre::SystemError) -> Error {
        told(&error)
    }
}
