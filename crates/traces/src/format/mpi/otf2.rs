//! OTF2, as lines of JSON that `python/fabriscope/otf2_trace.py` makes of an archive with the library of the format's authors.
//!
//! Source: that program; OTF2 3, events of MPI. All ranks are in one file; times are nanoseconds since the first event.
//! Modelled: messages, requests, collectives with the larger of the bytes that the tracer counted as sent and received.

use std::sync::Arc;

use serde::Deserialize;

use super::layout::CALLS;
use super::{Action, Call, Envelope, Process};
use crate::error::{Position, TraceError};
use crate::format::{at_line, ranks, utf8};
use crate::open::Part;
use crate::{Operation, Reading};

#[derive(Deserialize)]
struct Head {
    otf2_trace: u64,
    ranks: u64,
    #[serde(default)]
    left_out: u64,
    comms: Vec<Comm>,
}

#[derive(Deserialize)]
struct Comm {
    id: u64,
    name: String,
    ranks: Vec<u32>,
}

#[derive(Deserialize)]
struct Line {
    rank: u64,
    call: String,
    start: u64,
    end: u64,
    #[serde(default)]
    send: Option<Message>,
    #[serde(default)]
    recv: Option<Message>,
    #[serde(default)]
    collective: Option<Collective>,
    #[serde(default)]
    request: Option<u64>,
    #[serde(default)]
    waits: Vec<u64>,
}

#[derive(Deserialize)]
struct Message {
    peer: i64,
    tag: i64,
    bytes: u64,
    comm: i64,
}

#[derive(Deserialize)]
struct Collective {
    operation: String,
    comm: i64,
    root: Option<u32>,
    sent: u64,
    received: u64,
}

/// Reads the calls of all ranks.
pub(super) fn read(part: &Part, reading: &mut Reading) -> Result<Vec<Process>, TraceError> {
    let mut lines = utf8(part)?.lines().zip(1..).filter(|(text, _)| !text.trim().is_empty());
    let (first, number) = lines.next().ok_or_else(|| TraceError::new(&part.name, Position::Whole, crate::Problem::Empty))?;
    let head: Head = parse(part, number, first)?;
    if head.otf2_trace != 1 {
        return Err(at_line(&part.name, number, first, "version 1 of otf2_trace"));
    }
    let at = Position::Line(number as u64);
    let count = ranks(&part.name, at, "the number of ranks", head.ranks)?;
    let named: usize = head.comms.iter().map(|comm| comm.ranks.len()).max().unwrap_or(0);
    if named as u64 != head.ranks {
        return Err(at_line(&part.name, number, first, "a communicator of all ranks"));
    }
    let comms: Vec<(u64, String, Vec<u32>)> = head.comms.into_iter().map(|comm| (comm.id, comm.name, comm.ranks)).collect();
    let comms = Arc::new(comms);
    if let Some((_, name, _)) = comms.iter().find(|(_, _, members)| members.iter().any(|rank| *rank >= count)) {
        return Err(at_line(&part.name, number, name, "communicators of ranks that are there"));
    }
    reading.left_many("events outside of MPI", head.left_out.min(u64::from(u32::MAX)));
    let mut processes: Vec<Process> = (0..count)
        .map(|rank| Process {
            rank: Some(rank),
            file: part.name.clone(),
            version: Some("otf2_trace 1".to_owned()),
            comms: Arc::clone(&comms),
            world_size: Some(count),
            ..Process::default()
        })
        .collect();
    for (text, number) in lines {
        let line: Line = parse(part, number, text)?;
        let Some(process) = usize::try_from(line.rank).ok().and_then(|rank| processes.get_mut(rank)) else {
            return Err(at_line(&part.name, number, text, "a rank below the number of ranks"));
        };
        let name = CALLS.iter().map(|(name, _)| *name).find(|name| *name == line.call).unwrap_or("other calls of MPI");
        let (start_ns, end_ns) = (Some(line.start), Some(line.end));
        process.calls.push(Call { name, start_ns, end_ns, action: action(part, number, line)? });
    }
    reading.assume_all("the length of a collective is what the tracer counted as sent or received, whichever is more");
    Ok(processes)
}

fn parse<'a, T: Deserialize<'a>>(part: &Part, number: usize, text: &'a str) -> Result<T, TraceError> {
    serde_json::from_str(text).map_err(|error| {
        let mut error = TraceError::json(&part.name, &error);
        if let Position::LineColumn(line, _) = &mut error.at {
            *line = number as u64;
        }
        error
    })
}

fn action(part: &Part, number: usize, line: Line) -> Result<Action, TraceError> {
    if let Some(collective) = line.collective {
        let Some(operation) = Operation::named(&collective.operation) else { return Ok(Action::Nothing) };
        let (bytes, comm) = (collective.sent.max(collective.received), collective.comm as u64);
        return Ok(Action::Whole { operation, bytes, root: collective.root, comm });
    }
    let envelope = |message: Message| Envelope { bytes: message.bytes, peer: message.peer, tag: message.tag, comm: message.comm as u64 };
    Ok(match (line.send.map(envelope), line.recv.map(envelope), line.request) {
        (Some(send), Some(recv), None) => Action::SendRecv(send, recv),
        (Some(send), None, Some(request)) => Action::Isend(send, request),
        (None, Some(recv), Some(request)) => Action::Irecv(recv, request),
        (Some(send), None, None) => Action::Send(send),
        (None, Some(recv), None) => Action::Recv(recv, None),
        (Some(_), Some(_), Some(_)) => return Err(at_line(&part.name, number, &line.call, "one message for a request")),
        (None, None, _) if !line.waits.is_empty() => Action::Wait(line.waits, Vec::new()),
        (None, None, _) if matches!(line.call.as_str(), "MPI_Init" | "MPI_Init_thread" | "MPI_Finalize") => Action::Enter,
        (None, None, _) => Action::Nothing,
    })
}
