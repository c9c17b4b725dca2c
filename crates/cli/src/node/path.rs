//! The path of a transfer, as a table and as JSON.

use fabriscope_machine::{Access, Leg, Machine, Path, legs, way};
use fabriscope_report::{Cell, Column, Grid, Outcome};
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
    pub fn tell(&self, outcome: &mut Outcome) {
        let mut table = Grid::new([
            Column::words("step", "step"),
            Column::words("from", "from"),
            Column::words("to", "to"),
            Column::words("link", "link"),
            Column::number("latency (ns)", "latency_ns"),
            Column::number("written (GB/s)", "written_bytes_per_s").unit("B/s"),
            Column::number("read (GB/s)", "read_bytes_per_s").unit("B/s"),
        ]);
        let [written, read] = [Access::Write, Access::Read].map(|access| legs(self.machine, &self.path, access));
        let rate = |leg: &Leg| Cell::told(format!("{:.1}{}", leg.bytes_per_s / 1e9, if leg.binds { " *" } else { "  " }), leg.bytes_per_s);
        for (number, (written, read)) in written.iter().zip(&read).enumerate() {
            let [from, to, link] = [&written.from, &written.to, &written.link].map(|name| Cell::word(name.clone()));
            let (step, latency) = (Cell::count(number + 1), Cell::number(written.latency_ns, 1));
            table.push([step, from, to, link, latency, rate(written), rate(read)]);
        }
        for line in self.caption() {
            outcome.note(line);
        }
        let any = written.iter().chain(&read).any(|leg| leg.binds);
        let legend = if any { "* binds: nothing on the path carries less" } else { "every link carries more than the limit named above" };
        outcome.text("\n").table(table.named("steps")).text("\n").note(legend);
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
