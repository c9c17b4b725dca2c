//! Figures in every format: what is drawn, that it is XML and HTML, that the same figure gives the same bytes, that images can be read.

use fabriscope_report::figure::{
    Along, Axis, Band, Bar, Bars, Figure, Heat, Lines, Look, Panel, Reference, Series, Sheet, Sheets, Unit, Waterfall, draw,
};
use fabriscope_report::render::png::png;
use fabriscope_report::render::{Html, Png, Renderer, Svg};
use fabriscope_report::{Cell, Column, Grid, Outcome};
use proptest::prelude::*;

/// Curves as `bench` has them.
fn curves() -> Figure {
    let sizes = (0..23).map(|power| 2f64.powi(power));
    let model = |size: f64| size / (1.2e-6 + size / 12.1e9);
    let mut lines = Lines::over(Axis::log2("message size", Unit::Bytes), Axis::log10("bandwidth", Unit::BytesPerSecond));
    lines.series.push(Series::new("predicted", Look::Predicted, sizes.clone().map(|size| (size, model(size)))));
    let measured = sizes.clone().step_by(3).map(|size| (size, model(size) * 0.93));
    lines.series.push(Series::new("published: Open MPI 4.0.3 UCX, host buffers (ri2-osu_bw)", Look::Published, measured));
    lines.series.push(Series::new(
        "bound: link and PCI Express with their headers",
        Look::Bound,
        sizes.clone().map(|size| (size, size / (0.2e-6 + size / 12.3e9))),
    ));
    lines.references.push(Reference { name: "line rate, 100 Gb/s".to_owned(), along: Along::Across(12.5e9) });
    lines
        .bands
        .push(Band { name: "± 5 %".to_owned(), points: sizes.map(|size| (size, model(size) * 0.95, model(size) * 1.05)).collect() });
    Figure::new("osu_bw on ri2", [Panel::Lines(lines)]).told("2 nodes, InfiniBand EDR, ConnectX-4")
}

fn waterfall() -> Figure {
    let stages = [
        ("core: post the work request", 85.0),
        ("PCI Express: doorbell", 210.0),
        ("NIC: fetch & send", 160.0),
        ("wire", 41.9),
        ("switch", 90.0),
        ("NIC: receive", 140.0),
        ("PCI Express: write", 190.0),
        ("core: see it", 30.5),
    ];
    let stages = stages.map(|(name, ns)| (name.to_owned(), ns * 1e-9)).to_vec();
    let rows = [("inline data", 18.0, false), ("switch of half the latency", 4.1, false), ("twice the rate of the links", -0.4, true)];
    let rows = rows.map(|(name, value, loud)| Bar { name: name.to_owned(), value, mark: Some(value + 3.0), limit: Some(10.0), loud });
    let bars = Bars {
        label: "median error, percent".to_owned(),
        unit: Unit::Percent,
        mark: Some("90 % of points".to_owned()),
        limit: Some("goal".to_owned()),
        rows: rows.to_vec(),
    };
    Figure::new(
        "ib_write_lat of 64 B",
        [Panel::Waterfall(Waterfall { label: "one message".to_owned(), unit: Unit::Seconds, stages }), Panel::Bars(bars)],
    )
}

fn heat() -> Figure {
    let rows =
        (0..12).map(|link| (format!("leaf {link} to spine 0"), (0..24).map(|bin| f64::from(link * bin) / 253.0).collect())).collect();
    let heat = Heat {
        label: "load of links".to_owned(),
        unit: Unit::Percent,
        x: Axis::linear("time", Unit::Seconds),
        extent: (0.0, 1.2e-3),
        rows,
        most: 1.0,
    };
    let sheet = |name: &str| Sheet {
        name: name.to_owned(),
        size: (200.0, 100.0),
        elements: "<circle class=\"fs-h9\" cx=\"100\" cy=\"50\" r=\"40\"/>\n".to_owned(),
    };
    let sheets = Sheets {
        label: "load of links".to_owned(),
        unit: Unit::Percent,
        most: Some(1.0),
        sheets: vec![sheet("0 to 20 µs"), sheet("20 to 40 µs")],
    };
    Figure::new("where it is busy", [Panel::Heat(heat), Panel::Sheets(sheets)])
}

fn distributions() -> Figure {
    let of = |factor: f64| (1..300).map(move |number| factor * f64::from(number) * f64::from(number) * 1e-8);
    let mut lines = Lines::over(Axis::log10("flow completion time", Unit::Seconds), Axis::linear("share of flows", Unit::Share));
    for (name, factor) in [("DCQCN", 1.0), ("HPCC", 0.6), ("none", 3.0)] {
        lines.series.push(Series::distribution(name, of(factor)));
    }
    lines.references.push(Reference { name: "a round trip".to_owned(), along: Along::Up(4e-6) });
    Figure::new("flows", [Panel::Lines(lines)])
}

fn all() -> Vec<Figure> {
    vec![curves(), waterfall(), heat(), distributions()]
}

#[test]
#[expect(clippy::disallowed_methods, reason = "whoever changes a picture asks for its file by the environment")]
fn pictures_are_what_they_were() {
    for (name, figure) in [("curves", curves()), ("waterfall", waterfall()), ("heat", heat()), ("distributions", distributions())] {
        let svg = draw::svg(std::slice::from_ref(&figure));
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/figures/{name}.svg"));
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&path, &svg).unwrap();
        }
        assert_eq!(svg, std::fs::read_to_string(&path).unwrap_or_default(), "{name}: UPDATE_GOLDEN=1 writes it anew; look at it");
    }
}

#[test]
fn every_picture_is_xml_with_its_words_and_says_what_it_shows() {
    let text = draw::svg(&all());
    let tree = roxmltree::Document::parse(&text).unwrap();
    let root = tree.root_element();
    assert_eq!(root.attribute("role"), Some("img"));
    let of = |name: &str| tree.descendants().find(|node| node.has_tag_name(("http://www.w3.org/2000/svg", name))).unwrap();
    assert!(of("title").text().unwrap().contains("osu_bw on ri2"));
    assert!(of("desc").text().unwrap().contains("the longest is PCI Express: doorbell with 210 ns"));
    let words: Vec<&str> = tree.descendants().filter_map(|node| node.text()).collect();
    for word in ["4 KiB", "1 MiB", "10 GB/s", "line rate, 100 Gb/s", "100 µs", "NIC: fetch & send", "goal", "20 to 40 µs", "HPCC"] {
        assert!(words.contains(&word), "{word}");
    }
    // 23 predicted points, each with a marker, and one in the legend; published ones are hollow.
    assert_eq!(text.matches("class=\"fs-f0\"").count(), 24);
    assert_eq!(text.matches("fs-hollow").count() - text.matches(".fs-hollow").count(), 9);
}

/// Words are neither on other words nor beyond the sheet.
#[test]
fn words_do_not_overlap() {
    for figure in all() {
        let text = draw::svg(&[figure]);
        let tree = roxmltree::Document::parse(&text).unwrap();
        let mut boxes: Vec<(f64, f64, f64, f64, String)> = Vec::new();
        for node in tree.descendants().filter(|node| node.tag_name().name() == "text") {
            let number = |name: &str| node.attribute(name).unwrap().parse::<f64>().unwrap();
            let (x, y, size, words) = (number("x"), number("y"), number("font-size"), node.text().unwrap());
            let wide = draw::width(words, size, node.attribute("font-weight").is_some());
            let left = match node.attribute("text-anchor") {
                Some("middle") => x - wide / 2.0,
                Some("end") => x - wide,
                _ => x,
            };
            assert!(left >= 0.0 && left + wide <= draw::WIDTH, "{words} from {left} to {}", left + wide);
            for (other_left, other_right, top, bottom, other) in &boxes {
                let apart = left + wide <= *other_left || left >= *other_right || y <= *top || y - size * 0.7 >= *bottom;
                assert!(apart, "{words} on {other}");
            }
            boxes.push((left, left + wide, y - size * 0.7, y, words.to_owned()));
        }
    }
}

#[test]
fn an_image_has_two_points_for_each_pixel_and_the_same_bytes_each_time() {
    let bytes = png(&[waterfall()]).unwrap();
    assert_eq!(&bytes[..8], b"\x89PNG\r\n\x1a\n");
    let size = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
    assert_eq!(size(16), 2 * draw::WIDTH as u32);
    assert_eq!(bytes, png(&[waterfall()]).unwrap());
    // A second decoder would be another library: the one that draws reads what it wrote, and finds words in dark ink on white.
    let decoded = resvg::tiny_skia::Pixmap::decode_png(&bytes).unwrap();
    let dark =
        |pixel: &&resvg::tiny_skia::PremultipliedColorU8| u32::from(pixel.red()) + u32::from(pixel.green()) + u32::from(pixel.blue()) < 200;
    let (all, ink) = (decoded.pixels().len(), decoded.pixels().iter().filter(dark).count());
    assert!(decoded.pixels()[0].red() == 255 && ink > all / 400 && ink < all / 10, "{ink} of {all}");
}

#[test]
fn a_page_needs_nothing_from_elsewhere() {
    let mut grid = Grid::new([Column::words("stage", "stage"), Column::number("time (ns)", "ps")]);
    grid.push([Cell::word("a < b"), Cell::number(1.5, 1)]);
    grid.foot([Cell::word("total"), Cell::number(1.5, 1)]);
    let mut outcome = Outcome::new();
    outcome.note("a note & more").text("# what a tool prints\n").keyed_table("stages", grid);
    for figure in all() {
        outcome.draw(figure);
    }
    let page = Html.render(&outcome).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>\n<html lang=\"en\">"));
    for word in [
        "<th scope=\"row\">a &lt; b</th>",
        "<li>a note &amp; more</li>",
        "<tfoot>",
        "<caption",
        "<main id=\"main\">",
        "prefers-color-scheme",
    ] {
        assert!(page.contains(word), "{word}");
    }
    let elsewhere = ["src=", "url(", "@import", "<script", "<link", "http://", "https://"];
    let allowed = page.replace("http://www.w3.org/2000/svg", "");
    assert!(!elsewhere.iter().any(|word| allowed.contains(word)));
    // Titles of pictures are the only ones of their name.
    let ids: Vec<&str> = page.match_indices("id=\"").map(|(at, _)| page[at + 4..].split('"').next().unwrap()).collect();
    assert_eq!(ids.iter().collect::<std::collections::BTreeSet<_>>().len(), ids.len());
}

#[test]
fn nothing_to_see_is_no_figure() {
    let mut outcome = Outcome::new();
    outcome.draw(Figure::new("empty", [Panel::Lines(Lines::over(Axis::linear("x", Unit::Count), Axis::linear("y", Unit::Count)))]));
    assert!(outcome.figures().is_empty());
    assert!(Svg.render(&outcome).is_err() && Png.bytes(&outcome).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever the numbers are, the picture is XML, and each point that has a place has its marker.
    #[test]
    fn every_point_is_drawn(points in prop::collection::vec((prop::num::f64::ANY, prop::num::f64::ANY), 1..12), title in "\\PC{1,20}", log in any::<bool>()) {
        let axis = |label: &str| if log { Axis::log10(label, Unit::Seconds) } else { Axis::linear(label, Unit::Count) };
        let mut lines = Lines::over(axis("x"), axis("y"));
        lines.series.push(Series::new(title.clone(), Look::Predicted, points.clone()));
        let svg = draw::svg(&[Figure::new(title, [Panel::Lines(lines)])]);
        prop_assert!(roxmltree::Document::parse(&svg).is_ok(), "{}", svg);
        let placed = points.iter().filter(|(x, y)| axis("").takes(*x) && axis("").takes(*y)).count();
        prop_assert_eq!(svg.matches("<circle class=\"fs-f0\"").count(), placed + usize::from(!svg.is_empty()));
        prop_assert!(!svg.contains("NaN") && !svg.contains("inf"), "{}", svg);
    }
}
