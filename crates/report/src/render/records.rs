//! One table as a file of its own: CSV, or Parquet for pandas, DuckDB and other tools of data analysis.
//!
//! Source: Apache Parquet, version 1 pages; RFC 4180.
//! Modelled: the columns that programs read, under their keys; in Parquet whole numbers as INT64, other numbers as DOUBLE, truth as BOOLEAN,
//! the rest as strings; a cell without a value is null.
//! Not modelled: columns with lists in them, which are left out; compression.

use std::io::{self, Write};
use std::sync::Arc;

use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use serde_json::Value;

use super::csv::lines;
use crate::grid::{Grid, Holds};

/// A table as CSV.
#[must_use]
pub fn csv(grid: &Grid) -> String {
    lines(grid)
}

/// Writes a table as Parquet.
///
/// # Errors
/// What `writer` says.
pub fn parquet<W: Write + Send>(grid: &Grid, writer: W) -> io::Result<()> {
    write(grid, writer).map_err(io::Error::other)
}

fn write<W: Write + Send>(grid: &Grid, writer: W) -> Result<(), ParquetError> {
    let columns: Vec<(usize, &str, Holds)> = grid.keys().enumerate().map(|(at, key)| (at, key, grid.holds(at))).collect();
    let columns: Vec<(usize, &str, Holds)> = columns.into_iter().filter(|(.., holds)| *holds != Holds::Lists).collect();
    let field = |(_, key, holds): &(usize, &str, Holds)| match holds {
        Holds::Whole => format!("OPTIONAL INT64 {key};"),
        Holds::Number => format!("OPTIONAL DOUBLE {key};"),
        Holds::Truth => format!("OPTIONAL BOOLEAN {key};"),
        Holds::Text | Holds::Lists => format!("OPTIONAL BYTE_ARRAY {key} (STRING);"),
    };
    let fields: Vec<String> = columns.iter().map(field).collect();
    let name = if grid.name().is_empty() { "table" } else { grid.name() };
    let schema = Arc::new(parse_message_type(&format!("message {name} {{ {} }}", fields.join(" ")))?);
    let properties = WriterProperties::builder().set_created_by("fabriscope".to_owned()).build();
    let mut file = SerializedFileWriter::new(writer, schema, Arc::new(properties))?;
    let mut group = file.next_row_group()?;
    for (at, _, holds) in columns {
        let values: Vec<&Value> = grid.rows().iter().map(|row| grid.values(row).nth(at).unwrap_or(&Value::Null)).collect();
        column(&mut group, &values, holds)?;
    }
    group.close()?;
    file.close().map(|_| ())
}

fn column<W: Write + Send>(group: &mut SerializedRowGroupWriter<'_, W>, values: &[&Value], holds: Holds) -> Result<(), ParquetError> {
    let Some(mut column) = group.next_column()? else { return Ok(()) };
    let levels: Vec<i16> = values.iter().map(|value| i16::from(!value.is_null())).collect();
    let there = values.iter().filter(|value| !value.is_null());
    match holds {
        Holds::Whole => {
            let numbers: Vec<i64> = there.map(|value| value.as_i64().unwrap_or(i64::MAX)).collect();
            column.typed::<Int64Type>().write_batch(&numbers, Some(&levels), None)?;
        }
        Holds::Number => {
            let numbers: Vec<f64> = there.map(|value| value.as_f64().unwrap_or(f64::NAN)).collect();
            column.typed::<DoubleType>().write_batch(&numbers, Some(&levels), None)?;
        }
        Holds::Truth => {
            let truths: Vec<bool> = there.map(|value| value.as_bool().unwrap_or_default()).collect();
            column.typed::<BoolType>().write_batch(&truths, Some(&levels), None)?;
        }
        Holds::Text | Holds::Lists => {
            let text = |value: &&&Value| match value {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            let words: Vec<ByteArray> = there.map(|value| ByteArray::from(text(&value).into_bytes())).collect();
            column.typed::<ByteArrayType>().write_batch(&words, Some(&levels), None)?;
        }
    }
    column.close()
}

#[cfg(test)]
mod tests {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;

    use super::*;
    use crate::grid::{Cell, Column};

    #[test]
    fn parquet_holds_the_cells_with_their_types() {
        let columns = [Column::words("who", "who"), Column::number("n", "n"), Column::number("x", "x"), Column::data("list")];
        let mut grid = Grid::new(columns).named("flows");
        grid.push([Cell::word("a"), Cell::count(7), Cell::number(0.5, 1), Cell::data(vec![1, 2])]);
        grid.push([Cell::word("b"), Cell::none(), Cell::count(2)]);
        assert_eq!(csv(&grid), "who,n,x\na,7,0.5\nb,,2\n");
        let mut bytes = Vec::new();
        parquet(&grid, &mut bytes).unwrap();
        let file = SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap();
        let rows: Vec<_> = file.get_row_iter(None).unwrap().map(Result::unwrap).collect();
        assert_eq!((rows.len(), rows[0].len()), (2, 3));
        assert_eq!((rows[0].get_string(0).unwrap().as_str(), rows[0].get_long(1).unwrap()), ("a", 7));
        assert!((rows[0].get_double(2).unwrap() - 0.5).abs() < 1e-12 && (rows[1].get_double(2).unwrap() - 2.0).abs() < 1e-12);
        assert!(rows[1].get_long(1).is_err());
    }
}
