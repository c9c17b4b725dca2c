//! Where results are: each under its key in one folder, and the Parquet files of the data set in another.
//!
//! A file of the data set holds the rows of so many points that follow each other, and is written when the last of them is known. Every file
//! appears under its name when it is whole, so that a process may end at any moment.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use fabriscope_report::render::records;
use fabriscope_report::{Cell, Grid};

use crate::error::StudyError;
use crate::key::Key;
use crate::plan::Plan;
use crate::result::PointResult;

/// The results of a study on disk.
pub struct Store {
    folder: PathBuf,
    kept: PathBuf,
    /// Of each file of the data set: whether it is there.
    written: Vec<bool>,
    /// Of each point: whether its result is there.
    known: Vec<bool>,
    /// How many of them are.
    count: usize,
}

impl Store {
    /// Opens the data set in `folder` for a plan, with results kept in `kept`. Files of the data set that belong to other points are removed:
    /// their results stay under their keys.
    ///
    /// # Errors
    /// Folders that cannot be read or made.
    pub fn open(plan: &Plan, folder: &Path, kept: &Path) -> Result<Store, StudyError> {
        for path in [folder, kept] {
            fs::create_dir_all(path).map_err(|cause| store(path, cause))?;
        }
        let (mark, whole) = (folder.join(MARK), plan.whole_key());
        let same = fs::read_to_string(&mark).is_ok_and(|text| text.trim() == whole.as_str());
        if !same {
            for entry in fs::read_dir(folder).map_err(|cause| store(folder, cause))? {
                let path = entry.map_err(|cause| store(folder, cause))?.path();
                let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
                if name.starts_with(PART) && name.ends_with(".parquet") {
                    fs::remove_file(&path).map_err(|cause| store(&path, cause))?;
                }
            }
            whole_file(&mark, format!("{whole}\n").as_bytes())?;
        }
        let mut found = Store { folder: folder.to_owned(), kept: kept.to_owned(), written: Vec::new(), known: Vec::new(), count: 0 };
        found.written = (0..plan.len().div_ceil(BLOCK)).map(|part| found.part(part).is_file()).collect();
        found.known = (0..plan.len()).map(|point| found.written[point / BLOCK] || found.get(plan, point).is_some()).collect();
        found.count = found.known.iter().filter(|known| **known).count();
        Ok(found)
    }

    /// The points that are not known yet, in order; of several alike the first.
    #[must_use]
    pub fn missing(&self, plan: &Plan) -> Vec<usize> {
        let first = |point: &usize| plan.alike(*point).iter().find(|alike| !self.known[**alike]) == Some(point);
        (0..plan.len()).filter(first).collect()
    }

    /// The folder of the data set.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Keeps the result of a point.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn keep(kept: &Path, key: &Key, result: &PointResult) -> Result<(), StudyError> {
        whole_file(&kept_at(kept, key), result.to_text(key).as_bytes())
    }

    /// Takes the text of a result that another process made of a point.
    ///
    /// # Errors
    /// The result of another key, a file that cannot be written.
    pub fn take(&mut self, plan: &Plan, point: usize, text: &str) -> Result<(), StudyError> {
        let key = &plan.keys()[point];
        let Some(result) = PointResult::from_text(text, key) else {
            let found = PointResult::key_in(text).unwrap_or_else(|| "no key".to_owned());
            return Err(StudyError::Elsewhere { point, found, wanted: key.to_string() });
        };
        Store::keep(&self.kept, key, &result)?;
        self.note(plan, point)
    }

    /// The result of a point is kept: writes the files of the data set that are complete with it.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn note(&mut self, plan: &Plan, point: usize) -> Result<(), StudyError> {
        let alike = plan.alike(point);
        for other in alike {
            self.count += usize::from(!std::mem::replace(&mut self.known[*other], true));
        }
        alike.iter().try_for_each(|other| self.complete(plan, other / BLOCK))
    }

    /// Writes every file whose points are known.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn finish(&mut self, plan: &Plan) -> Result<(), StudyError> {
        (0..self.written.len()).try_for_each(|part| self.complete(plan, part))
    }

    /// How many points are known.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Whether the result of a point is there.
    #[must_use]
    pub fn knows(&self, point: usize) -> bool {
        self.known.get(point).copied().unwrap_or_default()
    }

    /// The folder of kept results.
    #[must_use]
    pub fn kept(&self) -> &Path {
        &self.kept
    }

    /// The result of a point, if it is kept.
    #[must_use]
    pub fn get(&self, plan: &Plan, point: usize) -> Option<PointResult> {
        let key = plan.keys().get(point)?;
        PointResult::from_text(&fs::read_to_string(kept_at(&self.kept, key)).ok()?, key)
    }

    fn part(&self, part: usize) -> PathBuf {
        self.folder.join(format!("{PART}{part:05}.parquet"))
    }

    fn complete(&mut self, plan: &Plan, part: usize) -> Result<(), StudyError> {
        let points = part * BLOCK..((part + 1) * BLOCK).min(plan.len());
        if self.written[part] || !self.known[points.clone()].iter().all(|known| *known) {
            return Ok(());
        }
        let mut grid = Grid::new(plan.columns()).named("study");
        for point in points {
            let Some(result) = self.get(plan, point) else {
                // Somebody took the kept result away meanwhile: it is run again.
                self.count -= usize::from(std::mem::replace(&mut self.known[point], false));
                return Ok(());
            };
            push(&mut grid, &plan.cells(point), &result);
        }
        let mut bytes = Vec::new();
        let path = self.part(part);
        records::parquet(&grid, &mut bytes).map_err(|cause| store(&path, cause))?;
        whole_file(&path, &bytes)?;
        self.written[part] = true;
        Ok(())
    }
}

/// The rows of a point: one for each number, or one that says why there is none.
pub(crate) fn push(grid: &mut Grid, before: &[Cell], result: &PointResult) {
    for sample in &result.samples {
        let word = |word: Option<String>| word.map_or_else(Cell::blank, Cell::word);
        let found = [
            Cell::count(sample.row),
            word(sample.labels.clone()),
            sample.bytes.map_or_else(Cell::blank, Cell::count),
            Cell::word(sample.metric.clone()),
            word(sample.unit.clone()),
            Cell::number(sample.value, 6),
            Cell::blank(),
        ];
        grid.push(before.iter().cloned().chain(found));
    }
    if let Some(error) = &result.error {
        let found = [Cell::count(0), Cell::blank(), Cell::blank(), Cell::blank(), Cell::blank(), Cell::blank(), Cell::word(error.clone())];
        grid.push(before.iter().cloned().chain(found));
    }
}

fn kept_at(kept: &Path, key: &Key) -> PathBuf {
    let (folder, rest) = key.as_str().split_at(2);
    kept.join(folder).join(format!("{rest}.json"))
}

/// Writes a file under a temporary name of its own and gives it its name when all is on the disk.
fn whole_file(path: &Path, bytes: &[u8]) -> Result<(), StudyError> {
    let told = |cause| store(path, cause);
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder).map_err(told)?;
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let temporary = folder.join(format!(".{name}.{}.{:?}.partial", std::process::id(), std::thread::current().id()));
    let written = File::create(&temporary).and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_data()));
    written.and_then(|()| fs::rename(&temporary, path)).map_err(|cause| {
        // It may not be there.
        drop(fs::remove_file(&temporary));
        told(cause)
    })
}

fn store(path: &Path, cause: io::Error) -> StudyError {
    StudyError::Store { path: path.to_owned(), cause }
}

/// Points whose rows one file holds. Basis: assumed; some hundred rows, and little to do again.
const BLOCK: usize = 32;
/// How files of the data set begin.
const PART: &str = "part-";
/// Says which points the files belong to; readers of data sets pass files with such a name over.
const MARK: &str = "_study";
