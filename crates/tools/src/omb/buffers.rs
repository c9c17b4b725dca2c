//! `D D`, `D H`, `M M` …: where the sender's and the receiver's buffers are.
//!
//! Source: OMB 7.4: `-d cuda|rocm|openacc|managed`, two operands of H, D, M or MH, MD; lines of the head.
//! Modelled: one kind of buffer for each half of the ranks, windows and acknowledgements in it alike.

use fabriscope_catalog::Mpi;
use fabriscope_mpi::{Buffer, World};
use fabriscope_node::Toucher;
use fabriscope_platform::Target;
use fabriscope_tool::UsageError;
use fabriscope_tool::arguments::Given;

use super::benchmark::{Benchmark, Metric};

/// Where the buffers of the two halves of the ranks are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Buffers {
    /// Of the ranks that send.
    pub sender: Buffer,
    /// Of those that receive.
    pub receiver: Buffer,
    /// Who touches managed buffers of the ranks that send and of those that receive.
    touched: [Option<Toucher>; 2],
    /// What the title calls the accelerator.
    accelerator: Option<Accelerator>,
    /// The MPI library is not to be given pointers to a device: the program copies.
    pub staged: bool,
}

/// The programming interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Accelerator {
    Cuda,
    Rocm,
    OpenAcc,
    Managed,
}

impl Buffers {
    /// Reads the operands of `tool` and its option `-d`.
    ///
    /// # Errors
    /// Letters that name no place, one or more than two of them, a device where the nodes have none.
    pub(crate) fn parse(tool: &str, given: Option<&Given>, operands: &[String], target: &Target) -> Result<Buffers, UsageError> {
        let accelerator = given.map(accelerator).transpose()?;
        let ((sender, sent), (receiver, received)) = match operands {
            [] => ((Buffer::Host, None), (Buffer::Host, None)),
            [sender, receiver] => (place(tool, sender)?, place(tool, receiver)?),
            [one] => {
                place(tool, one)?;
                let what = format!("`{one}` says where one buffer is");
                return Err(UsageError::Conflict { what, remedy: format!("say it of the other, too: {tool} {one} {one}") });
            }
            [_, _, third, ..] => return Err(UsageError::Operand { tool: tool.to_owned(), operand: third.clone() }),
        };
        let host = [sender, receiver] == [Buffer::Host; 2];
        if !host && target.gpu.is_none() {
            let what = format!("{tool} {}: the nodes of this cluster have no GPUs", operands.join(" "));
            return Err(UsageError::Conflict { what, remedy: "use H H, or a cluster with GPUs".to_owned() });
        }
        let managed = [sender, receiver].contains(&Buffer::Managed);
        let unnamed = if managed { Accelerator::Managed } else { Accelerator::Cuda };
        let aware = target.mpi.as_ref().is_some_and(|mpi| mpi.gpu.as_ref().is_some_and(|gpu| gpu.aware));
        let accelerator = accelerator.or((!host).then_some(unnamed));
        Ok(Buffers { sender, receiver, touched: [sent, received], accelerator, staged: !host && !aware })
    }
    /// Whether all of them are in host memory.
    pub(crate) fn on_hosts(self) -> bool {
        [self.sender, self.receiver] == [Buffer::Host; 2]
    }
    /// The world of a job with such buffers.
    pub(crate) fn world(self, mpi: &Mpi, target: &Target, ranks: u32) -> World {
        if self.on_hosts() { World::of_hosts(mpi, target, ranks) } else { World::new(mpi, target, ranks) }
    }
    /// The buffers of one half of the ranks.
    #[must_use]
    pub fn of(self, sends: bool) -> Buffer {
        if sends { self.sender } else { self.receiver }
    }
    /// Who touches managed buffers of one half of the ranks; none if they are not managed.
    pub(crate) fn touched(self, sends: bool) -> Option<Toucher> {
        self.touched[usize::from(!sends)]
    }
    /// How many empty kernels the tool takes off the time of an iteration, for each message of its window.
    pub(crate) fn kernels(self, benchmark: &Benchmark) -> u64 {
        let [sent, received] = self.touched.map(|by| u64::from(by == Some(Toucher::Gpu)));
        match (benchmark.metric, benchmark.one_sided()) {
            (Metric::HalfRoundTrip, _) => sent + received,
            (_, Some(_)) => 0,
            (_, None) => received,
        }
    }
    /// Behind `MPI` in the title.
    pub(crate) fn suffix(self) -> &'static str {
        match self.accelerator {
            None => "",
            Some(Accelerator::Cuda) => "-CUDA",
            Some(Accelerator::Rocm) => "-ROCM",
            Some(Accelerator::OpenAcc) => "-OPENACC",
            Some(Accelerator::Managed) => "-MANAGED",
        }
    }
    /// The line below the title.
    pub(crate) fn head(self) -> String {
        let name = |buffer| match buffer {
            Buffer::Host => "HOST (H)",
            Buffer::Device => "DEVICE (D)",
            Buffer::Managed => "MANAGED MEMORY (M)",
        };
        match self.accelerator {
            None => String::new(),
            Some(_) => format!("# Send Buffer on {} and Receive Buffer on {}\n", name(self.sender), name(self.receiver)),
        }
    }
}

fn place(tool: &str, operand: &str) -> Result<(Buffer, Option<Toucher>), UsageError> {
    match operand {
        "H" => Ok((Buffer::Host, None)),
        "D" => Ok((Buffer::Device, None)),
        "M" | "MH" => Ok((Buffer::Managed, Some(Toucher::Core))),
        "MD" => Ok((Buffer::Managed, Some(Toucher::Gpu))),
        _ => Err(UsageError::Operand { tool: tool.to_owned(), operand: operand.to_owned() }),
    }
}

fn accelerator(given: &Given) -> Result<Accelerator, UsageError> {
    match given.value.as_deref().unwrap_or_default() {
        "cuda" => Ok(Accelerator::Cuda),
        "rocm" => Ok(Accelerator::Rocm),
        "openacc" => Ok(Accelerator::OpenAcc),
        "managed" => Ok(Accelerator::Managed),
        other => Err(UsageError::NotOneOf { option: given.typed.clone(), value: other.to_owned(), known: "cuda, rocm, openacc, managed" }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::omb::benchmark::tests::named;

    #[test]
    fn managed_memory_is_touched_by_a_core_unless_the_device_is_named() {
        let touched = |operand: &str| place("osu_bw", operand).unwrap();
        assert_eq!(touched("M"), (Buffer::Managed, Some(Toucher::Core)));
        assert_eq!(touched("MH"), touched("M"));
        assert_eq!(touched("MD"), (Buffer::Managed, Some(Toucher::Gpu)));
        assert!(place("osu_bw", "MM").is_err());
    }

    #[test]
    fn empty_kernels_are_taken_off_as_often_as_the_tool_does() {
        let of = |touched| Buffers { touched, ..Buffers::default() };
        let (core, gpu) = (Some(Toucher::Core), Some(Toucher::Gpu));
        let kernels = |name: &str| [[gpu, gpu], [gpu, core], [core, gpu], [core, None]].map(|touched| of(touched).kernels(named(name)));
        assert_eq!(kernels("osu_latency"), [2, 1, 1, 0]);
        assert_eq!(kernels("osu_bw"), [1, 0, 1, 0]);
        assert_eq!(kernels("osu_put_latency"), [0; 4]);
    }
}
