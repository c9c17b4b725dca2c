//! Programs on a parallel file system: what is refused, and what to do instead. What they print is pinned in `tests/golden/storage`.

use assert_cmd::Command;

/// What `bench` says of a command line that it refuses.
fn refused(line: &str) -> String {
    let output = Command::cargo_bin("fabriscope").unwrap().arg("bench").args(line.split(' ')).output().unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(2), &b""[..]), "{line}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn what_does_not_fit_is_refused_with_a_remedy() {
    for (line, told) in [
        (
            "ior --on ri2",
            "storage::impossible\n\n  x `ri2` mounts no file system of the catalogue\n  \
             help: name one: --fs lumi-f; `fabriscope parts --kind file-systems` lists them, --fs mine.toml reads yours\n",
        ),
        (
            "ior --on lumi-c --ppn 999",
            "storage::impossible\n\n  x 999 processes on a node with 128 cores\n  help: use --ppn of at most 128\n",
        ),
        (
            "ior --on lumi-c --fs lumi-p --stripe-count 40",
            "  x 40 stripes on 32 OSTs\n  help: use at least 1 and at most 32 stripes, or -1 for all OSTs\n",
        ),
        (
            "ior --on lumi-c -b 1KB",
            "  x -b takes a size, not `1KB`\n  help: write bytes as 65536, 64K (K, M, G: powers of 1024), 64KiB or 64kB\n",
        ),
    ] {
        assert_eq!(refused(line), told, "{line}");
    }
}
