//! Whatever is typed or generated: an answer or an error, never a panic, and a place that exists.

use fabriscope_catalog::{Catalog, CatalogError, Kind, Target};
use proptest::prelude::*;

thread_local! {
    static CATALOG: Catalog = Catalog::embedded().unwrap();
}

/// Feeds the text to every reader; errors must render too.
fn feed(text: &str) {
    CATALOG.with(|catalog| {
        let mut errors: Vec<CatalogError> = Vec::new();
        errors.extend(Kind::ALL.into_iter().filter_map(|kind| catalog.parse_part(kind, "x", text).err()));
        errors.extend(catalog.parse_cluster("x.toml", text).err());
        errors.extend(fabriscope_lab::parse(catalog, "x.toml", text).err());
        for error in errors {
            if let CatalogError::Fault(fault) = &error {
                // A base may be longer than the text itself; its name says so.
                assert!(fault.line >= 1 && fault.column >= 1);
            }
            let _ = format!("{:?}", miette::Report::new(error));
        }
    });
}

/// An embedded part, cluster or lab with a few bytes changed, removed or doubled.
fn mutated() -> impl Strategy<Value = String> {
    let texts: Vec<String> = CATALOG.with(|catalog| {
        let names = Kind::ALL.into_iter().flat_map(|kind| catalog.names(kind).into_iter().map(move |name| (kind, name)));
        names.filter_map(|(kind, name)| catalog.text_of(kind, name).map(str::to_owned)).collect()
    });
    let lab = include_str!("../../../../labs/all-to-all-64.toml").to_owned();
    let texts: Vec<String> = texts.into_iter().chain([lab]).collect();
    let edit = (any::<prop::sample::Index>(), 0..12usize, "[ -~é\n]{0,12}");
    (prop::sample::select(texts), prop::collection::vec(edit, 1..4)).prop_map(|(mut text, edits)| {
        for (at, length, with) in edits {
            let boundaries: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
            let from = at.index(boundaries.len());
            let to = (from + length).min(boundaries.len() - 1);
            text.replace_range(boundaries[from]..boundaries[to], &with);
        }
        text
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn any_text(text in "\\PC{0,200}") {
        feed(&text);
    }

    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        feed(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn texts_that_are_nearly_right(text in mutated()) {
        feed(&text);
    }

    #[test]
    fn any_target(text in "\\PC{0,40}") {
        let _ = Target::parse(&text);
    }
}

#[test]
fn deep_nesting_is_an_error() {
    for text in ["a.".repeat(100_000) + "a = 1", "x = ".to_owned() + &"[".repeat(100_000), "x = ".to_owned() + &"{a=".repeat(100_000)] {
        feed(&text);
    }
    feed(&format!("[{}a]", "a.".repeat(100_000)));
}
