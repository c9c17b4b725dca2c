//! The bytes that a packet carries, in runs that move real bytes.
//!
//! Modelled: bytes of the packet's own, and bytes that stay where the program has them until they arrive: the sender of a reliable
//! transport may not touch the memory of a request before that has completed, and it completes after its bytes arrived (IBA vol. 1
//! §10.8.1). Responses are copied when they are made, for their memory belongs to nobody meanwhile; so is what unreliable transports send.
//! Not modelled: –

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

/// Memory of a host that lends its bytes to packets. Nobody writes to them while a packet is looked at.
pub trait Lender: Send + Sync {
    /// All of its bytes.
    fn bytes(&self) -> &[u8];
}

/// The bytes of a packet. One word, for what packets carry lies in slots of two cache lines.
#[derive(Clone)]
pub struct PayloadBytes(Box<Held>);

#[derive(Clone)]
enum Held {
    /// The packet's own.
    Copied(Box<[u8]>),
    /// A part of what lies in the sender's memory.
    Lent(Arc<dyn Lender>, Range<usize>),
}

impl Deref for PayloadBytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &*self.0 {
            Held::Copied(bytes) => bytes,
            Held::Lent(lender, range) => lender.bytes().get(range.clone()).unwrap_or_default(),
        }
    }
}

impl PayloadBytes {
    /// Those of a part of a lender's memory; none where it ends before.
    #[must_use]
    pub fn lent(lender: Arc<dyn Lender>, range: Range<usize>) -> PayloadBytes {
        PayloadBytes(Box::new(Held::Lent(lender, range)))
    }
    /// The bytes as the caller's own.
    #[must_use]
    pub fn into_boxed(self) -> Box<[u8]> {
        match *self.0 {
            Held::Copied(bytes) => bytes,
            Held::Lent(lender, range) => lender.bytes().get(range).unwrap_or_default().into(),
        }
    }
}

impl From<Vec<u8>> for PayloadBytes {
    fn from(bytes: Vec<u8>) -> PayloadBytes {
        bytes.into_boxed_slice().into()
    }
}

impl From<Box<[u8]>> for PayloadBytes {
    fn from(bytes: Box<[u8]>) -> PayloadBytes {
        PayloadBytes(Box::new(Held::Copied(bytes)))
    }
}

impl From<&[u8]> for PayloadBytes {
    fn from(bytes: &[u8]) -> PayloadBytes {
        Box::<[u8]>::from(bytes).into()
    }
}

impl PartialEq for PayloadBytes {
    fn eq(&self, other: &PayloadBytes) -> bool {
        **self == **other
    }
}

impl Eq for PayloadBytes {}

impl fmt::Debug for PayloadBytes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(out)
    }
}
