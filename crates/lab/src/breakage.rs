//! The faults of a lab, as they were planned and as they went.

use fabriscope_engine::Breakage;
use fabriscope_engine::{Effect, FaultPlan};
use fabriscope_report::Table;
use fabriscope_units::{Span, Time};
use serde_json::{Value, json};

/// What will break, a line each.
pub fn planned(plan: &FaultPlan) -> String {
    let mut text = String::new();
    for (number, fault) in plan.faults.iter().enumerate() {
        let until = fault.until.map_or_else(|| "to the end".to_owned(), |until| format!("to {}", us(Time::ZERO + until)));
        let until = if fault.until == Some(fault.from) { String::new() } else { format!(" {until}") };
        text += &format!("# fault {}, from {}{until}: {}\n", number + 1, us(Time::ZERO + fault.from), fault.what);
    }
    if !plan.faults.iter().any(|fault| matches!(fault.effect, Effect::Down { quiet: false, .. })) {
        return text;
    }
    let manager = &plan.manager;
    let failover = manager.failover.as_ref().map_or_else(String::new, |failover| format!(", failover {}", failover.value));
    text += &format!(
        "# manager {}: detection {}{failover}, report {}, discovery {} per node, {} per entry, {} per 64 entries of a switch\n",
        manager.name,
        manager.detection.value,
        manager.report.value,
        manager.discovery.value,
        manager.computing.value,
        manager.programming.value
    );
    text
}

/// What each fault did, and what became of the messages.
pub fn told(breakage: &Breakage) -> String {
    let mut table =
        Table::new(["fault", "packets lost", "sent again", "no repeat came", "slowest repair (us)", "new tables after (us)", "what"]);
    for (number, fault) in breakage.faults.iter().enumerate() {
        let tables = match fault.new_tables {
            Some(new) => format!("{:.3}", (new - fault.from).as_us_f64()),
            None => "-".to_owned(),
        };
        table.push([
            (number + 1).to_string(),
            fault.packets_lost.to_string(),
            fault.repaired.to_string(),
            fault.never_repaired.to_string(),
            format!("{:.3}", fault.slowest_repair.as_us_f64()),
            tables,
            fault.what.clone(),
        ]);
    }
    let mut text = format!("\n{table}");
    for new in &breakage.tables {
        let whole = if new.whole { ", those of the whole fabric" } else { "" };
        text += &format!("# tables: sweep from {}, all switches written at {}{whole}\n", us(new.started), us(new.written));
    }
    text += &format!("# {} packets sent more than once, {} messages ended in an error", breakage.repeated, breakage.failed);
    if breakage.migrated > 0 {
        text += &format!(", {} ends of connections on their alternate path", breakage.migrated);
    }
    if breakage.cut_off > 0 {
        text += &format!(", {} operations never ended because of them", breakage.cut_off);
    }
    text + "\n"
}

/// The same as data.
pub fn data(breakage: &Breakage) -> Value {
    let ps = |time: Time| time.as_ps();
    let faults = breakage.faults.iter().map(|fault| {
        json!({
            "what": fault.what,
            "from_ps": ps(fault.from),
            "until_ps": fault.until.map(ps),
            "packets_lost": fault.packets_lost,
            "sent_again": fault.repaired,
            "no_repeat_came": fault.never_repaired,
            "slowest_repair_ps": fault.slowest_repair.as_ps(),
            "new_tables_ps": fault.new_tables.map(ps),
        })
    });
    let tables =
        breakage.tables.iter().map(|new| json!({ "started_ps": ps(new.started), "written_ps": ps(new.written), "whole": new.whole }));
    json!({
        "faults": faults.collect::<Vec<_>>(),
        "tables": tables.collect::<Vec<_>>(),
        "packets_repeated": breakage.repeated,
        "ends_migrated": breakage.migrated,
        "messages_failed": breakage.failed,
        "operations_cut_off": breakage.cut_off,
    })
}

fn us(time: Time) -> String {
    let span: Span = time - Time::ZERO;
    format!("{:.3} us", span.as_us_f64())
}
