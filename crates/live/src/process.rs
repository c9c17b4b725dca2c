//! What the fabric asks of the operating system about processes of the run.

/// Sends a signal to one thread.
#[allow(unsafe_code)]
pub(crate) fn signal_thread(pid: u32, tid: u32, signal: i32) {
    // SAFETY: a system call with numbers only.
    unsafe { libc::syscall(libc::SYS_tgkill, pid, tid, signal) };
}

/// Whether a process has ended, though its parent has not asked for its status yet.
pub(crate) fn is_gone(pid: u32) -> bool {
    let Ok(status) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return true };
    // The state follows the name, which may hold anything.
    status.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with(['Z', 'X']))
}

/// Ends a process and all of its group.
#[allow(unsafe_code)]
pub(crate) fn kill_group(pid: u32) {
    let Ok(group) = i32::try_from(pid) else { return };
    if group > 0 {
        // SAFETY: a system call with numbers only.
        unsafe { libc::kill(-group, libc::SIGKILL) };
    }
}

/// Ends a process of the run.
#[allow(unsafe_code)]
pub(crate) fn kill(pid: u32) {
    let Ok(pid) = i32::try_from(pid) else { return };
    if pid > 0 {
        // SAFETY: a system call with numbers only.
        unsafe { libc::kill(pid, libc::SIGKILL) };
    }
}

/// In a child before it becomes the program: addresses are the same in every run, it leads a group of its own, and ends with its parent.
#[allow(unsafe_code)]
pub(crate) fn before_exec() {
    /// `ADDR_NO_RANDOMIZE` of Linux.
    const SAME_ADDRESSES: libc::c_ulong = 0x0004_0000;
    // SAFETY: system calls with numbers only, safe after fork; where one is refused, the run goes on without it.
    unsafe {
        libc::personality(SAME_ADDRESSES);
        libc::setpgid(0, 0);
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0);
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
    }
}

/// The core that this thread runs on, counted from 1, where there are others for the programs; otherwise 0.
#[allow(unsafe_code)]
pub(crate) fn own_core() -> u64 {
    if std::thread::available_parallelism().map_or(1, std::num::NonZero::get) < 2 {
        return 0;
    }
    // SAFETY: it has no arguments, and only tells a number.
    u64::try_from(unsafe { libc::sched_getcpu() } + 1).unwrap_or(0)
}
