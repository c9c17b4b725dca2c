//! Pictures and pages as files: whole or not at all, of the kind that their name says, the same each time.

use std::path::Path;

use assert_cmd::Command;

fn fabriscope(args: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::cargo_bin("fabriscope").unwrap().args(args).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn drawn(folder: &Path, name: &str, command: &[&str]) -> Vec<u8> {
    let path = folder.join(name);
    let (status, out, error) = fabriscope(&[command, &["-o", path.to_str().unwrap()]].concat());
    assert_eq!((status, out.as_str()), (Some(0), ""), "{error}");
    std::fs::read(path).unwrap()
}

#[test]
fn every_command_draws_what_it_found() {
    let folder = tempfile::tempdir().unwrap();
    let incast = format!("{}/../../labs/shift-16.toml", env!("CARGO_MANIFEST_DIR"));
    let text = |name: &str, command: &[&str]| String::from_utf8(drawn(folder.path(), name, command)).unwrap();
    let bench = text("bench.svg", &["bench", "osu_bw", "--on", "ri2", "-m", "1:16384"]);
    for word in ["osu_bw on ri2", "published, ri2-osu_bw", "bound: link and PCI Express", "line rate, 100 Gb/s", "4 KiB", "GB/s"] {
        assert!(bench.contains(word), "{word}");
    }
    // Rows of other jobs are not of this one.
    assert!(!text("one.svg", &["bench", "osu_bw", "--on", "ri2", "-m", "8:64", "--transport", "tcp"]).contains("published"));
    let explained = text("stages.svg", &["explain", "ib_write_lat", "--on", "ri2", "-s", "64"]);
    assert!(explained.contains("doorbell") && explained.contains("what one change saves"));
    let validated = text("errors.html", &["validate", "ri2-ib_write_lat"]);
    assert!(validated.contains("goal of the median") && validated.contains("error of the prediction") && validated.contains("<table>"));
    let run = text("links.svg", &["run", &incast]);
    assert!(run.contains("busiest links") && run.contains("endpoint 0 to "));
    // The picture of a run changes nothing of the run.
    let page = text("links.html", &["run", &incast]);
    let told = fabriscope(&["run", &incast]).1;
    let line = told.lines().find(|line| line.starts_with("last rank done")).unwrap().split_whitespace().last().unwrap();
    assert!(page.contains(line), "{line}");
}

#[test]
fn an_image_is_the_same_each_time_and_nothing_is_left_where_there_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let command = ["explain", "ib_write_lat", "--on", "ri2", "-s", "64", "--no-changes"];
    let image = drawn(folder.path(), "a.png", &command);
    assert!(image.starts_with(b"\x89PNG\r\n\x1a\n") && image == drawn(folder.path(), "b.png", &command));
    let before = std::fs::read_dir(folder.path()).unwrap().count();
    let path = folder.path().join("none.png");
    let (status, _, error) = fabriscope(&["clusters", "-o", path.to_str().unwrap()]);
    assert_eq!(status, Some(2));
    assert!(error.contains("nothing to draw"), "{error}");
    let (status, _, error) = fabriscope(&["report", "ri2", "-o", folder.path().join("a.pdf").to_str().unwrap()]);
    assert!(status == Some(2) && error.contains(".html"), "{error}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), before);
}
