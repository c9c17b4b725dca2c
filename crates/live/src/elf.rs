//! Whether a program loads shared libraries: only such ones can be reached.
//!
//! Source: ELF-64, the program header `PT_INTERP`, which names the loader.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::error::LiveError;

/// The file of a program, as a shell would find it, if it can be run here.
#[expect(clippy::disallowed_methods, reason = "a program is looked for where the caller's shell would")]
pub(crate) fn find(program: &OsStr) -> Result<PathBuf, LiveError> {
    let name = || program.to_string_lossy().into_owned();
    let is_program = |path: &Path| fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0);
    let found = if program.as_bytes().contains(&b'/') {
        Some(PathBuf::from(program)).filter(|path| is_program(path))
    } else {
        let folders = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&folders).map(|folder| folder.join(program)).find(|path| is_program(path))
    };
    let path = found.ok_or_else(|| LiveError::NoProgram { program: name() })?;
    if loads_libraries(&path, 4) { Ok(path) } else { Err(LiveError::Static { program: name() }) }
}

/// Whether the file, or the interpreter of a script, has a loader.
fn loads_libraries(path: &Path, depth: u32) -> bool {
    let Ok(bytes) = fs::read(path) else { return true };
    if let Some(line) = bytes.strip_prefix(b"#!") {
        let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let mut words = line.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
        let Some(interpreter) = words.next().map(|word| PathBuf::from(OsString::from(OsStr::from_bytes(word)))) else { return true };
        return depth == 0 || loads_libraries(&interpreter, depth - 1);
    }
    interpreted(&bytes).unwrap_or(true)
}

/// Whether an ELF file names a loader; nothing where it is none.
fn interpreted(bytes: &[u8]) -> Option<bool> {
    const PT_INTERP: u32 = 3;
    if !bytes.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let number = |at: usize, size: usize| -> Option<u64> {
        let field = bytes.get(at..at + size)?;
        Some(field.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    };
    let (start, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
    let kind = |place: u64| number(usize::try_from(start + place * size).ok()?, 4);
    Some((0..count).any(|place| kind(place) == Some(u64::from(PT_INTERP))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_as_a_shell_finds_them() {
        assert!(find(OsStr::new("sh")).is_ok_and(|path| path.is_absolute()));
        assert!(matches!(find(OsStr::new("no-such-program")), Err(LiveError::NoProgram { .. })));
        assert!(matches!(find(OsStr::new("/etc/passwd")), Err(LiveError::NoProgram { .. })));
    }

    #[test]
    fn a_loader_is_what_counts() {
        let mut elf = vec![0; 64 + 56];
        elf[..6].copy_from_slice(b"\x7fELF\x02\x01");
        (elf[32], elf[54], elf[56]) = (64, 56, 1);
        assert_eq!(interpreted(&elf), Some(false));
        elf[64] = 3;
        assert_eq!(interpreted(&elf), Some(true));
        assert_eq!(interpreted(b"text"), None);
    }
}
