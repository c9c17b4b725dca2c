//! What of a profile is taken, each value with its place in the file.
//!
//! Keys that say nothing about a fabric are passed over, whatever they hold: a profile has hundreds. A key of `infiniband` that looks like
//! one with another spelling is an error, and so is any unknown key of `fabriscope`, which only this program reads.

use std::ops::Range;

use fabriscope_fabric::import::yaml::{self, Node, Value, YamlError};

use super::Wrong;
use crate::error::Fault;
use crate::identity::GuidPrefix;
use crate::part::Layer;
use crate::suggest;

/// A value and the bytes of the file at which it stands.
#[derive(Clone, Debug)]
pub(super) struct Placed<T> {
    pub value: T,
    pub at: Range<usize>,
}

/// What a profile says that has a meaning here.
#[derive(Clone, Debug)]
pub(super) struct Read {
    /// The GPU, as NVML calls it; none in nodes without.
    pub gpu: Option<Placed<String>>,
    /// How many of them are listed; none where all are that the node has.
    pub gpus: Placed<u32>,
    /// The generation of NVLink, and the links of each GPU.
    pub nvlink: Option<Placed<u32>>,
    pub nvlinks: Option<Placed<u32>>,
    /// The kind of adapter, as the kernel calls it.
    pub kind: Placed<String>,
    /// Adapters of a node, and else adapters for each GPU.
    pub hcas: Option<Placed<u32>>,
    pub hcas_per_gpu: Placed<u32>,
    pub layer: Placed<Layer>,
    pub gbps: Placed<u32>,
    /// Keys of `[identity]` with their values.
    pub identity: Vec<(&'static str, Placed<String>)>,
    /// Parts of the catalogue that the block `fabriscope` names, and the number of nodes.
    pub node: Option<Placed<String>>,
    pub nic: Option<Placed<String>>,
    pub nodes: Option<Placed<u32>>,
}

impl Read {
    /// Where the value stands from which a key of the cluster was made.
    pub fn place_of(&self, path: &[&str]) -> Range<usize> {
        let of_node = || self.node.as_ref().or(self.gpu.as_ref()).map_or(self.kind.at.clone(), |node| node.at.clone());
        match path {
            ["link", ..] => self.gbps.at.clone(),
            ["link_layer", ..] => self.layer.at.clone(),
            ["node", "gpus", ..] => self.gpus.at.clone(),
            ["node", "nics", ..] => self.hcas.as_ref().unwrap_or(&self.hcas_per_gpu).at.clone(),
            ["node", "nic", ..] => self.nic.as_ref().map_or(&self.kind.at, |nic| &nic.at).clone(),
            ["node", ..] => of_node(),
            ["identity", key, ..] => {
                self.identity.iter().find(|(known, _)| known == key).map_or(self.kind.at.clone(), |(_, text)| text.at.clone())
            }
            ["nodes" | "topology", ..] => self.nodes.as_ref().map_or(0..0, |nodes| nodes.at.clone()),
            _ => self.kind.at.clone(),
        }
    }
}

/// Of these a profile has at least one.
pub(super) const KNOWN: [&str; 3] = ["device_defaults", "devices", "infiniband"];
/// What the mocks assume of adapters where a profile does not say it.
const USUAL_KIND: &str = "MT4129";
const USUAL_GBPS: u32 = 400;
/// Levels of lists and tables; counts of errors are in the seventh.
const MOST_NESTED: usize = 32;
/// What belongs here and what else a YAML file may be.
const NO_PROFILE: &str =
    "a profile has `infiniband` and `device_defaults`; a topology of Slurm becomes a cluster by `fabriscope import FILE -o mine.toml`";

/// Reads a text.
pub(super) fn read(file: &str, text: &str) -> Result<Read, Box<Fault>> {
    let text_of = Text::new(text);
    of_document(&text_of).map_err(|wrong| wrong.fault(file, text))
}

fn of_document(text: &Text<'_>) -> Result<Read, Wrong> {
    let document = yaml::document(text.text, MOST_NESTED).map_err(|error| text.yaml(error))?;
    let document = document.unwrap_or_default();
    let Value::Map(top) = &document.value else {
        return Err(Wrong { at: 0..0, message: "this is no profile of a hardware mock".to_owned(), help: NO_PROFILE.to_owned() });
    };
    if !top.iter().any(|(key, _)| KNOWN.contains(&key.as_str())) {
        let message = "this is no profile of a hardware mock: it has neither GPUs nor adapters".to_owned();
        return Err(Wrong { at: 0..0, message, help: NO_PROFILE.to_owned() });
    }
    let (gpu, gpus) = gpus(text, &document)?;
    let own = own(text, &document)?;
    let nvlink = text.table(&document, "nvlink")?;
    let found = adapters(text, &document)?;
    let of_nvlink = |key| nvlink.map_or(Ok(None), |table| text.count(table, key));
    Ok(Read {
        gpu,
        gpus,
        nvlink: of_nvlink("version")?,
        nvlinks: of_nvlink("links_per_gpu")?,
        kind: found.kind,
        hcas: found.hcas,
        hcas_per_gpu: found.hcas_per_gpu,
        layer: found.layer,
        gbps: found.gbps,
        identity: found.identity,
        node: own.node,
        nic: own.nic,
        nodes: own.nodes,
    })
}

type Gpus = (Option<Placed<String>>, Placed<u32>);

/// The GPU that all are, and how many there are.
fn gpus(text: &Text<'_>, document: &Node) -> Result<Gpus, Wrong> {
    let defaults = text.table(document, "device_defaults")?;
    let mut gpu = defaults.map_or(Ok(None), |table| text.word(table, "name"))?;
    let Some(list) = get(document, "devices") else {
        let at = defaults.map_or(0..0, |table| text.span(table));
        return Ok((gpu, Placed { value: 0, at }));
    };
    let devices = list.list("a list of GPUs, each beginning with `- index: N`").map_err(|error| text.yaml(error))?;
    for device in devices {
        let Some(own) = text.word(device, "name")? else { continue };
        match &gpu {
            Some(usual) if usual.value != own.value => {
                let message = format!("a GPU is `{}` and another `{}`", own.value, usual.value);
                return Err(Wrong { at: own.at, message, help: "GPUs of a node are alike here: give all of them one name".to_owned() });
            }
            Some(_) => {}
            None => gpu = Some(own),
        }
    }
    Ok((gpu, Placed { value: u32::try_from(devices.len()).unwrap_or(u32::MAX), at: text.span(list) }))
}

/// The adapters of a node.
struct Adapters {
    kind: Placed<String>,
    hcas: Option<Placed<u32>>,
    hcas_per_gpu: Placed<u32>,
    layer: Placed<Layer>,
    gbps: Placed<u32>,
    identity: Vec<(&'static str, Placed<String>)>,
}

/// The keys of `infiniband`.
const ADAPTER_KEYS: [&str; 14] = [
    "enabled",
    "hca_type",
    "fw_version",
    "hw_rev",
    "board_id",
    "node_desc_template",
    "link_layer",
    "rate_gbps",
    "port_state",
    "phys_state",
    "hcas_per_gpu",
    "hca_count",
    "guid_prefix",
    "counters",
];

fn adapters(text: &Text<'_>, document: &Node) -> Result<Adapters, Wrong> {
    let table = text.table(document, "infiniband")?;
    let enabled = table.map_or(Ok(None), |table| text.flag(table, "enabled"))?;
    let Some(table) = table.filter(|_| enabled.as_ref().is_some_and(|enabled| enabled.value)) else {
        let at = enabled.map(|enabled| enabled.at).or_else(|| table.map(|table| text.span(table))).unwrap_or(0..0);
        let help = "write `infiniband: { enabled: true }`, with `hca_type` and `rate_gbps` if they are others than MT4129 and 400";
        return Err(Wrong { at, message: "the node has no adapter: `infiniband` is not enabled".to_owned(), help: help.to_owned() });
    };
    text.spelled(table, &ADAPTER_KEYS)?;
    let here = text.span(table);
    let usual = |value: &str| Placed { value: value.to_owned(), at: here.clone() };
    is_up(text, table)?;
    let layer = match text.word(table, "link_layer")? {
        None => Placed { value: Layer::InfiniBand, at: here.clone() },
        Some(word) if word.value.eq_ignore_ascii_case("InfiniBand") => Placed { value: Layer::InfiniBand, at: word.at },
        Some(word) if word.value.eq_ignore_ascii_case("Ethernet") => Placed { value: Layer::Ethernet, at: word.at },
        Some(word) => {
            let message = format!("there is no link layer `{}`", word.value);
            return Err(Wrong { at: word.at, message, help: "write InfiniBand or Ethernet".to_owned() });
        }
    };
    Ok(Adapters {
        kind: text.word(table, "hca_type")?.unwrap_or_else(|| usual(USUAL_KIND)),
        hcas: text.count(table, "hca_count")?,
        hcas_per_gpu: text.count(table, "hcas_per_gpu")?.unwrap_or(Placed { value: 1, at: here.clone() }),
        layer,
        gbps: text.count(table, "rate_gbps")?.unwrap_or(Placed { value: USUAL_GBPS, at: here }),
        identity: identity(text, table)?,
    })
}

/// Ports are up at the beginning of a run.
fn is_up(text: &Text<'_>, table: &Node) -> Result<(), Wrong> {
    for (key, up) in [("port_state", "ACTIVE"), ("phys_state", "LinkUp")] {
        let down = text.word(table, key)?.filter(|word| !word.value.eq_ignore_ascii_case(up));
        if let Some(word) = down {
            let message = format!("ports whose `{key}` is {}", word.value);
            let help =
                format!("write {key}: \"{up}\", and let links go down in the run: a `[[fault]]` of kind link_down, `exec --faults FILE`");
            return Err(Wrong { at: word.at, message, help });
        }
    }
    Ok(())
}

/// What adapters say of themselves.
fn identity(text: &Text<'_>, table: &Node) -> Result<Vec<(&'static str, Placed<String>)>, Wrong> {
    let keys = [
        ("hca_type", "kind"),
        ("fw_version", "firmware"),
        ("board_id", "board"),
        ("hw_rev", "revision"),
        ("node_desc_template", "description"),
        ("guid_prefix", "guid_prefix"),
    ];
    let mut identity = Vec::new();
    for (key, own) in keys {
        let Some(word) = text.word(table, key)? else { continue };
        if own == "guid_prefix" && GuidPrefix::parse(&word.value).is_none() {
            let message = format!("`{}` is not six bytes", word.value);
            return Err(Wrong { at: word.at, message, help: "write 12 hexadecimal digits, such as \"a088c2:0300:ab\"".to_owned() });
        }
        identity.push((own, word));
    }
    Ok(identity)
}

/// The block that only this program reads.
#[derive(Default)]
struct Own {
    node: Option<Placed<String>>,
    nic: Option<Placed<String>>,
    nodes: Option<Placed<u32>>,
}

fn own(text: &Text<'_>, document: &Node) -> Result<Own, Wrong> {
    const KEYS: [&str; 3] = ["node", "nic", "nodes"];
    let Some(table) = text.table(document, "fabriscope")? else { return Ok(Own::default()) };
    text.spelled(table, &KEYS)?;
    if let Value::Map(entries) = &table.value
        && let Some((key, value)) = entries.iter().find(|(key, _)| !KEYS.contains(&key.as_str()))
    {
        let help = "the keys here are node, nic and nodes".to_owned();
        return Err(Wrong { at: text.span(value), message: format!("unknown key `{key}`"), help });
    }
    Ok(Own { node: text.word(table, "node")?, nic: text.word(table, "nic")?, nodes: text.count(table, "nodes")? })
}

/// The value of a key of a table; nothing where there is none, or where the value is left out.
fn get<'n>(table: &'n Node, key: &str) -> Option<&'n Node> {
    let Value::Map(entries) = &table.value else { return None };
    let is_nothing = |value: &Value| match value {
        Value::Nothing => true,
        Value::Text(text) => matches!(text.as_str(), "" | "~" | "null"),
        Value::List(_) | Value::Map(_) => false,
    };
    entries.iter().find(|(known, value)| known == key && !is_nothing(&value.value)).map(|(_, value)| value)
}

/// The text, and where its lines begin.
struct Text<'t> {
    text: &'t str,
    lines: Vec<usize>,
}

impl<'t> Text<'t> {
    fn new(text: &'t str) -> Text<'t> {
        Text { text, lines: std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect() }
    }
    /// The byte at a line and column, each counted from 1.
    fn byte(&self, line: u32, column: u32) -> usize {
        let start = self.lines.get((line as usize).saturating_sub(1)).copied().unwrap_or(self.text.len());
        let within = self.text[start..].char_indices().nth((column as usize).saturating_sub(1)).map_or(0, |(at, _)| at);
        start + within
    }
    fn span(&self, node: &Node) -> Range<usize> {
        let start = self.byte(node.line, node.column);
        let quotes = if self.text[start..].starts_with(['"', '\'']) { 2 } else { 0 };
        let length = if let Value::Text(text) = &node.value { text.len() + quotes } else { 1 };
        start..(start + length).min(self.text.len())
    }
    fn yaml(&self, error: YamlError) -> Wrong {
        let at = self.byte(error.line, error.column);
        Wrong { at: at..at, message: format!("{} cannot be read", error.what), help: error.remedy.to_owned() }
    }
    /// The table under a key.
    fn table<'n>(&self, of: &'n Node, key: &str) -> Result<Option<&'n Node>, Wrong> {
        let Some(node) = get(of, key) else { return Ok(None) };
        node.map("a table: `key: value`, one a line").map(|_| Some(node)).map_err(|error| self.yaml(error))
    }
    /// The text under a key.
    fn word(&self, of: &Node, key: &str) -> Result<Option<Placed<String>>, Wrong> {
        let Some(node) = get(of, key) else { return Ok(None) };
        let word = node.text("a text in quotes").map_err(|error| self.yaml(error))?;
        Ok(Some(Placed { value: word.to_owned(), at: self.span(node) }))
    }
    /// The whole number under a key; nothing for zero, as the mocks have it.
    fn count(&self, of: &Node, key: &str) -> Result<Option<Placed<u32>>, Wrong> {
        let Some(word) = self.word(of, key)? else { return Ok(None) };
        let hex = word.value.strip_prefix("0x").map(|digits| u32::from_str_radix(digits, 16));
        match hex.unwrap_or_else(|| word.value.parse()) {
            Ok(0) => Ok(None),
            Ok(value) => Ok(Some(Placed { value, at: word.at })),
            Err(_) => {
                let message = format!("`{key}` is `{}`", word.value);
                Err(Wrong { at: word.at, message, help: "expected here: a whole number, not negative".to_owned() })
            }
        }
    }
    /// True or false under a key.
    fn flag(&self, of: &Node, key: &str) -> Result<Option<Placed<bool>>, Wrong> {
        let Some(word) = self.word(of, key)? else { return Ok(None) };
        match word.value.to_ascii_lowercase().as_str() {
            "true" => Ok(Some(Placed { value: true, at: word.at })),
            "false" => Ok(Some(Placed { value: false, at: word.at })),
            _ => {
                let message = format!("`{key}` is `{}`", word.value);
                Err(Wrong { at: word.at, message, help: "expected here: true or false".to_owned() })
            }
        }
    }
    /// A key that looks like one of these with another spelling is a mistake.
    fn spelled(&self, table: &Node, known: &[&'static str]) -> Result<(), Wrong> {
        let Value::Map(entries) = &table.value else { return Ok(()) };
        for (key, value) in entries.iter().filter(|(key, _)| !known.contains(&key.as_str())) {
            if let Some(near) = suggest::alike(key, known) {
                let help = format!("did you mean `{near}`?");
                return Err(Wrong { at: self.span(value), message: format!("unknown key `{key}`"), help });
            }
        }
        Ok(())
    }
}
