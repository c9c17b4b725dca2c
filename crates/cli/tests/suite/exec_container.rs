//! `exec` in the image of `containers/Containerfile`, whose root file system `rootfs.sh` builds here without a container engine: its user, no right
//! of any kind, and without the system calls that engines refuse.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::exec::{is_installed, pair, root, rows, stdout, text};

fn script() -> PathBuf {
    root().join("containers/rootfs.sh")
}

/// The root file system of the recipe, with this program in it.
fn built() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let (files, program) = (folder.path().join("root"), env!("CARGO_BIN_EXE_fabriscope"));
    let output = Command::new(script()).arg("build").arg(&files).arg(program).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    folder
}

/// The entry point of the image with these words; `before` starts it.
fn run(before: &[&Path], folder: &tempfile::TempDir, words: &[&str]) -> Output {
    let script = script();
    let whole = [before, &[script.as_path()]].concat();
    Command::new(whole[0]).args(&whole[1..]).arg("run").arg(folder.path().join("root")).args(words).output().unwrap()
}

/// A program without the system calls that the usual profile of container engines refuses, with the answer that it gives.
fn sealed(folder: &tempfile::TempDir) -> PathBuf {
    const PROGRAM: &str = r"#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#define REFUSE(call) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)
int main(int count, char **words) {
    (void)count;
    struct sock_filter calls[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        REFUSE(personality), REFUSE(ptrace), REFUSE(process_vm_readv), REFUSE(process_vm_writev), REFUSE(userfaultfd),
        REFUSE(perf_event_open), REFUSE(bpf), REFUSE(keyctl), REFUSE(add_key), REFUSE(io_uring_setup), REFUSE(init_module),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = { sizeof calls / sizeof *calls, calls };
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter))
        return 126;
    execvp(words[1], words + 1);
    return 127;
}
";
    let (source, program) = (folder.path().join("sealed.c"), folder.path().join("sealed"));
    std::fs::write(&source, PROGRAM).unwrap();
    assert!(Command::new("cc").arg("-o").arg(&program).arg(&source).status().unwrap().success());
    program
}

#[test]
fn the_image_runs_programs_without_privilege() {
    is_installed("ib_send_lat");
    is_installed("ibstat");
    let folder = built();
    let shown = stdout(&run(
        &[],
        &folder,
        &["--quiet", "--on", "ri2", "--", "sh", "-c", "id -u; pwd; grep -E '^(CapEff|CapBnd|NoNewPrivs)' /proc/self/status"],
    ));
    let words: Vec<&str> = shown.split_whitespace().collect();
    let none = "0000000000000000";
    assert_eq!(words, ["1000", "/home/ci", "CapEff:", none, "CapBnd:", none, "NoNewPrivs:", "1"], "{shown}");
    // The same rows as outside, and with fewer system calls.
    let words = ["--on", "ri2", "--host", "a:", "ib_send_lat", "-F", "--host", "b:", "ib_send_lat", "-F", "a"];
    let outside = rows(&stdout(&pair("ri2", &["ib_send_lat", "-F"])));
    assert_eq!(rows(&stdout(&run(&[], &folder, &words))), outside);
    let sealed = sealed(&folder);
    assert_eq!(rows(&stdout(&run(&[&sealed], &folder, &words))), outside);
    assert!(stdout(&run(&[&sealed], &folder, &["--on", "ri2", "--", "ibstat"])).contains("State: Active"));
}

/// A line that the script does not know is not passed over.
#[test]
fn the_script_knows_every_line_of_the_recipe() {
    let folder = tempfile::tempdir().unwrap();
    let (script, recipe) = (folder.path().join("rootfs.sh"), folder.path().join("Containerfile"));
    std::fs::copy(self::script(), &script).unwrap();
    let lines = std::fs::read_to_string(root().join("containers/Containerfile")).unwrap();
    let build = |name: &str, lines: &str| {
        std::fs::write(&recipe, lines).unwrap();
        Command::new(&script).arg("build").arg(folder.path().join(name)).arg(env!("CARGO_BIN_EXE_fabriscope")).output().unwrap()
    };
    let more = build("one", &format!("{lines}RUN chmod u+s /usr/bin/env\n"));
    assert!(!more.status.success() && text(&more.stderr).contains("not known here: RUN chmod"), "{}", text(&more.stderr));
    let missing = build("two", &lines.replace("rdmacm-utils", "no-such-package"));
    assert!(!missing.status.success() && text(&missing.stderr).contains("no-such-package"), "{}", text(&missing.stderr));
}
