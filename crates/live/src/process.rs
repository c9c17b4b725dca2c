//! What the fabric asks of the operating system about processes of the run.

/// Sends a signal to one thread.
#[allow(unsafe_code)]
pub(crate) fn signal_thread(pid: u32, tid: u32, signal: i32) {
    // SAFETY: a system call with numbers only.
    unsafe { libc::syscall(libc::SYS_tgkill, pid, tid, signal) };
}

/// Whether a thread sleeps in the kernel.
pub(crate) fn sleeps(pid: u32, tid: u32) -> bool {
    state(&format!("/proc/{pid}/task/{tid}/stat")) == Some('S')
}

/// The state of a process or a thread; nothing where there is none.
fn state(file: &str) -> Option<char> {
    let status = std::fs::read_to_string(file).ok()?;
    // It follows the name, which may hold anything.
    status.rsplit(')').next()?.trim_start().chars().next()
}

/// Whether a signal ends a process: one that is neither caught, nor ignored, nor blocked, and that ends processes.
pub(crate) fn dies_of(pid: u32, signal: i32) -> bool {
    if signal == libc::SIGKILL {
        return true;
    }
    let harmless = [libc::SIGCHLD, libc::SIGCONT, libc::SIGSTOP, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU, libc::SIGURG, libc::SIGWINCH];
    if harmless.contains(&signal) || !(1..=64).contains(&signal) {
        return false;
    }
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mask = |name: &str| {
        let digits = status.lines().find_map(|line| line.strip_prefix(name)).map(|rest| rest.trim_start_matches(':').trim());
        digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()).unwrap_or(0)
    };
    (mask("SigBlk") | mask("SigIgn") | mask("SigCgt")) >> (signal - 1) & 1 == 0
}

/// Sends a signal to a process; an error number where it cannot.
#[allow(unsafe_code)]
pub(crate) fn send_signal(pid: u32, signal: i32) -> Result<(), i32> {
    let pid = i32::try_from(pid).map_err(|_| libc::ESRCH)?;
    // SAFETY: a system call with numbers only.
    if unsafe { libc::kill(pid, signal) } == 0 {
        Ok(())
    } else {
        Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EPERM))
    }
}

/// How long the end of a process is waited for that has said goodbye, or was killed, in ms.
const ENDING: libc::c_int = 2_000;

/// Waits until a process has ended that is about to.
#[allow(unsafe_code)]
pub(crate) fn await_end(pid: u32) {
    // SAFETY: system calls with numbers, and with one structure that outlives the call; the descriptor is nobody else's.
    unsafe {
        let fd = libc::syscall(libc::SYS_pidfd_open, pid, 0) as libc::c_int;
        if fd >= 0 {
            let mut ends = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
            libc::poll(&raw mut ends, 1, ENDING);
            libc::close(fd);
        }
    }
}

/// Whether a process has ended, though its parent has not asked for its status yet.
pub(crate) fn is_gone(pid: u32) -> bool {
    state(&format!("/proc/{pid}/stat")).is_none_or(|state| matches!(state, 'Z' | 'X'))
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
