//! A parallel file system beside a job: its RPCs and bulk data as packets, on the fabric and the adapters of the job.
//!
//! Source: Lustre Operations Manual, "Tuning the client I/O RPC stream"; the protocol of ko2iblnd (`o2iblnd-idl.h`): a sink asks with GET_REQ, the
//! source writes by RDMA and says GET_DONE; a source offers with PUT_REQ, the sink answers PUT_ACK, the source writes and says PUT_DONE.
//! Modelled: processes that fill or read pages, RPCs of a client for each OST in flight, requests and replies as messages; servers that fetch
//! or send bulk data fragment by fragment, as peer credits allow; cores and drives of servers; all at once, or a burst after each interval.
//! Not modelled: metadata, extent locks (each process has a file of its own), LNet routers, cores of ranks that threads of the client take.
//!
//! ```text
//! client: pages ─▶ RPC ──request──▶ server: core ──GET_REQ──▶ client ══RDMA write, GET_DONE══▶ server: core ─▶ drives ──reply──▶ client
//! client: ahead ─▶ RPC ──request──▶ server: core ─▶ drives ──PUT_REQ──▶ client ──PUT_ACK──▶ server ══RDMA write, PUT_DONE══▶, reply
//! ```

mod client;
mod link;
mod server;
mod traffic;

use std::sync::Arc;

use fabriscope_node::{Main, Process, ProgramError, Record};
use fabriscope_units::{Span, Time};

pub use traffic::{Burst, Tally, Traffic};
use traffic::{Connection, Shared};

impl Traffic {
    /// The programs of all clients and servers, each with its node, and what they will have counted.
    #[must_use]
    pub fn programs(&self) -> (Vec<(u32, Main)>, Record<Tally>) {
        let pairs = self.clients.len() * self.servers.len();
        let tally = Record::new(Tally::default());
        let connections = Record::new((0..pairs).map(|_| Connection::default()).collect());
        let shared = Arc::new(Shared { traffic: self.clone(), connections, met: Record::new([0; 2]), tally: tally.clone() });
        let mut programs: Vec<(u32, Main)> = Vec::with_capacity(self.clients.len() + self.servers.len());
        for (me, node) in (0..).zip(&self.clients) {
            let shared = Arc::clone(&shared);
            programs.push((*node, Box::new(move |process| Box::pin(async move { client::run(&process, &shared, me).await }))));
        }
        for (me, node) in (0..).zip(&self.servers) {
            let shared = Arc::clone(&shared);
            programs.push((*node, Box::new(move |process| Box::pin(async move { server::run(&process, &shared, me).await }))));
        }
        (programs, tally)
    }
}

/// A job that lasts so long and does nothing: what is beside it is alone.
#[must_use]
pub fn nobody(span: Span) -> Main {
    Box::new(move |process: Process| {
        Box::pin(async move {
            process.sleep_until(Time::ZERO.saturating_add(span)).await;
            Ok::<(), ProgramError>(())
        })
    })
}
