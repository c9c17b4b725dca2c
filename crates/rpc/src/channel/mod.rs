//! Messages between programs of different nodes, over sockets or queue pairs, with what a program has to know of each: when it could be seen
//! and what handling it took.
//!
//! A [`Port`] has all connections of one thread over one transport. What a message says of itself, its [`Header`], travels in its last packet.

mod contact;
mod stream;
mod verbs;

use fabriscope_catalog::Interface;
use fabriscope_node::{Process, ProgramError};
use fabriscope_platform::Target;
use fabriscope_tool::UsageError;
use fabriscope_units::{Bytes, Time};
use fabriscope_verbs::{AppWords, Mtu};

pub use contact::Contacts;
use stream::StreamPort;
use verbs::VerbsPort;

/// Through what messages go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Over {
    /// TCP of the kernel: Ethernet, or IP over InfiniBand.
    Tcp,
    /// SENDs into posted receives.
    Send,
    /// WRITEs into a ring that the receiver looks at.
    Write,
}

impl Over {
    /// All of them.
    pub const ALL: [Over; 3] = [Over::Tcp, Over::Send, Over::Write];
    /// What a command line calls it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Over::Tcp => "tcp",
            Over::Send => "rdma-send",
            Over::Write => "rdma-write",
        }
    }
    /// The one of this name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Over> {
        Over::ALL.into_iter().find(|over| over.name() == name)
    }
    /// Whether it needs queue pairs.
    #[must_use]
    pub const fn is_rdma(self) -> bool {
        !matches!(self, Over::Tcp)
    }
}

/// What `--over` of a tool names, each once.
///
/// # Errors
/// Something that is named twice.
pub fn named_once<T: Copy + PartialEq>(over: &[T], name: impl Fn(T) -> &'static str) -> Result<(), UsageError> {
    match over.iter().enumerate().find(|(at, one)| over[..*at].contains(one)) {
        Some((_, twice)) => {
            Err(UsageError::Conflict { what: format!("--over names {} twice", name(*twice)), remedy: "name each once".to_owned() })
        }
        None => Ok(()),
    }
}

/// The adapters have what messages over RDMA need.
///
/// # Errors
/// They have not.
pub fn has_queue_pairs(target: &Target) -> Result<(), UsageError> {
    if target.interface == Interface::Verbs {
        return Ok(());
    }
    let what = format!("RDMA here needs connected queue pairs of verbs; the adapters are driven through {}", target.interface);
    Err(UsageError::Conflict { what, remedy: "use --over tcp, or a cluster of InfiniBand or RoCE".to_owned() })
}

/// What a message says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Header {
    /// What it is, in the program's own numbers, below 2¹⁶.
    pub kind: u32,
    /// Which call it belongs to.
    pub call: u64,
    /// Its bytes, without headers of the transport.
    pub bytes: u64,
    /// What else the program says.
    pub extra: u64,
}

impl Header {
    fn words(self, flags: u64) -> AppWords {
        AppWords([u64::from(self.kind) | flags << 32, self.call, self.bytes, self.extra])
    }
    fn read(AppWords([first, call, bytes, extra]): AppWords) -> (Header, u64) {
        (Header { kind: first as u32, call, bytes, extra }, first >> 32)
    }
}

/// A message that has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// The connection, by its place in the list that the port was opened with.
    pub connection: usize,
    /// What it says.
    pub header: Header,
    /// When it could be seen: the socket became readable, the completion was there.
    pub visible: Time,
    /// When the thread turned to it.
    pub begun: Time,
    /// When it was in the program's memory.
    pub read: Time,
}

/// Which end of its connections a port is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionEnd {
    /// It calls.
    Caller,
    /// It is called.
    Called,
}

/// What a port costs and holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// What a thread reads from a socket at once.
    pub read_size: Bytes,
    /// Messages up to this, with `header`, are copied into the receiver's buffers; it reads longer ones from the sender's memory.
    pub eager_limit: Bytes,
    /// The header of a message over RDMA.
    pub header: Bytes,
    /// Messages that may be on their way over a connection over RDMA.
    pub window: u32,
    /// What goes inline.
    pub inline: u32,
    /// The MTU of the path.
    pub mtu: Mtu,
}

/// All connections of one thread over one transport.
pub enum Port {
    /// Over sockets.
    Stream(StreamPort),
    /// Over queue pairs.
    Verbs(VerbsPort),
}

impl Port {
    /// Connects this program to the programs `peers`, each of which does so as well; all programs of the job take part, those without peers
    /// too.
    ///
    /// # Errors
    /// No interface, no room for queue pairs, nobody there.
    pub async fn open(
        process: &Process,
        (over, end): (Over, ConnectionEnd),
        peers: &[u32],
        contacts: &Contacts,
        terms: Terms,
    ) -> Result<Port, ProgramError> {
        Ok(match over {
            Over::Tcp => Port::Stream(StreamPort::open(process, end, peers, contacts, terms).await?),
            Over::Send | Over::Write => Port::Verbs(VerbsPort::open(process, over, peers, contacts, terms).await?),
        })
    }

    /// Sends a message of `bytes`, headers of the program's protocol among them; returns when the core may go on.
    ///
    /// # Errors
    /// The connection is dead.
    pub async fn send(&mut self, process: &Process, connection: usize, header: Header, bytes: Bytes) -> Result<(), ProgramError> {
        match self {
            Port::Stream(port) => port.send(process, connection, header, bytes).await,
            Port::Verbs(port) => port.send(process, connection, header, bytes).await,
        }
    }

    /// The next message; nothing where none came until `until`.
    ///
    /// # Errors
    /// A connection is dead.
    pub async fn next(&mut self, process: &Process, until: Time) -> Result<Option<Arrival>, ProgramError> {
        match self {
            Port::Stream(port) => port.next(process, until).await,
            Port::Verbs(port) => port.next(process, until).await,
        }
    }

    /// Begins to read `bytes` of a peer's memory; an arrival with this header follows when they are here.
    ///
    /// # Errors
    /// A port over sockets, which cannot; the connection is dead.
    pub async fn get(&mut self, process: &Process, connection: usize, header: Header, bytes: Bytes) -> Result<(), ProgramError> {
        match self {
            Port::Stream(_) => Err(ProgramError("a socket cannot read the memory of its peer".to_owned())),
            Port::Verbs(port) => port.get(process, connection, header, bytes).await,
        }
    }
}

/// The adapter: the first of the node.
const NIC: usize = 0;
