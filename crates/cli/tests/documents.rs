//! What the documents show can be typed: every command of README.md runs, and its cluster file is right.

use assert_cmd::Command;

fn readme() -> String {
    std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md")).unwrap()
}

#[test]
fn the_commands_of_the_readme_run() {
    let text = readme();
    let commands: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("$ fabriscope ")).collect();
    assert!(commands.len() >= 3, "{commands:?}");
    // `validate` alone has a step of its own in the Makefile.
    for command in commands.iter().filter(|command| **command != "validate") {
        Command::cargo_bin("fabriscope").unwrap().args(command.split_whitespace()).assert().success();
    }
}

#[test]
fn the_cluster_of_the_readme_is_right() {
    let text = readme();
    let cluster = text.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    std::fs::write(&path, cluster).unwrap();
    let on = format!("{}:2", path.display());
    Command::cargo_bin("fabriscope").unwrap().args(["bench", "ib_send_lat", "--on", &on, "-n", "10"]).assert().success();
}

#[test]
fn links_between_documents_lead_somewhere() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    for document in [
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "docs/performance.md",
        "docs/fabrics.md",
        "docs/captures.md",
        "docs/topologies.md",
        "docs/dependencies.md",
        "validation/README.md",
    ] {
        let path = std::path::Path::new(root).join(document);
        let text = std::fs::read_to_string(&path).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()).filter(|link| !link.contains("://")) {
            assert!(path.parent().unwrap().join(link).exists(), "{document} links to {link}");
        }
    }
}

#[test]
fn the_explained_message_between_gpus_is_as_shown() {
    explained_as_shown("gpu-mpi");
}

#[test]
fn the_explained_message_over_dpus_is_as_shown() {
    explained_as_shown("dpu");
}

/// Runs the one `explain` of a document of a model.
fn explained_as_shown(document: &str) {
    let path = format!("{}/../../docs/models/{document}.md", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let (command, rest) = text.split_once("$ fabriscope explain ").and_then(|(_, rest)| rest.split_once('\n')).unwrap();
    let shown = rest.split("```").next().unwrap();
    let output = Command::cargo_bin("fabriscope").unwrap().arg("explain").args(command.split_whitespace()).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), shown);
}

/// What is shown of one-sided operations is what is printed: each command and its output up to the next.
#[test]
fn the_one_sided_operations_are_as_shown() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/models/one-sided.md");
    let text = std::fs::read_to_string(path).unwrap();
    let blocks = text.split("```\n").skip(1).step_by(2);
    let shown: Vec<&str> = blocks.flat_map(|block| block.split("$ fabriscope ").skip(1)).collect();
    assert_eq!(shown.len(), 4);
    for example in shown {
        let (command, shown) = example.split_once('\n').unwrap();
        let output = Command::cargo_bin("fabriscope").unwrap().args(command.split_whitespace()).output().unwrap();
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(String::from_utf8(output.stdout).unwrap(), shown, "{command}");
    }
}
