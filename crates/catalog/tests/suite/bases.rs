//! Parts that rest on others: what a key says is what stands nearest, tables are merged key by key, stated values and choices are taken whole,
//! and a fault is told where its value stands, in whichever file that is.

use std::path::Path;

use fabriscope_catalog::{AnyPart, Catalog, CatalogError, Fault, Kind, Nic};
use fabriscope_units::{Bytes, Span};
use miette::Diagnostic;

/// The small catalogue of the tests with more adapters, each as its file says.
fn with(adapters: &[(&str, &str)]) -> Result<Catalog, CatalogError> {
    fn copy(from: &Path, to: &Path) {
        std::fs::create_dir_all(to).unwrap();
        for entry in std::fs::read_dir(from).unwrap() {
            let (path, into) = entry.map(|entry| (entry.path(), to.join(entry.file_name()))).unwrap();
            if path.is_dir() {
                copy(&path, &into);
            } else {
                std::fs::copy(path, into).unwrap();
            }
        }
    }
    let folder = tempfile::tempdir().unwrap();
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures"), folder.path());
    for (name, text) in adapters {
        let text = format!("name = \"{name}\"\ntitle = \"{name}\"\n{text}");
        std::fs::write(folder.path().join(format!("nics/{name}.toml")), text).unwrap();
    }
    Catalog::only(folder.path())
}

fn nic<'c>(catalog: &'c Catalog, name: &str) -> &'c Nic {
    match catalog.part(Kind::Nic, name).unwrap() {
        AnyPart::Nic(nic) => nic,
        other => panic!("{name} is a {}", other.kind()),
    }
}

fn fault(adapters: &[(&str, &str)]) -> Fault {
    match with(adapters).map(|_| ()) {
        Err(CatalogError::Fault(fault)) => *fault,
        other => panic!("{other:?}"),
    }
}

/// A stated value.
fn stated(value: &str) -> String {
    format!("{{ value = \"{value}\", basis = \"assumed\", note = \"for a test\" }}")
}

#[test]
fn what_is_not_said_comes_from_the_base() {
    // 5 rests on nothing, 6 on 5, 7 on 6: each says one key anew.
    let six = format!("base = \"adapter-5\"\ntx_latency = {}\n", stated("100 ns"));
    let seven = format!("base = \"adapter-6\"\nrx_latency = {}\nports = 2\n", stated("90 ns"));
    let catalog = with(&[("adapter-6", &six), ("adapter-7", &seven)]).unwrap();
    let each = |name: &str| {
        let nic = nic(&catalog, name);
        (nic.tx_latency.value, nic.rx_latency.value, nic.recv_latency.value, nic.ports)
    };
    let ns = Span::from_ns;
    assert_eq!(each("adapter-5"), (ns(160), ns(160), ns(60), 1));
    assert_eq!(each("adapter-6"), (ns(100), ns(160), ns(60), 1));
    assert_eq!(each("adapter-7"), (ns(100), ns(90), ns(60), 2));
}

#[test]
fn the_order_of_files_does_not_matter() {
    // A base whose name comes later in the alphabet.
    let zeta = format!("base = \"adapter-5\"\ntx_latency = {}\n", stated("70 ns"));
    let catalog = with(&[("alpha", "base = \"zeta\"\n"), ("zeta", &zeta)]).unwrap();
    assert_eq!(nic(&catalog, "alpha").tx_latency.value, Span::from_ns(70));
}

#[test]
fn a_stated_value_is_replaced_with_its_origin() {
    // The base says a source, the part a note: were the two tables merged, the value would have both.
    let six = format!("base = \"adapter-5\"\nmessage_interval = {}\n", stated("4 ns"));
    let catalog = with(&[("adapter-6", &six)]).unwrap();
    let value = &nic(&catalog, "adapter-6").message_interval;
    let json = serde_json::to_value(value).unwrap();
    assert_eq!((value.value, &json["basis"], &json["note"]), (Span::from_ns(4), &"assumed".into(), &"for a test".into()));
    assert!(json.get("source").is_none_or(|source| source.as_str().is_none_or(str::is_empty)), "{json}");
}

#[test]
fn plain_tables_are_merged_by_key() {
    // Generation of the base, lanes of the part.
    let catalog = with(&[("adapter-6", "base = \"adapter-5\"\npcie = { lanes = 8 }\n")]).unwrap();
    let (base, part) = (nic(&catalog, "adapter-5").pcie, nic(&catalog, "adapter-6").pcie);
    assert_eq!((base.generation, base.lanes, part.generation, part.lanes), (3, 16, 3, 8));
    // Lists are replaced: one speed is one speed.
    let catalog = with(&[("adapter-6", "base = \"adapter-5\"\nspeeds = [\"100gbe\"]\n")]).unwrap();
    assert_eq!(nic(&catalog, "adapter-6").speeds.len(), 1);
    assert_eq!(nic(&catalog, "adapter-5").speeds.len(), 2);
}

#[test]
fn circles_of_bases() {
    // Two that rest on each other, and three.
    for names in [vec!["a", "b"], vec!["a", "b", "c"]] {
        let texts: Vec<String> = (0..names.len()).map(|at| format!("base = \"{}\"\n", names[(at + 1) % names.len()])).collect();
        let adapters: Vec<(&str, &str)> = names.iter().copied().zip(texts.iter().map(String::as_str)).collect();
        match with(&adapters).map(|_| ()) {
            Err(CatalogError::BaseCycle { kind, chain }) => {
                assert_eq!((kind, chain.len()), (Kind::Nic, names.len() + 1));
                assert_eq!(chain.first(), chain.last(), "{chain:?}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_fault_is_told_where_its_value_stands() {
    // Lines: name, title, then the text. In the part itself.
    let own =
        fault(&[("adapter-6", "base = \"adapter-5\"\nports = 1\ntx_latency = { value = \"5 GB\", basis = \"assumed\", note = \"n\" }\n")]);
    assert!(own.file.ends_with("adapter-6.toml"), "{}", own.file);
    assert_eq!(own.line, 5);
    assert!(own.message.contains("GB") && own.help().unwrap().to_string().contains("ns"), "{own}");
    // In a base: both are refused, and the place is that of the value, in the base.
    let base =
        fault(&[("adapter-6", "base = \"adapter-5\"\n\n# a line of its own\nports = \"two\"\n"), ("adapter-7", "base = \"adapter-6\"\n")]);
    assert!(base.file.ends_with("adapter-6.toml"), "{}", base.file);
    assert_eq!((base.line, base.column), (6, 9));
    // A base that is none, at the word that names it, with the name that was meant.
    let unknown = fault(&[("adapter-6", "base = \"adaptor-5\"\n")]);
    assert_eq!((unknown.line, unknown.column), (3, 8));
    assert!(unknown.help.contains("`adapter-5`"), "{}", unknown.help);
}

#[test]
fn columns_are_counted_in_characters() {
    // Umlauts and a sign of four bytes stand before the value.
    let text = "base = \"adapter-5\"\nnotes = \"Gerät für 𝄞\"  # äöü\nports = 1 # ß\nmtu_max = \"äöü\"\n";
    let told = fault(&[("adapter-6", text)]);
    assert_eq!((told.line, told.column), (6, 11), "{told}");
    assert_eq!(told.to_string().matches("adapter-6.toml:6:11: ").count(), 1, "{told}");
}

#[test]
fn keys_have_the_units_of_their_quantity() {
    // Each key of an adapter that has a unit, with one of another quantity: the help names one that fits.
    let table = [
        ("tx_latency", "5 B", "ns"),
        ("recv_latency", "5 Gb/s", "ns"),
        ("message_interval", "5 KiB", "ns"),
        ("read_ahead", "5 ns", "KiB"),
        ("max_inline", "5 Gb/s", "KiB"),
        ("tx_buffer", "5 us", "KiB"),
        ("mtu_max", "5 us", "KiB"),
        ("cqe_size", "64 Gb/s", "KiB"),
    ];
    for (key, wrong, fitting) in table {
        let told = fault(&[("adapter-6", &format!("base = \"adapter-5\"\n{key} = {}\n", stated(wrong)))]);
        assert_eq!(told.line, 4, "{key}: {told}");
        let words = format!("{} {}", told.message, told.help);
        assert!(words.contains(fitting) && words.contains(wrong.split(' ').nth(1).unwrap()), "{key}: {words}");
        // And with a number of no unit.
        let bare = fault(&[("adapter-6", &format!("base = \"adapter-5\"\n{key} = {}\n", stated("5")))]);
        assert!(bare.to_string().contains("no unit"), "{key}: {bare}");
    }
    // What fits is read to the bit: 1.5 KiB are 1536 bytes, 2.5 us 2500 ns.
    let text = format!("base = \"adapter-5\"\nread_ahead = {}\ntx_latency = {}\n", stated("1.5 KiB"), stated("2.5 us"));
    let catalog = with(&[("adapter-6", &text)]).unwrap();
    let six = nic(&catalog, "adapter-6");
    assert_eq!((six.read_ahead.value, six.tx_latency.value), (Bytes(1536), Span::from_ns(2500)));
}

#[test]
fn names_of_files_are_names_of_parts() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("links")).unwrap();
    std::fs::write(folder.path().join("links/edr.toml"), "name = \"hdr\"\n").unwrap();
    let told = Catalog::only(folder.path()).unwrap_err().to_string();
    assert!(told.contains("edr.toml"), "{told}");
}
