//! Listings over all parts: every number with its origin, what is fitted, what is broken.

use serde::Serialize;
use serde_json::Value;

use crate::catalog::{AnyPart, Catalog};
use crate::cluster::ResolvedCluster;
use crate::error::{CatalogError, Problem};
use crate::part::{Gpu, Kind, Part, PowerFigures};
use crate::resolve::missing;
use crate::sourced::Basis;
use crate::suggest;

/// One number of one part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    /// The folder of the part.
    pub kind: &'static str,
    /// The name of the part.
    pub part: String,
    /// The keys that lead to the number, `root_complex.max_payload`.
    pub field: String,
    /// The number with its unit.
    pub value: String,
    /// What it rests on.
    pub basis: Basis,
    /// Where to look it up.
    pub source: String,
    /// How it was derived, or why it was assumed.
    pub note: String,
}

impl AnyPart {
    /// Every number of the part, in the order of its fields.
    pub fn numbers(&self) -> Vec<Row> {
        numbers(self.kind(), self.name(), &self.to_json())
    }
}

impl Catalog {
    /// Every number of every part, by kind and name.
    pub fn parts_table(&self) -> Vec<Row> {
        self.parts().flat_map(AnyPart::numbers).collect()
    }

    /// Everything that is wrong across parts: names that lead nowhere, clusters that cannot be.
    ///
    /// Faults within a part never get this far: the catalogue would not have loaded.
    pub fn check(&self) -> Vec<CatalogError> {
        self.parts().filter_map(|part| self.check_part(part).err()).collect()
    }

    fn check_part(&self, part: &AnyPart) -> Result<(), CatalogError> {
        let (speeds, layers): (&[String], &[_]) = match part {
            AnyPart::Nic(nic) => (&nic.speeds, &nic.layers),
            AnyPart::Switch(switch) => (&switch.speeds, std::slice::from_ref(&switch.layer)),
            AnyPart::Node(node) => return crate::resolve_node::check_part(self, node).map_err(|problem| self.located(part, problem)),
            AnyPart::Power(figures) => return self.check_power(figures).map_err(|problem| self.located(part, problem)),
            AnyPart::Gpu(gpu) => return self.check_gpu(gpu).map_err(|problem| self.located(part, problem)),
            AnyPart::Cluster(cluster) => return self.resolve(cluster, None).map(drop),
            _ => return Ok(()),
        };
        for speed in speeds {
            let Ok(link) = self.link(speed) else {
                let help = suggest::help(speed, self.names(Kind::Link));
                return Err(self.located(part, Problem::at(&["speeds"], format!("there is no link speed called `{speed}`"), help)));
            };
            if !layers.contains(&link.layer) {
                let message = format!("`{speed}` is a speed of {}, which this part does not speak", link.layer);
                return Err(self.located(part, Problem::at(&["speeds"], message, "remove the speed, or add the layer")));
            }
        }
        if let AnyPart::Nic(nic) = part
            && !self
                .parts()
                .any(|part| matches!(part, AnyPart::Pcie(pcie) if pcie.generation == nic.pcie.generation && pcie.bus == nic.pcie.bus))
        {
            let message = format!("there is no {}", nic.pcie.noun());
            return Err(self.located(part, Problem::at(&["pcie", "generation"], message, "add it to pcie/, or use another")));
        }
        if let AnyPart::Nic(nic) = part {
            crate::resolve_node::dpu(self, nic).map_err(|problem| self.located(part, problem))?;
        }
        Ok(())
    }

    /// What a part draws; nothing where no file of `power/` says it.
    pub fn power_of(&self, kind: Kind, name: &str) -> Option<&PowerFigures> {
        self.parts().find_map(|part| match part {
            AnyPart::Power(figures) if figures.describes(kind, name) => Some(&**figures),
            _ => None,
        })
    }

    /// Figures of parts that there are, each of which has one file of them.
    fn check_power(&self, figures: &PowerFigures) -> Result<(), Problem> {
        let kinds =
            [("switches", Kind::Switch, &figures.switches), ("nics", Kind::Nic, &figures.nics), ("cables", Kind::Cable, &figures.cables)];
        for (key, kind, name) in kinds.iter().flat_map(|(key, kind, names)| names.iter().map(move |name| (*key, *kind, name))) {
            self.part(kind, name).map_err(|error| missing(&[key], &error))?;
            if let Some(other) = self.power_of(kind, name).filter(|other| other.name != figures.name) {
                let message = format!("`{}` has figures for `{name}`, too", other.name);
                return Err(Problem::at(&[key], message, "leave it in one of the files"));
            }
        }
        Ok(())
    }

    fn check_gpu(&self, gpu: &Gpu) -> Result<(), Problem> {
        if let Some(slot) = gpu.pcie
            && !self.parts().any(|part| matches!(part, AnyPart::Pcie(pcie) if pcie.generation == slot.generation))
        {
            let message = format!("there is no PCIe generation {}", slot.generation);
            return Err(Problem::at(&["pcie", "generation"], message, "add it to pcie/, or use another"));
        }
        match &gpu.scale_up {
            Some(ports) => self.interconnect(&ports.interconnect).map(drop).map_err(|error| missing(&["scale_up", "interconnect"], &error)),
            None => Ok(()),
        }
    }

    /// The fitted numbers that a run on `cluster` rests on, its hardware and perftest; with those of `software` if named.
    ///
    /// # Errors
    /// No cluster or software of that name.
    pub fn fitted_numbers(&self, cluster: &str, software: Option<&str>) -> Result<Vec<Row>, CatalogError> {
        let resolved = self.target(cluster)?;
        let mut rows = used(&resolved);
        if let Some(name) = software {
            rows.extend(self.part(Kind::Software, name)?.numbers());
        }
        rows.retain(|row| row.basis == Basis::Fitted);
        Ok(rows)
    }
}

/// Every number that a run on the cluster may read, the MPI library left out.
fn used(cluster: &ResolvedCluster) -> Vec<Row> {
    fn of<P: Part>(part: &P) -> Vec<Row> {
        numbers(P::KIND, part.name(), &serde_json::to_value(part).unwrap_or_default())
    }
    let mut rows = Vec::new();
    for (number, group) in cluster.groups.iter().enumerate() {
        rows.extend(of(&group.link));
        if number == 0 {
            rows.extend(of(&cluster.cable));
        }
        rows.extend(of(&*group.node.nic));
        if number == 0 {
            rows.extend(cluster.switch.iter().flat_map(of));
        }
        rows.extend(of(&*group.node.cpu));
        rows.extend(group.node.gpu.iter().flat_map(|gpu| of(&**gpu)));
        rows.extend(of(&group.node.pcie.part));
    }
    rows.extend(of(&*cluster.perftest));
    rows
}

fn numbers(kind: Kind, part: &str, data: &Value) -> Vec<Row> {
    let mut rows = Vec::new();
    collect(kind, part, &mut Vec::new(), data, &mut rows);
    rows
}

/// A table with a value and a basis is a number; any other table is searched.
fn collect<'a>(kind: Kind, part: &str, path: &mut Vec<&'a str>, data: &'a Value, rows: &mut Vec<Row>) {
    let Value::Object(table) = data else { return };
    let basis = table.get("basis").and_then(Value::as_str).and_then(|name| Basis::ALL.into_iter().find(|basis| basis.name() == name));
    if let (Some(value), Some(basis)) = (table.get("value"), basis) {
        let text = |key: &str| table.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        rows.push(Row {
            kind: kind.folder(),
            part: part.to_owned(),
            field: path.join("."),
            value,
            basis,
            source: text("source"),
            note: text("note"),
        });
        return;
    }
    for (key, inner) in table {
        path.push(key);
        collect(kind, part, path, inner, rows);
        path.pop();
    }
}
