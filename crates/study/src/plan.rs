//! The points of a study, in order, each with its values and the key of its content.

use std::collections::BTreeMap;
use std::path::Path;

use fabriscope_catalog::Catalog;
use fabriscope_report::{Cell, Column, Holds};
use rayon::prelude::*;
use serde_json::Value;

use crate::bench::{self, BenchPoint};
use crate::column::Axes;
use crate::error::StudyError;
use crate::file::Study;
use crate::key::Key;
use crate::labs::{self, LabPoint};
use crate::machines::Machines;
use crate::result::PointResult;

/// The points of a study.
pub struct Plan {
    pub(crate) title: String,
    machines: Machines,
    points: Vec<Point>,
    keys: Vec<Key>,
    /// The points of each key, in order.
    alike: BTreeMap<Key, Vec<usize>>,
    /// The columns of axes that the study names itself.
    axes: Vec<String>,
}

/// One run: a value for every axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// What is run.
    pub(crate) what: What,
    /// The values of the axes that the study names, by their column.
    pub(crate) axes: Axes,
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
        for (point, key) in plan.keys.iter().enumerate() {
            plan.alike.entry(key.clone()).or_default().push(point);
        }
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
            points.extend(bench::points(block, file, folder)?.into_iter().map(|(point, axes)| Point { what: What::Bench(point), axes }));
            axes.extend(block.change.iter().map(|change| bench::column(change, file)).collect::<Result<Vec<_>, _>>()?);
        }
        for block in &study.lab {
            points.extend(labs::points(block, file, folder)?.into_iter().map(|(point, axes)| Point { what: What::Lab(point), axes }));
            axes.extend(block.set.iter().map(|set| labs::column(set, file)).collect::<Result<Vec<_>, _>>()?);
        }
        axes.sort();
        axes.dedup();
        Ok(Plan { title: study.title.clone(), machines: Machines::new(catalog), points, keys: Vec::new(), alike: BTreeMap::new(), axes })
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
    /// The points with the key of a point, itself among them, in order.
    pub(crate) fn alike(&self, point: usize) -> &[usize] {
        self.alike.get(&self.keys[point]).map_or(&[], Vec::as_slice)
    }
    /// The key of the whole: that of all points, in order.
    pub(crate) fn whole_key(&self) -> Key {
        let keys: Vec<&str> = self.keys.iter().map(Key::as_str).collect();
        let columns: Vec<Axes> = self.points.iter().map(|point| point.axes.clone()).collect();
        Key::of(&(keys, columns))
    }

    /// Runs a point; what cannot be run is told in the result.
    #[must_use]
    pub fn run(&self, point: usize) -> PointResult {
        match self.points.get(point).map(|point| &point.what) {
            None => PointResult::failed(format!("there is no point {point} among {}", self.len())),
            Some(What::Bench(point)) => bench::run(&self.machines, point).unwrap_or_else(PointResult::failed),
            Some(What::Lab(point)) => labs::run(self.machines.plain(), point).unwrap_or_else(PointResult::failed),
        }
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
            What::Bench(point) => bench::key(&self.machines, point),
            What::Lab(point) => labs::key(self.machines.plain(), point),
        }
    }

    /// The columns of the data set: what was asked, then what was found.
    pub(crate) fn columns(&self) -> Vec<Column> {
        let text = |name: &str| Column::words(name, name).of(Holds::Text);
        let whole = |name: &str| Column::number(name, name).of(Holds::Whole);
        let mut columns = vec![whole("point"), text("cluster"), text("tool"), text("lab"), text("options"), whole("nodes")];
        columns.extend([whole("ranks_per_node"), text("placement"), text("transport"), text("engine"), whole("seed"), text("size")]);
        columns.extend(self.axes.iter().map(|name| text(name)));
        columns.extend([
            whole("row"),
            text("labels"),
            whole("bytes"),
            text("metric"),
            text("unit"),
            Column::number("value", "value").of(Holds::Number),
        ]);
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

    /// What is asked of a point, by the columns of the data set; what it does not say is left out.
    #[must_use]
    pub fn asked(&self, point: usize) -> Vec<(String, String)> {
        if point >= self.len() {
            return Vec::new();
        }
        let columns = self.columns();
        let text = |cell: &Cell| match cell.value() {
            Value::String(text) if !text.is_empty() => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        };
        let cells = self.cells(point);
        // The first is the number of the point.
        let said = columns.iter().zip(&cells).skip(1).filter_map(|(column, cell)| Some((column.key_of()?.to_owned(), text(cell)?)));
        said.collect()
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
