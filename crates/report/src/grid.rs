//! A table with typed cells: what people read, what programs read, and the unit of each column.

use fabriscope_units::{Bytes, Span};
use serde_json::{Map, Value};

use crate::table::Table;

/// A table with typed cells.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Grid {
    name: String,
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
    footer: Option<Vec<Cell>>,
}

/// A column: its head for people, its key for programs.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    head: Option<String>,
    key: Option<String>,
    unit: Option<&'static str>,
    align: Align,
    holds: Option<Holds>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Align {
    Left,
    Right,
}

/// What the cells of a column hold, as programs read them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holds {
    /// Whole numbers.
    Whole,
    /// Numbers.
    Number,
    /// True or false.
    Truth,
    /// Words.
    Text,
    /// Lists, which have no place in a plain table.
    Lists,
}

/// One value, as people read it and as programs do.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Cell {
    text: String,
    value: Value,
}

impl Column {
    /// A column of numbers in whole units: `key` tells programs what they are, the head may name a unit in brackets.
    #[must_use]
    pub fn number(head: &str, key: &str) -> Column {
        Column { head: Some(head.to_owned()), key: Some(key.to_owned()), unit: None, align: Align::Right, holds: None }
    }
    /// A column of words.
    #[must_use]
    pub fn words(head: &str, key: &str) -> Column {
        Column { align: Align::Left, ..Column::number(head, key) }
    }
    /// A column that only programs read.
    #[must_use]
    pub fn data(key: &str) -> Column {
        Column { head: None, ..Column::number("", key) }
    }
    /// A column that only people read.
    #[must_use]
    pub fn shown(head: &str) -> Column {
        Column { key: None, ..Column::number(head, "") }
    }
    /// The same column with words, aligned left.
    #[must_use]
    pub fn left(mut self) -> Column {
        self.align = Align::Left;
        self
    }
    /// Names the unit of the values that programs read.
    #[must_use]
    pub fn unit(mut self, unit: &'static str) -> Column {
        self.unit = Some(unit);
        self
    }
    /// Says what its cells hold, whatever is in them: files of one set have the same columns.
    #[must_use]
    pub fn of(mut self, holds: Holds) -> Column {
        self.holds = Some(holds);
        self
    }
    /// The unit of the values that programs read, where the key does not name it.
    #[must_use]
    pub fn unit_of(&self) -> Option<&'static str> {
        self.unit
    }
    /// The name that programs know it by.
    #[must_use]
    pub fn key_of(&self) -> Option<&str> {
        self.key.as_deref()
    }
}

impl Cell {
    /// No value: a dash for people, null for programs.
    #[must_use]
    pub fn none() -> Cell {
        Cell { text: "-".to_owned(), value: Value::Null }
    }
    /// Nothing at all: blank for people, null for programs.
    #[must_use]
    pub fn blank() -> Cell {
        Cell::default()
    }
    /// A word.
    #[must_use]
    pub fn word(word: impl Into<String>) -> Cell {
        let text = word.into();
        Cell { value: Value::String(text.clone()), text }
    }
    /// A whole number.
    #[must_use]
    pub fn count(count: impl std::fmt::Display + Into<Value>) -> Cell {
        Cell { text: count.to_string(), value: count.into() }
    }
    /// A number, of which people read so many decimals.
    #[must_use]
    pub fn number(number: f64, decimals: usize) -> Cell {
        Cell { text: format!("{number:.decimals$}"), value: number.into() }
    }
    /// A time, of which people read microseconds with three decimals, and programs picoseconds.
    #[must_use]
    pub fn us(span: Span) -> Cell {
        Cell { text: format!("{:.3}", span.as_us_f64()), value: span.as_ps().into() }
    }
    /// The same, or a dash.
    #[must_use]
    pub fn us_or_none(span: Option<Span>) -> Cell {
        span.map_or_else(Cell::none, Cell::us)
    }
    /// A number of bytes.
    #[must_use]
    pub fn bytes(bytes: Bytes) -> Cell {
        Cell { text: bytes.as_u64().to_string(), value: bytes.as_u64().into() }
    }
    /// A value that people read in other words than programs.
    #[must_use]
    pub fn told(text: impl Into<String>, value: impl Into<Value>) -> Cell {
        Cell { text: text.into(), value: value.into() }
    }
    /// A value that only programs read.
    #[must_use]
    pub fn data(value: impl Into<Value>) -> Cell {
        Cell { text: String::new(), value: value.into() }
    }
    /// As programs read it.
    #[must_use]
    pub fn value(&self) -> &Value {
        &self.value
    }
}

impl Grid {
    /// Whether there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
    /// A table with these columns and no rows.
    #[must_use]
    pub fn new(columns: impl IntoIterator<Item = Column>) -> Grid {
        Grid { name: String::new(), columns: columns.into_iter().collect(), rows: Vec::new(), footer: None }
    }
    /// The same under a name.
    #[must_use]
    pub fn named(mut self, name: &str) -> Grid {
        name.clone_into(&mut self.name);
        self
    }
    /// Its name; empty where it has none.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
    /// Adds a row; missing cells stay empty, surplus ones are dropped.
    pub fn push(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let mut row: Vec<Cell> = cells.into_iter().take(self.columns.len()).collect();
        row.resize(self.columns.len(), Cell::default());
        self.rows.push(row);
    }
    /// Puts a last row below a line, which only people read: a sum.
    pub fn foot(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let mut row: Vec<Cell> = cells.into_iter().take(self.columns.len()).collect();
        row.resize(self.columns.len(), Cell::default());
        self.footer = Some(row);
    }
    /// Its rows.
    #[must_use]
    pub fn rows(&self) -> &[Vec<Cell>] {
        &self.rows
    }
    /// The last row below a line, where there is one.
    #[must_use]
    pub fn footer(&self) -> Option<&[Cell]> {
        self.footer.as_deref()
    }
    /// The heads that people read, and whether numbers stand below them.
    pub fn heads(&self) -> impl Iterator<Item = (&str, bool)> {
        self.columns.iter().filter_map(|column| Some((column.head.as_deref()?, column.align == Align::Right)))
    }
    /// What people read of a row, in the order of the heads.
    pub fn texts<'a>(&'a self, row: &'a [Cell]) -> impl Iterator<Item = &'a str> {
        self.columns.iter().zip(row).filter(|(column, _)| column.head.is_some()).map(|(_, cell)| cell.text.as_str())
    }
    /// What people read.
    #[must_use]
    pub fn text(&self) -> String {
        let shown = || self.columns.iter().enumerate().filter(|(_, column)| column.head.is_some());
        let mut table = Table::with(shown().filter_map(|(_, column)| column.head.clone()));
        for (place, (_, column)) in shown().enumerate() {
            if column.align == Align::Left {
                table = table.words(place);
            }
        }
        for row in &self.rows {
            table.push(shown().map(|(at, _)| row[at].text.clone()));
        }
        if let Some(row) = &self.footer {
            table.rule();
            table.push(shown().map(|(at, _)| row[at].text.clone()));
        }
        table.to_string()
    }
    /// What programs read: the keys, in order.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().filter_map(|column| column.key.as_deref())
    }
    /// The columns that programs read, in order.
    pub fn data_columns(&self) -> impl Iterator<Item = &Column> {
        self.columns.iter().filter(|column| column.key.is_some())
    }
    /// What the column of programs at this place holds: what it is said to, or what all its cells have.
    #[must_use]
    pub fn holds(&self, at: usize) -> Holds {
        if let Some(said) = self.data_columns().nth(at).and_then(|column| column.holds) {
            return said;
        }
        let values = self.rows.iter().filter_map(|row| self.values(row).nth(at)).filter(|value| !value.is_null());
        let holds = values.fold(None, |holds, value| {
            let is_whole = value.is_i64() || value.as_u64().is_some_and(|number| i64::try_from(number).is_ok());
            Some(match (holds, value) {
                (Some(Holds::Lists), _) | (_, Value::Array(_) | Value::Object(_)) => Holds::Lists,
                (None | Some(Holds::Truth), Value::Bool(_)) => Holds::Truth,
                (None | Some(Holds::Whole), _) if is_whole => Holds::Whole,
                (None | Some(Holds::Whole | Holds::Number), value) if value.is_number() => Holds::Number,
                _ => Holds::Text,
            })
        });
        holds.unwrap_or(Holds::Text)
    }
    /// The values of a row that programs read, in the order of the keys.
    pub fn values<'a>(&'a self, row: &'a [Cell]) -> impl Iterator<Item = &'a Value> {
        self.columns.iter().zip(row).filter(|(column, _)| column.key.is_some()).map(|(_, cell)| &cell.value)
    }
    /// A list of rows, each an object.
    #[must_use]
    pub fn json(&self) -> Value {
        let row = |cells: &Vec<Cell>| {
            let entries = self.keys().map(str::to_owned).zip(self.values(cells).cloned());
            Value::Object(entries.collect::<Map<String, Value>>())
        };
        self.rows.iter().map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_and_programs_read_the_same_cells() {
        let mut grid =
            Grid::new([Column::words("tool", "tool"), Column::number("mean (us)", "mean_ps"), Column::data("counts"), Column::shown("x")]);
        grid.push([Cell::word("a"), Cell::us(Span::from_ns(1500)), Cell::data(7), Cell::number(0.25, 1)]);
        grid.push([Cell::word("b"), Cell::none()]);
        // Columns of programs are not shown, and those of people have no key.
        assert_eq!(grid.text(), "tool  mean (us)    x\na         1.500  0.2\nb             -\n");
        let rows =
            serde_json::json!([{ "tool": "a", "mean_ps": 1_500_000, "counts": 7 }, { "tool": "b", "mean_ps": null, "counts": null }]);
        assert_eq!(grid.json(), rows);
    }
}
