//! What a subnet manager that runs beside the programs reads of the fabric and sets in it, while the run goes.
//!
//! Modelled: what ports have counted by a moment, and forwarding tables that replace the routing of all switches at a moment.
//! Not modelled: the datagrams that carry it, which whoever asks accounts for, and switches that follow one after the other.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fabriscope_fabric::Tables;

use crate::counters::Counter;

/// What a port has counted, counters that are zero left out.
pub type PortCounts = BTreeMap<Counter, u64>;

/// The two ends of one control: a program holds one, the engine another.
#[derive(Debug, Clone, Default)]
pub struct Control(Arc<Mutex<Orders>>);

/// A question that the engine answers before anything else happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(u64);

#[derive(Debug, Default)]
struct Orders {
    tables: Option<Tables>,
    asked: Vec<(Ticket, u32)>,
    counts: BTreeMap<Ticket, PortCounts>,
    tickets: u64,
    refused: Vec<String>,
}

impl Control {
    fn orders(&self) -> MutexGuard<'_, Orders> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From this moment on switches forward by `tables`; as before where they do not lead everywhere ([`take_refused`](Self::take_refused)).
    pub fn set_tables(&self, tables: Tables) {
        self.orders().tables = Some(tables);
    }
    /// Why tables were not taken.
    #[must_use]
    pub fn take_refused(&self) -> Vec<String> {
        std::mem::take(&mut self.orders().refused)
    }
    /// Asks what the port that `link` leaves has counted by now.
    #[must_use]
    pub fn ask(&self, link: u32) -> Ticket {
        let orders = &mut *self.orders();
        orders.tickets += 1;
        let ticket = Ticket(orders.tickets);
        orders.asked.push((ticket, link));
        ticket
    }
    /// The answer, from the next time that the program runs; once.
    #[must_use]
    pub fn take_counts(&self, ticket: Ticket) -> PortCounts {
        self.orders().counts.remove(&ticket).unwrap_or_default()
    }
}

/// For engines.
impl Control {
    /// Carries out what was asked: `count` gives what a port has counted, `route` takes tables or says what is wrong with them.
    pub fn serve(&self, mut count: impl FnMut(u32) -> PortCounts, route: impl FnOnce(Tables) -> Result<(), String>) {
        let orders = &mut *self.orders();
        for (ticket, link) in orders.asked.drain(..) {
            orders.counts.insert(ticket, count(link));
        }
        if let Some(Err(error)) = orders.tables.take().map(route) {
            orders.refused.push(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_for_the_moment_at_which_it_was_taken() {
        let (program, engine) = (Control::default(), Control::default());
        assert_eq!(engine.take_counts(program.ask(3)), PortCounts::new());
        let engine = program.clone();
        let first = program.ask(3);
        engine.serve(|link| [(Counter::XmitPackets, u64::from(link))].into(), |_| Ok(()));
        let second = program.ask(3);
        program.set_tables(Tables::new(1, 2, 0));
        engine.serve(|_| [(Counter::XmitPackets, 9)].into(), |_| Err("they lead nowhere".to_owned()));
        assert_eq!(program.take_counts(first)[&Counter::XmitPackets], 3);
        assert_eq!(program.take_counts(second)[&Counter::XmitPackets], 9);
        assert_eq!(program.take_refused(), ["they lead nowhere"]);
        assert!(program.take_refused().is_empty() && program.take_counts(second).is_empty());
    }
}
