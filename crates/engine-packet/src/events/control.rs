//! What a manager that runs as a program asks of the fabric: what ports have counted, new forwarding tables.

use fabriscope_engine::{Counter, PortCounts};
use fabriscope_fabric::{LinkId, Router};
use fabriscope_units::Remedy;

use crate::routes::RouteTable;
use crate::world::World;

impl World<'_> {
    /// Carries out what the program that has just run asked for.
    #[inline]
    pub(crate) fn serve_control(&mut self) {
        if self.watch.control.is_some() {
            self.serve_manager();
        }
    }

    #[cold]
    #[inline(never)]
    fn serve_manager(&mut self) {
        let Some(control) = self.watch.control.take() else { return };
        let (links, now) = (self.cluster.fabric.graph.link_count(), self.queue.now());
        let count = |link: u32| {
            let tally = self.watch.observer.as_ref().and_then(|observer| observer.tally.as_ref());
            let mut counts = tally.filter(|_| link < links).map_or_else(PortCounts::new, |tally| tally.port(link));
            // Outages are known from the plan and become counts at the end.
            let downs = self.watch.faults.as_ref().map_or(0, |faults| faults.outages(LinkId(link).cable(), now).len());
            if downs > 0 {
                counts.insert(Counter::LinkDowned, downs as u64);
            }
            counts
        };
        let mut made = None;
        let cluster = self.cluster;
        control.serve(count, |tables| {
            made = Some(Router::by_tables(&cluster.fabric, tables).map_err(|error| error.in_full())?);
            Ok(())
        });
        if let Some(router) = made {
            // What routes around faults looks at more than the head.
            let plain = self.watch.faults.as_ref().is_none_or(|faults| faults.reroute.is_none());
            self.routes.table = RouteTable::new(router);
            self.routes.table.oblivious &= plain;
        }
        self.watch.control = Some(control);
    }
}
