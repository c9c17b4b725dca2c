//! A reader as strict as NCCL's own: one blank before each attribute, no tabs, no declaration, no entities, and its limits.

use std::collections::BTreeMap;

/// An element as NCCL keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Element {
    pub name: String,
    pub attributes: BTreeMap<String, String>,
    pub children: Vec<Element>,
}

/// What NCCL knows below each element; others it passes over.
fn known(parent: &str) -> &'static [&'static str] {
    match parent {
        "" => &["system"],
        "system" => &["cpu"],
        "cpu" => &["pci", "nic"],
        "pci" => &["pci", "gpu", "nic", "pcilink"],
        "gpu" => &["nvlink", "xgmi", "c2c"],
        "nic" => &["net"],
        _ => &[],
    }
}

struct Reader<'t> {
    rest: &'t str,
    elements: usize,
}

/// Reads a file, or says what NCCL would stumble over.
pub fn read(text: &str) -> Result<Element, String> {
    let mut reader = Reader { rest: text, elements: 0 };
    let mut roots = reader.inside("")?;
    match (roots.len(), roots.pop()) {
        (1, Some(root)) if reader.rest.trim_matches(['\n', ' ', '\r']).is_empty() => Ok(root),
        (count, _) => Err(format!("{count} elements at the top")),
    }
}

impl Reader<'_> {
    fn next(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        self.rest = &self.rest[c.len_utf8()..];
        Some(c)
    }
    fn token(&mut self) -> Result<(String, char), String> {
        let mut token = String::new();
        loop {
            match self.next().ok_or("the end within a tag")? {
                c @ (' ' | '>' | '/' | '\n' | '\r' | '=') => return Ok((token, c)),
                c if token.len() >= 253 => return Err(format!("`{token}{c}` is too long")),
                c => token.push(c),
            }
        }
    }
    fn value(&mut self) -> Result<(String, char), String> {
        if self.next() != Some('"') {
            return Err("a value without quotes".to_owned());
        }
        let mut value = String::new();
        loop {
            match self.next().ok_or("the end within a value")? {
                '"' => break,
                '\t' | '&' | '<' | '>' => return Err(format!("`{value}` goes on with what NCCL takes as it stands")),
                _ if value.len() >= 253 => return Err(format!("`{value}` is too long")),
                c => value.push(c),
            }
        }
        Ok((value, self.next().ok_or("the end within a tag")?))
    }
    fn inside(&mut self, parent: &str) -> Result<Vec<Element>, String> {
        let mut children = Vec::new();
        loop {
            self.rest = self.rest.trim_start_matches([' ', '\n', '\r']);
            if self.rest.is_empty() {
                return if parent.is_empty() { Ok(children) } else { Err(format!("unterminated {parent}")) };
            }
            if self.next() != Some('<') {
                return Err(format!("expected `<` below {parent}"));
            }
            if self.rest.starts_with("!--") {
                self.rest = self.rest.split_once("-->").ok_or("unterminated comment")?.1;
                continue;
            }
            let (name, mut last) = self.token()?;
            if name.is_empty() && last == '/' {
                let (name, last) = self.token()?;
                return if name == parent && last == '>' { Ok(children) } else { Err(format!("{parent} closed by {name}")) };
            }
            let mut attributes = BTreeMap::new();
            while last == ' ' {
                let (key, equals) = self.token()?;
                if equals != '=' || key.is_empty() || !key.bytes().all(|b| b.is_ascii_lowercase() || b == b'_' || b.is_ascii_digit()) {
                    return Err(format!("`{key}` of {name} is no attribute"));
                }
                let (value, after) = self.value()?;
                last = after;
                if attributes.insert(key.clone(), value).is_some() {
                    return Err(format!("`{key}` twice in {name}"));
                }
            }
            if attributes.len() > 16 {
                return Err(format!("{} attributes in {name}", attributes.len()));
            }
            let closed = last == '/';
            if closed {
                let (rest, after) = self.token()?;
                last = if rest.is_empty() { after } else { '?' };
            }
            if last != '>' {
                return Err(format!("expected > after {name}, got {last:?}"));
            }
            if !known(parent).contains(&name.as_str()) {
                return Err(format!("NCCL passes over {name} below {parent}"));
            }
            self.elements += 1;
            if self.elements > 255 {
                return Err("more than 255 elements".to_owned());
            }
            let inner = if closed { Vec::new() } else { self.inside(&name)? };
            if inner.len() > 640 {
                return Err(format!("{} children of {name}", inner.len()));
            }
            required(&name, &attributes)?;
            children.push(Element { name, attributes, children: inner });
        }
    }
}

/// What NCCL asks of each element without an answer of its own (src/graph/topo.cc).
fn required(name: &str, attributes: &BTreeMap<String, String>) -> Result<(), String> {
    let needed: &[&str] = match name {
        "system" => &["version"],
        "cpu" => &["numaid", "arch"],
        "pci" => &["busid", "class", "link_speed", "link_width"],
        "gpu" => &["dev", "sm", "rank", "gdr"],
        "nvlink" => &["count", "tclass", "target"],
        "c2c" => &["count", "bw"],
        "pcilink" => &["target"],
        _ => &[],
    };
    match needed.iter().find(|attribute| !attributes.contains_key(**attribute)) {
        Some(missing) => Err(format!("{name} has no {missing}")),
        None => Ok(()),
    }
}

#[test]
fn it_stumbles_over_what_nccl_stumbles_over() {
    let good = "<system version=\"1\">\n  <cpu numaid=\"0\" arch=\"arm64\">\n  </cpu>\n</system>\n";
    assert!(read(good).is_ok());
    for (right, wrong) in [
        ("<system", "<?xml version=\"1.0\"?>\n<system"),
        ("  <cpu", "\t<cpu"),
        (" arch", "  arch"),
        ("\"arm64\">", "\"arm64\" >"),
        ("arm64", "arm&amp;64"),
        ("numaid=\"0\" ", ""),
        ("</cpu>", "<gpu/></cpu>"),
        ("</cpu>\n", ""),
    ] {
        assert!(read(&good.replace(right, wrong)).is_err(), "{wrong}");
    }
    assert!(read(&good.replace("arm64", &"x".repeat(254))).is_err());
    let many: String = (0..16).map(|number| format!(" a{number}=\"\"")).collect();
    assert!(read(&good.replace(" arch", &format!("{many} arch"))).is_err());
}
