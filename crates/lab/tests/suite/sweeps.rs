//! Sweeps: rows in the order of the file, laws of queues that each of them keeps to, and the same bytes whenever they are run.

use crate::labs::catalog;

use fabriscope_lab::parse;
use fabriscope_lab::run::{RunSettings, run};
use fabriscope_report::Outcome;
use serde_json::Value;

fn outcome(text: &str, settings: &RunSettings) -> Outcome {
    let catalog = catalog();
    let lab = parse(catalog, "lab.toml", text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    run(catalog, &lab, settings).unwrap_or_else(|error| panic!("{error}\n{text}")).outcome(&lab)
}

fn swept(text: &str) -> Outcome {
    outcome(text, &RunSettings::default())
}

/// A column of a table.
fn column(outcome: &Outcome, table: &str, key: &str) -> Vec<f64> {
    let rows = outcome.get(table).and_then(Value::as_array).unwrap_or_else(|| panic!("no {table} in {}", outcome.data()));
    rows.iter().map(|row| row[key].as_f64().unwrap_or_else(|| panic!("no {key} in {row}"))).collect()
}

/// A message of 16 KiB on a link of 400 Gb/s: four packets with 26 B beside their payload; 329.8 ns.
const SLOT: f64 = (16_384.0 + 4.0 * 26.0) * 8.0 / 0.4;

#[test]
fn closed_loops_keep_littles_law() {
    // L = λ W: with N messages outstanding at a host, each taking W, N / W messages end in a unit of time. The sweep says λ as a share
    // of the link, whose unit is the slot of a message: throughput · W = N · slot. At the end of a run fewer are outstanding.
    let text = "cluster = \"lab-16\"\n[workload.closed_loop]\npattern = \"permutation\"\noutstanding = [1, 2, 4, 8, 16]\nmessages = 200\nsize = \"16 KiB\"\n";
    let outcome = swept(text);
    let (outstanding, throughput) = (column(&outcome, "points", "outstanding"), column(&outcome, "points", "throughput"));
    assert_eq!(outstanding, [1.0, 2.0, 4.0, 8.0, 16.0]);
    for ((n, share), mean) in outstanding.iter().zip(&throughput).zip(column(&outcome, "points", "mean_ps")) {
        assert!((share * mean / (n * SLOT) - 1.0).abs() < 0.06, "{n} outstanding: {share} of the link, {mean} ps each");
    }
    // More outstanding messages never bring less, and a link brings no more than all of itself.
    assert!(throughput.windows(2).all(|pair| pair[0] <= pair[1] + 0.001) && throughput[4] <= 1.0, "{throughput:?}");
    assert!(throughput[4] > 0.9, "{throughput:?}");
}

#[test]
fn rows_are_in_the_order_of_the_file() {
    let loads = |loads: &str| {
        let open = format!(
            "[workload.open_loop]\npattern = \"uniform\"\nloads = {loads}\nsize = \"16 KiB\"\nwarm_up = \"5 us\"\nwindow = \"30 us\"\n"
        );
        swept(&format!("cluster = \"lab-16\"\n{open}"))
    };
    let (up, down) = (loads("[0.1, 0.4, 0.8]"), loads("[0.8, 0.4, 0.1]"));
    assert_eq!(column(&up, "points", "load"), [0.1, 0.4, 0.8]);
    assert_eq!(column(&down, "points", "load"), [0.8, 0.4, 0.1]);
    // Each load is a run of its own: what stands before it does not matter.
    let reversed = |outcome: &Outcome| {
        let mut rows = outcome.get("points").unwrap().as_array().unwrap().clone();
        rows.reverse();
        rows
    };
    assert_eq!(up.get("points").unwrap().as_array().unwrap(), &reversed(&down));
    // An open loop offers what it says, a network without bottleneck takes it, and waiting grows with the load.
    let (offered, accepted) = (column(&up, "points", "offered"), column(&up, "points", "accepted"));
    for (load, (offered, accepted)) in [0.1, 0.4, 0.8].iter().zip(offered.iter().zip(&accepted)) {
        assert!((offered - load).abs() < 0.15 * load + 0.02, "offered {offered} of {load}");
        assert!(*accepted <= 1.0 && *accepted > 0.8 * offered, "accepted {accepted} of {offered}");
    }
    let mean = column(&up, "points", "mean_ps");
    assert!(mean[0] < mean[1] && mean[1] < mean[2], "{mean:?}");
    assert!(mean[0] > SLOT, "no message is faster than its bytes: {mean:?}");
}

#[test]
fn the_same_lab_has_the_same_bytes() {
    let labs = [
        "cluster = \"lab-16\"\n[workload.uniform]\nmessages = 160\nsize = \"4 KiB\"\n",
        "cluster = \"lab-16\"\nengine = \"flow\"\n[workload.permutation]\nsize = \"64 KiB\"\n",
        "cluster = \"lab-dragonfly-72\"\n[workload.closed_loop]\npattern = \"adversarial\"\noutstanding = [1, 4]\nmessages = 4\nsize = \"4 KiB\"\nany_order = true\n",
        "cluster = \"lab-16\"\n[workload.multicast]\nreceivers = [1, 3]\nsize = \"1 KiB\"\nmessages = 3\ninterval = \"100 us\"\nsettle = \"300 ms\"\n",
    ];
    for text in labs {
        let ask = |seed| outcome(text, &RunSettings { seed: Some(seed), ..RunSettings::default() }).data().to_string();
        assert_eq!(ask(7), ask(7), "{text}");
    }
    // What is drawn at random depends on the seed.
    let ask = |seed| {
        let mut data = outcome(labs[0], &RunSettings { seed: Some(seed), ..RunSettings::default() }).data();
        data["seed"] = Value::Null;
        data
    };
    assert_ne!(ask(1), ask(2));
}

#[test]
fn cores_do_not_matter() {
    let text = "cluster = \"lab-dragonfly-72\"\n[workload.all_to_all]\nsize = \"2 KiB\"\nany_order = true\n";
    let ask = |threads| outcome(text, &RunSettings { threads, ..RunSettings::default() }).data().to_string();
    let one = ask(1);
    for threads in [0, 2, 3] {
        assert_eq!(ask(threads), one, "{threads} cores");
    }
}

#[test]
fn jobs_beside_each_other() {
    // Two pairs at two leaves with one cable between: each alone has the link of 400 Gb/s, both together share the cable evenly.
    let job = |name: &str, hosts: &str| {
        format!(
            "[[workload.jobs.jobs]]\nname = \"{name}\"\nhosts = \"{hosts}\"\npattern = \"pairs\"\nsize = \"1 MiB\"\nmessages = 8\noutstanding = 4\n"
        )
    };
    let cluster = "[cluster]\nbase = \"lab-16\"\ntopology.leaf_spine = { leaves = 2, down = 8, spines = 1 }\n";
    let outcome = swept(&format!("{cluster}{}{}", job("left", "0, 8"), job("right", "1, 9")));
    let (alone, together) = (column(&outcome, "jobs", "alone_bits_per_s"), column(&outcome, "jobs", "one_class_bits_per_s"));
    for (alone, together) in alone.iter().zip(&together) {
        // Of 4096 + 26 B on the wire 4096 B are payload: 397.5 Gb/s, less what the first and last message wait.
        assert!((370e9..398e9).contains(alone), "{alone} b/s alone");
        assert!((alone / together - 2.0).abs() < 0.1, "{alone} b/s alone, {together} b/s together");
    }
    // No classes were asked for: their own class is the one of all.
    assert_eq!(together, column(&outcome, "jobs", "own_class_bits_per_s"));
}

#[test]
fn victims_of_an_incast() {
    let text = "[cluster]\nbase = \"lab-16\"\ntopology.leaf_spine = { leaves = 4, down = 4, spines = 2 }\n[workload.interference]\nsenders = 10\nsize = \"256 KiB\"\nvictims = 2\nvictim_size = \"64 KiB\"\nschemes = [{}]\n";
    let outcome = swept(text);
    let scheme = &outcome.get("schemes").unwrap()[0];
    let times = |key: &str| -> Vec<u64> { scheme[key].as_array().unwrap().iter().map(|time| time.as_u64().unwrap()).collect() };
    assert_eq!((times("incast_ps").len(), times("victims_ps").len(), times("victims_alone_ps").len()), (10, 2, 2));
    // All of the incast goes over one link: the last sender is done when 10 · 256 KiB are through: 640 packets of 4122 B, 52.8 us.
    let last = *times("incast_ps").last().unwrap() as f64 / 1e6;
    assert!((52.8..58.0).contains(&last), "{last} us");
    // Nobody is faster beside an incast than alone, and the slowdown is that of the last victim.
    assert!(times("victims_ps").iter().zip(times("victims_alone_ps")).all(|(beside, alone)| *beside >= alone));
    let slowdown = times("victims_ps")[1] as f64 / times("victims_alone_ps")[1] as f64;
    assert!((scheme["slowdown"].as_f64().unwrap() - slowdown).abs() < 0.01, "{scheme}");
}

#[test]
fn groups_and_single_datagrams() {
    // To r receivers one by one a sender puts r datagrams on its link, to a group one: with more receivers the group is ahead.
    let text = "cluster = \"lab-16\"\n[workload.multicast]\nreceivers = [1, 15]\nsize = \"2 KiB\"\nmessages = 4\ninterval = \"100 us\"\nsettle = \"300 ms\"\nunicast = true\n";
    let outcome = swept(text);
    assert_eq!(column(&outcome, "points", "receivers"), [1.0, 15.0]);
    assert_eq!(swept(text).data(), outcome.data());
}

/// The tree of members on both leaves goes by a spine, which dies before the fifth of ten messages. The manager hears of it, sweeps, writes tables of
/// single receivers, then those of groups: what is sent in the meantime is lost to the members beyond the spine, and what is sent later is not.
#[test]
fn a_group_has_a_new_tree_when_its_spine_has_died() {
    let cluster = "[cluster]\nbase = \"ibex-cpu\"\nnodes = 16\ntopology.leaf_spine = { leaves = 2, down = 8, spines = 2 }\n";
    let sent = "[workload.multicast]\nreceivers = [15]\nsize = \"1 KiB\"\nmessages = 10\ninterval = \"1 ms\"\nsettle = \"300 ms\"\n";
    let complete = |faults: &str| column(&swept(&format!("{faults}{cluster}{sent}")), "points", "complete_percent")[0];
    let dies = |spine: u32| format!("[[fault]]\nat = \"304500 us\"\nkind.switch_death = {{ switch = \"spine {spine}\" }}\n");
    assert_eq!(complete(""), 100.0);
    let found = [0, 1].map(|spine| complete(&dies(spine)));
    // Seven of fifteen receivers are at the sender's leaf: without a new tree eight would miss the last five of ten messages, 27 % of all.
    assert!(found.contains(&100.0), "one spine is not on the tree: {found:?}");
    assert!(found.iter().any(|complete| (75.0..99.0).contains(complete)), "{found:?}");
}
