//! Errors of the control verbs and of posting.

use fabriscope_units::Bytes;
use thiserror::Error;

use crate::access::Access;
use crate::attr::{QpState, QpType};
use crate::ids::{AhId, CounterId, CqId, Lid, PdId, QpNum, SrqId};
use crate::wr::WrOpcode;

/// Why a control verb failed.
#[derive(Clone, PartialEq, Eq, Debug, Error, miette::Diagnostic)]
#[non_exhaustive]
pub enum VerbsError {
    /// No such protection domain.
    #[error("protection domain {pd} does not exist")]
    #[diagnostic(help("take one from alloc_pd"))]
    NoSuchPd {
        /// What was asked for.
        pd: PdId,
    },
    /// No such completion queue.
    #[error("completion queue {cq} does not exist")]
    #[diagnostic(help("take one from create_cq"))]
    NoSuchCq {
        /// What was asked for.
        cq: CqId,
    },
    /// No such shared receive queue.
    #[error("shared receive queue {srq} does not exist")]
    #[diagnostic(help("take one from create_srq"))]
    NoSuchSrq {
        /// What was asked for.
        srq: SrqId,
    },
    /// No such address handle.
    #[error("address handle {ah} does not exist")]
    #[diagnostic(help("take one from create_ah"))]
    NoSuchAh {
        /// What was asked for.
        ah: AhId,
    },
    /// No such queue pair.
    #[error("queue pair {qp} does not exist")]
    #[diagnostic(help("take one from create_qp"))]
    NoSuchQp {
        /// What was asked for.
        qp: QpNum,
    },
    /// Congestion control by credit of the receiver, on a transport whose packets carry none.
    #[error("queue pair {qp} is {qp_type:?}, whose packets carry no credit of the receiver")]
    #[diagnostic(help("use UET or SRD, or another congestion control"))]
    NoCredit {
        /// Which queue pair.
        qp: QpNum,
        /// Its transport.
        qp_type: QpType,
    },
    /// Only datagrams go to groups.
    #[error("queue pair {qp} is {qp_type:?}, and multicast is for UD")]
    #[diagnostic(help("attach a UD queue pair"))]
    NotDatagram {
        /// What was to be attached.
        qp: QpNum,
        /// Its transport.
        qp_type: QpType,
    },
    /// The address is not that of a group.
    #[error("address {lid} is not that of a multicast group")]
    #[diagnostic(help("use what the answer to a join names"))]
    NotMulticast {
        /// What was given.
        lid: Lid,
    },
    /// The queue pair gets the packets of the group already.
    #[error("queue pair {qp} is attached to that group already")]
    #[diagnostic(help("detach it first"))]
    AlreadyAttached {
        /// Which queue pair.
        qp: QpNum,
    },
    /// The queue pair does not get the packets of the group.
    #[error("queue pair {qp} is not attached to that group")]
    #[diagnostic(help("attach it before"))]
    NotAttached {
        /// Which queue pair.
        qp: QpNum,
    },
    /// No region has the key.
    #[error("no memory region has the key {key:#x}")]
    #[diagnostic(help("it was never registered, or deregistered since"))]
    NoSuchKey {
        /// What was asked for.
        key: u32,
    },
    /// The object is still used.
    #[error("{what} is still used by {user}")]
    #[diagnostic(help("destroy that first"))]
    Busy {
        /// What should go.
        what: String,
        /// What needs it.
        user: String,
    },
    /// Remote rights without local ones.
    #[error("access {access:?} lets the peer change memory and needs LOCAL_WRITE too")]
    AccessNeedsLocalWrite {
        /// What was asked for.
        access: Access,
    },
    /// No way leads from the NIC to the memory.
    #[error("the NIC does not reach memory {place} of its node")]
    #[diagnostic(help("register host memory and copy, or use a node with GPUDirect RDMA"))]
    OutOfReach {
        /// The number of the memory.
        place: u8,
    },
    /// An empty range or one beyond the end of memory.
    #[error("{length} at {addr:#x} is empty or passes the end of the address space")]
    #[diagnostic(help("register at least 1 B below 2^64"))]
    BadRange {
        /// First byte.
        addr: u64,
        /// Length.
        length: Bytes,
    },
    /// The adapter has no counting events.
    #[error("the adapter counts no messages")]
    #[diagnostic(help("use one with a table [triggered]: cassini, bxi-nic"))]
    NoCounters,
    /// All counters are in use.
    #[error("all {most} counters of the adapter are in use")]
    #[diagnostic(help("count fewer ranges"))]
    TooManyCounters {
        /// So many it has.
        most: u32,
    },
    /// Two counters for one byte.
    #[error("messages that end in {length} at {addr:#x} are counted already")]
    #[diagnostic(help("count ranges that do not overlap"))]
    CountedAlready {
        /// First byte.
        addr: u64,
        /// Length.
        length: Bytes,
    },
    /// A size of zero or too large.
    #[error("{what} is {value}, allowed are {min} to {max}")]
    OutOfRange {
        /// Which number.
        what: &'static str,
        /// What was asked for.
        value: u64,
        /// The smallest allowed.
        min: u64,
        /// The largest allowed.
        max: u64,
    },
    /// A size that has to be a power of two.
    #[error("{what} is {value} and has to be a power of two")]
    #[diagnostic(help("{suggestion} is the next"))]
    NotPowerOfTwo {
        /// Which number.
        what: &'static str,
        /// What was asked for.
        value: u32,
        /// The next power of two.
        suggestion: u32,
    },
    /// An object that this type of queue pair needs or cannot have.
    #[error("a queue pair of type {} with {what}", qp_type.name())]
    #[diagnostic(help("{remedy}"))]
    DoesNotFit {
        /// The type.
        qp_type: QpType,
        /// What is wrong.
        what: &'static str,
        /// What to do.
        remedy: &'static str,
    },
    /// No transition between these states.
    #[error("a {qp_type:?} queue pair cannot go from {from:?} to {to:?}")]
    #[diagnostic(help("the way is RESET, INIT, RTR, RTS, and from anywhere to RESET or ERR"))]
    BadTransition {
        /// Transport.
        qp_type: QpType,
        /// State now.
        from: QpState,
        /// State asked for.
        to: QpState,
    },
    /// A required attribute is not given.
    #[error("{qp_type:?} from {from:?} to {to:?} needs the attribute `{attribute}`")]
    MissingAttribute {
        /// Transport.
        qp_type: QpType,
        /// State now.
        from: QpState,
        /// State asked for.
        to: QpState,
        /// Its name in `QpAttr`.
        attribute: &'static str,
    },
    /// An attribute is given that the transition does not take.
    #[error("{qp_type:?} from {from:?} to {to:?} does not take the attribute `{attribute}`")]
    #[diagnostic(help("leave it out"))]
    ForeignAttribute {
        /// Transport.
        qp_type: QpType,
        /// State now.
        from: QpState,
        /// State asked for.
        to: QpState,
        /// Its name in `QpAttr`.
        attribute: &'static str,
    },
}

/// Why a work request was not taken.
#[derive(Clone, PartialEq, Eq, Debug, Error, miette::Diagnostic)]
#[non_exhaustive]
pub enum PostError {
    /// No such queue pair (EINVAL).
    #[error("queue pair {qp} does not exist")]
    #[diagnostic(help("take one from create_qp"))]
    NoSuchQp {
        /// What was asked for.
        qp: QpNum,
    },
    /// No such shared receive queue (EINVAL).
    #[error("shared receive queue {srq} does not exist")]
    #[diagnostic(help("take one from create_srq"))]
    NoSuchSrq {
        /// What was asked for.
        srq: SrqId,
    },
    /// No such counter (EINVAL).
    #[error("counter {counter} does not exist")]
    #[diagnostic(help("take one from create_counter"))]
    NoSuchCounter {
        /// What was asked for.
        counter: CounterId,
    },
    /// The queue is full (ENOMEM).
    #[error("all {depth} slots of the queue are taken")]
    #[diagnostic(help("poll a completion (only those of signalled requests free slots), or ask for more slots at creation"))]
    QueueFull {
        /// Slots it has.
        depth: u32,
    },
    /// The state does not allow posting (EINVAL).
    #[error("queue pair {qp} is in state {state:?}")]
    #[diagnostic(help("sends need RTS, receives need INIT or later"))]
    WrongState {
        /// Which queue pair.
        qp: QpNum,
        /// Its state.
        state: QpState,
    },
    /// The transport has no such operation (EINVAL).
    #[error("{opcode:?} does not exist on {qp_type:?}")]
    #[diagnostic(help("see the table of ibv_post_send(3)"))]
    OpcodeNotSupported {
        /// The operation.
        opcode: WrOpcode,
        /// The transport.
        qp_type: QpType,
    },
    /// Too many entries (EINVAL).
    #[error("{sges} entries in the list, the queue was made for {max}")]
    TooManySges {
        /// Entries given.
        sges: u32,
        /// Entries allowed.
        max: u32,
    },
    /// Inline data too long, or the operation takes none (EINVAL).
    #[error("{length} of inline data, allowed are {max}")]
    #[diagnostic(help("leave INLINE out or ask for more max_inline_data at creation"))]
    InlineTooLong {
        /// Bytes given.
        length: Bytes,
        /// Bytes allowed; none for READ and atomics.
        max: Bytes,
    },
    /// A field the opcode needs is not given (EINVAL).
    #[error("{opcode:?} needs the field `{field}`")]
    MissingField {
        /// The operation.
        opcode: WrOpcode,
        /// Its name in `SendWr`.
        field: &'static str,
    },
    /// Words with a request that carries none (EINVAL).
    #[error("words with {opcode:?} on {qp_type:?}")]
    #[diagnostic(help("words travel with SEND and WRITE over connections, SRD and UET"))]
    NoWords {
        /// The operation.
        opcode: WrOpcode,
        /// The transport.
        qp_type: QpType,
    },
    /// The address handle does not exist or belongs to another protection domain (EINVAL).
    #[error("address handle {ah} does not exist in the protection domain of the queue pair")]
    BadAh {
        /// What was given.
        ah: AhId,
    },
    /// Groups are reached at queue pair 0xFFFFFF, and nobody else is (EINVAL).
    #[error("a datagram to address {dest} names queue pair {qp}")]
    #[diagnostic(help("groups are reached at {} and only they", QpNum::MULTICAST))]
    MulticastQp {
        /// Where it is to go.
        dest: Lid,
        /// The queue pair named.
        qp: QpNum,
    },
    /// Receives of this queue pair come from a shared queue (EINVAL).
    #[error("queue pair {qp} takes its receives from a shared queue")]
    #[diagnostic(help("use post_srq_recv"))]
    UsesSrq {
        /// Which queue pair.
        qp: QpNum,
    },
}

impl PostError {
    /// The error number ibv_post_send(3) returns.
    pub const fn errno_name(&self) -> &'static str {
        match self {
            PostError::QueueFull { .. } => "ENOMEM",
            _ => "EINVAL",
        }
    }
}
