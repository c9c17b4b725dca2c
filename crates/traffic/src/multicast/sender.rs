//! The sending rank.

use fabriscope_node::{ProgramError, Record};
use fabriscope_verbs::{AhAttr, QpNum, SendWr, Sge, UdDestination, WcStatus};

use super::sample::Board;
use super::setup::{DEPTH, Member, QKEY};
use super::{Config, failed};

/// Sends all messages, each at its time.
pub(super) async fn run(end: &Member, board: &Record<Board>, config: Config) -> Result<(), ProgramError> {
    let destinations = destinations(end, board, config.level)?;
    let start = end.process.now() + config.settle;
    let (mut posted, mut completed) = (0u64, 0u64);
    let all = u64::from(config.messages) * u64::from(config.packets()) * destinations.len() as u64;
    for message in 0..config.messages {
        end.process.sleep_until(start + config.interval * u64::from(message)).await;
        board.lock().begun.push(end.process.now());
        for number in 0..config.packets() {
            for to in &destinations {
                while posted - completed >= u64::from(DEPTH) {
                    completed = wait(end).await?;
                }
                let sge = Sge { addr: 0, length: config.length(number), lkey: end.mr.lkey };
                let wr = SendWr::send(posted, sge).with_imm(message * config.packets() + number).to(*to);
                posted += 1;
                let wr = if posted.is_multiple_of(SIGNALED) || posted == all { wr.signaled() } else { wr };
                end.process.post_send(0, end.qp, &wr)?;
            }
        }
    }
    while completed < all {
        completed = wait(end).await?;
    }
    board.lock().ended = Some(end.process.now());
    Ok(())
}

/// The group, or every receiver.
fn destinations(end: &Member, board: &Record<Board>, sl: u8) -> Result<Vec<UdDestination>, ProgramError> {
    let address = |dlid, remote_qpn| {
        let ah = end.process.nic(0, |nic| nic.create_ah(end.pd, AhAttr { dlid, sl })).map_err(failed)?;
        Ok(UdDestination { ah, remote_qpn, remote_qkey: QKEY })
    };
    if let Some(group) = end.group {
        return Ok(vec![address(group, QpNum::MULTICAST)?]);
    }
    let ends = board.lock().ends.clone();
    ends.into_iter().skip(1).flatten().map(|(lid, qp)| address(lid, qp)).collect()
}

/// Waits for completions; how many requests are complete by now.
async fn wait(end: &Member) -> Result<u64, ProgramError> {
    let found = end.process.wait_cq(0, end.cq, 16).await;
    match found.iter().find(|wc| wc.status != WcStatus::Success) {
        Some(bad) => Err(ProgramError(format!("a datagram was not sent: {} ({})", bad.status.text(), bad.status.name()))),
        None => Ok(found.last().map_or(0, |wc| wc.wr_id + 1)),
    }
}

/// One request in so many completes visibly. Basis: assumed; as perftest's `-Q`.
const SIGNALED: u64 = 64;
