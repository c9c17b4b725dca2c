//! DUMPI, binary: one file for each rank.
//!
//! Source: sst-dumpi, `common/io.c` (header, index), `common/iodefs.h` (widths, times, statuses). Big-endian; the file ends with an index of
//! eight numbers.

use super::layout::{CALLS, END_OF_STREAM, FUNCTION_ENTER, FUNCTION_EXIT};
use super::values::{Sizes, Values, action};
use super::{Call, Process, Status};
use crate::Reading;
use crate::bytes::Cursor;
use crate::error::{Problem, TraceError};
use crate::open::Part;

const MAGIC: u64 = 0xffaa_dd44_554d_5049;
/// `MPI_COMM_WORLD` and `MPI_COMM_SELF`.
pub(super) const WORLD: u64 = 2;
/// See [`WORLD`].
pub(super) const SELF: u64 = 3;
// What stands before the arguments.
const STATUSES: u8 = 0x03;
const CPU_TIMES: u8 = 0x04;
const WALL_TIMES: u8 = 0x08;
const THREAD: u8 = 0x40;
const COUNTERS: u8 = 0x80;

/// Reads the calls of a rank.
pub(super) fn read(part: &Part, reading: &mut Reading) -> Result<Process, TraceError> {
    let file = Cursor::new(&part.name, &part.bytes);
    let index = index(&file)?;
    let mut header = file.from(index.header, "the header")?;
    let version = (header.u8("a version")?, header.u8("a version")?, header.u8("a version")?);
    let sizes = sizes(&file, index.sizes)?;
    if sizes.0.is_empty() {
        reading.assume_all("datatypes have the sizes of a 64-bit machine, the file lists none");
    }
    let mut process = Process { file: part.name.clone(), world: Some(WORLD), alone: Some(SELF), ..Process::default() };
    process.version = Some(format!("{}.{}.{}", version.0, version.1, version.2));
    let mut cursor = file.from(index.body, "the calls")?;
    // Seconds that all times of the CPU and of the wall clock lack.
    cursor.u32_be("an offset of times")?;
    let wall = u64::from(cursor.u32_be("an offset of times")?);
    let stream = Stream { version, wall, sizes: &sizes };
    loop {
        let number = cursor.u16_be("the number of a call")?;
        match number {
            END_OF_STREAM => break,
            FUNCTION_ENTER | FUNCTION_EXIT => {
                stream.times(&mut cursor)?;
                cursor.u64_be("a function")?;
                reading.left("functions of the program");
            }
            _ => {
                let (call, rank) = stream.call(number, &mut cursor, reading)?;
                process.rank = process.rank.or(rank);
                process.calls.push(call);
            }
        }
    }
    Ok(process)
}

/// Where the parts of a file are.
struct Index {
    sizes: u64,
    header: u64,
    body: u64,
}

/// The last eight numbers. Older files lack some of the first.
fn index(file: &Cursor<'_>) -> Result<Index, TraceError> {
    let mut start = file.clone();
    if start.u64_be("the magic number")? != MAGIC {
        return Err(file.unexpected("the magic number of DUMPI"));
    }
    let length = file.left() as u64;
    let mut cursor = file.from(length.saturating_sub(64), "the index")?;
    let mut words = Vec::with_capacity(8);
    while !cursor.is_over() {
        words.push(cursor.u64_be("the index")?);
    }
    let at = words.iter().take(4).position(|word| *word == MAGIC).filter(|_| words.len() == 8);
    let Some(at) = at else {
        return Err(cursor.error(Problem::Ended { what: "the index, with which every DUMPI file ends" }));
    };
    Ok(Index { sizes: if at == 0 { words[1] } else { 0 }, header: words[4], body: words[5] })
}

fn sizes(file: &Cursor<'_>, at: u64) -> Result<Sizes, TraceError> {
    if at == 0 {
        return Ok(Sizes::default());
    }
    let mut cursor = file.from(at, "the sizes of datatypes")?;
    let count = u64::from(cursor.u32_be("the number of datatypes")?);
    let count = cursor.count(count, 4, "the number of datatypes")?;
    (0..count).map(|_| cursor.u32_be("the size of a datatype").map(u64::from)).collect::<Result<_, _>>().map(Sizes)
}

/// What all calls of a file have in common.
struct Stream<'a> {
    version: (u8, u8, u8),
    wall: u64,
    sizes: &'a Sizes,
}

impl Stream<'_> {
    /// The mask of a call and its times on the wall clock (nanoseconds).
    fn times(&self, cursor: &mut Cursor<'_>) -> Result<(u8, Option<(u64, u64)>), TraceError> {
        let mask = cursor.u8("the mask of a call")?;
        if mask & THREAD > 0 {
            cursor.u16_be("a thread")?;
        }
        if mask & CPU_TIMES > 0 {
            cursor.take(12, "times of the CPU")?;
        }
        let mut moment = || -> Result<u64, TraceError> {
            let (seconds, ns) = (u64::from(cursor.u16_be("a time")?), u64::from(cursor.u32_be("a time")?));
            Ok((self.wall + seconds).saturating_mul(1_000_000_000).saturating_add(ns))
        };
        let times = if mask & WALL_TIMES > 0 { Some((moment()?, moment()?)) } else { None };
        if mask & COUNTERS > 0 {
            let counters = usize::from(cursor.u8("a number of counters")?);
            cursor.take(counters * 16, "performance counters")?;
        }
        Ok((mask, times))
    }

    /// A call, and the rank if it says that.
    fn call(&self, number: u16, cursor: &mut Cursor<'_>, reading: &mut Reading) -> Result<(Call, Option<u32>), TraceError> {
        let Some((name, layout)) = CALLS.get(usize::from(number)) else {
            let what = format!("call {number}, of which the layout is not known,");
            return Err(cursor.error(Problem::Unsupported { what, instead: INSTEAD.to_owned() }));
        };
        let Some(layout) = layout else {
            let what = format!("{name}, of which the layout is not known,");
            return Err(cursor.error(Problem::Unsupported { what, instead: INSTEAD.to_owned() }));
        };
        let (mask, times) = self.times(cursor)?;
        let values = self.values(layout, mask, cursor)?;
        let action = action(name, &values, self.sizes, reading).map_err(|missing| {
            cursor.error(Problem::Unexpected { found: format!("a wrong `{missing}` of {name}"), expected: "arguments of MPI" })
        })?;
        let own = *name == "MPI_Comm_rank" && values.number("comm") == Ok(WORLD as i64);
        let rank = values.number("rank").ok().filter(|_| own).and_then(|rank| u32::try_from(rank).ok());
        let most = fabriscope_schedule::Schedule::MOST_RANKS;
        if let Some(rank) = rank.filter(|rank| *rank >= most) {
            return Err(cursor.error(Problem::TooLarge { what: "a rank", value: rank.into(), most: most.into() }));
        }
        Ok((Call { name, start_ns: times.map(|times| times.0), end_ns: times.map(|times| times.1), action }, rank))
    }

    fn values(&self, layout: &'static str, mask: u8, cursor: &mut Cursor<'_>) -> Result<Values<'static>, TraceError> {
        let mut values = Values::default();
        let mut there = true;
        for argument in layout.split(' ').filter(|argument| !argument.is_empty()) {
            let (form, name) = argument.split_once(':').unwrap_or((argument, ""));
            if form == "?" {
                there = values.number("commrank") == values.number("root");
            } else if form == "!" {
                there = true;
            }
            if there {
                self.value(form, name, mask, cursor, &mut values)?;
            }
        }
        Ok(values)
    }

    fn value(
        &self,
        form: &str,
        name: &'static str,
        mask: u8,
        cursor: &mut Cursor<'_>,
        values: &mut Values<'static>,
    ) -> Result<(), TraceError> {
        const WHAT: &str = "an argument";
        let number = match form {
            "i" | "r" => i64::from(cursor.u32_be(WHAT)? as i32),
            "c" | "d" | "g" => i64::from(cursor.u16_be(WHAT)?),
            "b" | "o" => i64::from(cursor.u8(WHAT)?),
            "A" | "R" => {
                values.lists.push((name, list(cursor)?));
                return Ok(());
            }
            "D" => {
                let count = u64::from(cursor.u32_be(WHAT)?);
                let count = cursor.count(count, 2, WHAT)?;
                cursor.take(count * 2, WHAT)?;
                return Ok(());
            }
            "X" => {
                let count = u64::from(cursor.u32_be(WHAT)?);
                for _ in 0..cursor.count(count, 4, WHAT)? {
                    list(cursor)?;
                }
                return Ok(());
            }
            "s" => return text(cursor),
            "N" => {
                let count = u64::from(cursor.u32_be(WHAT)?);
                if self.version < (0, 6, 2) {
                    cursor.u32_be(WHAT)?;
                }
                for _ in 0..cursor.count(count, 4, WHAT)? {
                    text(cursor)?;
                }
                return Ok(());
            }
            "S" if mask & STATUSES > 0 => {
                let tags = self.version >= (0, 6, 3);
                let count = u64::from(cursor.u32_be(WHAT)?);
                for _ in 0..cursor.count(count, if tags { 14 } else { 10 }, "a number of statuses")? {
                    cursor.u32_be(WHAT)?;
                    let source = i64::from(cursor.u32_be(WHAT)? as i32);
                    cursor.take(2, WHAT)?;
                    let tag = if tags { i64::from(cursor.u32_be(WHAT)? as i32) } else { super::values::ANY };
                    values.statuses.push(Status { source, tag });
                }
                return Ok(());
            }
            _ => return Ok(()),
        };
        if !name.is_empty() {
            values.numbers.push((name, number));
        }
        Ok(())
    }
}

fn list(cursor: &mut Cursor<'_>) -> Result<Vec<i64>, TraceError> {
    let count = u64::from(cursor.u32_be("the length of a list")?);
    let count = cursor.count(count, 4, "the length of a list")?;
    (0..count).map(|_| cursor.u32_be("a list").map(|number| i64::from(number as i32))).collect()
}

fn text(cursor: &mut Cursor<'_>) -> Result<(), TraceError> {
    let length = u64::from(cursor.u32_be("the length of a text")?);
    let length = cursor.count(length, 1, "the length of a text")?;
    cursor.take(length, "a text").map(|_| ())
}

const INSTEAD: &str = "convert the file with dumpi2ascii and read its text";
