//! Text tables: numbers right-aligned, the unit in the head.

use std::fmt;

/// A table under construction; its `Display` is the finished text, one line per row, no trailing blanks.
#[derive(Debug, Clone, Default)]
pub struct Table {
    heads: Vec<String>,
    left: Vec<bool>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table whose first column holds names (aligned left) and whose others hold numbers (aligned right).
    #[must_use]
    pub fn new<const N: usize>(heads: [&str; N]) -> Table {
        Table::with(heads.map(str::to_owned))
    }
    /// The same with heads that are known at run time only.
    #[must_use]
    pub fn with(heads: impl IntoIterator<Item = String>) -> Table {
        let heads: Vec<String> = heads.into_iter().collect();
        Table { left: (0..heads.len()).map(|i| i == 0).collect(), heads, rows: Vec::new() }
    }
    /// Aligns column `index` left.
    #[must_use]
    pub fn words(mut self, index: usize) -> Table {
        if let Some(left) = self.left.get_mut(index) {
            *left = true;
        }
        self
    }
    /// Adds a row; missing cells stay empty, surplus ones are dropped.
    pub fn push<I: IntoIterator<Item = String>>(&mut self, cells: I) {
        let mut row: Vec<String> = cells.into_iter().take(self.heads.len()).collect();
        row.resize(self.heads.len(), String::new());
        self.rows.push(row);
    }
    /// Adds a line across the table.
    pub fn rule(&mut self) {
        self.rows.push(Vec::new());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut widths: Vec<usize> = self.heads.iter().map(|h| h.chars().count()).collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let total = widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1);
        for row in std::iter::once(&self.heads).chain(&self.rows) {
            if row.is_empty() {
                writeln!(f, "{}", "-".repeat(total))?;
                continue;
            }
            let mut line = String::new();
            for ((cell, width), left) in row.iter().zip(&widths).zip(&self.left) {
                let fill = " ".repeat(width - cell.chars().count());
                let gap = if line.is_empty() && fill.is_empty() && cell.is_empty() { "" } else { "  " };
                line += &if *left { format!("{cell}{fill}{gap}") } else { format!("{fill}{cell}{gap}") };
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// A percentage with one decimal; a dash where there is none.
#[must_use]
pub fn percent(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |v| format!("{v:.1}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_under_their_head() {
        let mut table = Table::new(["stage", "time (ns)"]);
        table.push(["post".to_owned(), "80.0".to_owned()]);
        table.rule();
        table.push(["serialisation".to_owned(), "1234.5".to_owned()]);
        let expected = "stage          time (ns)\npost                80.0\n------------------------\nserialisation     1234.5\n";
        assert_eq!(table.to_string(), expected);
    }
}
