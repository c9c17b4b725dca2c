//! One outcome in every format: what people read, what programs read, what a picture shows, and who says that there is nothing to show.

use fabriscope_report::render::{Csv, FORMATS, Json, RenderError, Renderer, Text, Toml};
use fabriscope_report::{Cell, Column, Grid, Outcome};
use serde_json::json;

fn grid(rows: &[(f64, &str)]) -> Grid {
    let mut grid = Grid::new([Column::number("load", "load"), Column::words("who", "who"), Column::data("more"), Column::shown("seen")]);
    for (load, who) in rows {
        grid.push([Cell::number(*load, 1), Cell::word(*who), Cell::data(*who), Cell::count(7)]);
    }
    grid
}

#[test]
fn columns_are_for_whom_they_are_made() {
    // `more` is for programs alone, `seen` for people alone.
    let mut outcome = Outcome::new();
    outcome.keyed_table("rows", grid(&[(0.25, "a")]));
    assert_eq!(Text.render(&outcome).unwrap(), "load  who  seen\n0.2   a       7\n");
    assert_eq!(outcome.data(), json!({ "rows": [{ "load": 0.25, "who": "a", "more": "a" }] }));
    assert_eq!(Csv.render(&outcome).unwrap(), "load,who,more\n0.25,a,a\n");
}

#[test]
fn several_tables_have_their_names() {
    let mut outcome = Outcome::new();
    outcome.keyed_table("first", grid(&[(1.0, "a")])).note("between").data_table("second", grid(&[(2.0, "b")]));
    assert_eq!(Csv.render(&outcome).unwrap(), "# first\nload,who,more\n1.0,a,a\n\n# second\nload,who,more\n2.0,b,b\n");
    // People do not see the second, which stands in the bytes of a tool.
    assert_eq!(Text.render(&outcome).unwrap().matches("load").count(), 1);
    assert_eq!(outcome.get("second").unwrap()[0]["who"], "b");
}

#[test]
fn lists_have_no_place_in_a_spreadsheet() {
    let mut nested = Grid::new([Column::words("name", "name"), Column::data("list")]);
    nested.push([Cell::word("a"), Cell::data(json!([1, 2]))]);
    let mut outcome = Outcome::new();
    outcome.list(nested);
    assert_eq!(Csv.render(&outcome).unwrap(), "name\na\n");
    // A list is all that programs read, whatever else is set.
    outcome.set("ignored", 1);
    assert_eq!(outcome.data(), json!([{ "name": "a", "list": [1, 2] }]));
}

#[test]
fn what_a_format_cannot_show_it_says() {
    let empty = Outcome::new();
    let found: Vec<_> = FORMATS.iter().map(|format| (format.extension(), format.render(&empty).err())).collect();
    let expected = [
        ("txt", None),
        ("json", None),
        ("csv", Some(RenderError::NoTable)),
        ("svg", Some(RenderError::NoFigure)),
        ("png", Some(RenderError::NotText)),
        ("html", None),
        ("toml", Some(RenderError::NoDraft)),
    ];
    assert_eq!(found, expected);
    assert_eq!((Text.render(&empty).unwrap().as_str(), Json.render(&empty).unwrap().as_str()), ("", "{}\n"));
    // A table that only people read is none for a spreadsheet.
    let mut shown = Grid::new([Column::shown("seen")]);
    shown.push([Cell::count(1)]);
    assert_eq!(Csv.render(Outcome::new().table(shown)), Err(RenderError::NoTable));
    assert_eq!(Toml.render(Outcome::new().begin("a = 1\n")).unwrap(), "a = 1\n");
}
