//! Points that are benchmarks: the product of a block, the job of a point, its key and its run.

use std::path::Path;

use fabriscope_catalog::{Alteration, Basis, ClusterSource, Kind, Target};
use fabriscope_lab::bench::{BenchEngine, BenchRequest, BenchSetup, Stack, placement};
use fabriscope_lab::prediction::size_options;
use fabriscope_report::Cell;
use fabriscope_tools::Tool;
use fabriscope_units::{Bytes, Remedy};

use crate::column::{Axes, beside, column_name};
use crate::error::StudyError;
use crate::file::{BenchBlock, Change};
use crate::key::Key;
use crate::machines::{Changed, Machines};
use crate::result::PointResult;

/// A benchmark with one value for everything.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BenchPoint {
    cluster: String,
    /// The same as seen from the folder of the process.
    target: String,
    tool: String,
    options: String,
    size: Option<Bytes>,
    nodes: Option<u32>,
    ranks_per_node: Option<u32>,
    placement: Option<String>,
    transport: Option<String>,
    engine: Option<String>,
    seed: u64,
    changed: Vec<Changed>,
}

/// The column of a change.
pub fn column(change: &Change, file: &str) -> Result<String, StudyError> {
    column_name(change.name.as_ref(), &change.number, file)
}

/// The points of a block, the sizes innermost.
pub fn points(block: &BenchBlock, file: &str, folder: &Path) -> Result<Vec<(BenchPoint, Axes)>, StudyError> {
    for tool in &block.tools {
        Tool::by_name(tool).map_err(|error| StudyError::wrong(file, error.in_full(), "`fabriscope bench` lists the tools"))?;
    }
    let sizes = block.sizes.iter().map(|text| size(text, file)).collect::<Result<Vec<Bytes>, _>>()?;
    let clusters: Vec<(String, String)> = block.clusters.iter().map(|cluster| (cluster.clone(), seen_from(folder, cluster))).collect();
    // A block without a tool or a cluster has no points.
    if block.tools.is_empty() || clusters.is_empty() {
        return Ok(Vec::new());
    }
    let mut found = vec![(BenchPoint { seed: 1, ..BenchPoint::default() }, Axes::new())];
    each(&mut found, &clusters, |(point, _), (name, target)| (point.cluster, point.target) = (name.clone(), target.clone()));
    each(&mut found, &block.tools, |(point, _), tool| point.tool.clone_from(tool));
    each(&mut found, &block.options, |(point, _), options| point.options.clone_from(options));
    each(&mut found, &block.nodes, |(point, _), nodes| point.nodes = Some(*nodes));
    each(&mut found, &block.ranks_per_node, |(point, _), ranks| point.ranks_per_node = Some(*ranks));
    each(&mut found, &block.placement, |(point, _), word| point.placement = Some(word.clone()));
    each(&mut found, &block.transport, |(point, _), word| point.transport = Some(word.clone()));
    each(&mut found, &block.engine, |(point, _), word| point.engine = Some(word.clone()));
    for change in &block.change {
        let column = column(change, file)?;
        each(&mut found, &changed(change, file)?, |(point, axes), value| {
            point.changed.push(value.clone());
            axes.push((column.clone(), value.alteration.value.clone()));
        });
    }
    each(&mut found, &block.seeds, |(point, _), seed| point.seed = *seed);
    each(&mut found, &sizes, |(point, _), size| point.size = Some(*size));
    Ok(found)
}

/// Every point once for each value; without values, as it is.
fn each<P: Clone, T>(points: &mut Vec<P>, values: &[T], set: impl Fn(&mut P, &T)) {
    if values.is_empty() {
        return;
    }
    let one = |point: &P, value: &T| {
        let mut point = point.clone();
        set(&mut point, value);
        point
    };
    *points = points.iter().flat_map(|point| values.iter().map(|value| one(point, value)).collect::<Vec<_>>()).collect();
}

/// The values of a change.
fn changed(change: &Change, file: &str) -> Result<Vec<Changed>, StudyError> {
    let help = "write the kind and the name as they stand in the catalogue: part = \"nics/connectx-6\"";
    let refused = || StudyError::wrong(file, format!("`{}` names no part", change.part), help);
    let (folder, part) = change.part.split_once('/').ok_or_else(refused)?;
    let kind = Kind::of_folder(folder).ok_or_else(refused)?;
    let one = |value: &String| Changed {
        alteration: Alteration {
            kind,
            part: part.to_owned(),
            field: change.number.clone(),
            value: value.clone(),
            basis: Basis::Assumed,
            because: format!("an axis of {file}"),
        },
    };
    Ok(change.values.iter().map(one).collect())
}

/// A cluster in a file is a path as seen from the study.
fn seen_from(folder: &Path, cluster: &str) -> String {
    match Target::parse(cluster) {
        Ok(Target { place: ClusterSource::File(path), .. }) => {
            let rest = cluster.strip_prefix(&path.display().to_string()).unwrap_or_default();
            format!("{}{rest}", beside(folder, &path.display().to_string()).display())
        }
        _ => cluster.to_owned(),
    }
}

fn size(text: &str, file: &str) -> Result<Bytes, StudyError> {
    Bytes::parse(text)
        .map_err(|error| StudyError::wrong(file, error.to_string(), error.remedy().unwrap_or_else(|| "write it as 64 KiB".to_owned())))
}

impl BenchPoint {
    /// The job on its cluster.
    fn set_up(&self, machines: &Machines) -> Result<BenchSetup, String> {
        let told = |error: &dyn miette::Diagnostic| in_full(error);
        let catalog = machines.catalog(&self.changed).map_err(|error| told(&error))?;
        let parts = catalog.target(&self.target).map_err(|error| told(&error))?;
        let request = BenchRequest::named(&self.tool).map_err(|error| told(&error))?;
        let mut options: Vec<String> = self.options.split_whitespace().map(str::to_owned).collect();
        if let Some(size) = self.size {
            options.extend(size_options(request.tool.name(), request.tool.traits().sizes, size)?);
        }
        let request = BenchRequest {
            options,
            nodes: self.nodes,
            per_node: self.ranks_per_node,
            placement: self.placement.as_deref().map(placement).transpose().map_err(|error| told(&error))?,
            stack: self.transport.as_deref().map(Stack::parse).transpose().map_err(|error| told(&error))?.unwrap_or_default(),
            engine: self.engine.as_deref().map(BenchEngine::parse).transpose().map_err(|error| told(&error))?.unwrap_or_default(),
            seed: self.seed,
            ..request
        };
        request.set_up(&catalog, parts).map_err(|error| told(&error))
    }

    /// The tool and where it runs.
    pub fn group(&self) -> String {
        format!("{} on {}", self.tool, self.cluster)
    }

    /// What people call it.
    pub fn describe(&self) -> String {
        self.size.map_or_else(|| self.group(), |size| format!("{}, {size}", self.group()))
    }

    /// Its cells, from the cluster to the size.
    pub fn cells(&self) -> Vec<Cell> {
        let word = |word: &Option<String>| word.clone().map_or_else(Cell::blank, Cell::word);
        let count = |count: Option<u32>| count.map_or_else(Cell::blank, Cell::count);
        vec![
            Cell::word(self.cluster.clone()),
            Cell::word(self.tool.clone()),
            Cell::blank(),
            Cell::word(self.options.clone()),
            count(self.nodes),
            count(self.ranks_per_node),
            word(&self.placement),
            word(&self.transport),
            word(&self.engine),
            Cell::count(self.seed),
            self.size.map_or_else(Cell::blank, |size| Cell::word(size.to_string())),
        ]
    }
}

/// The key of a point: the parts with all their numbers, the options and the job. What cannot be set up is what it says.
///
/// # Errors
/// A change of a number that no part has.
pub fn key(machines: &Machines, point: &BenchPoint) -> Result<Key, StudyError> {
    machines.catalog(&point.changed)?;
    let job = (&point.tool, &point.options, point.size.map(|size| size.0), point.nodes, point.ranks_per_node);
    let how = (&point.placement, &point.transport, &point.engine, point.seed);
    Ok(match point.set_up(machines) {
        Ok(setup) => Key::of(&("bench", setup.parts(), job, how)),
        Err(refused) => Key::of(&("refused", refused, &point.target, job, how)),
    })
}

/// Runs a point, on a cluster that is shared with points alike.
pub fn run(machines: &Machines, point: &BenchPoint) -> Result<PointResult, String> {
    let setup = point.set_up(machines)?;
    let cluster = machines.wired(setup.parts());
    let done = setup.run_on(cluster.as_deref()).map_err(|error| in_full(&error))?;
    Ok(PointResult::of_bench(&done.outcome()))
}

/// An error with its remedy, in a line.
pub fn in_full(error: &dyn miette::Diagnostic) -> String {
    let text = error.to_string();
    match error.help() {
        Some(help) if !text.contains(&help.to_string()) => format!("{text}: {help}"),
        _ => text,
    }
}
