//! The messages of a capture as a schedule: each is posted at its time.
//!
//! Modelled: a chain of waits per host lets messages go at the times at which the capture saw them; SEND and WRITE become
//! one-sided writes, READs and atomics one-sided reads.
//! Not modelled: what a program waited for between its messages: a slower network does not delay later messages.

use std::collections::BTreeMap;
use std::net::IpAddr;

use fabriscope_schedule::{After, Builder, OpId, OpKind, Schedule};
use fabriscope_units::Time;

use crate::error::ReplayError;
use crate::messages::{Conversation, Kind};

/// The longest capture that can be run. Basis: the clock of a link counts 2⁴⁸ ps, 281 s; some are left for the run.
const LONGEST_S: u64 = 200;

/// A schedule of `ranks` ranks that sends the messages of a capture. `hosts` names the address of each rank; without it,
/// addresses are ranks in the order in which they appear.
///
/// # Errors
/// Addresses without a rank, more hosts than ranks, a capture that is too long or holds no whole message.
pub fn replay(conversation: &Conversation, hosts: &[IpAddr], ranks: u32) -> Result<Schedule, ReplayError> {
    let named = if hosts.is_empty() { &conversation.hosts } else { hosts };
    if named.len() > ranks as usize {
        return Err(ReplayError::TooManyHosts { hosts: named.len(), ranks });
    }
    if conversation.messages.is_empty() {
        return Err(ReplayError::NoMessage { packets: conversation.packets });
    }
    let rank_of: BTreeMap<IpAddr, u32> = named.iter().copied().zip(0..).collect();
    let rank = |address: IpAddr| rank_of.get(&address).copied().ok_or(ReplayError::UnknownHost { address: address.to_string() });
    let mut builder = Builder::new(ranks);
    let mut last: BTreeMap<u32, (Option<OpId>, Time)> = BTreeMap::new();
    for message in &conversation.messages {
        let (from, to) = (rank(message.requester)?, rank(message.responder)?);
        let seconds = message.time.as_ps() / 1_000_000_000_000;
        if seconds >= LONGEST_S {
            return Err(ReplayError::TooLong { seconds, most: LONGEST_S });
        }
        let (before, waited) = last.get(&from).copied().unwrap_or((None, Time::ZERO));
        let wait = builder.compute(from, message.time - waited);
        if let Some(before) = before {
            builder.requires(from, wait, before);
        }
        last.insert(from, (Some(wait), message.time));
        let bytes = message.bytes;
        let kind = match message.kind {
            Kind::Send | Kind::Write => OpKind::Put { to, bytes },
            Kind::Read | Kind::Atomic => OpKind::Get { from: to, bytes },
        };
        builder.op_after(from, kind, &[After::End(wait)]);
    }
    Ok(builder.build()?)
}
