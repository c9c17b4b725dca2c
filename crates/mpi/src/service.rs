//! Active messages of one-sided operations: what the target's progress engine does for an origin.
//!
//! Source: MVAPICH2 2.3.7, `src/mpid/ch3/src/ch3u_rma_pkthandler.c` (packets that carry an accumulate, applied when they are received, and
//! answered); Open MPI 4, `ompi/mca/osc/pt2pt`.
//! Modelled: the operand travels as a message of the library, eager or by rendezvous, in order; the target applies it when it is inside the
//! library and everything has come, one after the other of each origin; then it answers, with the old contents where they are asked for.
//! Not modelled: several operations in one packet, answers that many operations share.

use fabriscope_node::ProgramError;
use fabriscope_units::{Bytes, Span};

use super::active_message::{TargetRequest, What};
use super::buffer::Buffer;
use super::rank::Rank;
use super::request::Request;
use super::rounds::streams;

impl Rank {
    /// Sends what is `asked` with `payload` bytes to `target`; the request is done when the answer is here. Gives the number under which the old
    /// value will be found.
    pub(super) fn ask(&self, target: u32, asked: TargetRequest, payload: u32) -> Result<(Request, u64), ProgramError> {
        let me = self.rank();
        if self.onload.is_some() {
            return Err(ProgramError(format!("rank {me}: one-sided operations over PSM2 are not modelled")));
        }
        let number = {
            let mut services = self.world.0.services.borrow_mut();
            let services = services.entry((me, target)).or_default();
            let number = services.next;
            services.next += 1;
            services.under_way.insert(number, asked.clone());
            number
        };
        let tag = ANSWER | (number % u64::from(ANSWER)) as u32;
        let answer = self.irecv_into(Buffer::Host, Some(target), Some(tag), asked.fetch.1)?;
        let sent = self.isend_from(Buffer::Host, target, SERVICE, payload)?;
        self.open.borrow_mut().push(sent);
        Ok((answer, number))
    }

    /// Applies what has come, and answers.
    pub(super) fn serve(&self) -> Result<(), ProgramError> {
        self.close_sent();
        while let Some((source, number)) = self.next_served() {
            let found =
                self.world.0.services.borrow_mut().get_mut(&(source, self.rank())).and_then(|services| services.under_way.remove(&number));
            let Some(asked) = found else { continue };
            self.compute(self.world.0.one_sided.map_or(Span::ZERO, |rules| rules.apply_overhead));
            let fetched = if matches!(asked.what, What::Atomic(..)) { 0 } else { asked.fetch.1 };
            if let What::Reduce(..) = asked.what {
                self.copy(reduced(asked.size) + Bytes(fetched.into()));
            }
            self.apply(source, number, &asked)?;
            let tag = ANSWER | (number % u64::from(ANSWER)) as u32;
            let answer = self.isend_from(Buffer::Host, source, tag, asked.fetch.1)?;
            self.open.borrow_mut().push(answer);
        }
        Ok(())
    }

    /// The next message all of which is here; those of each origin in order.
    fn next_served(&self) -> Option<(u32, u64)> {
        let state = &mut *self.state.borrow_mut();
        let first = |at: &usize| {
            let (request, source, _) = state.serving[*at];
            state.requests.is_done(request) && !state.serving[..*at].iter().any(|(_, other, _)| *other == source)
        };
        let at = (0..state.serving.len()).find(first)?;
        let (request, source, number) = state.serving.remove(at);
        state.requests.close(request);
        Some((source, number))
    }

    /// Frees the requests of messages that have left.
    fn close_sent(&self) {
        let mut open = self.open.borrow_mut();
        let mut at = 0;
        while at < open.len() {
            if self.is_done(&open[at]) {
                open.swap_remove(at).freed(&mut self.state.borrow_mut().requests);
            } else {
                at += 1;
            }
        }
    }

    /// Changes the contents of this rank's memory, where they are kept.
    fn apply(&self, source: u32, number: u64, asked: &TargetRequest) -> Result<(), ProgramError> {
        let Some(contents) = &self.world.0.contents else { return Ok(()) };
        let addr = self.user()? + asked.offset;
        match asked.what {
            What::Reduce(datatype, reduction) => {
                let mut bytes = vec![0; asked.size as usize];
                contents.load(addr, &mut bytes);
                if asked.fetch.1 > 0 {
                    contents.store(self.peer_user(source)? + asked.fetch.0, &bytes);
                }
                datatype.reduce(reduction, &mut bytes, &asked.operand);
                contents.store(addr, &bytes);
            }
            What::Atomic(operation, width) => {
                let old = operation.carry_out(contents, addr, width);
                if asked.fetch.0 > 0 {
                    contents.store(self.peer_user(source)? + asked.fetch.0, &old.to_ne_bytes()[..width.bytes() as usize]);
                }
                self.world.0.answers.borrow_mut().insert((source, self.rank(), number), old);
            }
            What::Lock => {}
        }
        Ok(())
    }
}

/// What a core moves for a reduction of `size` bytes.
pub(super) fn reduced(size: u32) -> Bytes {
    streams(Bytes(size.into()))
}

/// Tags of the library's own messages. Basis: assumed; those of programs and of collective operations are smaller.
pub(super) const SERVICE: u32 = 1 << 30;
const ANSWER: u32 = 1 << 29;
