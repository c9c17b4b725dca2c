//! `--counters`: what ports and adapters counted, as a table or as a file for other tools.

use std::path::{Path, PathBuf};

use fabriscope_engine::{Cluster, Counting, Run};
use fabriscope_lab::counting::readings;
use fabriscope_report::counters::{Readings, Site};
use fabriscope_units::Span;

use crate::arguments::quantity;
use crate::error::Failure;
use crate::output::{write_file, write_with};

/// What to count, and where to write it.
#[derive(Debug, Clone, Default, PartialEq, Eq, clap::Args)]
pub struct CounterArgs {
    /// Show what ports and adapters counted, under the names that the cluster's machines have for it; with a file, write it there:
    /// .txt, .csv, .om (OpenMetrics) or .parquet
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    pub counters: Option<PathBuf>,
    /// Write the values at the end of every interval of this length, such as 10us; into a .csv, .om or .parquet file
    #[arg(long, value_name = "TIME", requires = "counters", value_parser = quantity::<Span>)]
    pub every: Option<Span>,
}

/// Where counters of a file system go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LustreCounters {
    /// Behind what the program printed.
    Shown,
    /// Into a file.
    File(PathBuf),
}

/// A way to write counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    /// On standard output.
    Table,
    /// The same in a file.
    Text,
    Csv,
    OpenMetrics,
    Parquet,
}

const FORMATS: &str = "name the file FILE.txt (a table), FILE.csv, FILE.om (OpenMetrics) or FILE.parquet; without a file, a table is shown";

impl CounterArgs {
    /// These without an option of a tool that was taken for the file; and that option.
    pub fn without_option(&self) -> (CounterArgs, Option<String>) {
        let word = self.counters.as_ref().and_then(|path| path.to_str()).filter(|word| word.len() > 1 && word.starts_with('-'));
        match word {
            Some(word) => (CounterArgs { counters: Some("-".into()), ..self.clone() }, Some(word.to_owned())),
            None => (self.clone(), None),
        }
    }

    /// What the engine shall count.
    pub fn counting(&self) -> Result<Counting, Failure> {
        let Some(format) = self.format()? else { return Ok(Counting::Off) };
        match self.every {
            None => Ok(Counting::Sums),
            Some(Span::ZERO) => Err(Failure::told("--every 0 is no interval", "write a time such as 10us")),
            Some(_) if matches!(format, Format::Table | Format::Text) => Err(Failure::told(
                "a table has the sums, no intervals",
                "name a file: --counters FILE.om --every 10us; or leave --every out",
            )),
            Some(every) => Ok(Counting::Every(every)),
        }
    }

    fn format(&self) -> Result<Option<Format>, Failure> {
        let Some(path) = &self.counters else { return Ok(None) };
        if path.as_os_str() == "-" {
            return Ok(Some(Format::Table));
        }
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("txt") => Ok(Some(Format::Text)),
            Some("csv") => Ok(Some(Format::Csv)),
            Some("om") => Ok(Some(Format::OpenMetrics)),
            Some("parquet") => Ok(Some(Format::Parquet)),
            _ => Err(Failure::told(format!("--counters {}: no format has this extension", path.display()), FORMATS)),
        }
    }

    /// Where the counters of a Lustre file system go, as `lctl get_param` prints them; nothing where they are not wanted.
    pub fn lustre(&self) -> Result<Option<LustreCounters>, Failure> {
        if self.every.is_some() {
            return Err(Failure::told("counters of a file system are read at the end", "leave --every out"));
        }
        match (&self.counters, self.format()) {
            (None, _) => Ok(None),
            (Some(_), Ok(Some(Format::Table))) => Ok(Some(LustreCounters::Shown)),
            (Some(path), Ok(Some(Format::Text))) => Ok(Some(LustreCounters::File(path.clone()))),
            (Some(path), _) => {
                let what = format!("--counters {}: counters of a file system are text, as lctl prints it", path.display());
                Err(Failure::told(what, "name the file FILE.txt; without a file, they are shown"))
            }
        }
    }

    /// Writes the file, or gives the table; beside it what JSON has of them.
    pub fn show(&self, cluster: &Cluster, run: &Run) -> Result<Shown, Failure> {
        let (Some(format), Some(readings), Some(path)) = (self.format()?, readings(cluster, run)?, &self.counters) else {
            return Ok(Shown::default());
        };
        match format {
            Format::Table => {}
            Format::Text => write_file(path, &readings.table())?,
            Format::Csv => write_with(path, |writer| readings.csv(writer))?,
            Format::OpenMetrics => write_with(path, |writer| readings.openmetrics(writer))?,
            Format::Parquet => write_parquet(path, &readings)?,
        }
        let one = |reading: &fabriscope_report::counters::Reading| {
            let Site { instance, device, port, .. } = &reading.site;
            serde_json::json!({
                "instance": instance, "device": device, "port": port,
                "counter": reading.name, "unit": reading.unit.symbol(), "value": reading.total(),
            })
        };
        Ok(Shown {
            table: (format == Format::Table).then(|| readings.table()),
            note: (format != Format::Table).then(|| note(path, format, &readings)),
            json: Some(readings.all.iter().map(one).collect()),
        })
    }
}

/// Writes all counters over time; what stands in the file.
pub fn write_series(path: &Path, readings: &Readings) -> Result<String, Failure> {
    let format = CounterArgs { counters: Some(path.to_owned()), every: None }.format()?;
    match format {
        Some(Format::OpenMetrics) => write_with(path, |writer| readings.openmetrics(writer))?,
        Some(Format::Csv) => write_with(path, |writer| readings.csv(writer))?,
        Some(Format::Parquet) => write_parquet(path, readings)?,
        Some(Format::Text | Format::Table) | None => {
            return Err(Failure::told(format!("--counters {}: a table has no times", path.display()), FORMATS_OVER_TIME));
        }
    }
    Ok(format.map_or_else(String::new, |format| note(path, format, readings)))
}

const FORMATS_OVER_TIME: &str = "name the file FILE.om (OpenMetrics), FILE.csv or FILE.parquet";

/// Counters as they are shown.
#[derive(Debug, Default)]
pub struct Shown {
    /// Where no file was named.
    pub table: Option<String>,
    /// What stands in the file that was named, and what to do with it.
    pub note: Option<String>,
    /// The sums.
    pub json: Option<serde_json::Value>,
}

fn write_parquet(path: &Path, readings: &Readings) -> Result<(), Failure> {
    // The writer of the library has to own what it writes to, and to send it.
    let mut bytes = Vec::new();
    let written = readings.parquet(&mut bytes);
    write_with(path, |writer| written.and_then(|()| writer.write_all(&bytes)))
}

fn note(path: &Path, format: Format, readings: &Readings) -> String {
    let path = path.display();
    let next = match format {
        Format::Table | Format::Text => String::new(),
        Format::Csv => "; docs/counters.md names the columns".to_owned(),
        Format::OpenMetrics => format!("; promtool tsdb create-blocks-from openmetrics {path} ./data loads it"),
        Format::Parquet => format!("; pandas.read_parquet(\"{path}\") reads it"),
    };
    format!("# {} counters in {path}{next}\n", readings.all.len())
}
