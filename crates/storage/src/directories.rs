//! Which MDTs have directories.
//!
//! Source: Lustre Operations Manual, "Creating a directory on a specific MDT" and "Filesystem-wide default directory striping".
//! Modelled: a new directory is on the MDT of its parent, or on MDTs in turn near the root where the release does so; one directory is on
//! one MDT unless it is striped.
//! Not modelled: MDTs that fill unevenly.

use fabriscope_lustre::System;
use fabriscope_tool::UsageError;

use crate::ior;

/// Help of the option.
pub(crate) const HELP: &str =
    "MDTs that have directories, -1 for all, as lfs setdirstripe -D -c sets them (default: as the release does; not of the real tool)";
/// Levels below the root of the directory that all tasks of mdtest share, where `-d` names one in the root: it, and `test-dir.0-0`.
/// Basis: standard (mdtest).
pub(crate) const SHARED: u32 = 2;
/// Those of directories of tasks: `mdtest_tree.N.0` in that. Basis: standard (mdtest).
pub(crate) const OF_TASKS: u32 = 3;
/// Those of directories of tasks of IO500, which lie in `datafiles/TIME/mdtest-easy`. Basis: standard (IO500).
pub(crate) const OF_IO500: u32 = 5;

/// The MDTs of directories so many levels below the root, where nobody says otherwise; `shared`: there is one of them.
pub(crate) fn mdts(system: &System, shared: bool, level: u32) -> u32 {
    if !shared && level <= *system.costs.mds.spread_levels { system.mdts() } else { 1 }
}

/// What the option says.
pub(crate) fn count(option: &str, text: &str, system: &System) -> Result<u32, UsageError> {
    let there = system.mdts();
    let count = u32::try_from(ior::stripes(option, text)?).unwrap_or(there);
    if count > there {
        let what = format!("directories on {count} MDTs of {there}");
        return Err(UsageError::Conflict { what, remedy: format!("give at most {there}, or -1 for all") });
    }
    Ok(count)
}
