//! Texts that rest on each other: keys of the upper win, tables are joined, numbers and choices replaced whole, and faults are found in the
//! file, line and column where they stand.

use std::collections::BTreeMap;

use fabriscope_catalog::{Document, Frequency, Problem, Ratio, nearest};
use fabriscope_units::Rate;
use proptest::prelude::*;
use toml::{Table, Value};

/// Tables of whole numbers and tables, three deep, of a few keys so that they meet.
fn tables() -> impl Strategy<Value = Table> {
    let leaf = (0i64..100).prop_map(Value::Integer);
    let value = leaf.prop_recursive(3, 24, 4, |inner| {
        prop::collection::btree_map("[abc]", inner, 1..4).prop_map(|map| Value::Table(map.into_iter().collect()))
    });
    prop::collection::btree_map("[abc]", value, 0..4).prop_map(|map: BTreeMap<String, Value>| map.into_iter().collect())
}

/// What two tables give by the rules, worked out on plain values.
fn joined(base: &Table, own: &Table) -> Table {
    let mut all = base.clone();
    for (key, value) in own {
        let merged = match (base.get(key), value) {
            (Some(Value::Table(base)), Value::Table(own)) => Value::Table(joined(base, own)),
            _ => value.clone(),
        };
        all.insert(key.clone(), merged);
    }
    all
}

proptest! {
    /// Merging texts is merging their tables.
    #[test]
    fn texts_are_joined_as_tables(base in tables(), own in tables(), third in tables()) {
        let texts = [&base, &own, &third].map(|table| toml::to_string(table).unwrap());
        let read = |number: usize| Document::parse("file.toml", &texts[number]).unwrap();
        let merged: Table = read(1).over(read(0)).read().unwrap();
        prop_assert_eq!(&merged, &joined(&base, &own));
        // A chain of three is read from its root: a value in the middle hides the table below it.
        let chain: Table = read(2).over(read(1).over(read(0))).read().unwrap();
        prop_assert_eq!(&chain, &joined(&joined(&base, &own), &third));
    }

    /// A fault of a value stands in the text that the value comes from, at its line.
    #[test]
    fn faults_are_found_where_values_stand(before in 0usize..5, between in 0usize..5, which in any::<bool>()) {
        let base = format!("{}one = 1\n{}two = 2\n", "\n".repeat(before), "\n".repeat(between));
        let own = format!("{}two = 22\n", "# a line\n".repeat(between));
        let document = Document::parse("own.toml", &own).unwrap().over(Document::parse("base.toml", &base).unwrap());
        let (key, file, line) = if which { ("one", "base.toml", before + 1) } else { ("two", "own.toml", between + 1) };
        let fault = document.fault_of(Problem::at(&[key], "it is wrong", "make it right"));
        prop_assert_eq!((fault.file.as_str(), fault.line, fault.column), (file, line, 7));
        prop_assert_eq!(document.file_of(&[key]), file);
    }

    /// A share of a rate is never more than the rate, and shares of a half are halves.
    #[test]
    fn ratios_are_at_most_one(numerator in any::<u32>(), denominator in any::<u32>(), bps in any::<u64>()) {
        match Ratio::new(numerator, denominator) {
            None => prop_assert!(denominator == 0 || numerator > denominator),
            Some(ratio) => {
                let share = u128::from(ratio.of(Rate::from_bps(bps)).as_bps());
                prop_assert_eq!(share, u128::from(bps) * u128::from(numerator) / u128::from(denominator));
                prop_assert_eq!(Ratio::parse(&ratio.to_string()), Ok(ratio));
                prop_assert!(ratio.as_f64() <= 1.0);
            }
        }
    }

    /// Clocks print as they are read.
    #[test]
    fn clocks_are_read_as_printed(mhz in 1u64..10_000, hz in 0u64..1_000_000) {
        let clock = Frequency::parse(&format!("{} Hz", mhz * 1_000_000 + hz)).unwrap();
        prop_assert_eq!(clock.as_hz(), mhz * 1_000_000 + hz);
        prop_assert_eq!(Frequency::parse(&clock.to_string()), Ok(clock));
        prop_assert_eq!(Frequency::parse(&format!("{}.{:03} GHz", mhz / 1000, mhz % 1000)).unwrap().as_hz(), mhz * 1_000_000);
    }
}

#[test]
fn numbers_and_choices_are_replaced_whole() {
    let read = |base: &str, own: &str| -> Table {
        Document::parse("own.toml", own).unwrap().over(Document::parse("base.toml", base).unwrap()).read().unwrap()
    };
    // The note of the base says nothing of the number above it.
    let merged = read(
        "a = { value = \"1 ns\", basis = \"assumed\", note = \"old\" }",
        "a = { value = \"2 ns\", basis = \"standard\", source = \"s\" }",
    );
    assert_eq!(merged["a"].as_table().unwrap().keys().collect::<Vec<_>>(), ["basis", "source", "value"]);
    // One topology is not joined with another.
    let merged = read("[topology.fat_tree]\nlevels = 3\n", "[topology.leaf_spine]\nspines = 2\n");
    assert_eq!(merged["topology"].as_table().unwrap().keys().collect::<Vec<_>>(), ["leaf_spine"]);
    // Other tables are.
    let merged = read("[cable]\npart = \"copper\"\n", "[cable]\nlength = 2\n");
    assert_eq!(merged["cable"].as_table().unwrap().len(), 2);
}

#[test]
fn lists_are_replaced() {
    let document = Document::parse("own.toml", "a = [3]").unwrap().over(Document::parse("base.toml", "a = [1, 2]").unwrap());
    assert_eq!(document.read::<Table>().unwrap()["a"], Value::Array(vec![Value::Integer(3)]));
}

#[test]
fn a_fault_in_a_list_is_at_its_item() {
    let document = Document::parse("file.toml", "[[job]]\nsize = 1\n\n[[job]]\nsize = 2\n").unwrap();
    let fault = document.fault_of(Problem::at(&["job", "1", "size"], "wrong", "right"));
    assert_eq!((fault.line, fault.column), (5, 8));
    // A key that is not there: as near as there is something.
    let fault = document.fault_of(Problem::at(&["job", "0", "tag"], "wrong", "right"));
    assert!(fault.line <= 2, "{}", fault.line);
    // Columns are characters, not bytes.
    let document = Document::parse("file.toml", "a = { \"größe\" = 1, b = 2 }\n").unwrap();
    assert_eq!(document.fault_of(Problem::at(&["a", "b"], "wrong", "right")).column, 24);
}

#[test]
fn problems_gather_the_tables_above_them() {
    let problem = Problem::at(&["size"], "wrong", "right").under("incast").under("workload");
    assert_eq!(problem.path, ["workload", "incast", "size"]);
}

#[test]
fn what_is_near() {
    let known = ["connectx-4", "connectx-5", "connectx-6", "hfi-100", "efa-1", "thor"];
    // A slip, another case, a part; and nothing for what is like none.
    let table: [(&str, Option<&str>); 6] = [
        ("conectx-5", Some("connectx-5")),
        ("THOR", Some("thor")),
        ("hfi", Some("hfi-100")),
        ("connectx5", Some("connectx-5")),
        ("efa1", Some("efa-1")),
        ("zzzz", None),
    ];
    for (typed, meant) in table {
        assert_eq!(nearest(typed, known).first().copied(), meant, "{typed}");
    }
    // No more than three, the best first, whatever the order of the names.
    let mut turned = known;
    turned.reverse();
    let all = nearest("connectx", known);
    assert!(all.len() <= 3 && all == nearest("connectx", turned), "{all:?}");
}
