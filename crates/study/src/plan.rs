//! The points of a study, in order, each with its values and the key of its content.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use fabriscope_catalog::{Catalog, CatalogError, ResolvedCluster};
use fabriscope_engine::Cluster;
use fabriscope_report::{Cell, Column, Holds};
use rayon::prelude::*;

use crate::bench::{self, BenchPoint, Changed};
use crate::error::StudyError;
use crate::file::Study;
use crate::key::Key;
use crate::labs::{self, LabPoint};
use crate::result::PointResult;

/// The points of a study.
pub struct Plan {
    pub(crate) title: String,
    catalog: Catalog,
    /// The catalogue with numbers changed, made when first asked for.
    altered: Mutex<BTreeMap<String, Arc<Altered>>>,
    /// Clusters that many points run on, wired once; the last few.
    wired: Mutex<Vec<(Key, Arc<Cluster>)>>,
    points: Vec<Point>,
    keys: Vec<Key>,
    /// The columns of axes that the study names itself.
    axes: Vec<String>,
}

/// A catalogue with numbers changed, made by whoever asks first.
type Altered = OnceLock<Result<Arc<Catalog>, CatalogError>>;

/// One run: a value for every axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// What is run.
    pub(crate) what: What,
    /// The values of the axes that the study names, by their column.
    pub(crate) axes: Vec<(String, String)>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum What {
    Bench(BenchPoint),
    Lab(LabPoint),
}

impl Plan {
    /// The points of `study` with their keys; files that it names are seen from `folder`.
    ///
    /// # Errors
    /// A tool that does not exist, a lab that is not there, a number that no part has, a column with a name that it cannot have.
    pub fn new(catalog: &Catalog, study: &Study, file: &str, folder: &Path) -> Result<Plan, StudyError> {
        let mut plan = Plan::bare(catalog, study, file, folder)?;
        let keys: Result<Vec<Key>, StudyError> = plan.points.par_iter().map(|point| plan.key_of(point)).collect();
        plan.keys = keys?;
        Ok(plan)
    }

    /// The same without keys, for a process that runs points of a plan that another one has.
    ///
    /// # Errors
    /// As [`Plan::new`].
    pub fn bare(catalog: &Catalog, study: &Study, file: &str, folder: &Path) -> Result<Plan, StudyError> {
        let mut points = Vec::new();
        let mut axes = Vec::new();
        for block in &study.bench {
            bench::points(block, file, folder, &mut points)?;
            axes.extend(block.change.iter().map(|change| bench::column(change, file)).collect::<Result<Vec<_>, _>>()?);
        }
        for block in &study.lab {
            labs::points(block, file, folder, &mut points)?;
            axes.extend(block.set.iter().map(|set| labs::column(set, file)).collect::<Result<Vec<_>, _>>()?);
        }
        axes.sort();
        axes.dedup();
        let wired = Mutex::default();
        let title = study.title.clone();
        Ok(Plan { title, catalog: catalog.clone(), altered: Mutex::default(), wired, points, keys: Vec::new(), axes })
    }

    /// How many points there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.points.len()
    }
    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.points.is_empty()
    }
    /// The keys of the points, in order.
    #[must_use]
    pub fn keys(&self) -> &[Key] {
        &self.keys
    }
    /// The key of the whole: that of all points, in order.
    pub(crate) fn whole_key(&self) -> Key {
        let keys: Vec<&str> = self.keys.iter().map(Key::as_str).collect();
        let columns: Vec<Vec<(String, String)>> = self.points.iter().map(|point| point.axes.clone()).collect();
        Key::of(&(keys, columns))
    }

    /// Runs a point; what cannot be run is told in the result.
    #[must_use]
    pub fn run(&self, point: usize) -> PointResult {
        match self.points.get(point).map(|point| &point.what) {
            None => PointResult::failed(format!("there is no point {point} among {}", self.len())),
            Some(What::Bench(point)) => bench::run(self, point).unwrap_or_else(PointResult::failed),
            Some(What::Lab(point)) => labs::run(&self.catalog, point).unwrap_or_else(PointResult::failed),
        }
    }

    /// The catalogue with these numbers changed.
    pub(crate) fn catalog(&self, changed: &[Changed]) -> Result<Arc<Catalog>, CatalogError> {
        let name = changed.iter().map(Changed::name).collect::<Vec<_>>().join(";");
        let place = {
            let mut altered = self.altered.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(altered.entry(name).or_default())
        };
        let made = place.get_or_init(|| {
            let alterations: Vec<_> = changed.iter().map(|changed| changed.alteration.clone()).collect();
            self.catalog.altered(&alterations).map(Arc::new)
        });
        made.clone()
    }

    /// The cluster of these parts, wired; several points share it.
    pub(crate) fn wired(&self, parts: &ResolvedCluster) -> Option<Arc<Cluster>> {
        let key = Key::of(parts);
        let find = |wired: &[(Key, Arc<Cluster>)]| wired.iter().find(|(known, _)| *known == key).map(|(_, cluster)| Arc::clone(cluster));
        if let Some(cluster) = find(&self.wired.lock().unwrap_or_else(PoisonError::into_inner)) {
            return Some(cluster);
        }
        // Two points may wire the same one at the same time, with the same result.
        let cluster = Arc::new(Cluster::new(parts.clone()).ok()?);
        let mut wired = self.wired.lock().unwrap_or_else(PoisonError::into_inner);
        if wired.len() >= SHARED {
            wired.remove(0);
        }
        wired.push((key, Arc::clone(&cluster)));
        Some(cluster)
    }

    /// The key of one point.
    ///
    /// # Errors
    /// There is no such point, and as [`Plan::new`].
    pub fn key(&self, point: usize) -> Result<Key, StudyError> {
        let missing = || StudyError::wrong("the study", format!("there is no point {point} among {}", self.len()), "take another one");
        self.points.get(point).ok_or_else(missing).and_then(|point| self.key_of(point))
    }

    fn key_of(&self, point: &Point) -> Result<Key, StudyError> {
        match &point.what {
            What::Bench(point) => bench::key(self, point),
            What::Lab(point) => labs::key(&self.catalog, point),
        }
    }

    /// The columns of the data set: what was asked, then what was found.
    pub(crate) fn columns(&self) -> Vec<Column> {
        let text = |name: &str| Column::words(name, name).of(Holds::Text);
        let whole = |name: &str| Column::number(name, name).of(Holds::Whole);
        let mut columns = vec![whole("point"), text("cluster"), text("tool"), text("lab"), text("options"), whole("nodes")];
        columns.extend([whole("ranks_per_node"), text("placement"), text("transport"), text("engine"), whole("seed"), text("size")]);
        columns.extend(self.axes.iter().map(|name| text(name)));
        columns.extend([whole("row"), whole("bytes"), text("metric"), text("unit"), Column::number("value", "value").of(Holds::Number)]);
        columns.push(text("error"));
        columns
    }

    /// The cells of a point before those of its result.
    pub(crate) fn cells(&self, number: usize) -> Vec<Cell> {
        let point = &self.points[number];
        let mut cells = vec![Cell::count(number as u64)];
        cells.extend(match &point.what {
            What::Bench(point) => point.cells(),
            What::Lab(point) => point.cells(),
        });
        for name in &self.axes {
            let value = point.axes.iter().find(|(axis, _)| axis == name).map(|(_, value)| value.clone());
            cells.push(value.map_or_else(Cell::blank, Cell::word));
        }
        cells
    }

    /// What people put points together by: the tool and the cluster, or the lab.
    pub(crate) fn group(&self, point: usize) -> String {
        match &self.points[point].what {
            What::Bench(point) => point.group(),
            What::Lab(point) => point.describe(),
        }
    }

    /// What people call a point: where, what, with which values.
    #[must_use]
    pub fn describe(&self, point: usize) -> String {
        let Some(found) = self.points.get(point) else { return String::new() };
        let what = match &found.what {
            What::Bench(point) => point.describe(),
            What::Lab(point) => point.describe(),
        };
        let axes = found.axes.iter().map(|(name, value)| format!(", {name} {value}"));
        axes.fold(what, |text, axis| text + &axis)
    }
}

/// A file that a study names, as seen from its folder.
pub(crate) fn beside(folder: &Path, name: &str) -> PathBuf {
    folder.join(name)
}

/// The name of a column for the value behind some keys: what its name says, or the last key.
pub(crate) fn column_name(given: Option<&String>, keys: &str, file: &str) -> Result<String, StudyError> {
    let name = given.cloned().unwrap_or_else(|| keys.rsplit('.').next().unwrap_or(keys).to_owned());
    let plain =
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && !name.starts_with(|c: char| c.is_ascii_digit());
    if !plain {
        return Err(StudyError::wrong(
            file,
            format!("a column cannot be called `{name}`"),
            "give it a name of letters, digits and _: name = \"rate\"",
        ));
    }
    if TAKEN.contains(&name.as_str()) {
        let help = format!("give it another name: name = \"{name}_set\"");
        return Err(StudyError::wrong(file, format!("the data set has a column `{name}` of its own"), help));
    }
    Ok(name)
}

/// Columns that every data set has.
const TAKEN: [&str; 18] = [
    "point",
    "cluster",
    "tool",
    "lab",
    "options",
    "nodes",
    "ranks_per_node",
    "placement",
    "transport",
    "engine",
    "seed",
    "size",
    "row",
    "bytes",
    "metric",
    "unit",
    "value",
    "error",
];
/// Wired clusters that are held at a time. Basis: assumed; as many as cores of a workstation run side by side would mostly share one.
const SHARED: usize = 4;
