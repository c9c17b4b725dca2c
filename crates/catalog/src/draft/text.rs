//! The cluster file as text, with what was assumed beside each line.

use std::fmt::Write as _;

use super::{DraftRequest, Findings, Hardware};
use crate::part::Layer;

/// The file.
pub(super) fn written(found: &Findings<'_>, request: &DraftRequest) -> String {
    let mut text = String::new();
    let several = |count: u32, what: &str| if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") };
    let nodes = format!("{} with {}", several(found.nodes, "host"), several(found.nics, "adapter"));
    let mut line = |key: &str, why: &str| {
        let gap = " ".repeat(COLUMN.saturating_sub(key.chars().count() + 1));
        // Writing to a string cannot fail.
        let _ = if why.is_empty() { writeln!(text, "{key}") } else { writeln!(text, "{key}{gap} # {why}") };
    };
    let file = quoted(&request.file);
    line(&format!("# A cluster to begin with, made of {}.", plain(&request.file)), "");
    line("# Hosts, adapters, cables and speeds are what that file says. What it does not say is assumed below: correct it.", "");
    line("", "");
    line(&format!("name = {}", quoted(&request.name)), "");
    line(&format!("title = {}", quoted(&format!("{}: {nodes}", request.file))), "");
    let layer = if found.link.layer == Layer::InfiniBand { "infiniband" } else { "roce_v2" };
    let why = match &found.speed {
        Some(speed) => format!("most cables of hosts run at {speed}"),
        None => "assumed: the file says no speed".to_owned(),
    };
    line(&format!("link = {}", quoted(&found.link.name)), &why);
    if let Some(trunk) = found.trunk {
        line(&format!("trunk_link = {}", quoted(&trunk.name)), "most cables between switches");
    }
    line(&format!("link_layer = \"{layer}\""), if layer == "infiniband" { "" } else { "assumed" });
    line("mtu = \"4096 B\"", "assumed: the largest");
    line(&format!("switch = {}", quoted(&found.switch.name)), &format!("assumed: it has the speed and at least {} ports", found.ports));
    line("software = \"openmpi-ucx\"", "assumed; of all_reduce_perf and its kin it is the NCCL of the catalogue");
    match &request.tables {
        Some(_) => line("routing = \"table\"", "the tables below"),
        None => line("routing = \"up_down\"", "assumed: free of deadlock on any fabric; with real tables: routing = \"table\""),
    }
    let all = if found.nics == 1 { several(found.nodes, "adapter") } else { format!("all {nodes}") };
    match &request.hosts {
        Some(hosts) => line(&format!("hosts = {}", quoted(hosts)), "these hosts are its nodes, in this order"),
        None => line(&format!("# hosts = {}", quoted(&some(found))), &format!("its nodes, in this order; without: {all}")),
    }
    line("", "");
    line("[topology.imported]", "");
    line(&format!("file = {file}"), "as seen from this file");
    if let Some(tables) = &request.tables {
        line(&format!("tables = {}", quoted(tables)), "");
    }
    line("", "");
    line("[node]", "");
    hardware(found, &mut line);
    line("", "");
    line("[cable]", "");
    line("part = \"optical\"", "assumed");
    line("host_length = { value = \"5 m\", basis = \"assumed\", note = \"within a rack or to the next\" }", "");
    line("trunk_length = { value = \"20 m\", basis = \"assumed\", note = \"within one room\" }", "");
    text
}

fn hardware(found: &Findings<'_>, line: &mut impl FnMut(&str, &str)) {
    let nics = found.nics;
    match &found.node {
        Hardware::Part { part, nic, assumed } => {
            let why = match assumed {
                true => format!("assumed: hosts with {nics} adapters at this speed have GPUs; others: `fabriscope parts`"),
                false => String::new(),
            };
            line(&format!("part = {}", quoted(&part.name)), &why);
            if let Some(nic) = nic {
                line(&format!("nic = {}", quoted(nic)), "assumed: it runs at this speed");
            }
            let has = part.nics();
            let why = if has == nics { String::new() } else { format!("its first ones: the node has {has}, a host in the file {nics}") };
            line(&format!("nics = {nics}"), &why);
        }
        Hardware::Plain { cpu, nic } => {
            line(&format!("cpu = {}", quoted(cpu)), "assumed");
            line("sockets = 2", "assumed");
            line(&format!("nic = {}", quoted(nic)), "assumed: it runs at this speed");
            if nics > 1 {
                line(&format!("nics = {nics}"), "as many as a host in the file");
            }
        }
    }
}

/// The first hosts that can be nodes, as a list.
fn some(found: &Findings<'_>) -> String {
    let usual = fabriscope_fabric::import::Host::usual_first(&found.hosts).into_iter().map(|number| &found.hosts[number]);
    let fits = usual.filter(|host| !host.unnamed && host.ports.len() as u32 == found.nics);
    fabriscope_fabric::export::fold(fits.take(4).map(|host| host.name.as_str()))
}

/// A string of TOML.
pub(crate) fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// Text for a comment.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Where the reasons begin.
const COLUMN: usize = 28;
