//! MPI traces: DUMPI (binary, and the text of `dumpi2ascii`), liballprof and converted OTF2, as records.
//!
//! Source: MPI 4.1; the formats in `dumpi.rs`, `ascii.rs`, `allprof.rs` and `otf2.rs`.
//! Modelled: blocking and non-blocking messages with their requests, persistent requests, waits and successful tests, collectives,
//! communicators made by `MPI_Comm_dup`, `MPI_Comm_split`, `MPI_Comm_create` of `MPI_Group_incl`, `MPI_Cart_create` without reordering; the
//! time between calls as gaps.
//! Not modelled: one-sided operations, inter-communicators, files, probes, tests that found nothing.

mod allprof;
mod ascii;
mod communicators;
mod dumpi;
mod layout;
mod otf2;
mod values;

use std::collections::BTreeMap;
use std::sync::Arc;

use fabriscope_units::{Bytes, Span, Time};

use crate::draft::{Draft, RankDraft};
use crate::error::{Position, Problem, TraceError};
use crate::open::Part;
use crate::{After, Collective, Element, Format, Group, GroupId, Kind, Message, Operation, Record, RecordId, order};

use communicators::{Context, contexts};

/// A message as a call names it.
#[derive(Debug, Clone)]
pub(super) struct Envelope {
    pub bytes: u64,
    /// The rank in the communicator; -1 is anybody, lower is nobody.
    pub peer: i64,
    /// -1 is any.
    pub tag: i64,
    pub comm: u64,
}

/// What a call does.
#[derive(Debug, Clone)]
pub(super) enum Action {
    Send(Envelope),
    Recv(Envelope, Option<Status>),
    /// Non-blocking, with its request.
    Isend(Envelope, u64),
    Irecv(Envelope, u64),
    /// Both at once.
    SendRecv(Envelope, Envelope),
    /// A request to be started later.
    SendInit(Envelope, u64),
    RecvInit(Envelope, u64),
    Start(Vec<u64>),
    /// The requests that are over, and what was received by each, where the file says so.
    Wait(Vec<u64>, Vec<Status>),
    /// A collective of which the longest buffer of a rank is known.
    Whole {
        operation: Operation,
        bytes: u64,
        root: Option<u32>,
        comm: u64,
    },
    /// Its length counts what one rank has where the call of MPI does.
    Collective {
        operation: Operation,
        bytes: u64,
        element: Option<Element>,
        root: Option<u32>,
        comm: u64,
    },
    Dup {
        old: u64,
        new: u64,
    },
    Split {
        old: u64,
        color: i64,
        key: i64,
        new: u64,
    },
    GroupOf {
        comm: u64,
        group: u64,
    },
    Include {
        group: u64,
        ranks: Vec<u32>,
        new: u64,
    },
    Create {
        old: u64,
        group: u64,
        new: u64,
    },
    /// How many ranks a communicator has.
    Size {
        comm: u64,
        size: u64,
    },
    /// Enters or leaves MPI: what was before is no computation of the program.
    Enter,
    /// Nothing that is kept.
    Nothing,
}

/// A call with its times (nanoseconds of the clock of the rank).
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub name: &'static str,
    pub start_ns: Option<u64>,
    pub end_ns: Option<u64>,
    pub action: Action,
}

/// One rank.
#[derive(Debug, Default)]
pub(super) struct Process {
    pub rank: Option<u32>,
    pub file: String,
    pub version: Option<String>,
    pub calls: Vec<Call>,
    /// The handles of all ranks and of the rank alone.
    pub world: Option<u64>,
    pub alone: Option<u64>,
    /// How many ranks there are, where something else than a call says so.
    pub world_size: Option<u32>,
    /// Communicators that the file lists: handle, name, ranks.
    pub comms: Arc<Vec<(u64, String, Vec<u32>)>>,
}

/// Reads the traces of all ranks of a job.
pub(crate) fn read(format: Format, parts: Vec<(Part, Option<u32>)>) -> Result<Draft, TraceError> {
    let mut draft = Draft::default();
    let mut processes = Vec::new();
    for (at, (part, rank)) in parts.iter().enumerate() {
        draft.reading.files += 1;
        if format == Format::Otf2Json {
            processes.extend(otf2::read(part, &mut draft.reading)?);
            draft.version = processes.last().and_then(|process: &Process| process.version.clone());
            continue;
        }
        let mut process = match format {
            Format::Dumpi => dumpi::read(part, &mut draft.reading)?,
            Format::DumpiAscii => ascii::read(part, &mut draft.reading)?,
            _ => allprof::read(part, &mut draft.reading)?,
        };
        if process.rank.is_none() && rank.is_none() {
            draft.reading.assume_all("no file says its rank: they are numbered in the order of their names");
        }
        process.rank = process.rank.or(*rank).or(Some(at as u32));
        draft.version = process.version.clone().or(draft.version);
        processes.push(process);
    }
    processes.sort_by_key(|process| process.rank);
    if let Some(pair) = processes.windows(2).find(|pair| pair[0].rank == pair[1].rank) {
        let problem = Problem::RankTwice { rank: pair[1].rank.unwrap_or(0), other: pair[0].file.clone() };
        return Err(TraceError::new(&pair[1].file, Position::Whole, problem));
    }
    draft.world = world(&processes)?;
    let contexts = contexts(&processes, draft.world, &mut draft.reading);
    for (process, contexts) in processes.into_iter().zip(contexts) {
        let rank = rank_draft(process, contexts, &mut draft)?;
        draft.ranks.push(rank);
    }
    Ok(draft)
}

/// Ranks of the job: what `MPI_Comm_size` of all says, and at least those with files.
fn world(processes: &[Process]) -> Result<u32, TraceError> {
    let mut world = 0;
    for process in processes {
        world = world.max(process.rank.unwrap_or(0).saturating_add(1)).max(process.world_size.unwrap_or(0));
        for call in &process.calls {
            if let Action::Size { comm, size } = call.action
                && Some(comm) == process.world
            {
                world = world.max(crate::format::ranks(&process.file, Position::Whole, "the number of ranks", size)?);
            }
        }
    }
    Ok(world)
}

/// A rank while its records are made.
struct Builder<'a> {
    records: Vec<Record>,
    /// What the next call waits for.
    last: Option<After>,
    /// When the call before it ended.
    ended: Option<u64>,
    epoch: u64,
    requests: BTreeMap<u64, RecordId>,
    /// Persistent requests: whether it sends, and what.
    persistent: BTreeMap<u64, (&'static str, bool, Envelope)>,
    comms: BTreeMap<u64, Context>,
    /// The groups of those that were used.
    groups: BTreeMap<u64, GroupId>,
    draft: &'a mut Draft,
}

fn rank_draft(process: Process, contexts: Vec<Context>, draft: &mut Draft) -> Result<RankDraft, TraceError> {
    let epoch = process.calls.iter().filter_map(|call| call.start_ns).min();
    let mut comms = BTreeMap::new();
    let all = Group::regular("MPI_COMM_WORLD", 0, 1, draft.world);
    if let Some(world) = process.world {
        comms.insert(world, Context::world(draft.world));
        draft.groups.add(all);
    }
    for (handle, name, ranks) in process.comms.iter() {
        comms.insert(*handle, Context::of(name, ranks.clone()));
    }
    if let Some(alone) = process.alone {
        comms.insert(alone, Context::of("MPI_COMM_SELF", vec![process.rank.unwrap_or(0)]));
    }
    let mut builder = Builder {
        records: Vec::new(),
        last: None,
        ended: None,
        epoch: epoch.unwrap_or(0),
        requests: BTreeMap::new(),
        persistent: BTreeMap::new(),
        comms,
        groups: BTreeMap::new(),
        draft,
    };
    let mut contexts = contexts.into_iter();
    for call in process.calls {
        builder.call(call, &mut contexts);
    }
    let unfinished = builder.requests.len() as u64;
    let mut records = builder.records;
    if unfinished > 0 {
        *draft.reading.notes.entry("non-blocking calls that nothing waits for".to_owned()).or_default() += unfinished;
    }
    order::settle(&process.file, &mut records, &mut draft.reading)?;
    Ok(RankDraft { rank: process.rank, file: process.file, records, epoch_ns: epoch })
}

impl Builder<'_> {
    fn call(&mut self, call: Call, contexts: &mut impl Iterator<Item = Context>) {
        match &call.action {
            Action::Dup { new, .. } | Action::Split { new, .. } | Action::Create { new, .. } => {
                // Each that makes a communicator has its context, in the order of the calls.
                let context = contexts.next().unwrap_or_default();
                self.comms.insert(*new, context);
                self.groups.remove(new);
                self.draft.reading.used();
                self.ended = call.end_ns.or(self.ended);
            }
            Action::GroupOf { .. } | Action::Include { .. } | Action::Size { .. } => self.draft.reading.used(),
            Action::Enter => {
                self.draft.reading.left("calls that begin or end MPI");
                self.ended = call.end_ns.or(self.ended);
            }
            Action::Nothing => self.draft.reading.left(format!("{}: no communication that is kept", call.name)),
            Action::Whole { operation, bytes, root, comm } => {
                let group = self.group(*comm);
                let bytes = Some(Bytes(*bytes));
                let kind = Kind::Collective(Collective { operation: *operation, bytes, element: None, group, root: *root });
                self.push(&call, kind, true, &[]);
                self.draft.reading.used();
            }
            Action::Collective { operation, bytes, element, root, comm } => {
                let group = self.group(*comm);
                let ranks = group.and_then(|id| self.draft.groups.get(id)?.size);
                let times = values::scale(*operation, u64::from(ranks.unwrap_or(1)));
                let bytes = Some(Bytes(bytes.saturating_mul(times)));
                let kind = Kind::Collective(Collective { operation: *operation, bytes, element: *element, group, root: *root });
                self.push(&call, kind, true, &[]);
                self.draft.reading.used();
            }
            Action::Send(envelope) => self.message(&call, true, envelope, None),
            Action::Recv(envelope, status) => {
                self.message(&call, false, envelope, None);
                if let (Some(status), Some(After::End(id))) = (status, self.last) {
                    self.resolve(id, *status);
                }
            }
            Action::Isend(envelope, request) => self.message(&call, true, envelope, Some(*request)),
            Action::Irecv(envelope, request) => self.message(&call, false, envelope, Some(*request)),
            Action::SendRecv(send, recv) => self.send_recv(&call, send, recv),
            Action::SendInit(envelope, request) => {
                self.persistent.insert(*request, (call.name, true, envelope.clone()));
                self.draft.reading.used();
            }
            Action::RecvInit(envelope, request) => {
                self.persistent.insert(*request, (call.name, false, envelope.clone()));
                self.draft.reading.used();
            }
            Action::Start(requests) => self.start(&call, requests),
            Action::Wait(requests, statuses) => self.wait(&call, requests, statuses),
        }
    }

    /// Adds a record; what follows waits for its end or, where it does not block, for its start.
    fn push(&mut self, call: &Call, kind: Kind, blocks: bool, more: &[After]) -> RecordId {
        let id = self.records.len() as u64;
        let mut record = Record::new(id, call.name, kind).after(self.last).after(more.iter().copied());
        if let Some(start) = call.start_ns {
            let ns = |ns: u64| Span::from_ps(ns.saturating_mul(1000));
            record.gap = ns(self.ended.map_or(0, |ended| start.saturating_sub(ended)));
            record.start = Some(Time::ZERO.saturating_add(ns(start.saturating_sub(self.epoch))));
            record.duration = call.end_ns.map(|end| ns(end.saturating_sub(start)));
        }
        self.ended = call.end_ns.or(self.ended);
        self.last = Some(if blocks { After::End(record.id) } else { After::Start(record.id) });
        let id = record.id;
        self.records.push(record);
        id
    }

    /// The group of a communicator. One that nobody made in this file has unknown members.
    fn group(&mut self, comm: u64) -> Option<GroupId> {
        if !self.groups.contains_key(&comm) {
            let group = self.comms.get(&comm).map_or_else(|| Context::unknown(comm).group(), Context::group);
            self.groups.insert(comm, self.draft.groups.add(group));
        }
        self.groups.get(&comm).copied()
    }

    /// The message of an envelope; Err says why there is none.
    fn envelope(&mut self, sends: bool, envelope: &Envelope) -> Result<Message, &'static str> {
        let group = self.group(envelope.comm);
        let any = !sends && envelope.peer == -1;
        if envelope.peer < 0 && !any {
            return Err("messages with nobody (MPI_PROC_NULL)");
        }
        let peer =
            if any { None } else { Some(self.rank_in(group, envelope.peer).ok_or("messages in communicators whose ranks are not known")?) };
        let tag = if sends || envelope.tag >= 0 { Some(envelope.tag as u32) } else { None };
        Ok(Message { peer, tag, bytes: Bytes(envelope.bytes), group })
    }

    fn rank_in(&self, group: Option<GroupId>, at: i64) -> Option<u32> {
        self.draft.groups.get(group?)?.member(u32::try_from(at).ok()?, self.draft.world)
    }

    /// A message of a call, which is used or left out.
    fn message(&mut self, call: &Call, sends: bool, envelope: &Envelope, request: Option<u64>) {
        match self.add_message(call, sends, envelope, request) {
            Ok(()) => self.draft.reading.used(),
            Err(reason) => self.draft.reading.left(reason),
        }
    }

    fn add_message(&mut self, call: &Call, sends: bool, envelope: &Envelope, request: Option<u64>) -> Result<(), &'static str> {
        let message = self.envelope(sends, envelope)?;
        let kind = if sends { Kind::Send(message) } else { Kind::Recv(message) };
        let id = self.push(call, kind, request.is_none(), &[]);
        if let Some(request) = request {
            self.requests.insert(request, id);
        }
        Ok(())
    }

    fn send_recv(&mut self, call: &Call, send: &Envelope, recv: &Envelope) {
        let mut ends = Vec::new();
        for (sends, envelope) in [(true, send), (false, recv)] {
            match self.envelope(sends, envelope) {
                Ok(message) => {
                    let kind = if sends { Kind::Send(message) } else { Kind::Recv(message) };
                    let id = self.push(&Call { end_ns: call.start_ns, ..call.clone() }, kind, false, &[]);
                    if let Some(record) = self.records.last_mut() {
                        record.duration = None;
                    }
                    ends.push(After::End(id));
                }
                Err(reason) => self.draft.reading.note(reason),
            }
        }
        if ends.is_empty() {
            return self.draft.reading.left("messages with nobody (MPI_PROC_NULL)");
        }
        self.push(call, Kind::Wait, true, &ends);
        self.draft.reading.used();
    }

    fn start(&mut self, call: &Call, requests: &[u64]) {
        let known: Vec<_> = requests.iter().filter_map(|request| Some((*request, self.persistent.get(request)?.clone()))).collect();
        if known.is_empty() {
            return self.draft.reading.left("starts of requests that are not in the file");
        }
        for (request, (name, sends, envelope)) in known {
            if let Err(reason) = self.add_message(&Call { name, ..call.clone() }, sends, &envelope, Some(request)) {
                self.draft.reading.note(reason);
            }
        }
        self.draft.reading.used();
    }

    fn wait(&mut self, call: &Call, requests: &[u64], statuses: &[Status]) {
        let mut ends = Vec::new();
        for (at, request) in requests.iter().enumerate() {
            let Some(id) = self.requests.remove(request) else { continue };
            ends.push(After::End(id));
            let status = statuses.get(at).filter(|_| statuses.len() == requests.len());
            if let Some(status) = status {
                self.resolve(id, *status);
            }
        }
        if ends.is_empty() {
            return self.draft.reading.left("waits and tests for requests that are over or found nothing");
        }
        self.push(call, Kind::Wait, true, &ends);
        self.draft.reading.used();
    }

    /// Who sent the message of a receive of anybody, which its status says.
    fn resolve(&mut self, id: RecordId, status: Status) {
        let Some(Kind::Recv(message)) = self.records.get(id.0 as usize).map(|record| &record.kind) else { return };
        let (anybody, group) = (message.peer.is_none(), message.group);
        let sender = self.rank_in(group, status.source);
        if let Some(Record { kind: Kind::Recv(message), .. }) = self.records.get_mut(id.0 as usize) {
            if anybody {
                message.peer = sender;
            }
            if message.tag.is_none() && (!anybody || sender.is_some()) && status.tag >= 0 {
                message.tag = Some(status.tag as u32);
            }
        }
    }
}

/// What a status says of a message that was received.
#[derive(Debug, Clone, Copy)]
pub(super) struct Status {
    pub source: i64,
    pub tag: i64,
}
