//! Active messages of one-sided operations: what the target's progress engine does for an origin.
//!
//! Source: MVAPICH2 2.3.7, `src/mpid/ch3/src/ch3u_rma_pkthandler.c` (packets that carry an accumulate, applied when they are received, and
//! answered); Open MPI 4, `ompi/mca/osc/pt2pt`.
//! Modelled: the operand travels as a message of the library, eager or by rendezvous, in order; the target applies it when it is inside the
//! library and everything has come, one after the other of each origin; then it answers, with the old contents where they are asked for,
//! which the origin puts where it wants them.
//! Not modelled: several operations in one packet, answers that many operations share.

use fabriscope_node::ProgramError;
use fabriscope_units::{Bytes, Span};

use super::active_message::{Question, Serving, Vector};
use super::buffer::Buffer;
use super::rank::Rank;
use super::request::Request;
use super::rounds::reduction_streams;
use super::wire::Body;

impl Rank {
    /// Asks `target` for an operation on one element, or for its lock, by a message of `size` bytes; the request is done when the answer is
    /// here. Gives the number of the message among those to this target.
    pub(super) fn ask(&self, target: u32, asked: Question, size: u32) -> Result<(Request, u64), ProgramError> {
        self.ask_by(target, asked, size, SERVICE, Some(Body::Ask { asked, size }))
    }
    /// The same for an accumulate; `vector` is there where contents are kept.
    pub(super) fn ask_vector(
        &self,
        target: u32,
        (fetches, size): (bool, u32),
        vector: Option<Vector>,
    ) -> Result<(Request, u64), ProgramError> {
        let tag = if fetches { SERVICE | FETCHES } else { SERVICE };
        let (answer, number) = self.ask_by(target, Question::Vector { fetches }, size, tag, None)?;
        if let Some(vector) = vector {
            self.world.0.vectors.send(self.rank(), target, number, vector);
        }
        Ok((answer, number))
    }
    fn ask_by(&self, target: u32, asked: Question, size: u32, tag: u32, says: Option<Body>) -> Result<(Request, u64), ProgramError> {
        if self.onload.is_some() {
            return Err(ProgramError(format!("rank {}: one-sided operations over PSM2 are not modelled", self.rank())));
        }
        let number = {
            let state = &mut *self.state.borrow_mut();
            let next = state.asked.entry(target).or_default();
            *next += 1;
            *next - 1
        };
        let answer = self.irecv_into(Buffer::Host, Some(target), Some(answer_tag(number)), asked.answer(size))?;
        let sent = self.isend_saying(Buffer::Host, (target, tag, size), says, false)?;
        self.open.borrow_mut().push(sent);
        Ok((answer, number))
    }
    /// The old element that came with an answer.
    pub(super) fn answered(&self, target: u32, number: u64) -> u64 {
        self.state.borrow_mut().answers.remove(&(target, answer_tag(number))).unwrap_or_default()
    }

    /// Applies what has come, and answers.
    pub(super) fn serve(&self) -> Result<(), ProgramError> {
        self.close_sent();
        while let Some(served) = self.next_served() {
            let Serving { origin, number, size, asked, .. } = served;
            self.compute(self.world.0.one_sided.map_or(Span::ZERO, |rules| rules.apply_overhead));
            let (tag, length) = (answer_tag(number), asked.answer(size));
            let says = match asked {
                Question::Vector { .. } => {
                    self.copy(reduced(size) + Bytes(length.into()));
                    self.apply(&served)?;
                    None
                }
                Question::Element { operation, width, offset } => {
                    let old = match &self.memory.contents {
                        Some(contents) => operation.carry_out(contents, self.user()? + offset, width),
                        None => 0,
                    };
                    Some(Body::Answer { tag, size: length, old })
                }
                Question::Lock => None,
            };
            let answer = self.isend_saying(Buffer::Host, (origin, tag, length), says, false)?;
            self.open.borrow_mut().push(answer);
        }
        Ok(())
    }

    /// The next message all of which is here; those of each origin in order.
    fn next_served(&self) -> Option<Serving> {
        let state = &mut *self.state.borrow_mut();
        let first = |at: &usize| {
            let Serving { request, origin, .. } = state.serving[*at];
            state.requests.is_done(request) && !state.serving[..*at].iter().any(|other| other.origin == origin)
        };
        let at = (0..state.serving.len()).find(first)?;
        let served = state.serving.remove(at);
        state.requests.close(served.request);
        Some(served)
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

    /// Changes the contents of this rank's memory by a vector, where they are kept.
    fn apply(&self, served: &Serving) -> Result<(), ProgramError> {
        let (vectors, me) = (&self.world.0.vectors, self.rank());
        let Some(contents) = &self.memory.contents else { return Ok(()) };
        let Some(vector) = vectors.take(served.origin, me, served.number) else { return Ok(()) };
        let addr = self.user()? + vector.offset;
        let mut bytes = vec![0; vector.operand.len()];
        contents.load(addr, &mut bytes);
        if served.asked.answer(served.size) > 0 {
            vectors.answer(served.origin, me, served.number, bytes.clone());
        }
        vector.datatype.reduce(vector.reduction, &mut bytes, &vector.operand);
        contents.store(addr, &bytes);
        Ok(())
    }
}

/// What a core moves for a reduction of `size` bytes.
pub(super) fn reduced(size: u32) -> Bytes {
    reduction_streams(Bytes(size.into()))
}

fn answer_tag(number: u64) -> u32 {
    ANSWER | (number % u64::from(ANSWER)) as u32
}

/// Tags of the library's own messages. Basis: assumed; those of programs and of collective operations are smaller.
pub(super) const SERVICE: u32 = 1 << 30;
/// A message that asks for the old elements.
pub(super) const FETCHES: u32 = 1;
const ANSWER: u32 = 1 << 29;
