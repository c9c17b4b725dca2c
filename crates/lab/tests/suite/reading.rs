//! Reading lab files: where an error is, what defaults are, that a lab written out is the same lab.

use crate::labs;
use fabriscope_engine::Service;
use fabriscope_lab::{ClusterChoice, EngineChoice, Lab, Workload};
use fabriscope_units::Bytes;
use labs::{read, resolved};
use miette::Diagnostic;
use proptest::prelude::*;

/// The line and the column that an error names.
fn place(text: &str) -> (u32, u32) {
    let error = read(text).err().unwrap_or_else(|| panic!("no error: {text}")).to_string();
    let mut parts = error.strip_prefix("lab.toml:").unwrap_or_else(|| panic!("no file: {error}")).split(':');
    let mut number = || parts.next().and_then(|part| part.trim().parse().ok()).unwrap_or_else(|| panic!("no place: {error}"));
    (number(), number())
}

/// Faults of all kinds: a lab, and the words at which its error is.
const FAULTS: [(&str, &str); 10] = [
    ("cluster = \"lab-16\"\nsede = 1\n[workload.shift]\nby = 1\nsize = \"1 B\"\n", "sede"),
    ("cluster = \"lab-17\"\n[workload.shift]\nby = 1\nsize = \"1 B\"\n", "\"lab-17\""),
    ("cluster = \"lab-16\"\nengine = \"flows\"\n[workload.shift]\nby = 1\nsize = \"1 B\"\n", "\"flows\""),
    ("cluster = \"lab-16\"\nseed = -1\n[workload.shift]\nby = 1\nsize = \"1 B\"\n", "-1\n"),
    ("cluster = \"lab-16\"\n[workload.shift]\nby = \"one\"\nsize = \"1 B\"\n", "\"one\""),
    ("cluster = \"lab-16\"\n[workload.shift]\nby = 1\nsize = \"1 KB\"\n", "\"1 KB\""),
    ("cluster = \"lab-16\"\n[workload.shift]\nby = 1\nsize = \"1\"\n", "\"1\""),
    ("cluster = \"lab-16\"\n[workload.shift]\nby = 1\nsize = \"1 B\"\ntransport = \"tcp\"\n", "\"tcp\""),
    ("cluster = \"lab-16\"\nservice_level = 16\n[workload.shift]\nby = 1\nsize = \"1 B\"\n", "16\n"),
    ("cluster = \"lab-16\"\ncongestion = \"dcqnc\"\n[workload.shift]\nby = 1\nsize = \"1 B\"\n", "\"dcqnc\""),
];

#[test]
fn an_error_is_where_its_words_are() {
    for (text, words) in FAULTS {
        let at = text.find(words).unwrap();
        let (line, column) = (text[..at].matches('\n').count() + 1, at - text[..at].rfind('\n').map_or(0, |newline| newline + 1) + 1);
        let found = place(text);
        assert_eq!(found.0 as usize, line, "`{words}` in {text}");
        // A value is named by itself or by its key, which begins the line.
        assert!([column, 1].contains(&(found.1 as usize)), "`{words}` is at column {column}, not {}: {text}", found.1);
    }
}

#[test]
fn every_error_says_what_to_do() {
    for (text, _) in FAULTS {
        let error = read(text).unwrap_err();
        let help = error.help().map(|help| help.to_string()).unwrap_or_default();
        assert!(help.len() > 8, "{text}: {error}: `{help}`");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    /// Empty lines and remarks in front of a fault move it down by as many lines, and nowhere else.
    #[test]
    fn remarks_move_errors_down(fault in 0usize..FAULTS.len(), lines in prop::collection::vec(prop::bool::ANY, 0..30)) {
        let front: String = lines.iter().map(|remark| if *remark { "# a remark\n" } else { "\n" }).collect();
        let (line, column) = place(FAULTS[fault].0);
        prop_assert_eq!(place(&format!("{front}{}", FAULTS[fault].0)), (line + lines.len() as u32, column));
    }

    /// No text is worse than refused.
    #[test]
    fn no_text_breaks_the_reader(text in "[a-z\\[\\]=\". 0-9\n]{0,200}", cut in 0usize..100) {
        let _ = read(&text);
        let whole = FAULTS[5].0.replace("KB", "KiB");
        let cut = cut.min(whole.len());
        let _ = read(&whole[..cut]);
        let _ = read(&format!("{}{text}", &whole[..cut]));
    }
}

/// A workload of each kind, as a file has it.
const WORKLOADS: [&str; 22] = [
    "permutation]\nsize = \"4 KiB\"",
    "incast]\nsenders = 3\nsize = \"1 B\"\ntransport = \"rc\"",
    "all_to_all]\nsize = \"64 B\"\nany_order = true",
    "shift]\nby = 15\nsize = \"1 MiB\"",
    "uniform]\nmessages = 100\nsize = \"1 kB\"",
    "transpose]\nsize = \"1 KiB\"",
    "bit_complement]\nsize = \"1 KiB\"",
    "ring]\nsize = \"1 KiB\"",
    "hot_spot]\nshare = 0.25\nmessages = 4\nsize = \"1 KiB\"",
    "halo]\ngrid = [2, 2, 4]\nperiodic = true\nsize = \"1 KiB\"",
    "ring_all_reduce]\nsize = \"1 MiB\"",
    "recursive_doubling]\nsize = \"1 KiB\"",
    "collective]\noperation = \"allreduce\"\nalgorithm = \"ring\"\nsize = \"1 KiB\"",
    "collective]\noperation = \"bcast\"\nalgorithm = \"binomial\"\nsize = \"1 KiB\"\nroot = 3",
    "open_loop]\npattern = \"uniform\"\nloads = [0.1, 0.9]\nsize = \"1 KiB\"\nwarm_up = \"1 us\"\nwindow = \"5 us\"",
    "closed_loop]\npattern = \"permutation\"\noutstanding = [1, 3]\nmessages = 5\nsize = \"1 KiB\"",
    "bench]\ntool = \"osu_latency\"\nargs = [\"-m\", \"8:8\"]",
    "bench]\ntool = \"osu_allreduce\"\nnodes = 4\nper_node = 2",
    "alltoallv]\nprocesses_per_node = 2\nprocesses = [4, 8]\nsizes = [\"8 B\", \"1 KiB\"]",
    "multicast]\nreceivers = [1, 3]\nsize = \"1 KiB\"\nmessages = 3\ninterval = \"100 us\"\nsettle = \"300 ms\"",
    "jobs]\njobs = [{ name = \"a\", hosts = \"0-3\", pattern = \"ring\", size = \"1 KiB\", messages = 2 }]",
    "interference]\nsenders = 4\nsize = \"64 KiB\"\nvictims = 2\nvictim_size = \"64 KiB\"\nschemes = [{ congestion = \"infiniband\" }]",
];

#[test]
fn a_lab_that_is_written_out_is_the_same_lab() {
    for workload in WORKLOADS {
        let text = format!("title = \"a title\"\ncluster = \"lab-16\"\nseed = 7\n[workload.{workload}\n");
        let lab: Lab = resolved(&text).lab;
        let written = toml::to_string(&lab).unwrap_or_else(|error| panic!("{workload}: {error}"));
        assert_eq!(resolved(&written).lab, lab, "{workload}: {written}");
    }
}

#[test]
fn kinds_are_named_as_the_file_names_them() {
    for workload in WORKLOADS {
        let name = workload.split(']').next().unwrap();
        let lab = resolved(&format!("cluster = \"lab-16\"\n[workload.{workload}\n"));
        // A lab without a title is called by its workload.
        assert_eq!(lab.name(), name);
    }
}

#[test]
fn what_is_not_said_is_usual() {
    let lab = resolved("cluster = \"lab-16\"\n[workload.hot_spot]\nshare = 0.5\nmessages = 1\nsize = \"1 B\"\n").lab;
    assert_eq!((lab.seed, lab.engine, lab.allow_deadlock), (1, EngineChoice::Packet, false));
    assert_eq!(lab.cluster, ClusterChoice::Named("lab-16".to_owned()));
    assert!(lab.routing.is_none() && lab.congestion.is_none() && lab.qos.is_none() && lab.fault.is_empty());
    let Workload::HotSpot(hot) = lab.workload else { panic!("{:?}", lab.workload) };
    assert_eq!((hot.targets, hot.transport, hot.any_order), (1, Service::Rc, false));
}

#[test]
fn sizes_have_units_and_exact_values() {
    // Decimal and binary prefixes (IEC 80000-13): k is 1000, Ki is 1024.
    let table = [
        ("1 B", 1),
        ("1 kB", 1000),
        ("1 KiB", 1024),
        ("1.5 KiB", 1536),
        ("0.5 MB", 500_000),
        ("3 MiB", 3 << 20),
        ("2 GB", 2_000_000_000),
        ("1 GiB", 1 << 30),
    ];
    for (text, bytes) in table {
        let lab = resolved(&format!("cluster = \"lab-16\"\n[workload.permutation]\nsize = \"{text}\"\n")).lab;
        let Workload::Permutation(permutation) = lab.workload else { panic!("{:?}", lab.workload) };
        assert_eq!(permutation.size, Bytes(bytes), "{text}");
    }
    for text in ["1 KB", "1 kb", "1kib", "-1 B", "1.5 B", "B", "", "1 2 B", "1e3 B", "1 b", "0x10 B"] {
        let lab = format!("cluster = \"lab-16\"\n[workload.permutation]\nsize = \"{text}\"\n");
        assert!(read(&lab).is_err(), "`{text}` is no size");
    }
}

#[test]
fn a_key_twice_and_a_broken_table_are_told() {
    assert_eq!(place("cluster = \"lab-16\"\nseed = 1\nseed = 2\n[workload.shift]\nby = 1\nsize = \"1 B\"\n").0, 3);
    assert_eq!(place("cluster = \"lab-16\"\n[workload.shift\nby = 1\n").0, 2);
    // Two workloads are one too many.
    let two = "cluster = \"lab-16\"\n[workload.shift]\nby = 1\nsize = \"1 B\"\n[workload.ring]\nsize = \"1 B\"\n";
    assert!(read(two).is_err());
    // An include has no place in a text that is no file.
    let error = read("include = [\"other.toml\"]\ncluster = \"lab-16\"\n[workload.shift]\nby = 1\nsize = \"1 B\"\n").unwrap_err();
    assert!(error.to_string().contains("other.toml"), "{error}");
}
