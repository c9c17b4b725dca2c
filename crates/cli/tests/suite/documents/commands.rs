//! Commands, options and keys that pages name exist, and those that exist are named.

use std::collections::BTreeSet;
use std::process::Command;

use super::page::{documents, read};

/// The first words of the lines that the program prints, from a line that begins with `from` on.
fn listed(args: &[&str], from: &str) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO_BIN_EXE_fabriscope")).args(args).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().skip_while(|line| !line.starts_with(from)).skip(1);
    let lines = lines.take_while(|line| !line.is_empty()).filter(|line| !line.starts_with("    "));
    lines.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

/// Commands in blocks and in the text name subcommands, benchmarks and clusters that there are, also where no output is shown.
#[test]
fn commands_name_what_there_is() {
    let commands = listed(&["--help"], "Commands:");
    let tools = listed(&["bench"], "tool");
    let clusters = listed(&["clusters"], "cluster");
    let placeholder = |word: &str| !word.chars().any(char::is_lowercase) || word.contains(['<', '…']);
    let mut wrong = Vec::new();
    for document in documents().into_iter().filter(|document| document != "CHANGELOG.md") {
        let text = read(&document);
        let blocks = text.lines().map(|line| line.trim_start().trim_start_matches("$ "));
        let spans = text.split('`').skip(1).step_by(2);
        for command in blocks.chain(spans).filter_map(|line| line.strip_prefix("fabriscope ")) {
            let words: Vec<&str> = command.split_whitespace().collect();
            let Some(name) = words.first().filter(|name| !placeholder(name) && !name.starts_with('-')) else { continue };
            let mut known = commands.contains(*name);
            if let (&"bench" | &"explain", Some(tool)) = (name, words.get(1)) {
                known &= (*name, *tool) == ("explain", "train")
                    || placeholder(tool)
                    || tool.starts_with('-')
                    || tools.contains(*tool)
                    || ["hpl", "xhpl"].contains(tool);
            }
            if let Some(cluster) = words.iter().skip_while(|word| **word != "--on").nth(1) {
                let (cluster, _) = cluster.split_once(':').unwrap_or((cluster, ""));
                known &= placeholder(cluster) || [".toml", ".yaml"].iter().any(|end| cluster.ends_with(end)) || clusters.contains(cluster);
            }
            if !known {
                wrong.push(format!("{document}: fabriscope {command}"));
            }
        }
    }
    assert!(wrong.is_empty(), "no such command, benchmark or cluster:\n{}", wrong.join("\n"));
}

/// docs/commands.md names every command, and every option that `bench` adds to those of the tools.
#[test]
fn every_command_is_explained() {
    let text = read("docs/commands.md");
    let commands = listed(&["--help"], "Commands:").into_iter().filter(|command| command != "help");
    let help = Command::new(env!("CARGO_BIN_EXE_fabriscope")).args(["bench", "--help"]).output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let options =
        help.lines().filter_map(|line| line.strip_prefix("      --")?.split([' ', '[', '<']).next()).map(|option| format!("--{option}"));
    let missing: Vec<String> = commands.chain(options).filter(|name| !text.contains(&format!("`{name}"))).collect();
    assert!(missing.is_empty(), "docs/commands.md does not name {missing:?}");
}

/// docs/labs.md names every key of a lab and every workload.
#[test]
fn every_key_of_a_lab_is_explained() {
    let output = Command::new(env!("CARGO_BIN_EXE_fabriscope")).args(["schema", "lab"]).output().unwrap();
    let schema: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let keys = schema["properties"].as_object().unwrap().keys();
    let variants = schema["$defs"]["Workload"]["oneOf"].as_array().unwrap().iter();
    let workloads = variants.filter_map(|variant| variant["properties"].as_object()?.keys().next());
    let text = read("docs/labs.md");
    let missing: Vec<&String> = keys.chain(workloads).filter(|key| !text.contains(&format!("`{key}`"))).collect();
    assert!(missing.is_empty(), "docs/labs.md does not name {missing:?}");
}
