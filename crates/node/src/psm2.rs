//! A core that runs PSM2: what the library takes, and how its stores reach the adapter.
//!
//! Modelled: write-combined stores that leave one after the other, the first with its fence as any doorbell; the bus itself is the
//! engine's.
//! Not modelled: write-combining buffers that run full because the bus is busy.

use fabriscope_psm2::adapter::Notice;
use fabriscope_psm2::{Adapter, Cpu, Store};
use fabriscope_units::{Bytes, Span, Time};
use fabriscope_verbs::{CqId, WqeIndex};

use crate::adapter::{cq_of, queue_pair_of};
use crate::cpu::CpuCosts;
use crate::process::{Doorbell, Process};

struct OnCore {
    clock: Time,
    costs: CpuCosts,
    traces: bool,
}

impl Cpu for OnCore {
    fn now(&self) -> Time {
        self.clock
    }
    fn spend(&mut self, span: Span) {
        self.clock += span;
    }
    fn copy(&mut self, amount: Bytes, working_set: Bytes) {
        self.clock += self.costs.copy(amount, working_set);
    }
    fn store(&mut self, blocks: u32, block: Span) -> (Time, Time) {
        let left = self.clock + block * u64::from(blocks.max(1) - 1);
        self.clock = left + self.costs.mmio_busy;
        (left, left + self.costs.mmio_latency)
    }
    fn traces(&self) -> bool {
        self.traces
    }
}

impl Process {
    /// Runs the library on this core with the adapter of a NIC; `None` if that is no host fabric interface.
    pub fn psm2<R>(&self, nic: usize, call: impl FnOnce(&mut Adapter, &mut dyn Cpu) -> R) -> Option<R> {
        let mut core = OnCore { clock: self.now(), costs: self.cpu(), traces: self.is_traced() };
        let (result, stores) = self.adapter(nic, |n| {
            let adapter = n.psm2()?;
            let result = call(adapter, &mut core);
            Some((result, std::iter::from_fn(|| adapter.poll_store()).collect::<Vec<Store>>()))
        })?;
        self.compute(core.clock.since(self.now()));
        for store in stores {
            self.ring(bell(nic, &store));
        }
        Some(result)
    }
    /// Spins until the adapter of a NIC has told one of these, or until `until`.
    pub async fn wait_psm2(&self, nic: usize, notices: &[Notice], until: Time) {
        let queues: Vec<(usize, CqId)> = notices.iter().map(|notice| (nic, cq_of(*notice))).collect();
        self.wait_any_until(&queues, &[], until).await;
    }
}

fn bell(nic: usize, store: &Store) -> Doorbell {
    let (posted, built, at) = store.times;
    let pushed = store.fetched == Bytes::ZERO;
    Doorbell {
        at,
        nic,
        qp: queue_pair_of(store.queue),
        through: WqeIndex(store.store),
        pushed,
        wqe_bytes: if pushed { store.pushed } else { store.fetched },
        traced: store.traced,
        wr_id: store.store,
        posted,
        built,
    }
}
