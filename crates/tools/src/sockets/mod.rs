//! Benchmarks of sockets as real programs on the simulated kernel: `iperf3` and `netperf`.
//!
//! Both ends of every connection are simulated; the client is on the first node, the server on the second.

mod iperf3;
mod netperf;
mod rendezvous;
mod units;

use fabriscope_platform::Target;
use fabriscope_tool::arguments::Opt;
use fabriscope_tool::{Measures, Operation, Prepared, SizeOption, Suite, Traits, UsageError};

/// A program on sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SocketTool {
    /// Throughput.
    Iperf3,
    /// Requests and their answers.
    Netperf,
}

/// Every program on sockets.
pub const TOOLS: [SocketTool; 2] = [SocketTool::Iperf3, SocketTool::Netperf];

impl SocketTool {
    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            SocketTool::Iperf3 => "iperf3",
            SocketTool::Netperf => "netperf",
        }
    }
    /// One line of help.
    #[must_use]
    pub const fn about(self) -> &'static str {
        match self {
            SocketTool::Iperf3 => "throughput of TCP and UDP through the kernel, over Ethernet or IPoIB",
            SocketTool::Netperf => {
                "requests and answers over TCP or UDP through the kernel (TCP_RR, UDP_RR), streams of datagrams (UDP_STREAM)"
            }
        }
    }
    /// What the program is.
    #[must_use]
    pub fn traits(self) -> Traits {
        let measures = if self == SocketTool::Iperf3 { Measures::Bandwidth } else { Measures::Rate };
        Traits { measures, sizes: SizeOption::Fixed, ..Traits::new(Suite::Sockets, Operation::Stream) }
    }
    /// Its options; of `netperf` those before `--`.
    pub(crate) fn options(self) -> &'static [Opt] {
        match self {
            SocketTool::Iperf3 => iperf3::OPTIONS,
            SocketTool::Netperf => netperf::GLOBAL,
        }
    }
    /// Reads the command line and makes the programs.
    ///
    /// # Errors
    /// As [`crate::Tool::prepare`].
    pub fn prepare(self, args: &[String], target: &Target) -> Result<Prepared, UsageError> {
        match self {
            SocketTool::Iperf3 => iperf3::prepare(args, target),
            SocketTool::Netperf => netperf::prepare(args, target),
        }
    }
}

/// Seconds of a command line, as decimal number.
fn seconds(typed: &str, text: &str, most: f64) -> Result<fabriscope_units::Span, UsageError> {
    let value: f64 = text.parse().map_err(|_| UsageError::NotANumber { option: typed.to_owned(), value: text.to_owned() })?;
    if !(value > 0.0 && value <= most) {
        let what = format!("{typed} {text} is out of range");
        return Err(UsageError::Conflict { what, remedy: format!("give seconds above 0 and up to {most}, also in decimals: 0.1") });
    }
    Ok(fabriscope_units::Span::from_ns((value * 1e9) as u64))
}
