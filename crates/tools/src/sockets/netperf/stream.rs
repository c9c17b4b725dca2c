//! `netperf -t UDP_STREAM`: datagrams as fast as the core can send them, and how many of them come.
//!
//! Source: netperf 2.7, its output.
//! Modelled: size of datagrams and of buffers (`-m`, `-s`), what the client sent and what the server got.
//! Not modelled: UDP checksums, `-R` (routing), confidence intervals.

use std::sync::Arc;

use fabriscope_node::{Process, ProgramError, Record};
use fabriscope_tool::{Point, ToolOutput};
use fabriscope_units::{Bytes, Span};

use super::super::rendezvous::Rendezvous;
use super::link::Link;
use super::{Length, Settings};

/// What both sides counted.
#[derive(Debug, Default)]
pub(super) struct Counts {
    sent: u64,
    elapsed: Span,
    came: u64,
    /// The send buffer.
    buffer: u64,
    over: bool,
    core: [Span; 2],
}

pub(super) async fn run(
    process: Process,
    s: Arc<Settings>,
    meeting: Rendezvous,
    counts: Record<Counts>,
    client: bool,
) -> Result<(), ProgramError> {
    let mut link = Link::open(&process, &meeting, s.options, s.test, client).await?;
    let (start, before) = (process.now(), link.core_time(&process)?);
    if !client {
        while !counts.lock().over {
            if link.receive(&process, s.message, process.now() + PATIENCE).await? {
                let counts = &mut *counts.lock();
                counts.came += 1;
                counts.core[1] = link.core_time(&process)? - before;
            }
        }
        // What is still on its way.
        while link.receive(&process, s.message, process.now() + PATIENCE).await? {
            counts.lock().came += 1;
        }
        return Ok(());
    }
    counts.lock().buffer = link.send_buffer(&process)?;
    let mut sent = 0;
    loop {
        let elapsed = process.now().since(start);
        let over = match s.length {
            Length::Time(time) => elapsed >= time,
            Length::Transactions(count) => sent >= count,
        };
        if over {
            let counts = &mut *counts.lock();
            (counts.sent, counts.elapsed, counts.over) = (sent, elapsed, true);
            counts.core[0] = link.core_time(&process)? - before;
            return Ok(());
        }
        link.send(&process, s.message).await?;
        sent += 1;
    }
}

pub(super) fn report(s: &Settings, counts: &Counts) -> ToolOutput {
    let seconds = counts.elapsed.as_s_f64().max(f64::MIN_POSITIVE);
    let megabits = |datagrams: u64| datagrams as f64 * s.message as f64 * 8.0 / seconds / 1e6;
    let (out, into) = (megabits(counts.sent), megabits(counts.came));
    let buffer = counts.buffer;
    let asked = s.utilisation.contains(&true);
    let mut text = String::new();
    if s.banner {
        text += "MIGRATED UDP STREAM TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to 10.0.0.2 () port 0 AF_INET\n";
        text += match asked {
            false => {
                "Socket  Message  Elapsed      Messages                \n\
                 Size    Size     Time         Okay Errors   Throughput\n\
                 bytes   bytes    secs            #      #   10^6bits/sec\n\n"
            }
            true => {
                "Socket  Message  Elapsed      Messages                   CPU      Service\n\
                 Size    Size     Time         Okay Errors   Throughput   Util     Demand\n\
                 bytes   bytes    secs            #      #   10^6bits/sec % SS     us/KB\n\n"
            }
        };
    }
    // Share of all cores in per cent and core time for 1024 bytes in microseconds, -1 where it was not asked for, as the program prints it.
    let used = |side: usize, datagrams: u64| match (asked, s.utilisation[side]) {
        (false, _) => String::new(),
        (true, false) => format!("     {:<6.2}   {:<6.3}", -1.0, -1.0),
        (true, true) => {
            let core = counts.core[side];
            let kilobytes = (datagrams as f64 * s.message as f64 / 1024.0).max(f64::MIN_POSITIVE);
            format!("     {:<6.2}   {:<6.3}", 100.0 * core.as_s_f64() / seconds / f64::from(s.cores), core.as_us_f64() / kilobytes)
        }
    };
    let (sent, came) = (counts.sent, counts.came);
    text += &format!("{buffer:6}  {:6}   {seconds:<6.2}  {sent:8} {:6}    {out:8.2}{}\n", s.message, 0, used(0, sent));
    text += &format!("{buffer:6}           {seconds:<6.2}  {came:8}           {into:8.2}{}\n\n", used(1, came));
    let point = |metric, unit, value| Point { size: Bytes(s.message), metric, unit, value };
    let points = vec![point("sent", "Gb/s", out / 1e3), point("bandwidth", "Gb/s", into / 1e3)];
    ToolOutput { text, points, ..ToolOutput::default() }
}

/// How long the server waits for more. Basis: assumed.
const PATIENCE: Span = Span::from_us(1000);
