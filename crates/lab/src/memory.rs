//! Memory of a run: estimated (measured figures: docs/performance.md), told before a big one begins, refused where it does not fit, and what the process had at the end.

use fabriscope_units::Bytes;

use crate::error::LabError;

/// How much a run may take, and who is told before a big one begins.
#[derive(Debug, Clone, Copy)]
pub struct Memory {
    /// The most it may take; what the machine has free, if `None`.
    pub limit: Option<Bytes>,
    /// Hears what a big run will take.
    pub tell: fn(&str),
}

impl Default for Memory {
    fn default() -> Memory {
        Memory { limit: None, tell: |_| {} }
    }
}

impl Memory {
    /// Tells what a big run will take, and refuses what does not fit.
    ///
    /// # Errors
    /// An estimate above the limit.
    pub fn allow(self, need: Bytes, help: &str) -> Result<(), LabError> {
        self.fits(need).map_err(|message| LabError::refused(message, help))
    }

    /// The same; what does not fit is told without help.
    ///
    /// # Errors
    /// As [`allow`](Self::allow).
    pub fn fits(self, need: Bytes) -> Result<(), String> {
        let free = available();
        if let Some(limit) = self.limit.or(free).filter(|limit| need > *limit) {
            let has = if self.limit.is_some() { "--memory allows" } else { "of which this machine can give" };
            return Err(format!("this run needs about {} of memory, {has} {}", rounded(need), rounded(limit)));
        }
        if need >= BIG {
            let free = free.map_or_else(String::new, |free| format!(", {} are free", rounded(free)));
            (self.tell)(&format!("memory: about {}{free}\n", rounded(need)));
        }
        Ok(())
    }
}

/// Three digits or so, in the largest unit below.
pub fn rounded(bytes: Bytes) -> String {
    let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let Some((unit, shift)) = units.into_iter().find(|(_, shift)| bytes.0 >= 1 << shift) else { return bytes.to_string() };
    let value = bytes.0 as f64 / (1u64 << shift) as f64;
    if value < 10.0 { format!("{value:.1} {unit}") } else { format!("{value:.0} {unit}") }
}

/// What the system says it can give without swapping; nothing where it does not say.
fn available() -> Option<Bytes> {
    kib_of("/proc/meminfo", "MemAvailable:")
}

/// The most memory that this process ever had; zero where the system does not tell.
pub fn peak() -> Bytes {
    kib_of("/proc/self/status", "VmHWM:").unwrap_or(Bytes::ZERO)
}

fn kib_of(file: &str, key: &str) -> Option<Bytes> {
    let text = std::fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(Bytes(kib.saturating_mul(1024)))
}

/// From here on people are told. Basis: assumed.
pub(crate) const BIG: Bytes = Bytes(1 << 30);
