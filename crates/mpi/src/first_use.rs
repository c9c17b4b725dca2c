//! Connections that are made when two ranks first talk: the connection manager of a node works at one end after the other.
//!
//! Source: libfabric, fi_rxm(7) (connections are made on demand, and a send is to be tried again until its own is there); Cray MPICH,
//! intro_mpi(3), `MPICH_OFI_STARTUP_CONNECT`. What a node takes is fitted: docs/models/ofi-ucx.md.
//! Modelled: each end of a connection keeps the manager of its node busy for a time, in the order in which ranks ask; the core spins in
//! its send meanwhile, as MPICH does, and handles nothing else.
//! Not modelled: the packets of the handshake, a peer that is not inside the library to answer it, the end at a rank that receives only.

use fabriscope_node::{Process, ProgramError};
use fabriscope_units::{Span, Time};

use super::state::State;

impl State {
    /// Makes the connection to `peer`, if nothing went over it yet and something is to go now.
    pub(super) fn connect_at_first_use(&mut self, process: &Process, peer: u32) -> Result<(), ProgramError> {
        let Some(each) = self.protocol.first_use else { return Ok(()) };
        let connection = self.connection(peer)?;
        if connection.made || (connection.messages.is_empty() && connection.transfers.is_empty()) {
            return Ok(());
        }
        connection.made = true;
        let ready = served(self.memory.manager.get(), process.now(), each);
        self.memory.manager.set(ready);
        process.compute(ready.since(process.now()));
        Ok(())
    }
}

/// When a manager that is free at `free` is done with what is asked of it at `now`.
fn served(free: Time, now: Time, each: Span) -> Time {
    free.max(now) + each
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two ranks ask at 0, a third when both are done and 1 us later: 2, 4, and 5 + 2 us.
    #[test]
    fn a_manager_makes_one_at_a_time() {
        let (us, each) = (|us: u64| Time::ZERO + Span::from_us(us), Span::from_us(2));
        let first = served(Time::ZERO, Time::ZERO, each);
        let second = served(first, Time::ZERO, each);
        assert_eq!((first, second, served(second, us(5), each)), (us(2), us(4), us(7)));
    }
}
