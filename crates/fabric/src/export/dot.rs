//! Cabling plans in the language of Graphviz, the way Cumulus PTM and NVIDIA Air read them: `"leaf01":"p1" -- "gpu01":"p1"`.

use std::fmt::Write;

use crate::import::{Kind, Subnet};

/// The text of the file.
pub fn dot(subnet: &Subnet) -> String {
    dot_with_loads(subnet, &[])
}

/// The same with the load of each cable as an attribute, where it is known.
pub fn dot_with_loads(subnet: &Subnet, loads: &[Option<f64>]) -> String {
    let quoted = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    let (levels, names) = (subnet.levels(), subnet.distinct_names());
    let mut text = String::from("graph fabric {\n");
    for (index, device) in subnet.devices.iter().enumerate() {
        let role = match (device.kind, levels[index]) {
            (Kind::Switch, Some(1)) => "leaf",
            (Kind::Switch, Some(2)) => "spine",
            (Kind::Switch, _) => "core",
            (Kind::Adapter, _) => "host",
            (Kind::Aggregation, _) => "aggregation-node",
            (Kind::Router, _) => "infiniband-router",
        };
        let _ = writeln!(text, " {} [ role=\"{role}\" ]", quoted(&names[index]));
    }
    for (index, cable) in subnet.cables.iter().enumerate() {
        let [a, b] = cable.ends.map(|end| format!("{}:\"p{}\"", quoted(&names[end.device as usize]), end.port));
        let speed = match (cable.speed, cable.rate) {
            (Some(speed), _) => Some(format!("speed=\"{speed}\"")),
            (None, Some(rate)) if rate.as_bps() % 1_000_000 == 0 => Some(format!("speed=\"{}Mbps\"", rate.as_bps() / 1_000_000)),
            (None, Some(rate)) => Some(format!("speed=\"{}bps\"", rate.as_bps())),
            (None, None) => None,
        };
        let load = loads.get(index).copied().flatten().map(|load| format!("load=\"{load:.4}\""));
        let attributes: Vec<String> = speed.into_iter().chain(load).collect();
        let attributes = if attributes.is_empty() { String::new() } else { format!(" [ {} ]", attributes.join(" ")) };
        let _ = writeln!(text, " {a} -- {b}{attributes}");
    }
    text + "}\n"
}
