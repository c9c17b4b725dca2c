//! Runs in real time: programs see the machine's clock, and each of their processes is its own adapter (`shim/real.h`).
//!
//! What only the launcher knows lies in a file: the hosts, their addresses and their devices. It then waits for the programs. Every host has an
//! address of its own on the loopback interface, which no run beside this one has.
//!
//! Not there: the engine and all that depends on it (faults, captures, timelines); managers of connections and of the subnet; GPUs.

use std::fs;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Arc, Mutex, PoisonError};

use fabriscope_engine::Cluster;
use fabriscope_platform::Target;

use crate::device::Device;
use crate::error::LiveError;
use crate::folder::{Folder, shell_status};
use crate::process;
use crate::{HostCommand, Settings};

/// `REAL_MAGIC` of `shim/real.h`.
const MAGIC: u32 = 0x6c69_7673;
/// Bytes of a host's entry there.
const ENTRY: usize = 80;
/// Bits of a loopback address that tell hosts of a run apart; those above tell runs apart.
const HOST_BITS: u32 = 10;
const RUNS: u32 = (1 << (24 - HOST_BITS)) - 1;
const LOOPBACK: u32 = 0x7f00_0000;

/// The hosts that a run in real time may have.
pub(crate) const MOST_HOSTS: u32 = (1 << HOST_BITS) - 2;

/// The address of a host of the run of this process.
fn address(node: u32) -> u32 {
    let run = 1 + std::process::id() % RUNS;
    LOOPBACK | (run << HOST_BITS) | ((node + 1) % (1 << HOST_BITS))
}

/// Runs the programs to their ends, and gives what a shell would say of each.
pub(crate) fn run(
    folder: &Folder,
    (cluster, target): (&Cluster, &Target),
    (names, commands, programs, seats): (&[String], &[HostCommand], &[PathBuf], &[u32]),
    settings: &Settings,
) -> Result<Vec<i32>, LiveError> {
    let devices = folder.hosts(settings.clock, (cluster, target), (names, seats), address)?;
    let file = folder.at("directory");
    fs::write(&file, directory(names, &devices, settings)).map_err(|error| LiveError::Folder { path: file, error })?;
    let started = Started::default();
    let of_run = started.clone();
    folder.begin(move || of_run.end_all());
    let children: Result<Vec<Child>, LiveError> =
        commands.iter().zip(programs).map(|(command, program)| started.start(folder, command, program)).collect();
    let ended = children.map(|children| children.into_iter().map(wait).collect());
    folder.ended();
    started.end_all();
    ended
}

fn wait(mut child: Child) -> i32 {
    child.wait().map_or(1, |status| shell_status(status.into_raw()))
}

/// Processes of a run, each of which leads a group.
#[derive(Clone, Default)]
struct Started(Arc<Mutex<Vec<u32>>>);

impl Started {
    fn start(&self, folder: &Folder, command: &HostCommand, program: &Path) -> Result<Child, LiveError> {
        let mut start = Command::new(program);
        start.args(&command.words[1..]).arg0(&command.words[0]).envs(folder.variables(&command.host));
        start.env("FABRISCOPE_LIVE_REAL", folder.path());
        // SAFETY: the closure only makes system calls that are safe after fork.
        #[allow(unsafe_code)]
        unsafe {
            start.pre_exec(|| {
                process::before_exec();
                Ok(())
            });
        }
        let child = start.spawn().map_err(|error| LiveError::NotStarted { program: program.display().to_string(), error })?;
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(child.id());
        Ok(child)
    }
    /// Ends what is left of the groups.
    fn end_all(&self) {
        let started = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        started.iter().for_each(|pid| process::kill_group(*pid));
    }
}

/// What every process reads: `struct real_directory`.
fn directory(names: &[String], devices: &[Vec<Device>], settings: &Settings) -> Vec<u8> {
    let head = [MAGIC, names.len() as u32, settings.ranks_per_node.unwrap_or(0), std::process::id()];
    let mut bytes: Vec<u8> = head.iter().flat_map(|number| number.to_ne_bytes()).collect();
    let mut place = bytes.len() + ENTRY * names.len();
    let described: Vec<Vec<u8>> = devices.iter().map(|of_host| of_host.iter().flat_map(Device::bytes).collect()).collect();
    for ((node, name), (of_host, described)) in (0..).zip(names).zip(devices.iter().zip(&described)) {
        let mut field = [0; 64];
        let length = name.len().min(63);
        field[..length].copy_from_slice(&name.as_bytes()[..length]);
        bytes.extend(field);
        bytes.extend(address(node).to_ne_bytes());
        bytes.extend((of_host.len() as u32).to_ne_bytes());
        bytes.extend((place as u64).to_ne_bytes());
        place += described.len();
    }
    bytes.extend(described.into_iter().flatten());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_have_addresses_of_their_own_on_the_loopback() {
        let addresses: Vec<u32> = (0..MOST_HOSTS).map(address).collect();
        assert!(addresses.iter().all(|address| address >> 24 == 127 && address & 0x00ff_ffff > 1 << HOST_BITS));
        assert!(addresses.is_sorted_by(|one, other| one < other));
    }

    #[test]
    fn the_directory_has_the_layout_of_the_stand_in() {
        let names = ["a".to_owned(), "b".to_owned()];
        let bytes = directory(&names, &[Vec::new(), Vec::new()], &Settings::default());
        assert_eq!(bytes.len(), 16 + 2 * ENTRY);
        assert_eq!(bytes[16..18], [b'a', 0]);
        assert_eq!(bytes[16 + ENTRY + 64..][..4], address(1).to_ne_bytes());
    }
}
