//! Counters as a Parquet file, for pandas, DuckDB and other tools of data analysis.
//!
//! Source: Apache Parquet, version 1 pages, plain and dictionary encoding.
//! Modelled: one row per value: `time_ps`, `instance`, `device`, `port`, `counter`, `unit`, `value`, as in CSV.
//! Not modelled: compression; the dictionary does most of it.

use std::io::{self, Write};
use std::sync::Arc;

use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;

use super::Readings;

/// The columns. Times and values are whole numbers below 2⁶³.
const SCHEMA: &str = "message counters {
    REQUIRED INT64 time_ps;
    REQUIRED BYTE_ARRAY instance (STRING);
    REQUIRED BYTE_ARRAY device (STRING);
    REQUIRED BYTE_ARRAY port (STRING);
    REQUIRED BYTE_ARRAY counter (STRING);
    REQUIRED BYTE_ARRAY unit (STRING);
    REQUIRED INT64 value;
}";

/// Rows of one group.
const GROUP: usize = 1 << 20;

#[derive(Default)]
struct Rows {
    times: Vec<i64>,
    names: [Vec<ByteArray>; 5],
    values: Vec<i64>,
}

impl Readings {
    /// Writes all counters; those without intervals have the time at which the run ended.
    ///
    /// # Errors
    /// What `writer` says.
    pub fn parquet<W: Write + Send>(&self, writer: W) -> io::Result<()> {
        write(writer, self).map_err(io::Error::other)
    }
}

fn write<W: Write + Send>(writer: W, readings: &Readings) -> Result<(), ParquetError> {
    let schema = Arc::new(parse_message_type(SCHEMA)?);
    let properties = WriterProperties::builder().set_created_by("fabriscope".to_owned()).build();
    let mut file = SerializedFileWriter::new(writer, schema, Arc::new(properties))?;
    let mut rows = Rows::default();
    let whole = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    for reading in &readings.all {
        let site = &reading.site;
        let names = [site.instance.as_str(), &site.device, &site.port, &reading.name, reading.unit.symbol()];
        let names = names.map(|name| ByteArray::from(name.as_bytes().to_vec()));
        for (time, value) in readings.times().zip(reading.values(readings.intervals, reading.unit)) {
            rows.times.push(whole(time));
            rows.names.iter_mut().zip(&names).for_each(|(column, name)| column.push(name.clone()));
            rows.values.push(whole(value));
        }
        if rows.times.len() >= GROUP {
            group(&mut file, &std::mem::take(&mut rows))?;
        }
    }
    group(&mut file, &rows)?;
    file.close().map(|_| ())
}

fn group<W: Write + Send>(file: &mut SerializedFileWriter<W>, rows: &Rows) -> Result<(), ParquetError> {
    let mut group = file.next_row_group()?;
    numbers(&mut group, &rows.times)?;
    for names in &rows.names {
        if let Some(mut column) = group.next_column()? {
            column.typed::<ByteArrayType>().write_batch(names, None, None)?;
            column.close()?;
        }
    }
    numbers(&mut group, &rows.values)?;
    group.close().map(|_| ())
}

fn numbers<W: Write + Send>(group: &mut SerializedRowGroupWriter<'_, W>, numbers: &[i64]) -> Result<(), ParquetError> {
    if let Some(mut column) = group.next_column()? {
        column.typed::<Int64Type>().write_batch(numbers, None, None)?;
        column.close()?;
    }
    Ok(())
}
