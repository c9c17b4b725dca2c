//! One way of bytes inside a node: every link in order, what it carries, and what binds.

use fabriscope_machine::{Access, Machine, Path, PathClass, Purpose, Use, VertexId, VertexKind};
use fabriscope_report::Table;
use fabriscope_report::explain::nanoseconds;
use fabriscope_units::{Bytes, Rate, Span};

/// A way from one memory or adapter to another.
#[derive(Debug, Clone)]
pub struct Leg {
    /// Who moves the bytes, in words.
    pub what: String,
    path: Path,
    access: Access,
}

/// A link or limit on the way.
struct Row {
    title: String,
    payload: Rate,
    latency: Option<Span>,
    /// It is an adapter's own, which carries a piece of a message that is cut.
    own: bool,
}

impl Leg {
    /// The way of `purpose` between two vertices, if there is one.
    pub fn between(
        machine: &Machine,
        what: impl Into<String>,
        (from, to): (VertexId, VertexId),
        purpose: Purpose,
        access: Access,
    ) -> Option<Leg> {
        machine.path(from, to, purpose).map(|path| Leg { what: what.into(), path, access })
    }

    /// The link or limit that binds it when nothing else is in flight, and its rate of payload.
    pub fn bound(&self, machine: &Machine) -> Option<(String, Rate)> {
        let (rate, resource) = self.path.bound(machine, self.access)?;
        Some((machine.describe(resource), rate))
    }

    /// What a message of `size` bytes over so many adapters keeps busy longest, and how long.
    pub fn busiest(&self, machine: &Machine, size: u64, pieces: u32) -> Option<(String, Span)> {
        let busy = |row: Row| {
            let share = if row.own { size.div_ceil(u64::from(pieces.max(1))) } else { size };
            (row.payload.time(Bytes(share)), row.title)
        };
        // The first of equals.
        let longest = self.rows(machine).into_iter().map(busy).reduce(|best, next| if next.0 > best.0 { next } else { best });
        longest.map(|(span, title)| (title, span))
    }

    /// Latency of all its links, one way.
    pub fn latency(&self, machine: &Machine) -> Span {
        self.path.latency(machine)
    }

    /// How near the devices at its ends are.
    fn class(&self, machine: &Machine) -> PathClass {
        let device = |end: VertexId| {
            let owner = machine.around(end).first().map(|link| machine.link(*link).other(end));
            owner.filter(|_| machine.vertex(end).kind.is_memory()).unwrap_or(end)
        };
        machine.class(device(self.path.from), device(self.path.to))
    }

    fn rows(&self, machine: &Machine) -> Vec<Row> {
        let row = |used: Use, latency, own| Row {
            title: machine.describe(used.resource),
            payload: machine.payload(used).unwrap_or_default(),
            latency,
            own,
        };
        let links = self.path.steps.iter().map(|step| {
            let link = machine.link(step.link);
            let own = [link.a, link.b].iter().any(|end| machine.vertex(*end).kind == VertexKind::Nic);
            row(machine.carried(step, self.access), Some(link.latency), own)
        });
        let limits = machine.uses(&self.path, self.access).into_iter().filter(|used| used.resource.0 as usize >= machine.links().len() * 2);
        let limits = limits.map(|used| row(used, None, false));
        links.chain(limits).collect()
    }

    /// The table of its links, and the line that says what binds.
    pub fn text(&self, machine: &Machine) -> String {
        let head = format!("{}: {}, {} ns one way\n", self.what, self.class(machine), nanoseconds(self.path.latency(machine)));
        let mut table = Table::new(["link", "payload (GB/s)", "latency (ns)"]);
        for row in self.rows(machine) {
            table.push([row.title, gigabytes(row.payload), row.latency.map_or_else(|| "-".to_owned(), nanoseconds)]);
        }
        let bound = self.bound(machine).map_or_else(String::new, |(what, rate)| format!("bound: {what}, {} GB/s\n", gigabytes(rate)));
        if self.path.steps.is_empty() { head } else { format!("{head}{table}{bound}") }
    }

    /// The same for programs.
    pub fn json(&self, machine: &Machine) -> serde_json::Value {
        let name = |id: VertexId| machine.vertex(id).name.clone();
        let row = |row: Row| {
            let latency = row.latency.map(Span::as_ps);
            serde_json::json!({ "link": row.title, "payload_bps": row.payload.as_bps(), "latency_ps": latency })
        };
        let bound = self.bound(machine);
        serde_json::json!({
            "what": self.what,
            "class": self.class(machine).to_string(),
            "vertices": self.path.vertices(machine).into_iter().map(name).collect::<Vec<_>>(),
            "links": self.rows(machine).into_iter().map(row).collect::<Vec<_>>(),
            "latency_ps": self.path.latency(machine).as_ps(),
            "bound": bound.as_ref().map(|(what, _)| what),
            "bound_bps": bound.map(|(_, rate)| rate.as_bps()),
        })
    }
}

/// GB/s of 10⁹ bytes.
fn gigabytes(rate: Rate) -> String {
    format!("{:.2}", rate.as_bytes_per_s_f64() / 1e9)
}
