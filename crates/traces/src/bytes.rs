//! Bytes read one after the other, each read checked against the end.

use crate::error::{Position, Problem, TraceError, shown};

/// Where a reader of bytes stands.
#[derive(Debug, Clone)]
pub(crate) struct Cursor<'a> {
    file: &'a str,
    bytes: &'a [u8],
    at: usize,
    /// Where `bytes` begin in the file.
    origin: u64,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(file: &'a str, bytes: &'a [u8]) -> Cursor<'a> {
        Cursor { file, bytes, at: 0, origin: 0 }
    }
    /// A reader of `length` of the next bytes, which are passed.
    pub(crate) fn part(&mut self, length: usize, what: &'static str) -> Result<Cursor<'a>, TraceError> {
        let origin = self.origin + self.at as u64;
        Ok(Cursor { file: self.file, bytes: self.take(length, what)?, at: 0, origin })
    }
    /// A reader from `offset` bytes further on.
    pub(crate) fn from(&self, offset: u64, what: &'static str) -> Result<Cursor<'a>, TraceError> {
        let at = usize::try_from(offset).ok().and_then(|offset| self.at.checked_add(offset));
        match at.and_then(|at| Some((at, self.bytes.get(at..)?))) {
            Some((at, bytes)) => Ok(Cursor { file: self.file, bytes, at: 0, origin: self.origin + at as u64 }),
            None => Err(self.error(Problem::Ended { what })),
        }
    }
    pub(crate) fn position(&self) -> Position {
        Position::Byte(self.origin + self.at as u64)
    }
    pub(crate) fn is_over(&self) -> bool {
        self.at >= self.bytes.len()
    }
    pub(crate) fn left(&self) -> usize {
        self.bytes.len() - self.at
    }
    pub(crate) fn error(&self, problem: Problem) -> TraceError {
        TraceError::new(self.file, self.position(), problem)
    }
    pub(crate) fn unexpected(&self, expected: &'static str) -> TraceError {
        self.error(Problem::Unexpected { found: shown(&self.bytes[self.at..]), expected })
    }
    pub(crate) fn take(&mut self, length: usize, what: &'static str) -> Result<&'a [u8], TraceError> {
        let end = self.at.checked_add(length).filter(|end| *end <= self.bytes.len());
        let end = end.ok_or_else(|| self.error(Problem::Ended { what }))?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }
    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], TraceError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N, what)?);
        Ok(array)
    }
    pub(crate) fn u8(&mut self, what: &'static str) -> Result<u8, TraceError> {
        Ok(self.array::<1>(what)?[0])
    }
    pub(crate) fn u16_be(&mut self, what: &'static str) -> Result<u16, TraceError> {
        Ok(u16::from_be_bytes(self.array(what)?))
    }
    pub(crate) fn u32_be(&mut self, what: &'static str) -> Result<u32, TraceError> {
        Ok(u32::from_be_bytes(self.array(what)?))
    }
    pub(crate) fn u64_be(&mut self, what: &'static str) -> Result<u64, TraceError> {
        Ok(u64::from_be_bytes(self.array(what)?))
    }
    pub(crate) fn u32_le(&mut self, what: &'static str) -> Result<u32, TraceError> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }
    pub(crate) fn u64_le(&mut self, what: &'static str) -> Result<u64, TraceError> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }
    /// A number in groups of seven bits, the lowest first, as protobuf has them.
    pub(crate) fn varint(&mut self, what: &'static str) -> Result<u64, TraceError> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8(what)?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(self.unexpected("a number of at most ten bytes"))
    }
    /// `count` of something of at least `size` bytes each, refused where the file cannot hold them.
    pub(crate) fn count(&self, count: u64, size: usize, what: &'static str) -> Result<usize, TraceError> {
        let most = (self.left() / size.max(1)) as u64;
        if count > most { Err(self.error(Problem::TooLarge { what, value: count, most })) } else { Ok(count as usize) }
    }
}
