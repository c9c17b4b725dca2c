//! Command lines in all their forms, sizes in all their units, and the algorithm that a library takes where nobody names one.
#![allow(missing_docs)]

use fabriscope_catalog::Catalog;
use fabriscope_collectives::{Call, Kind};
use fabriscope_tool::arguments::{Given, Meaning, Opt, Parsed, Takes, number, opt, parse, size};
use fabriscope_tool::{Data, UsageError, algorithm};
use fabriscope_units::Bytes;
use fabriscope_units::Remedy;
use proptest::prelude::*;

const KNOWN: &[Opt] = &[
    opt('s', "size", Takes::Value("bytes"), Meaning::Usual, "message size"),
    opt('n', "iters", Takes::Value("count"), Meaning::Usual, "iterations"),
    opt('a', "all", Takes::Nothing, Meaning::Usual, "all sizes"),
    opt('b', "both", Takes::Nothing, Meaning::Harmless("nothing depends on it"), "both ways"),
    opt('z', "tail", Takes::Optional("list"), Meaning::Usual, "percentiles"),
    opt('F', "cpu_freq", Takes::Nothing, Meaning::Refused("clocks are exact here"), ""),
];

fn read(words: &[String]) -> Result<Parsed, UsageError> {
    parse("tool", KNOWN, words)
}

/// An option, its value, and how it may be typed.
#[derive(Debug, Clone)]
struct Typed {
    name: &'static str,
    value: Option<String>,
    words: Vec<String>,
}

fn typed() -> impl Strategy<Value = Typed> {
    let valued =
        (prop::sample::select(vec![('s', "size"), ('n', "iters")]), 0u32..100_000, 0..5usize).prop_map(|((short, name), value, form)| {
            let value = value.to_string();
            let words = match form {
                0 => vec![format!("-{short}"), value.clone()],
                1 => vec![format!("-{short}{value}")],
                2 => vec![format!("--{name}"), value.clone()],
                3 => vec![format!("--{name}={value}")],
                // A unique beginning.
                _ => vec![format!("--{}={value}", &name[..2])],
            };
            Typed { name, value: Some(value), words }
        });
    let switch =
        (prop::sample::select(vec![('a', "all"), ('b', "both"), ('z', "tail")]), any::<bool>()).prop_map(|((short, name), long)| Typed {
            name,
            value: None,
            words: vec![if long { format!("--{name}") } else { format!("-{short}") }],
        });
    prop_oneof![valued, switch]
}

proptest! {
    /// However options are typed and operands mixed in: all are found, in order, with their values.
    #[test]
    fn lines_mean_what_they_say(options in prop::collection::vec(typed(), 0..8), operands in prop::collection::vec("[a-z]{1,8}", 0..3)) {
        let mut words: Vec<String> = Vec::new();
        for (at, option) in options.iter().enumerate() {
            words.extend(option.words.iter().cloned());
            words.extend(operands.get(at).cloned());
        }
        words.extend(operands.iter().skip(options.len()).cloned());
        let parsed = read(&words).unwrap();
        let found: Vec<(&str, Option<String>)> = parsed.options.iter().map(|given| (given.name, given.value.clone())).collect();
        let expected: Vec<(&str, Option<String>)> = options.iter().map(|option| (option.name, option.value.clone())).collect();
        prop_assert_eq!(found, expected);
        prop_assert_eq!(parsed.operands, operands);
    }

    /// Behind two dashes everything is an operand.
    #[test]
    fn two_dashes_end_the_options(words in prop::collection::vec("-{0,2}[a-z]{0,5}", 0..6)) {
        let line: Vec<String> = std::iter::once("--".to_owned()).chain(words.iter().cloned()).collect();
        prop_assert_eq!(read(&line).unwrap(), Parsed { options: Vec::new(), operands: words });
    }

    /// No line makes the reader panic, and every refusal says something of what was typed.
    #[test]
    fn any_line_is_read_or_refused(words in prop::collection::vec("[-a-zA-Z0-9=]{0,10}", 0..6)) {
        if let Err(error) = read(&words) {
            let text = error.in_full();
            // The word, its name before the sign, or a letter of a bundle.
            let named = |word: &String| text.contains(word.split('=').next().unwrap()) || word.chars().any(|c| text.contains(&format!("-{c}")));
            prop_assert!(words.iter().any(named), "{}: {:?}", text, words);
        }
    }

    /// Sizes with K, M and G are powers of 1024.
    #[test]
    fn sizes_are_binary(value in 0u64..4096, unit in prop::sample::select(vec![("", 0), ("k", 10), ("K", 10), ("m", 20), ("M", 20), ("G", 30)])) {
        let (suffix, shift) = unit;
        prop_assert_eq!(size("-s", &format!("{value}{suffix}"), 0, u64::MAX), Ok(value << shift));
    }

    /// So are KiB, MiB and GiB; kB, MB and GB are powers of 1000.
    #[test]
    fn sizes_may_have_the_units_of_labs(value in 0u64..4096, unit in prop::sample::select(vec![("B", 1), ("kB", 1000), ("KiB", 1024), ("MB", 1_000_000), (" MiB", 1 << 20), ("GiB", 1 << 30)])) {
        let (name, bytes) = unit;
        prop_assert_eq!(size("-s", &format!("{value}{name}"), 0, u64::MAX), Ok(value * bytes));
    }

    /// A number within its range is taken as it is; outside the range both ends are named.
    #[test]
    fn numbers_have_a_range(value in any::<u32>(), low in 0u64..1000, more in 0u64..1_000_000) {
        let given = Given { name: "iters", typed: "-n".to_owned(), value: Some(value.to_string()) };
        let (value, high) = (u64::from(value), low + more);
        match number(&given, low, high) {
            Ok(found) => prop_assert!(found == value && (low..=high).contains(&value)),
            Err(error) => {
                prop_assert!(!(low..=high).contains(&value));
                prop_assert!(error.in_full().contains(&format!("{low} to {high}")), "{}", error);
            }
        }
    }
}

#[test]
fn wrong_lines_and_their_remedies() {
    let table = [
        ("-s", "-s needs a value: -s <bytes>"),
        ("--all=yes", "--all takes no value, but `yes` was given; leave `=yes` out"),
        ("-F", "-F has no meaning here: clocks are exact here"),
        ("--cpu_freq", "--cpu_freq has no meaning here: clocks are exact here"),
        ("--szie 3", "tool has no option --szie; the nearest is --size"),
        ("-q", "tool has no option -q; the nearest is --help"),
        ("-N", "tool has no option -N; the nearest is -n (--iters)"),
    ];
    for (line, says) in table {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        assert_eq!(read(&words).unwrap_err().in_full(), says, "{line}");
    }
}

#[test]
fn algorithms_of_libraries_and_of_users() {
    let catalog = Catalog::embedded().unwrap();
    let mpi = |name: &str| catalog.software(name).unwrap().mpi.clone().unwrap();
    let (mvapich, intel) = (mpi("mvapich2-2.3.7"), mpi("openmpi-4.1-ucx"));
    let call = |operation, ranks, per_node, size| Call { operation, ranks, per_node, root: 0, size: Bytes(size), width: Bytes(4) };
    // Whatever the library takes, it brings the result; the same one whoever asks.
    for library in [&mvapich, &intel] {
        for operation in [Kind::Allreduce, Kind::Bcast, Kind::Allgather, Kind::Alltoall, Kind::Reduce, Kind::Barrier] {
            for (ranks, per_node) in [(2, 1), (5, 1), (8, 4), (12, 4)] {
                let size = if operation == Kind::Barrier { 0 } else { 4096 };
                let call = call(operation, ranks, per_node, size);
                let chosen = algorithm("osu", None, &call, Data::OnHosts, library).unwrap();
                assert!(chosen.is_in_network() || chosen.proof(&call).is_ok(), "{operation} of {ranks} by {chosen}");
                assert_eq!(algorithm("osu", None, &call, Data::OnHosts, library).unwrap(), chosen);
                // Named by a user it is the same.
                assert_eq!(algorithm("osu", Some(&chosen.to_string()), &call, Data::OnHosts, library).unwrap(), chosen);
            }
        }
    }
    let error = algorithm("osu", Some("rnig"), &call(Kind::Allreduce, 4, 1, 64), Data::OnHosts, &mvapich).unwrap_err().in_full();
    assert!(error.contains("rnig") && error.contains("ring"), "{error}");
}
