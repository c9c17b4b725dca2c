//! Power of a network and energy of a run as tables and notes.

use fabriscope_report::{Cell, Column, Grid, Outcome};
use fabriscope_units::{Energy, Power, Span};
use serde_json::{Value, json};

use super::ledger::{JobEnergy, Purpose};
use super::network::{NetworkPower, PartPower, State};

impl NetworkPower {
    /// What the network draws idle and at full load, part by part.
    #[must_use]
    pub fn outcome(&self, name: &str) -> Outcome {
        let mut grid = Grid::new([
            Column::words("of", "kind"),
            Column::words("part", "part"),
            Column::number("count", "count"),
            Column::number("ports up", "ports_up"),
            Column::number("ports", "ports"),
            Column::number("idle, each (W)", "idle_each_w"),
            Column::number("full, each (W)", "full_each_w"),
            Column::number("idle (W)", "idle_w"),
            Column::number("full (W)", "full_w"),
        ]);
        let rests = self.rest.is_some();
        for part in self.in_order() {
            let (idle, full) = (part.draws(State::Idle, rests), part.draws(State::Full, rests));
            let each = |power: Option<Power>| watts(power.map(|power| power.as_watts_f64() / part.count.max(1) as f64));
            let all = |power: Option<Power>| watts(power.map(Power::as_watts_f64));
            grid.push([
                Cell::word(part.kind.noun()),
                Cell::word(part.name.as_str()),
                Cell::count(part.count),
                Cell::count(part.ports_up),
                Cell::count(part.ports),
                each(idle),
                each(full),
                all(idle),
                all(full),
            ]);
        }
        let (idle, full) = (self.draws(State::Idle), self.draws(State::Full));
        let sum = |power: Power| Cell::number(power.as_watts_f64(), 1);
        let blank = Cell::blank;
        grid.foot([Cell::word("sum"), blank(), blank(), blank(), blank(), blank(), blank(), sum(idle), sum(full)]);
        let mut outcome = Outcome::new();
        outcome.note(format!("{name}: power of the network, all cabled links up"));
        outcome.keyed_table("parts", grid).text("\n");
        let nodes = f64::from(self.nodes.max(1));
        let per_bit = if self.injection.as_bps() > 0 { full.as_watts_f64() / self.injection.as_bps() as f64 * 1e12 } else { 0.0 };
        outcome.note(format!(
            "per node: {:.1} W idle, {:.1} W at full load; idle is {:.0} % of full",
            idle.as_watts_f64() / nodes,
            full.as_watts_f64() / nodes,
            100.0 * idle.as_watts_f64() / full.as_watts_f64().max(f64::MIN_POSITIVE)
        ));
        outcome.note(format!("at full load {per_bit:.1} pJ for each bit that hosts send: {} in all", self.injection));
        outcome
            .set("cluster", name)
            .set("nodes", self.nodes)
            .set("idle_w", idle.as_watts_f64())
            .set("full_w", full.as_watts_f64())
            .set("idle_w_per_node", idle.as_watts_f64() / nodes)
            .set("full_w_per_node", full.as_watts_f64() / nodes)
            .set("full_pj_per_bit", per_bit)
            .set("unknown", self.unknown_names());
        self.tell_unknown(&mut outcome);
        outcome
    }

    /// The parts: switches, adapters, cables.
    fn in_order(&self) -> Vec<&PartPower> {
        let mut parts: Vec<&PartPower> = self.parts.iter().collect();
        parts.sort_by(|a, b| (a.kind, &a.name).cmp(&(b.kind, &b.name)));
        parts
    }

    fn unknown_names(&self) -> Vec<String> {
        self.in_order().iter().filter(|part| part.figures.is_none()).map(|part| part.name.clone()).collect()
    }

    fn tell_unknown(&self, outcome: &mut Outcome) {
        for part in self.in_order().into_iter().filter(|part| part.figures.is_none()) {
            let (count, kind, name) = (part.count, part.kind.noun(), &part.name);
            outcome.note(format!("unknown: {count} {kind} `{name}`, in no sum; a file in power/ of --catalog DIR gives figures"));
        }
    }
}

impl JobEnergy {
    /// Adds the energy of the run to its outcome.
    pub fn tell(&self, outcome: &mut Outcome) {
        let head = [Column::words("energy of", "kind"), Column::words("part", "part"), Column::number("count", "count")];
        let purposes = Purpose::ALL.map(|purpose| Column::number(&format!("{} (mJ)", purpose.name()), &format!("{}_j", purpose.name())));
        let tail = [Column::number("all (mJ)", "total_j"), Column::number("mean (W)", "mean_w")];
        let mut grid = Grid::new(head.into_iter().chain(purposes).chain(tail));
        for part in self.network.in_order() {
            let place = self.network.parts.iter().position(|other| std::ptr::eq(other, part));
            let book = place.and_then(|place| self.parts.get(place).copied().flatten());
            let drawn = Purpose::ALL.map(|purpose| joules(book.map(|book| book.of(purpose))));
            let total = book.map(|book| book.total());
            let names = [Cell::word(part.kind.noun()), Cell::word(part.name.as_str()), Cell::count(part.count)];
            grid.push(names.into_iter().chain(drawn).chain([joules(total), watts(total.and_then(|total| total.mean_watts(self.took)))]));
        }
        let total = self.sum.total();
        let sums = Purpose::ALL.map(|purpose| joules(Some(self.sum.of(purpose))));
        let names = [Cell::word("sum"), Cell::blank(), Cell::blank()];
        grid.foot(names.into_iter().chain(sums).chain([joules(Some(total)), watts(total.mean_watts(self.took))]));
        outcome.text("\n").keyed_table("energy", grid).text("\n");
        let (mean, per_bit, share) = (total.mean_watts(self.took), total.picojoules_per_bit(self.delivered), self.without_traffic());
        if let (Some(mean), Some(share)) = (mean, share) {
            outcome.note(format!(
                "energy: {:.6} J in {:.3} us, {mean:.1} W on average; {:.1} % of it without carrying anything",
                total.as_joules_f64(),
                us(self.took),
                100.0 * share
            ));
        }
        if let Some(per_bit) = per_bit {
            outcome.note(format!("energy: {per_bit:.1} pJ for each bit of payload delivered ({})", self.delivered));
        }
        self.network.tell_unknown(outcome);
        outcome.set("energy_sums", self.sums(mean, per_bit, share));
    }

    fn sums(&self, mean: Option<f64>, per_bit: Option<f64>, share: Option<f64>) -> Value {
        let mut sums = json!({
            "total_j": self.sum.total().as_joules_f64(),
            "mean_w": mean,
            "pj_per_bit_delivered": per_bit,
            "share_without_traffic": share,
            "unknown": self.network.unknown_names(),
        });
        for purpose in Purpose::ALL {
            sums[format!("{}_j", purpose.name())] = self.sum.of(purpose).as_joules_f64().into();
        }
        sums
    }
}

fn us(span: Span) -> f64 {
    span.as_us_f64()
}

/// Watts, or that they are unknown.
fn watts(power: Option<f64>) -> Cell {
    power.map_or_else(unknown, |power| Cell::number(power, 1))
}

/// Joules, of which people read thousandths; or that they are unknown.
fn joules(energy: Option<Energy>) -> Cell {
    energy.map_or_else(unknown, |energy| {
        let joules = energy.as_joules_f64();
        Cell::told(format!("{:.3}", joules * 1e3), joules)
    })
}

fn unknown() -> Cell {
    Cell::told("unknown", Value::Null)
}
