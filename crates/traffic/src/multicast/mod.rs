//! One rank sends messages to the others: as datagrams to a multicast group, or as datagrams to each.
//!
//! Messages above the MTU go in several datagrams, numbered in their immediate data; a receiver puts them together by
//! number, whatever their order, and counts what is missing at the end. Nothing is sent again.
//!
//! Source: man pages rdma_join_multicast(3), ibv_attach_mcast(3), ibv_post_send(3).
//! Modelled: joining and its answer, time for the tables to settle, posting with one completion in 64, receives posted
//! again as they are used.
//! Not modelled: repair of losses (of a reliable multicast protocol), pacing by the adapter.

mod receiver;
mod sample;
mod sender;
mod setup;

use fabriscope_node::{Main, ProgramError, Record};
use fabriscope_units::{Bytes, Rate, Remedy, Span};

pub use sample::{Received, Sample};

use sample::Board;

/// What is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Name of the group; without one every receiver gets a datagram of its own.
    pub group: Option<[u8; 16]>,
    /// How many receive: ranks 1 and up.
    pub receivers: u32,
    /// Length of a message.
    pub size: Bytes,
    /// Payload of a datagram.
    pub mtu: Bytes,
    /// How many messages.
    pub messages: u32,
    /// From the start of one to the start of the next.
    pub interval: Span,
    /// The service level of its packets [0..15].
    pub level: u8,
    /// The partition, where the cluster has any.
    pub pkey: Option<u16>,
    /// The rate that the queue pair of each rank keeps to, where it has a limit.
    pub rate: Option<Rate>,
    /// From the last answer to the first message, and from the last message until nothing more is waited for.
    pub settle: Span,
}

impl Config {
    /// Datagrams of a message; what 32 bits do not hold counts as the most, which a lab refuses long before.
    #[must_use]
    pub fn packets(&self) -> u32 {
        u32::try_from(self.size.as_u64().div_ceil(self.mtu.as_u64().max(1))).unwrap_or(u32::MAX).max(1)
    }
    /// Bytes of datagram `number` of a message.
    fn length(&self, number: u32) -> u32 {
        let sent = u64::from(number) * self.mtu.as_u64();
        self.mtu.as_u64().min(self.size.as_u64().saturating_sub(sent)) as u32
    }
}

/// The programs of `config`: the sender, then the receivers. The result is complete when all have ended.
pub fn prepare(config: Config) -> (Vec<Main>, impl FnOnce() -> Sample) {
    let board = Record::new(Board::new(config));
    let main = |rank: u32| -> Main {
        let board = board.clone();
        Box::new(move |process| {
            Box::pin(async move {
                let end = setup::open(process, &board, config).await?;
                if rank == 0 { sender::run(&end, &board, config).await } else { receiver::run(&end, &board, config).await }
            })
        })
    };
    let mains = (0..=config.receivers).map(main).collect();
    (mains, move || board.lock().sample())
}

/// A verb failed: its message becomes that of the program.
fn failed(error: impl miette::Diagnostic) -> ProgramError {
    ProgramError(error.in_full())
}
