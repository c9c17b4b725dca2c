//! liballprof: a line for each call, `NAME:START:arguments:END`, times in microseconds.
//!
//! Source: spcl/LogGOPSim, `src/liballprof` (the form of each argument: datatypes are `type,size,extent`, communicators `comm,rank,size`, other
//! pointers numbers), `src/Schedgen` (requests of `MPI_Waitall` lie one after the other).
//! Not modelled: communicators but that of all ranks, as pointers do not say who is in them.

use super::layout::CALLS;
use super::{Action, Call, Envelope, Process};
use crate::error::TraceError;
use crate::format::{at_line, utf8};
use crate::open::Part;
use crate::{Element, Operation, Reading};
use std::collections::BTreeSet;

/// Reads the calls of a rank.
pub(super) fn read(part: &Part, reading: &mut Reading) -> Result<Process, TraceError> {
    let text = utf8(part)?;
    let mut process = Process { file: part.name.clone(), ..Process::default() };
    let mut seen = Seen::default();
    for (line, number) in text.lines().zip(1..) {
        let line = line.trim_end();
        if let Some(comment) = line.strip_prefix('#') {
            if comment.contains("PMPI Tracer") {
                process.version = comment.split_ascii_whitespace().rev().nth(2).map(str::to_owned);
            }
            continue;
        }
        if line.is_empty() {
            continue;
        }
        let fields: Vec<&str> = line.split(':').collect();
        let name = CALLS.iter().map(|(name, _)| *name).find(|name| *name == fields[0]);
        let (Some(start), Some(end), true) = (fields.get(1), fields.last(), fields.len() >= 3 && fields[0].starts_with("MPI_")) else {
            return Err(at_line(&part.name, number, line, "`MPI_CALL:START:…:END`"));
        };
        let call = Line { file: &part.name, line: number, fields: &fields };
        let start_ns = call.microseconds(start)?;
        let end_ns = if *end == "-" { None } else { Some(call.microseconds(end)?) };
        let action = match name {
            Some(name) => call.action(name, &mut seen)?,
            None => Action::Nothing,
        };
        process.calls.push(Call {
            name: name.unwrap_or("other calls of MPI"),
            start_ns: Some(start_ns),
            end_ns: end_ns.or(Some(start_ns)),
            action,
        });
    }
    if let Some((comm, rank, size)) = seen.largest {
        (process.world, process.rank, process.world_size) = (Some(comm), Some(rank), Some(size));
    }
    if !process.calls.iter().any(|call| call.name == "MPI_Finalize") {
        reading.note("files that end before MPI_Finalize");
    }
    reading.assume_all("the largest communicator is that of all ranks");
    Ok(process)
}

/// What the calls of a file have told so far.
#[derive(Default)]
struct Seen {
    /// Addresses of requests that were started: tells how far apart those of an array are.
    requests: BTreeSet<u64>,
    /// The largest communicator: its address, the rank in it, its size.
    largest: Option<(u64, u32, u32)>,
}

struct Line<'a> {
    file: &'a str,
    line: usize,
    fields: &'a [&'a str],
}

impl Line<'_> {
    fn field(&self, at: usize) -> Result<&str, TraceError> {
        self.fields.get(at).copied().ok_or_else(|| at_line(self.file, self.line, &self.fields.join(":"), "all arguments of the call"))
    }
    fn number(&self, at: usize) -> Result<i64, TraceError> {
        let text = self.field(at)?;
        let first = text.split(',').next().unwrap_or(text);
        first.parse().map_err(|_| at_line(self.file, self.line, text, "a number"))
    }
    fn pointer(&self, at: usize) -> Result<u64, TraceError> {
        let text = self.field(at)?;
        let first = text.split(',').next().unwrap_or(text);
        first.parse().map_err(|_| at_line(self.file, self.line, text, "an address"))
    }
    fn microseconds(&self, text: &str) -> Result<u64, TraceError> {
        let us: f64 = text.parse().map_err(|_| at_line(self.file, self.line, text, "a time in microseconds"))?;
        if us.is_finite() && (0.0..1e16).contains(&us) {
            Ok((us * 1e3) as u64)
        } else {
            Err(at_line(self.file, self.line, text, "a time in microseconds"))
        }
    }
    /// Bytes of `count` elements of the type at `at`, and the type.
    fn bytes(&self, count: i64, at: usize) -> Result<(u64, Option<Element>), TraceError> {
        let text = self.field(at)?;
        let size = text.split(',').nth(1).and_then(|size| size.parse::<u64>().ok());
        let size = size.ok_or_else(|| at_line(self.file, self.line, text, "a datatype `type,size,extent`"))?;
        Ok((u64::try_from(count).unwrap_or(0).saturating_mul(size), (size > 0).then_some(Element::opaque(size))))
    }
    /// The communicator `comm,rank,size` at `at`; the largest is that of all ranks.
    fn communicator(&self, at: usize, seen: &mut Seen) -> Result<u64, TraceError> {
        let text = self.field(at)?;
        let wrong = || at_line(self.file, self.line, text, "a communicator `comm,rank,size`");
        let numbers: Vec<u64> = text.split(',').map(str::parse).collect::<Result<_, _>>().map_err(|_| wrong())?;
        let [comm, rank, size] = numbers[..] else { return Err(wrong()) };
        let position = crate::error::Position::Line(self.line as u64);
        let size = crate::format::ranks(self.file, position, "the number of ranks", size)?;
        let rank = u32::try_from(rank).ok().filter(|rank| *rank < size).ok_or_else(wrong)?;
        if seen.largest.is_none_or(|(_, _, largest)| size > largest) {
            seen.largest = Some((comm, rank, size));
        }
        Ok(comm)
    }

    fn envelope(&self, seen: &mut Seen) -> Result<Envelope, TraceError> {
        let (bytes, _) = self.bytes(self.number(3)?, 4)?;
        Ok(Envelope { bytes, peer: self.number(5)?, tag: self.number(6)?, comm: self.communicator(7, seen)? })
    }

    fn action(&self, name: &str, seen: &mut Seen) -> Result<Action, TraceError> {
        let short = name.strip_prefix("MPI_").unwrap_or(name);
        Ok(match short {
            "Send" | "Bsend" | "Ssend" | "Rsend" => Action::Send(self.envelope(seen)?),
            "Recv" => Action::Recv(self.envelope(seen)?, None),
            "Isend" | "Ibsend" | "Issend" | "Irsend" | "Irecv" => {
                let request = self.pointer(8)?;
                seen.requests.insert(request);
                let envelope = self.envelope(seen)?;
                if short == "Irecv" { Action::Irecv(envelope, request) } else { Action::Isend(envelope, request) }
            }
            "Sendrecv" => {
                let (sent, _) = self.bytes(self.number(3)?, 4)?;
                let (received, _) = self.bytes(self.number(8)?, 9)?;
                let comm = self.communicator(12, seen)?;
                let send = Envelope { bytes: sent, peer: self.number(5)?, tag: self.number(6)?, comm };
                Action::SendRecv(send, Envelope { bytes: received, peer: self.number(10)?, tag: self.number(11)?, comm })
            }
            "Wait" => Action::Wait(vec![self.pointer(2)?], Vec::new()),
            "Waitall" => Action::Wait(array(self.number(2)?, self.pointer(3)?, &seen.requests), Vec::new()),
            "Comm_size" | "Comm_rank" => {
                self.communicator(2, seen)?;
                Action::Nothing
            }
            "Init" | "Init_thread" | "Finalize" => Action::Enter,
            _ => match Operation::named(short) {
                Some(operation) => self.collective(operation, seen)?,
                None => Action::Nothing,
            },
        })
    }

    fn collective(&self, operation: Operation, seen: &mut Seen) -> Result<Action, TraceError> {
        use Operation as O;
        // Where count, datatype, root and communicator stand: the arguments of MPI from field 2 on.
        let (count, datatype, root, comm) = match operation {
            O::Barrier => (None, 0, None, 2),
            O::Broadcast => (Some(3), 4, Some(5), 6),
            O::AllReduce | O::Scan | O::ExScan => (Some(4), 5, None, 7),
            O::Reduce => (Some(4), 5, Some(7), 8),
            O::AllGather | O::AllToAll => (Some(3), 4, None, 8),
            O::Gather | O::Scatter => (Some(3), 4, Some(8), 9),
            // Lengths of each rank are behind a pointer.
            _ => return Ok(Action::Nothing),
        };
        let (bytes, element) = count.map_or(Ok((0, None)), |count| self.bytes(self.number(count)?, datatype))?;
        let root = root.map(|root| self.number(root)).transpose()?.and_then(|root| u32::try_from(root).ok());
        Ok(Action::Collective { operation, bytes, element, root, comm: self.communicator(comm, seen)? })
    }
}

/// The requests of an array, whose elements are as far apart as those that were started: 8 or 4 bytes.
fn array(count: i64, first: u64, started: &BTreeSet<u64>) -> Vec<u64> {
    let count = u64::try_from(count).unwrap_or(0).min(started.len() as u64 * 2 + 1);
    let found = |stride: u64| (0..count).map(|at| first.saturating_add(at * stride)).filter(|at| started.contains(at)).collect::<Vec<_>>();
    let (wide, narrow) = (found(8), found(4));
    if wide.len() >= narrow.len() { wide } else { narrow }
}
