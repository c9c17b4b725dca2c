//! Published tables in CSV: what is written is read back, whatever the order of columns and the quotes, and every mistake is named where it is.

use fabriscope_report::MeasuredError;
use fabriscope_report::measured::{Column, read};
use proptest::prelude::*;

const COLUMNS: [&str; 12] =
    ["table", "cluster", "benchmark", "variant", "nodes", "ranks", "message_bytes", "metric", "unit", "value", "source", "notes"];
const HEAD: &str = "table,cluster,benchmark,variant,nodes,ranks,message_bytes,metric,unit,value,source,notes";

/// A field as RFC 4180 has it: in quotes where it has to be, or where `always` says so.
fn quoted(field: &str, always: bool) -> String {
    let needed = field.contains([',', '"', '\n', '\r']) || field.starts_with('#');
    if needed || always { format!("\"{}\"", field.replace('"', "\"\"")) } else { field.to_owned() }
}

/// The fields of a row in the order of [`COLUMNS`].
fn fields() -> impl Strategy<Value = Vec<String>> {
    let words = || "[a-z#\"][a-z, \"#\n]{0,10}[a-z\"]";
    let count = || prop_oneof![Just(String::new()), (1u32..100_000).prop_map(|count| count.to_string())];
    let bytes = prop_oneof![Just(String::new()), (0u64..1 << 40).prop_map(|bytes| bytes.to_string())];
    let value = (-1e6f64..1e6).prop_map(|value| format!("{value:.3}"));
    (words(), words(), words(), words(), count(), count(), bytes, (words(), words(), value, words(), words())).prop_map(
        |(table, cluster, benchmark, variant, nodes, ranks, bytes, (metric, unit, value, source, notes))| {
            vec![table, cluster, benchmark, variant, nodes, ranks, bytes, metric, unit, value, source, notes]
        },
    )
}

/// A file with its columns in this order, and the line and byte at which each field of each row begins.
struct Written {
    text: String,
    /// By row and column of [`COLUMNS`]: line and column, from 1.
    places: Vec<Vec<(usize, usize)>>,
}

fn write(rows: &[Vec<String>], order: &[usize], always: bool, between: &str) -> Written {
    let head: Vec<&str> = order.iter().map(|column| COLUMNS[*column]).collect();
    let mut written = Written { text: format!("{}\n", head.join(",")), places: Vec::new() };
    for row in rows {
        written.text.push_str(between);
        let mut places = vec![(0, 0); COLUMNS.len()];
        for (at, column) in order.iter().enumerate() {
            written.text.push_str(if at > 0 { "," } else { "" });
            let line = written.text.matches('\n').count() + 1;
            places[*column] = (line, written.text.len() - written.text.rfind('\n').map_or(0, |end| end + 1) + 1);
            written.text.push_str(&quoted(&row[*column], always));
        }
        written.text.push('\n');
        written.places.push(places);
    }
    written
}

fn shuffled() -> impl Strategy<Value = Vec<usize>> {
    Just((0..COLUMNS.len()).collect::<Vec<_>>()).prop_shuffle()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// All fields of all rows, by their names and not by their places; remarks and blank lines between rows are passed over, and count as lines.
    #[test]
    fn rows_are_read_back(rows in prop::collection::vec(fields(), 1..6), order in shuffled(), always: bool, blank: bool) {
        let written = write(&rows, &order, always, if blank { "\n# a remark, with commas\n" } else { "" });
        let read = read("t.csv", written.text.as_bytes()).map_err(|error| TestCaseError::fail(format!("{error}\n{}", written.text)))?;
        prop_assert_eq!(read.rows().len(), rows.len());
        for ((row, fields), places) in read.rows().iter().zip(&rows).zip(&written.places) {
            let number = |field: &String| field.parse::<u32>().ok();
            let words = [&row.table, &row.cluster, &row.benchmark, &row.variant, &row.metric, &row.unit, &row.source, &row.notes];
            for (word, column) in words.into_iter().zip([0, 1, 2, 3, 7, 8, 10, 11]) {
                prop_assert_eq!(word, &fields[column], "{}", COLUMNS[column]);
            }
            prop_assert_eq!((row.nodes, row.ranks), (number(&fields[4]), number(&fields[5])));
            prop_assert_eq!(row.message_bytes, fields[6].parse::<u64>().ok());
            prop_assert_eq!(row.value, fields[9].parse::<f64>().unwrap());
            prop_assert_eq!(read.line(row), places[order[0]].0);
        }
    }

    /// A field that is no number is named by its line and column, whichever column stands where.
    #[test]
    fn mistakes_are_named_where_they_are(
        rows in prop::collection::vec(fields(), 1..5), order in shuffled(), row in 0usize..5,
        (column, wrong) in prop::sample::select(vec![(4, "two"), (5, "0"), (5, "-1"), (6, "4 KiB"), (6, "1.5"), (9, "fast"), (9, "1e999"), (9, ""), (0, ""), (2, "")]),
    ) {
        let row = row % rows.len();
        let mut rows = rows;
        rows[row][column] = wrong.to_owned();
        let written = write(&rows, &order, false, "");
        let error = read("t.csv", written.text.as_bytes()).unwrap_err();
        let MeasuredError::Place(position) = &error else { panic!("{error}") };
        prop_assert_eq!((position.line, position.column), written.places[row][column], "{}\n{}", error, &written.text);
        let named = error.to_string().contains(wrong);
        prop_assert!(named && !position.remedy.is_empty(), "{}", error);
    }

    /// No bytes make the reader panic, and what it refuses it places inside the file.
    #[test]
    fn any_bytes_have_an_answer(bytes in prop::collection::vec(any::<u8>(), 0..200), rows in prop::collection::vec(fields(), 0..3), cut in 0usize..400) {
        let _ = read("t.csv", &bytes);
        let mut text = write(&rows, &(0..COLUMNS.len()).collect::<Vec<_>>(), false, "").text.into_bytes();
        text.truncate(cut);
        text.extend(&bytes[..bytes.len() / 8]);
        if let Err(MeasuredError::Place(position)) = read("t.csv", &text) {
            let lines = text.iter().filter(|byte| **byte == b'\n').count() + 1;
            prop_assert!((1..=lines).contains(&position.line) && (1..=text.len() + 1).contains(&position.column), "{}", position);
        }
    }
}

fn message(text: &str) -> String {
    read("t.csv", text.as_bytes()).unwrap_err().to_string()
}

#[test]
fn files_as_other_systems_write_them() {
    // A mark of the order of bytes, carriage returns, blanks around fields, capital letters in the head, no end of the last line.
    let text = "\u{feff}Table,CLUSTER,benchmark,message_bytes,metric,unit,value\r\n a , ri2 ,osu_bw,8,bandwidth,MB/s, 1.5 \r\n\r\nb,ri2,osu_bw,,bw,MB/s,2";
    let read = read("t.csv", text.as_bytes()).unwrap();
    let rows: Vec<_> = read.rows().iter().map(|row| (row.table.as_str(), row.cluster.as_str(), row.message_bytes, row.value)).collect();
    assert_eq!(rows, [("a", "ri2", Some(8), 1.5), ("b", "ri2", None, 2.0)]);
    assert_eq!(read.rows().iter().map(|row| read.line(row)).collect::<Vec<_>>(), [2, 4]);
}

#[test]
fn what_is_missing_is_named() {
    let without = |column: &str| HEAD.split(',').filter(|name| *name != column).collect::<Vec<_>>().join(",");
    for column in ["table", "cluster", "benchmark", "message_bytes", "metric", "unit", "value"] {
        let message = message(&format!("{}\n", without(column)));
        assert!(message.starts_with("t.csv:1:1:") && message.contains(&format!("the column `{column}` is missing")), "{message}");
    }
    for column in ["variant", "nodes", "ranks", "source", "notes"] {
        assert!(message(&format!("{}\n", without(column))).contains("no rows"), "{column} may be missing");
    }
}

#[test]
fn the_wrong_shape_is_refused() {
    let row = "t,ri2,osu_bw,,2,2,8,bandwidth,MB/s,1,,";
    for (text, expected) in [
        (format!("{HEAD}\n{row},surplus\n"), "t.csv:2:1: this line has 13 fields, the head has 12"),
        (format!("{HEAD}\n{row}\nt,ri2\n"), "t.csv:3:1: this line has 2 fields, the head has 12"),
        (format!("{HEAD},value\n{row},1\n"), "t.csv:1:90: the column `value` is named twice"),
        (String::new(), "t.csv:1:1: the file is empty"),
    ] {
        assert_eq!(message(&text), expected);
    }
    // Latin-1: the first byte that is no UTF-8 is the fourth of line 2.
    let latin = [format!("{HEAD}\nM").into_bytes(), vec![b'u', b'n', 0xfc], row.as_bytes().to_vec()].concat();
    let error = read("t.csv", &latin).unwrap_err().to_string();
    assert!(error.starts_with("t.csv:2:4:") && error.contains("UTF-8"), "{error}");
}

#[test]
fn a_row_can_be_pointed_at() {
    // Who finds later that a value is impossible names the field, or the row where the file has no such column.
    let text = "table,cluster,benchmark,message_bytes,metric,unit,value\nt,ri2,\"osu_bw, twice\",8,bandwidth,MB/s,-3\n";
    let file = read("t.csv", text.as_bytes()).unwrap();
    let row = &file.rows()[0];
    for (column, place) in [(Column::Table, 1), (Column::Benchmark, 7), (Column::MessageBytes, 23), (Column::Value, 40), (Column::Notes, 1)]
    {
        let error = file.problem(row, column, "no".to_owned(), "yes".to_owned()).to_string();
        assert_eq!(error, format!("t.csv:2:{place}: no"), "{column:?}");
    }
}
