//! What a reader of a format makes, before ranks are joined.

use std::collections::BTreeSet;

use fabriscope_units::{Span, Time};

use crate::error::{Position, Problem, TraceError};
use crate::{Collective, Format, GroupId, Groups, Kind, RankTrace, Reading, Record, Trace};

/// One rank as its file tells it.
#[derive(Debug, Default)]
pub(crate) struct RankDraft {
    /// Where the file says which rank it is.
    pub rank: Option<u32>,
    pub file: String,
    pub records: Vec<Record>,
    /// When its time zero was (nanoseconds of its clock); None where it has no times.
    pub epoch_ns: Option<u64>,
}

/// What one file holds.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    pub version: Option<String>,
    /// Ranks of the job, where the file says so; otherwise 0.
    pub world: u32,
    pub ranks: Vec<RankDraft>,
    pub groups: Groups,
    pub every_rank: bool,
    pub reading: Reading,
}

impl Draft {
    /// A draft of one file.
    pub(crate) fn of_file() -> Draft {
        let mut draft = Draft::default();
        draft.reading.files = 1;
        draft
    }
}

/// Joins the files of a job.
pub(crate) fn join(name: &str, format: Format, drafts: Vec<(Draft, Option<u32>)>) -> Result<Trace, TraceError> {
    let mut trace = Trace {
        name: name.to_owned(),
        format,
        version: None,
        world: 0,
        ranks: Vec::new(),
        groups: Groups::default(),
        every_rank: false,
        reading: Reading::default(),
    };
    let mut versions = BTreeSet::new();
    let mut ranks = Vec::new();
    for (at, (draft, hint)) in drafts.into_iter().enumerate() {
        let renumbered: Vec<GroupId> = draft.groups.iter().map(|(_, group)| trace.groups.add(group.clone())).collect();
        versions.extend(draft.version);
        trace.world = trace.world.max(draft.world);
        trace.every_rank |= draft.every_rank;
        trace.reading.add(draft.reading);
        for mut of in draft.ranks {
            renumber(&mut of.records, &renumbered);
            let rank = of.rank.or(hint).unwrap_or_else(|| {
                trace.reading.assume_all("no file says its rank: they are numbered in the order of their names");
                at as u32
            });
            ranks.push((rank, of));
        }
    }
    if versions.len() > 1 {
        trace.reading.note(format!("ranks have different versions: {}", versions.iter().cloned().collect::<Vec<_>>().join(", ")));
    }
    trace.version = (!versions.is_empty()).then(|| versions.into_iter().collect::<Vec<_>>().join(", "));
    ranks.sort_by_key(|(rank, _)| *rank);
    if let Some(pair) = ranks.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        let problem = Problem::RankTwice { rank: pair[0].0, other: pair[0].1.file.clone() };
        return Err(TraceError::new(&pair[1].1.file, Position::Whole, problem));
    }
    let zero = ranks.iter().filter_map(|(_, of)| of.epoch_ns).min().unwrap_or(0);
    let epochs: BTreeSet<Option<u64>> = ranks.iter().map(|(_, of)| of.epoch_ns).collect();
    for (rank, of) in ranks {
        let offset = Span::from_ps(of.epoch_ns.map_or(0, |epoch| (epoch - zero).saturating_mul(1000)));
        let mut records = of.records;
        for record in &mut records {
            record.start = record.start.map(|start: Time| start.saturating_add(offset));
        }
        trace.world = trace.world.max(rank.saturating_add(1));
        trace.ranks.push(RankTrace { rank, file: of.file, records });
    }
    trace.world = trace.world.max(highest_peer(&trace).map_or(0, |peer| peer.saturating_add(1)));
    trace.align();
    if epochs.len() > 1 && trace.reading.clocks.is_empty() {
        trace.reading.assume_all("clocks of ranks are not compared: only differences of times within one rank are used");
    }
    let missing = trace.missing();
    if missing > 0 && !trace.every_rank {
        trace.reading.note(format!("ranks without a file: {missing} of {}", trace.world));
    }
    Ok(trace)
}

fn highest_peer(trace: &Trace) -> Option<u32> {
    let peers = trace.all().filter_map(|(_, record)| match &record.kind {
        Kind::Send(message) | Kind::Recv(message) => message.peer,
        _ => None,
    });
    peers.max()
}

/// Groups of the file become groups of the trace.
fn renumber(records: &mut [Record], renumbered: &[GroupId]) {
    for record in records {
        let group = match &mut record.kind {
            Kind::Collective(Collective { group, .. }) => group,
            Kind::Send(message) | Kind::Recv(message) => &mut message.group,
            Kind::Compute | Kind::Wait => continue,
        };
        *group = group.and_then(|id| renumbered.get(id.0 as usize).copied());
    }
}
