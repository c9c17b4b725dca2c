//! Cabling plans in the language of Graphviz, the way Cumulus PTM and NVIDIA Air read them: `"leaf01":"p1" -- "gpu01":"p1"`.

use std::fmt::Write;

use crate::import::{Kind, Subnet};

/// The text of the file.
pub fn dot(subnet: &Subnet) -> String {
    let quoted = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    let levels = subnet.levels();
    let mut text = String::from("graph fabric {\n");
    for (index, device) in subnet.devices.iter().enumerate() {
        let role = match (device.kind, levels[index]) {
            (Kind::Switch, Some(1)) => "leaf",
            (Kind::Switch, Some(2)) => "spine",
            (Kind::Switch, _) => "core",
            (Kind::Adapter, _) => "host",
            (Kind::Aggregation, _) => "aggregation",
            (Kind::Router, _) => "router",
        };
        let _ = writeln!(text, " {} [ role=\"{role}\" ]", quoted(device.name()));
    }
    for cable in &subnet.cables {
        let [a, b] = cable.ends.map(|end| format!("{}:\"p{}\"", quoted(subnet.device(end).name()), end.port));
        let speed = cable.speed.map_or_else(String::new, |speed| format!(" [ speed=\"{speed}\" ]"));
        let _ = writeln!(text, " {a} -- {b}{speed}");
    }
    text + "}\n"
}
