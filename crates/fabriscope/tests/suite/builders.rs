//! What programs may set of each question takes effect, and what cannot be is refused with a remedy, through the library's face alone.

use fabriscope::render::{Csv, Json, Renderer, Text};
use fabriscope::{Catalog, Error, Outcome, bench, explain, run, validate};
use miette::Diagnostic;
use serde_json::Value;

/// Values of a benchmark, by size.
fn values(outcome: &Outcome) -> Vec<(u64, f64)> {
    let points = outcome.get("points").and_then(Value::as_array).unwrap();
    // Of several numbers for a size the first.
    let first = &points[0]["metric"];
    points
        .iter()
        .filter(|point| point["metric"] == *first)
        .map(|point| (point["bytes"].as_u64().unwrap(), point["value"].as_f64().unwrap()))
        .collect()
}

fn latency(question: fabriscope::Bench<'_>) -> f64 {
    values(&question.args(["-m", "8:8", "-i", "10", "-x", "2"]).outcome().unwrap())[0].1
}

#[test]
fn what_is_set_takes_effect() {
    // Verbs are faster than sockets: a system call at each end and an interrupt take more than 3 us.
    let verbs = latency(bench("osu_latency", "ri2"));
    let tcp = latency(bench("osu_latency", "ri2").transport("tcp"));
    assert!((0.5..2.5).contains(&verbs) && tcp > verbs + 3.0, "{verbs} us over verbs, {tcp} us over TCP");
    // Two nodes of 1,024 that are far apart are five switches apart, not one: four more of them and four cables of 25 ns.
    let near = latency(bench("osu_latency", "lab-1024").placement("same_leaf"));
    let far = latency(bench("osu_latency", "lab-1024").placement("across"));
    assert!(far > near + 0.4, "{near} us at one leaf, {far} us across");
    // Ranks on one node talk through its memory.
    let inside = latency(bench("osu_latency", "ri2").nodes(1).ranks_per_node(2));
    assert!(inside < verbs, "{inside} us within a node, {verbs} us between nodes");
}

#[test]
fn operations_of_more_ranks_take_longer() {
    let taken = |nodes: u32, ranks: u32| {
        let question = bench("osu_allreduce", "betzy-hdr").nodes(nodes).ranks_per_node(ranks);
        values(&question.args(["-m", "1024:1024", "-i", "3", "-x", "1"]).outcome().unwrap())[0].1
    };
    let (two, eight, more) = (taken(2, 1), taken(8, 1), taken(8, 4));
    assert!(two < eight && eight < more, "{two}, {eight}, {more} us");
}

#[test]
fn formats_hold_the_same_numbers() {
    let outcome = bench("ib_write_lat", "ri2").args(["-a", "-n", "5"]).outcome().unwrap();
    let points = values(&outcome);
    // 2 B to 8 MiB.
    assert_eq!((points.len(), points[0].0, points[points.len() - 1].0), (23, 2, 8 << 20));
    let csv = Csv.render(&outcome).unwrap();
    let of_csv: Vec<(u64, f64)> = csv
        .lines()
        .skip(1)
        .map(|line| line.split(',').collect::<Vec<&str>>())
        .filter(|cells| outcome.get("points").unwrap()[0]["metric"] == cells[1])
        .map(|cells| (cells[0].parse().unwrap(), cells[3].parse().unwrap()))
        .collect();
    let typical = |all: &[(u64, f64)]| all.iter().map(|(bytes, value)| (*bytes, (value * 1e6).round())).collect::<Vec<_>>();
    assert_eq!(typical(&of_csv), typical(&points));
    let json: Value = serde_json::from_str(&Json.render(&outcome).unwrap()).unwrap();
    assert_eq!(json["points"], *outcome.get("points").unwrap());
    assert_eq!(json["cluster"], "ri2");
    // A person's text has each size in a line of its own.
    let text = Text.render(&outcome).unwrap();
    for (bytes, _) in points {
        assert!(text.lines().any(|line| line.split_whitespace().next() == Some(&bytes.to_string())), "{bytes} B: {text}");
    }
}

#[test]
fn larger_messages_never_take_less_time() {
    for (tool, cluster) in [("ib_write_lat", "ri2"), ("ib_read_lat", "oci-optimized3"), ("ib_send_lat", "betzy-hdr")] {
        let points = values(&bench(tool, cluster).args(["-a", "-n", "5"]).outcome().unwrap());
        assert!(points.windows(2).all(|pair| pair[0].1 <= pair[1].1 + 1e-9), "{tool} on {cluster}: {points:?}");
        // The largest is bound by the link: 8 MiB at the rate of the link, to a few per cent.
        let (bytes, us) = points[points.len() - 1];
        let gbps = bytes as f64 * 8.0 / (us * 1e3);
        // All three have links of 100 Gb/s.
        assert!(gbps < 100.0 && gbps > 85.0, "{tool} on {cluster}: {gbps} Gb/s");
    }
}

#[test]
fn a_catalogue_of_ones_own() {
    // A cluster of a file beside those that come with the program: faster links than RI2's, everything else the same.
    let folder = std::env::temp_dir().join(format!("fabriscope-builders-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("clusters")).unwrap();
    let cluster = "name = \"mine\"\ntitle = \"RI2 with a long cable\"\nbase = \"ri2\"\n[cable]\npart = \"copper\"\nhost_length = { value = \"3 m\", basis = \"assumed\", note = \"a test\" }\ntrunk_length = { value = \"2 m\", basis = \"assumed\", note = \"a test\" }\n";
    std::fs::write(folder.join("clusters/mine.toml"), cluster).unwrap();
    let catalog = Catalog::load(&folder);
    std::fs::remove_dir_all(&folder).unwrap();
    let catalog = catalog.unwrap();
    let (mine, theirs) = (latency(bench("osu_latency", "mine").catalog(&catalog)), latency(bench("osu_latency", "ri2").catalog(&catalog)));
    // One metre more at each of two cables: 2 · 5 ns. The tool prints two decimals, values have more.
    assert!((mine - theirs - 0.010).abs() < 0.001, "{mine} and {theirs} us");
    assert!(matches!(bench("osu_latency", "mine").outcome().unwrap_err(), Error::Catalog(_)));
}

#[test]
fn labs_by_their_file() {
    let lab = |name: &str| format!("{}/../../labs/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    let one = run(lab("uniform-16")).outcome().unwrap();
    let end = |outcome: &Outcome| outcome.get("end_ps").and_then(Value::as_u64).unwrap();
    assert_eq!(end(&one), end(&run(lab("uniform-16")).threads(3).outcome().unwrap()));
    assert_eq!(end(&one), end(&run(lab("uniform-16")).seed(1).outcome().unwrap()), "1 is the seed of the file");
    assert_ne!(end(&one), end(&run(lab("uniform-16")).seed(2).outcome().unwrap()));
    let error = run(lab("no-such-lab")).outcome().unwrap_err();
    assert!(error.to_string().contains("no-such-lab"), "{error}");
}

#[test]
fn refusals_name_the_remedy() {
    let remedy = |error: Error| error.help().map(|help| help.to_string()).unwrap_or_default() + &error.to_string();
    let told = [
        (remedy(bench("osu_latency", "ri2").transport("smoke").outcome().unwrap_err()), "tcp"),
        (remedy(bench("osu_latency", "ri2").placement("nearby").outcome().unwrap_err()), "same_leaf"),
        (remedy(bench("osu_latency", "ri2").args(["--mesage-size", "8"]).outcome().unwrap_err()), "--message-size"),
        (remedy(bench("osu_allreduce", "ri2").nodes(3).outcome().unwrap_err()), "2"),
        (remedy(explain("ib_write_lat", "ri2").nodes(7).outcome().unwrap_err()), "1 or 2"),
        (remedy(validate(["ri2-ib_wirte_lat"]).outcome().unwrap_err()), "ri2-ib_write_lat"),
    ];
    for (text, word) in told {
        assert!(text.contains(word), "no `{word}`: {text}");
    }
}

#[test]
fn explanations_agree_with_the_tool() {
    // The chain of stages is what the tool prints, to the last digit that it prints.
    for (tool, cluster) in [("ib_write_lat", "ri2"), ("ib_send_lat", "betzy-hdr"), ("osu_latency", "ri2")] {
        let outcome = explain(tool, cluster).size(8).without_changes().outcome().unwrap();
        let total = outcome.get("total_ps").and_then(Value::as_u64).unwrap() as f64 / 1e6;
        let args = if tool.starts_with("ib_") { vec!["-s", "8", "-n", "24"] } else { vec!["-m", "8:8", "-i", "24", "-x", "4"] };
        let printed = bench(tool, cluster).args(args).outcome().unwrap();
        let points = printed.get("points").and_then(Value::as_array).unwrap();
        let point = points.iter().find(|point| point["metric"] == "latency").unwrap_or(&points[0]);
        assert!((point["value"].as_f64().unwrap() - total).abs() < 0.011, "{tool} on {cluster}: {total} us explained, {point}");
    }
}
