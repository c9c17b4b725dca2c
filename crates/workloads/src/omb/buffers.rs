//! `D D`, `D H`, `M M` …: where the sender's and the receiver's buffers are.
//!
//! Source: OMB 7.4: `-d cuda|rocm|openacc|managed`, two operands of H, D, M or MH, MD; lines of the head.
//! Modelled: one kind of buffer for each half of the ranks, windows and acknowledgements in it alike.
//! Not modelled: MD and MH as places where compute kernels touch the buffers; both are managed memory here.

use crate::arguments::Given;
use crate::error::UsageError;
use crate::mpi::Buffer;
use crate::target::Target;

/// Where the buffers of the two halves of the ranks are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Buffers {
    /// Of the ranks that send.
    pub sender: Buffer,
    /// Of those that receive.
    pub receiver: Buffer,
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
        let (sender, receiver) = match operands {
            [] => (Buffer::Host, Buffer::Host),
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
        Ok(Buffers { sender, receiver, accelerator, staged: !host && !aware })
    }
    /// The buffers of one half of the ranks.
    #[must_use]
    pub fn of(self, sends: bool) -> Buffer {
        if sends { self.sender } else { self.receiver }
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

fn place(tool: &str, operand: &str) -> Result<Buffer, UsageError> {
    match operand {
        "H" => Ok(Buffer::Host),
        "D" => Ok(Buffer::Device),
        "M" | "MD" | "MH" => Ok(Buffer::Managed),
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
