//! GOAL as LogGOPSim's `txt2bin` writes it: little-endian, without padding; an operation lists those that wait for it.

use fabriscope_schedule::{After as OpAfter, OpKind, Schedule};
use fabriscope_units::{Bytes, Span};

use super::{GoalError, check, nanoseconds};
use crate::bytes::Cursor;
use crate::draft::{Draft, RankDraft};
use crate::error::{Problem, TraceError};
use crate::format::ranks;
use crate::open::Part;
use crate::{After, Kind, Message, Record, RecordId};

const MAGIC: u64 = 4223;
/// Bytes of an operation.
const NODE: usize = 39;
const SEND: u8 = 1;
const RECV: u8 = 2;
const CALC: u8 = 3;
/// Any source, any tag.
const ANY: u32 = u32::MAX;

/// Reads a schedule.
pub(crate) fn read(part: &Part) -> Result<Draft, TraceError> {
    let mut draft = Draft::of_file();
    let mut cursor = Cursor::new(&part.name, &part.bytes);
    if cursor.u64_le("the magic number")? != MAGIC {
        return Err(cursor.unexpected("the magic number 4223"));
    }
    let file = cursor.clone();
    let count = u64::from(cursor.u32_le("the number of ranks")?);
    cursor.take(2, "the numbers of cpus and nics")?;
    let world = ranks(&part.name, cursor.position(), "the number of ranks", count)?;
    let world = cursor.count(u64::from(world), 16, "the number of ranks")? as u32;
    draft.world = world;
    draft.reading.assume_all("operations run as their dependencies say, also those of one cpu");
    for rank in 0..world {
        let (start, end) = (cursor.u64_le("the start of a rank")?, cursor.u64_le("the end of a rank")?);
        let mut block = file.from(start, "the block of a rank")?;
        let length = end.checked_sub(start).ok_or_else(|| cursor.unexpected("a rank that ends after its start"))?;
        let length = block.count(length, 1, "the length of a rank")?;
        let records = rank_block(block.part(length, "the block of a rank")?, world, &mut draft)?;
        draft.ranks.push(RankDraft { rank: Some(rank), file: part.name.clone(), records, epoch_ns: None });
    }
    Ok(draft)
}

fn rank_block(mut cursor: Cursor<'_>, world: u32, draft: &mut Draft) -> Result<Vec<Record>, TraceError> {
    let nodes = u64::from(cursor.u32_le("the number of operations")?);
    let roots = u64::from(cursor.u32_le("the number of first operations")?);
    let roots = cursor.count(roots, 4, "the number of first operations")?;
    cursor.take(roots * 4, "the first operations")?;
    let nodes = cursor.count(nodes, NODE, "the number of operations")?;
    let mut records = Vec::with_capacity(nodes);
    let mut lists = Vec::with_capacity(nodes);
    for id in 0..nodes {
        cursor.u32_le("a number of dependencies")?;
        let (kind, peer) = (cursor.u8("a type")?, cursor.u32_le("a peer")?);
        let (size, tag) = (cursor.u64_le("a size")?, cursor.u32_le("a tag")?);
        let (cpu, nic) = (cursor.u8("a cpu")?, cursor.u8("a nic")?);
        lists.push((cursor.u32_le("a count")?, cursor.u32_le("an index")?, cursor.u32_le("a count")?, cursor.u32_le("an index")?));
        let anybody = kind == RECV && peer == ANY;
        if kind != CALC && !anybody && peer >= world {
            return Err(cursor.error(Problem::Unexpected { found: format!("rank {peer}"), expected: "a rank below the number of ranks" }));
        }
        let anything = kind == RECV && tag == ANY;
        let message = || Message { peer: (!anybody).then_some(peer), tag: (!anything).then_some(tag), bytes: Bytes(size), group: None };
        let kind = match kind {
            SEND => Kind::Send(message()),
            RECV => Kind::Recv(message()),
            CALC => Kind::Compute,
            other => {
                let found = format!("type {other}");
                return Err(cursor.error(Problem::Unexpected { found, expected: "1 (send), 2 (receive) or 3 (calculate)" }));
            }
        };
        if nic > 0 {
            draft.reading.note("the nic of operations is not kept");
        }
        let mut record = Record::new(id as u64, "", kind).on(u32::from(cpu));
        if record.kind == Kind::Compute {
            record.duration = Some(Span::from_ps(size.saturating_mul(1000)));
        }
        records.push(record);
        draft.reading.used();
    }
    // Lists may not overlap: together they are as long as the appendix at most.
    cursor.count(lists.iter().map(|(ends, _, starts, _)| u64::from(*ends) + u64::from(*starts)).sum(), 4, "the number of dependencies")?;
    for (id, (ends, at_end, starts, at_start)) in lists.into_iter().enumerate() {
        let id = RecordId(id as u64);
        wait(&cursor, ends, at_end, After::End(id), &mut records)?;
        wait(&cursor, starts, at_start, After::Start(id), &mut records)?;
    }
    Ok(records)
}

/// Lets the `count` operations that stand from `index` on in the appendix wait.
fn wait(appendix: &Cursor<'_>, count: u32, index: u32, after: After, records: &mut [Record]) -> Result<(), TraceError> {
    if count == 0 {
        return Ok(());
    }
    let mut list = appendix.from(u64::from(index) * 4, "a list of dependencies")?;
    let count = list.count(u64::from(count), 4, "a number of dependencies")?;
    for _ in 0..count {
        let later = list.u32_le("a dependency")?;
        match records.get_mut(later as usize) {
            Some(record) => record.after.push(after),
            None => {
                return Err(list.error(Problem::Unexpected { found: format!("operation {later}"), expected: "an operation of the rank" }));
            }
        }
    }
    Ok(())
}

/// The schedule as binary GOAL, all operations on cpu 0. Computation is rounded to whole nanoseconds. The format keeps no order among the
/// dependencies of one operation: they come back ordered by the operation waited for, its end before its start.
///
/// # Errors
/// One-sided operations, and the tag that means any.
pub fn write(schedule: &Schedule) -> Result<Vec<u8>, GoalError> {
    check(schedule)?;
    let blocks: Vec<Vec<u8>> = (0..schedule.ranks()).map(|rank| block(schedule, rank)).collect();
    let mut file = MAGIC.to_le_bytes().to_vec();
    file.extend(schedule.ranks().to_le_bytes());
    // The highest cpu and nic.
    file.extend([0, 0]);
    let mut start = 6 + 16 * blocks.len() as u64;
    for block in &blocks {
        let end = start + block.len() as u64;
        file.extend(start.to_le_bytes());
        file.extend(end.to_le_bytes());
        start = end;
    }
    blocks.iter().for_each(|block| file.extend(block));
    Ok(file)
}

fn block(schedule: &Schedule, rank: u32) -> Vec<u8> {
    let count = schedule.ops(rank).len();
    let (mut ends, mut starts) = (vec![Vec::new(); count], vec![Vec::new(); count]);
    for op in schedule.ops(rank) {
        for after in op.after {
            match after {
                OpAfter::End(earlier) => ends[earlier.0 as usize].push(op.id.0),
                OpAfter::Start(earlier) => starts[earlier.0 as usize].push(op.id.0),
            }
        }
    }
    let roots: Vec<u32> = schedule.ops(rank).filter(|op| op.after.is_empty()).map(|op| op.id.0).collect();
    let mut block = Vec::new();
    block.extend((count as u32).to_le_bytes());
    block.extend((roots.len() as u32).to_le_bytes());
    roots.iter().for_each(|root| block.extend(root.to_le_bytes()));
    let mut index = 0_u32;
    for op in schedule.ops(rank) {
        let (kind, peer, size, tag) = match op.kind {
            OpKind::Send { to, bytes, tag } => (SEND, to, bytes.0, tag),
            OpKind::Recv { from, bytes, tag } => (RECV, from, bytes.0, tag),
            OpKind::Compute { span } => (CALC, 0, nanoseconds(span), 0),
            // `check` refuses them.
            OpKind::Put { .. } | OpKind::Get { .. } => (CALC, 0, 0, 0),
        };
        block.extend((op.after.len() as u32).to_le_bytes());
        block.push(kind);
        block.extend(peer.to_le_bytes());
        block.extend(size.to_le_bytes());
        block.extend(tag.to_le_bytes());
        block.extend([0, 0]);
        for list in [&ends[op.id.0 as usize], &starts[op.id.0 as usize]] {
            block.extend((list.len() as u32).to_le_bytes());
            block.extend(index.to_le_bytes());
            index += list.len() as u32;
        }
    }
    for (ends, starts) in ends.iter().zip(&starts) {
        ends.iter().chain(starts).for_each(|later| block.extend(later.to_le_bytes()));
    }
    block
}
