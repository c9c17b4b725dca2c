//! Points that are experiment files: the product of a block, the key of a point and its run.

use std::path::{Path, PathBuf};

use fabriscope_catalog::Catalog;
use fabriscope_lab::run::RunSettings;
use fabriscope_lab::{ResolvedLab, Workload, load_under};
use fabriscope_report::Cell;

use crate::bench::in_full;
use crate::column::{Axes, beside, column_name};
use crate::error::StudyError;
use crate::file::{LabBlock, Set};
use crate::key::Key;
use crate::result::PointResult;

/// A lab with one value for everything.
#[derive(Debug, Clone, PartialEq)]
pub struct LabPoint {
    file: String,
    path: PathBuf,
    seed: Option<u64>,
    /// What lies over the file, as TOML.
    over: String,
}

/// The column of a key that is set.
pub fn column(set: &Set, file: &str) -> Result<String, StudyError> {
    column_name(set.name.as_ref(), &set.key, file)
}

/// The points of a block, the seeds innermost.
pub fn points(block: &LabBlock, file: &str, folder: &Path) -> Result<Vec<(LabPoint, Axes)>, StudyError> {
    let mut points = Vec::new();
    for name in &block.files {
        let lab = LabPoint { file: name.clone(), path: beside(folder, name), seed: None, over: String::new() };
        let mut found = vec![(lab, Axes::new())];
        for set in &block.set {
            let column = column(set, file)?;
            let with = |(lab, axes): &(LabPoint, Axes), value: &toml::Value| {
                let (mut lab, mut axes) = (lab.clone(), axes.clone());
                lab.over += &format!("{} = {value}\n", set.key);
                axes.push((column.clone(), value.as_str().map_or_else(|| value.to_string(), str::to_owned)));
                (lab, axes)
            };
            found = found.iter().flat_map(|point| set.values.iter().map(|value| with(point, value)).collect::<Vec<_>>()).collect();
        }
        let seeds: Vec<Option<u64>> = if block.seeds.is_empty() { vec![None] } else { block.seeds.iter().copied().map(Some).collect() };
        for (lab, axes) in found {
            points.extend(seeds.iter().map(|seed| (LabPoint { seed: *seed, ..lab.clone() }, axes.clone())));
        }
    }
    Ok(points)
}

impl LabPoint {
    fn load(&self, catalog: &Catalog) -> Result<ResolvedLab, String> {
        load_under(catalog, &self.path, &self.over).map_err(|error| in_full(&error))
    }

    /// What people call it.
    pub fn describe(&self) -> String {
        self.file.clone()
    }

    /// Its cells, from the cluster to the size.
    pub fn cells(&self) -> Vec<Cell> {
        let mut cells = vec![Cell::blank(); 11];
        cells[2] = Cell::word(self.file.clone());
        cells[9] = self.seed.map_or_else(Cell::blank, Cell::count);
        cells
    }
}

/// The key of a point: the lab as it was read, with the cluster and all its parts, and files that it names. What cannot be read is what it says.
///
/// # Errors
/// A lab whose file does not exist.
pub fn key(catalog: &Catalog, point: &LabPoint) -> Result<Key, StudyError> {
    if !point.path.is_file() {
        let help = "name a lab as seen from the study";
        return Err(StudyError::wrong(&point.file, "there is no such lab", help));
    }
    Ok(match point.load(catalog) {
        Ok(lab) => {
            let replayed = match &lab.lab.workload {
                Workload::Capture(capture) => std::fs::read(&capture.file).unwrap_or_default(),
                _ => Vec::new(),
            };
            // Libraries of jobs and sizes of flows are no part of the lab's JSON.
            let more = (format!("{:?}", lab.libraries), format!("{:?}", lab.lab.workload), replayed);
            Key::of(&("lab", &lab, point.seed, more))
        }
        Err(refused) => Key::of(&("refused", refused, &point.file, &point.over, point.seed)),
    })
}

/// Runs a point.
pub fn run(catalog: &Catalog, point: &LabPoint) -> Result<PointResult, String> {
    let lab = point.load(catalog)?;
    let settings = RunSettings { seed: point.seed, ..RunSettings::default() };
    let done = fabriscope_lab::run::run(catalog, &lab, &settings).map_err(|error| in_full(&error))?;
    Ok(PointResult::of_lab(&done.outcome(&lab)))
}
