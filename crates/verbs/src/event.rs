//! Asynchronous events, as `ibv_get_async_event` gives them.
//!
//! Source: IBA vol. 1 §11.6.3; man page ibv_get_async_event(3).
//! Modelled: the events of queue pairs, completion queues and shared receive queues.
//! Not modelled: port and device events.

use crate::ids::{CqId, QpNum, SrqId};

/// Something a program did not ask for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum AsyncEvent {
    /// A completion queue overflowed (`IBV_EVENT_CQ_ERR`).
    CqError(CqId),
    /// A queue pair cannot use its completion queue any more (`IBV_EVENT_QP_FATAL`).
    QpFatal(QpNum),
    /// The peer sent an invalid request (`IBV_EVENT_QP_REQ_ERR`).
    QpRequestError(QpNum),
    /// The peer asked for memory it has no right to (`IBV_EVENT_QP_ACCESS_ERR`).
    QpAccessError(QpNum),
    /// A packet arrived on a queue pair in RTR (`IBV_EVENT_COMM_EST`).
    CommunicationEstablished(QpNum),
    /// A queue pair in SQD finished what it had begun (`IBV_EVENT_SQ_DRAINED`).
    SendQueueDrained(QpNum),
    /// A queue pair in error took its last receive from the shared queue (`IBV_EVENT_QP_LAST_WQE_REACHED`).
    LastWqeReached(QpNum),
    /// A connection took its alternate path (`IBV_EVENT_PATH_MIG`).
    PathMigrated(QpNum),
    /// A shared queue has fewer receives than its limit (`IBV_EVENT_SRQ_LIMIT_REACHED`).
    SrqLimitReached(SrqId),
}
