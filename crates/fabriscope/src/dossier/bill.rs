//! What has to be bought: switches, cables, ends of optical cables, adapters; with prices and power from the reader's own list.
//!
//! The catalogue has no prices, and no figures of power that its sources give for whole switches and adapters: both come from the list alone.

use std::collections::BTreeMap;
use std::path::Path;

use fabriscope_fabric::analysis::CableKind;
use fabriscope_lab::LabError;
use fabriscope_report::{Cell, Column, Grid};

use super::design::Design;

/// Price and power of parts by name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Prices(BTreeMap<String, (f64, Option<f64>)>);

impl Prices {
    /// Reads a list: columns `part` and `price`, and `power_w` where known, in any order.
    pub fn read(path: &Path) -> Result<Prices, LabError> {
        let name = path.display().to_string();
        let help = "check that the file exists and that you may read it";
        let bytes = std::fs::read(path).map_err(|cause| LabError::refused(format!("{name}: cannot be read: {cause}"), help))?;
        Prices::parse(&name, &bytes)
    }

    fn parse(file: &str, bytes: &[u8]) -> Result<Prices, LabError> {
        let help = "write a line `part,price` or `part,price,power_w`, and below it a line for each part, such as qm8700,12000,404";
        let refused = |what: String| LabError::refused(what, help);
        let text = std::str::from_utf8(bytes).map_err(|_| refused(format!("{file}: it is not UTF-8 text")))?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let lines =
            text.lines().enumerate().map(|(at, line)| (at + 1, line.trim())).filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let mut lines = lines.peekable();
        let (_, head) = lines.next().ok_or_else(|| refused(format!("{file}:1: the file is empty")))?;
        let between = if head.contains(';') { ';' } else { ',' };
        let columns: Vec<String> = head.split(between).map(|word| word.trim().trim_matches('"').to_ascii_lowercase()).collect();
        let column = |name: &str| columns.iter().position(|column| column == name);
        let (Some(part), Some(price)) = (column("part"), column("price")) else {
            return Err(refused(format!("{file}:1: the head is `{head}`, without `part` or `price`")));
        };
        let power = column("power_w");
        let mut prices = Prices::default();
        for (line, text) in lines {
            let fields: Vec<&str> = text.split(between).map(|field| field.trim().trim_matches('"')).collect();
            let number = |column: usize, what: &str| -> Result<f64, LabError> {
                let field = fields.get(column).copied().unwrap_or_default();
                let number = field.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
                number.ok_or_else(|| refused(format!("{file}:{line}: `{field}` is no {what}")))
            };
            let name = fields
                .get(part)
                .copied()
                .filter(|name| !name.is_empty())
                .ok_or_else(|| refused(format!("{file}:{line}: no part is named")))?;
            let watts = match power {
                Some(column) if fields.get(column).is_some_and(|field| !field.is_empty()) => Some(number(column, "power in watts")?),
                _ => None,
            };
            if prices.0.insert(name.to_owned(), (number(price, "price")?, watts)).is_some() {
                return Err(refused(format!("{file}:{line}: `{name}` has a price already")));
            }
        }
        Ok(prices)
    }

    fn price(&self, part: &str) -> Option<f64> {
        self.0.get(part).map(|found| found.0)
    }
    fn power(&self, part: &str) -> Option<f64> {
        self.0.get(part).and_then(|found| found.1)
    }
}

/// One kind of thing that a design has.
struct Item {
    what: String,
    part: String,
    count: u64,
}

fn items(design: &Design) -> Vec<Item> {
    let parts = &design.parts;
    let mut items = Vec::new();
    for (level, class) in design.census.switches.iter().enumerate() {
        let own = parts.switch_levels.get(level).and_then(Option::as_ref).or(parts.switch.as_ref());
        let part = own.map_or_else(|| "switch".to_owned(), |switch| switch.name.clone());
        items.push(Item { what: format!("switches: {}", class.name), part, count: u64::from(class.switches) });
    }
    let host = parts.groups.first().map_or("", |group| group.cable.name.as_str());
    let mut ends = 0;
    for class in &design.census.cables {
        let part = if class.kind == CableKind::Host { host } else { parts.cable.name.as_str() };
        ends += if part == "optical" { 2 * u64::from(class.cables) } else { 0 };
        items.push(Item { what: format!("cables: {}, {}", class.kind, class.rate), part: part.to_owned(), count: u64::from(class.cables) });
    }
    items.push(Item { what: "transceivers: ends of optical cables".to_owned(), part: "transceiver".to_owned(), count: ends });
    for group in &parts.groups {
        let what = if parts.groups.len() > 1 { format!("adapters: {}", group.name) } else { "adapters".to_owned() };
        items.push(Item { what, part: group.node.nic.name.clone(), count: u64::from(group.nodes) * u64::from(group.node.nics) });
    }
    items
}

/// What designs are made of, a column for each; with a price list the sums of prices and power, and which parts it lacks.
pub(super) fn grid(designs: &[&Design], prices: Option<&Prices>) -> Grid {
    let mut columns = vec![Column::words("what", "what"), Column::words("part", "part")];
    columns.extend(designs.iter().map(|design| Column::number(&design.name, &design.name)));
    if prices.is_some() {
        columns.extend([Column::number("price each", "price"), Column::number("power each (W)", "power_w")]);
    }
    let mut grid = Grid::new(columns);
    let mut keys: Vec<(String, String)> = Vec::new();
    let all: Vec<Vec<Item>> = designs.iter().map(|design| items(design)).collect();
    for item in all.iter().flatten() {
        let key = (item.what.clone(), item.part.clone());
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    for (what, part) in keys {
        let count =
            |items: &Vec<Item>| items.iter().filter(|item| item.what == what && item.part == part).map(|item| item.count).sum::<u64>();
        let mut row = vec![Cell::word(what.as_str()), Cell::word(part.as_str())];
        row.extend(all.iter().map(|items| Cell::count(count(items))));
        if let Some(prices) = prices {
            let number = |value: Option<f64>| value.map_or_else(|| Cell::word("not in the list"), |value| Cell::number(value, 2));
            row.extend([number(prices.price(&part)), number(prices.power(&part))]);
        }
        grid.push(row);
    }
    let Some(prices) = prices else { return grid };
    let mut sum = |name: &str, of: &dyn Fn(&str) -> Option<f64>| {
        let total = |items: &Vec<Item>| {
            let known: f64 = items.iter().filter_map(|item| Some(of(&item.part)? * item.count as f64)).sum();
            let all = items.iter().all(|item| item.count == 0 || of(&item.part).is_some());
            Cell::told(format!("{known:.2}{}", if all { "" } else { " and more" }), known)
        };
        let mut row = vec![Cell::word(name), Cell::blank()];
        row.extend(all.iter().map(total));
        grid.push(row);
    };
    sum("price of all that the list has", &|part| prices.price(part));
    sum("power of all that the list has (W)", &|part| prices.power(part));
    grid
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_and_what_is_wrong_in_it_is_named() {
        let prices = Prices::parse("p.csv", b"\xef\xbb\xbfpower_w;part;price\n404;qm8700;12000\n;optical;\"300.5\"\n").unwrap();
        assert_eq!(
            (prices.price("qm8700"), prices.power("qm8700"), prices.price("optical"), prices.power("optical")),
            (Some(12000.0), Some(404.0), Some(300.5), None)
        );
        for (text, word) in [
            ("", "empty"),
            ("name,price\n", "without `part`"),
            ("part,price\nqm8700,cheap\n", "p.csv:2: `cheap` is no price"),
            ("part,price\nqm8700,NaN\n", "`NaN`"),
            ("part,price\nqm8700,-1\n", "`-1`"),
            ("part,price\na,1\na,2\n", "p.csv:3: `a` has a price already"),
        ] {
            let error = Prices::parse("p.csv", text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
