//! A table as an Arrow stream behind a capsule, which pandas, polars, DuckDB and pyarrow read.
//!
//! Source: the Arrow PyCapsule interface (`__arrow_c_stream__`), <https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html>.
//! Given: whole numbers as int64, other numbers as float64, truth as bool, the rest as strings; a cell without a value is null; the unit
//! of a column in the metadata of its field. Columns with lists in them are left out.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, RecordBatchIterator, StringArray};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use fabriscope_report::{Grid, Holds};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use serde_json::Value;

/// The table as a stream of one batch.
pub fn capsule<'py>(py: Python<'py>, grid: &Grid) -> PyResult<Bound<'py, PyCapsule>> {
    let told = |error: ArrowError| PyRuntimeError::new_err(error.to_string());
    let batch = batch(grid).map_err(told)?;
    let schema = batch.schema();
    let stream = FFI_ArrowArrayStream::new(Box::new(RecordBatchIterator::new([Ok(batch)], schema)));
    PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
}

fn batch(grid: &Grid) -> Result<RecordBatch, ArrowError> {
    let (mut fields, mut columns) = (Vec::new(), Vec::<ArrayRef>::new());
    for (at, column) in grid.data_columns().enumerate() {
        let values = || grid.rows().iter().map(|row| grid.values(row).nth(at).unwrap_or(&Value::Null));
        let (kind, array): (DataType, ArrayRef) = match grid.holds(at) {
            Holds::Lists => continue,
            Holds::Whole => (DataType::Int64, Arc::new(values().map(Value::as_i64).collect::<Int64Array>())),
            Holds::Number => (DataType::Float64, Arc::new(values().map(Value::as_f64).collect::<Float64Array>())),
            Holds::Truth => (DataType::Boolean, Arc::new(values().map(Value::as_bool).collect::<BooleanArray>())),
            Holds::Text => (DataType::Utf8, Arc::new(values().map(text).collect::<StringArray>())),
        };
        let field = Field::new(column.key_of().unwrap_or_default(), kind, true);
        fields.push(match column.unit_of() {
            Some(unit) => field.with_metadata(HashMap::from([("unit".to_owned(), unit.to_owned())])),
            None => field,
        });
        columns.push(array);
    }
    let rows = arrow_array::RecordBatchOptions::new().with_row_count(Some(grid.rows().len()));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &rows)
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}
