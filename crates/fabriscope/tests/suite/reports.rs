//! Reports: what stands in them, that they need nothing from elsewhere, that the same question gives the same bytes.

use fabriscope::report;
use fabriscope_report::figure::Panel;

/// Heads of level 2, in order.
fn heads(page: &str) -> Vec<&str> {
    page.split("<h2 id=\"").skip(1).filter_map(|rest| rest.split_once('>')?.1.split_once('<').map(|(head, _)| head)).collect()
}

fn alone(page: &str) {
    let own = page.replace("http://www.w3.org/2000/svg", "");
    // Sources of numbers are named, not loaded.
    for word in ["<script", "<link", "<img", " src=", " href=\"http", "url(", "@import"] {
        assert!(!own.contains(word), "{word}");
    }
    let ids: Vec<&str> = page.match_indices(" id=\"").map(|(at, _)| page[at + 5..].split('"').next().unwrap()).collect();
    assert_eq!(ids.iter().collect::<std::collections::BTreeSet<_>>().len(), ids.len(), "an id stands twice");
}

fn lab(name: &str) -> String {
    format!("{}/../../labs/{name}.toml", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn an_experiment_is_told_with_its_pictures() {
    let page = || report([lab("shift-16")]).page().unwrap().to_string();
    let text = page();
    let expected =
        ["What it is", "What happens in the experiment", "What operators would see", "How far to trust it", "How to do it again"];
    assert_eq!(heads(&text), expected);
    for word in ["how busy the links are", "bisection", "fabriscope run", "last rank done (us)"] {
        assert!(text.contains(word), "{word}");
    }
    alone(&text);
    assert_eq!(text, page());
}

/// Where something breaks, the results stand beside those without: nothing is lost, nothing sent again.
#[test]
fn the_cost_of_faults_is_told() {
    let text = report([lab("link-flap")]).page().unwrap().to_string();
    let expected = [
        "What it is",
        "What happens in the experiment",
        "What the faults cost",
        "What operators would see",
        "How far to trust it",
        "How to do it again",
    ];
    assert_eq!(heads(&text), expected);
    let section = text.split("What the faults cost</h2>").nth(1).unwrap().split("<h2").next().unwrap();
    let row = |name: &str| -> Vec<String> {
        let row = section.split(&format!(">{name}</")).nth(1).unwrap().split("</tr>").next().unwrap();
        row.split("<td").skip(1).map(|cell| cell.split_once('>').unwrap().1.split('<').next().unwrap().to_owned()).collect()
    };
    let drops = row("packets dropped");
    assert!(drops[0].parse::<u64>().unwrap() > 1000 && drops[1] == "0", "{drops:?}");
    let last: Vec<f64> = row("last rank done (us)").iter().map(|cell| cell.replace(',', "").parse().unwrap()).collect();
    // 120 MiB into one host take 2,517 us; three outages of a millisecond each with their repairs more than double that.
    assert!(last[1] < 3300.0 && last[0] > 1.8 * last[1], "{last:?}");
}

/// Nodes with several adapters: one rail of eight dead leaves seven eighths of what is sent where the fabric itself does not bind.
#[test]
fn a_dead_rail_is_told() {
    let text = report(["lab-rails"]).page().unwrap().to_string();
    let table = text.split("An exchange of all with all after a fault").nth(1).unwrap();
    let row = table.split(">one dead rail, adapter 7 of every node</").nth(1).unwrap().split("</tr>").next().unwrap();
    assert_eq!(row.matches(">87.5<").count(), 2, "{row}");
}

/// Bytes and nodes vary: a panel over each, with a curve for each value of the other; the numbers are those of `bench`.
#[test]
fn a_study_is_told_by_its_curves() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("scaling.toml");
    let study = "[[bench]]\ntools = [\"osu_allreduce\"]\nclusters = [\"betzy-hdr\"]\nnodes = [2, 4]\nranks_per_node = [2]\noptions = [\"-m 8:32 -i 2 -x 1\"]\n";
    std::fs::write(&file, study).unwrap();
    let outcome = fabriscope::sweep(&file).jobs(1).drawn().outcome(&fabriscope_catalog::Stop::default()).unwrap();
    let [figure] = outcome.figures() else { panic!("{} figures", outcome.figures().len()) };
    let curves: Vec<Vec<(&str, usize)>> = figure
        .panels
        .iter()
        .map(|panel| match panel {
            Panel::Lines(lines) => lines.series.iter().map(|series| (series.name.as_str(), series.points.len())).collect(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(curves, [[("nodes 2", 3), ("nodes 4", 3)], [("8 B", 2), ("32 B", 2)]]);
    let alone = fabriscope::bench("osu_allreduce", "betzy-hdr").nodes(4).ranks_per_node(2).args(["-m", "8:32", "-i", "2", "-x", "1"]);
    let value = alone.outcome().unwrap().get("points").unwrap()[0]["value"].as_f64().unwrap();
    let Panel::Lines(over_nodes) = &figure.panels[1] else { panic!("curves") };
    assert_eq!(over_nodes.series[0].points[1], (4.0, value * 1e-6));

    let text = report([file.display().to_string()]).page().unwrap().to_string();
    assert_eq!(heads(&text), ["What it gives", "What was run", "The study", "How to do it again"]);
    self::alone(&text);
}

#[test]
fn what_cannot_be_reported_is_refused() {
    let refused = |of: &[&str]| report(of.iter().copied()).page().unwrap_err().to_string();
    assert!(refused(&[]).contains("no cluster"));
    assert!(refused(&["ri3"]).contains("ri3"));
    assert!(refused(&["nowhere.toml"]).contains("nowhere.toml"));
    let error = report(["ri2"]).prices("nowhere.csv").page().unwrap_err().to_string();
    assert!(error.contains("nowhere.csv"), "{error}");
}

#[test]
#[ignore = "half a minute each"]
fn clusters_are_told_alone_and_side_by_side() {
    let text = report(["ri2:2"]).page().unwrap().to_string();
    let expected = [
        "What it is",
        "What the standard tools would print",
        "Collective operations at scale",
        "What binds, and what one change would bring",
        "What failures leave",
        "How far to trust it",
        "How to do it again",
    ];
    assert_eq!(heads(&text), expected);
    for word in ["published, ri2-osu_latency", "bound: link and PCI Express", "line rate, 100 Gb/s", "ri2-osu_bw", "what one change saves"]
    {
        assert!(text.contains(word), "{word}");
    }
    alone(&text);
    let folder = std::env::temp_dir().join(format!("prices-{}.csv", std::process::id()));
    std::fs::write(&folder, "part,price,power_w\nsb7790,1000,100\nconnectx-5,10,\n").unwrap();
    let both = report(["ri2:2", "lab-roce-128:16"]).prices(&folder).page().unwrap().to_string();
    std::fs::remove_file(&folder).unwrap();
    alone(&both);
    // One switch of 1000 and two adapters of 10, cables without a price.
    assert!(
        both.contains("1020.00 and more")
            && both.contains("osu_latency on each")
            && both.contains("What failures leave of lab-roce-128:16")
    );
}
