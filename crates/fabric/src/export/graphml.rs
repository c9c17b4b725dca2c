//! GraphML, for graph tools such as yEd, Gephi and NetworkX: devices with kind, name and level, cables with ports and rate.
//!
//! Source: U. Brandes et al., "GraphML progress report", GD 2001. Parallel cables are parallel edges.

use std::fmt::Write;

use crate::import::{Kind, Subnet};

/// The text of the file.
pub fn graphml(subnet: &Subnet) -> String {
    graphml_with_loads(subnet, &[])
}

/// The same with the load of each cable, where it is known.
pub fn graphml_with_loads(subnet: &Subnet, loads: &[Option<f64>]) -> String {
    let levels = subnet.levels();
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<graphml xmlns=\"http://graphml.graphdrawing.org/xmlns\">\n");
    let load = (!loads.is_empty()).then_some(("load", "edge", "double"));
    for (key, of, kind) in [
        ("name", "node", "string"),
        ("kind", "node", "string"),
        ("level", "node", "int"),
        ("ports", "edge", "string"),
        ("gbps", "edge", "double"),
    ]
    .into_iter()
    .chain(load)
    {
        let _ = writeln!(text, " <key id=\"{key}\" for=\"{of}\" attr.name=\"{key}\" attr.type=\"{kind}\"/>");
    }
    text += " <graph id=\"fabric\" edgedefault=\"undirected\">\n";
    for (index, device) in subnet.devices.iter().enumerate() {
        let kind = match device.kind {
            Kind::Switch => "switch",
            Kind::Adapter => "host",
            Kind::Aggregation => "aggregation",
            Kind::Router => "router",
        };
        let level = levels[index].map_or_else(String::new, |level| format!("<data key=\"level\">{level}</data>"));
        let name = escaped(device.name());
        let _ = writeln!(text, "  <node id=\"n{index}\"><data key=\"name\">{name}</data><data key=\"kind\">{kind}</data>{level}</node>");
    }
    for (index, cable) in subnet.cables.iter().enumerate() {
        let [a, b] = cable.ends;
        let rate = cable.data_rate().map_or_else(String::new, |rate| format!("<data key=\"gbps\">{}</data>", rate.as_bps() as f64 / 1e9));
        let load = loads.get(index).copied().flatten();
        let load = load.map_or_else(String::new, |load| format!("<data key=\"load\">{load:.4}</data>"));
        let _ = writeln!(
            text,
            "  <edge source=\"n{}\" target=\"n{}\"><data key=\"ports\">{} {}</data>{rate}{load}</edge>",
            a.device, b.device, a.port, b.port
        );
    }
    text + " </graph>\n</graphml>\n"
}

fn escaped(text: &str) -> String {
    let text: String = text.chars().filter(|c| !c.is_control()).collect();
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
