//! What the two tools of GDRCopy have alike: options, the list of GPUs, the end.
//!
//! Source: GDRCopy, tests/common.hpp, tests/copylat.cpp and tests/copybw.cpp.

use std::fmt::Write;

use fabriscope_tool::UsageError;
use fabriscope_tool::arguments::Meaning::Usual;
use fabriscope_tool::arguments::{self, Given, Opt, Takes, opt};

use fabriscope_platform::{GpuTarget, PciAddress};

pub(super) const DEVICE: Opt = opt('d', "device", Takes::Value("gpu"), Usual, "GPU (default 0)");
pub(super) const WRITES: Opt = opt('w', "writes", Takes::Value("count"), Usual, "stores of each size (default 10000)");
pub(super) const READS: Opt = opt('r', "reads", Takes::Value("count"), Usual, "loads of each size (default 100)");

/// What both read from their options.
#[derive(Debug, Clone, Copy)]
pub(super) struct Copies {
    /// Bytes: of the largest copy, or of every one.
    pub size: u64,
    pub device: u32,
    pub writes: u64,
    pub reads: u64,
}

impl Copies {
    /// The options of `given` that both tools have; `size` bytes without `-s`.
    pub fn parse(given: &[Given], size: u64, gpu: &GpuTarget) -> Result<Copies, UsageError> {
        let mut copies = Copies { size, device: 0, writes: 10_000, reads: 100 };
        for given in given {
            match given.name {
                "size" => copies.size = arguments::number(given, 1, 1 << 32)?,
                "device" => copies.device = arguments::number(given, 0, u64::from(gpu.count) - 1)? as u32,
                "writes" => copies.writes = arguments::number(given, 1, 1_000_000)?,
                "reads" => copies.reads = arguments::number(given, 1, 1_000_000)?,
                _ => {}
            }
        }
        Ok(copies)
    }
    /// Bytes that are pinned for it.
    pub fn rounded(self) -> u64 {
        self.size.next_multiple_of(GPU_PAGE)
    }
    /// What both print first.
    pub fn opening(self, gpu: &GpuTarget) -> String {
        let mut text = String::new();
        for (index, PciAddress { domain, bus, device }) in gpu.addresses().into_iter().enumerate() {
            let _ = writeln!(text, "GPU id:{index}; name: {}; Bus id: {domain:04x}:{bus:02x}:{device:02x}", gpu.title);
        }
        let _ = writeln!(text, "selecting device {}", self.device);
        text
    }
}

/// What both print last.
pub(super) const CLOSING: &str = "unmapping buffer\nunpinning buffer\nclosing gdrdrv\n";

/// Pages of GPU memory as the driver pins them, in bytes (basis: GDRCopy).
const GPU_PAGE: u64 = 64 << 10;
