//! `lctl get_param`: tunables of clients and servers under Lustre's names.
//!
//! Source: parameters of Lustre 2.15 as `lctl get_param` names them.
//! Modelled: those that the engine of RPCs reads. Not modelled: counters of an idle file system.

use std::fmt::Write;

use fabriscope_tool::arguments::{self, Meaning, Opt, Takes, opt};
use fabriscope_tool::{ToolOutput, UsageError};

use crate::mount::Mount;

/// The options of the command line.
pub const OPTIONS: &[Opt] = &[
    opt('n', "only-value", Takes::Nothing, Meaning::Usual, "values without names"),
    opt('N', "only-name", Takes::Nothing, Meaning::Usual, "names without values"),
    opt('h', "help", Takes::Nothing, Meaning::Usual, "show this page"),
];

/// Runs it.
pub(crate) fn run(args: &[String], mount: &Mount) -> Result<ToolOutput, UsageError> {
    let parsed = arguments::parse("lctl", OPTIONS, args)?;
    let given = |name: &str| parsed.options.iter().any(|given| given.name == name);
    if given("help") {
        let notes = "\nlctl get_param PATTERN…, for example lctl get_param osc.*.max_rpcs_in_flight\n";
        return Err(UsageError::Help { text: arguments::help("lctl", crate::StorageTool::Lctl.about(), OPTIONS, notes) });
    }
    let patterns = match parsed.operands.split_first() {
        Some((command, rest)) if command == "get_param" && !rest.is_empty() => rest,
        _ => {
            let what = "lctl takes get_param and patterns here".to_owned();
            return Err(UsageError::Conflict { what, remedy: "for example: lctl get_param osc.*.max_rpcs_in_flight".to_owned() });
        }
    };
    let all = parameters(mount);
    let mut text = String::new();
    for pattern in patterns {
        let mut found = false;
        for (name, value) in all.iter().filter(|(name, _)| matches(pattern, name)) {
            found = true;
            let _ = match (given("only-value"), given("only-name")) {
                (true, _) => writeln!(text, "{value}"),
                (_, true) => writeln!(text, "{name}"),
                _ => writeln!(text, "{name}={value}"),
            };
        }
        if !found {
            let what = format!("no parameter is named `{pattern}`");
            return Err(UsageError::Conflict { what, remedy: "lctl get_param -N '*' lists them".to_owned() });
        }
    }
    Ok(ToolOutput { text, ..ToolOutput::default() })
}

fn parameters(mount: &Mount) -> Vec<(String, String)> {
    let (name, costs) = (&mount.files.part.name, &mount.system.costs);
    let client = &costs.client;
    let mib = |bytes: u64| (bytes >> 20).to_string();
    let mut all = Vec::new();
    let llite = format!("llite.{name}-ffff0000");
    all.push((format!("{llite}.max_read_ahead_per_file_mb"), mib(client.max_read_ahead.0)));
    all.push((format!("{llite}.stripe_count"), mount.files.part.stripe_count.to_string()));
    for number in 0..mount.system.mdts() {
        let mdc = format!("mdc.{name}-MDT{number:04x}-mdc-ffff0000");
        all.push((format!("{mdc}.max_rpcs_in_flight"), client.max_metadata_rpcs_in_flight.to_string()));
        all.push((format!("{mdc}.max_mod_rpcs_in_flight"), client.max_mod_rpcs_in_flight.to_string()));
    }
    for number in 0..mount.system.osts() {
        let osc = format!("osc.{name}-OST{number:04x}-osc-ffff0000");
        all.push((format!("{osc}.max_dirty_mb"), mib(client.max_dirty.0)));
        all.push((format!("{osc}.max_pages_per_rpc"), (client.max_pages_per_rpc.0 / 4096).to_string()));
        all.push((format!("{osc}.max_rpcs_in_flight"), client.max_rpcs_in_flight.to_string()));
        all.push((format!("{osc}.kbytestotal"), (mount.system.oss.capacity.0 / 1024).to_string()));
    }
    all
}

/// A `*` stands for any text.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((front, rest)) => name
            .strip_prefix(front)
            .is_some_and(|left| left.char_indices().map(|(at, _)| at).chain([left.len()]).any(|at| matches(rest, &left[at..]))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_any_text() {
        for (pattern, yes) in
            [("*", true), ("osc.*.max_rpcs_in_flight", true), ("osc.*.max_dirty_mb", false), ("osc*", true), ("llite*", false)]
        {
            assert_eq!(matches(pattern, "osc.a-OST0000-osc-ffff.max_rpcs_in_flight"), yes, "{pattern}");
        }
    }
}
