//! The path of a transfer, as a table and as JSON.

use fabriscope_machine::{Access, Leg, Machine, Path, legs, way};
use fabriscope_report::Table;
use serde_json::{Value, json};

use super::wrong;
use crate::error::Failure;

/// The path of a transfer in a node.
pub struct TransferPath<'m> {
    machine: &'m Machine,
    pub path: Path,
}

impl<'m> TransferPath<'m> {
    /// The path between two devices or memories, by their names.
    pub fn find(machine: &'m Machine, node: &str, from: &str, to: &str) -> Result<TransferPath<'m>, Failure> {
        let end = |name: &str| machine.find(name).map_err(|error| wrong(node, &error));
        let path = way(machine, end(from)?, end(to)?);
        let path =
            path.ok_or_else(|| Failure::told(format!("{node}: no path leads from {from} to {to}"), "choose memories, GPUs or adapters"))?;
        Ok(TransferPath { machine, path })
    }

    fn class(&self) -> String {
        self.machine.class_of(&self.path).to_string()
    }
    fn rate(&self, access: Access) -> f64 {
        self.path.rate(self.machine, access).as_bytes_per_s_f64() / 1e9
    }
    fn bound(&self, access: Access) -> String {
        self.path.bound(self.machine, access).map_or_else(|| "nothing".to_owned(), |(_, bound)| self.machine.describe(bound))
    }
    fn ends(&self) -> [&str; 2] {
        [self.path.from, self.path.to].map(|end| self.machine.vertex(end).name.as_str())
    }

    /// What is told beneath a picture.
    pub fn caption(&self) -> Vec<String> {
        let [from, to] = self.ends();
        let latency = self.path.latency(self.machine).as_ps() as f64 / 1000.0;
        let line = |what: &str, access: Access| format!("{what} {:.1} GB/s, bound by {}", self.rate(access), self.bound(access));
        vec![
            format!("{from} to {to}: {}, {latency:.0} ns", self.class()),
            line("data that the near end writes", Access::Write),
            line("data that the far end reads", Access::Read),
        ]
    }

    /// Every step, and the bottleneck.
    pub fn text(&self) -> String {
        let mut table =
            Table::new(["step", "from", "to", "link", "latency (ns)", "written (GB/s)", "read (GB/s)"]).words(1).words(2).words(3);
        let [written, read] = [Access::Write, Access::Read].map(|access| legs(self.machine, &self.path, access));
        let rate = |leg: &Leg| format!("{:.1}{}", leg.bytes_per_s / 1e9, if leg.binds { " *" } else { "  " });
        for (number, (written, read)) in written.iter().zip(&read).enumerate() {
            let latency = format!("{:.1}", written.latency_ns);
            let (from, to, link) = (written.from.clone(), written.to.clone(), written.link.clone());
            table.push([(number + 1).to_string(), from, to, link, latency, rate(written), rate(read)]);
        }
        let caption: String = self.caption().iter().map(|line| format!("# {line}\n")).collect();
        let any = written.iter().chain(&read).any(|leg| leg.binds);
        let legend =
            if any { "# * binds: nothing on the path carries less\n" } else { "# every link carries more than the limit named above\n" };
        format!("{caption}\n{table}\n{legend}")
    }

    /// The same for machines.
    pub fn json(&self) -> Value {
        let [from, to] = self.ends();
        let of = |access: Access| {
            let rate = self.path.rate(self.machine, access).as_bytes_per_s_f64();
            json!({ "bytes_per_s": rate, "bound": self.bound(access), "steps": legs(self.machine, &self.path, access) })
        };
        let latency = self.path.latency(self.machine).as_ps() as f64 / 1000.0;
        json!({ "from": from, "to": to, "class": self.class(), "latency_ns": latency, "written": of(Access::Write), "read": of(Access::Read) })
    }
}
