//! The functions of `include/fabriscope.h`: arguments of C become those of Rust, a failure becomes a code and a text.
//!
//! Nothing unwinds into the caller: a panic is `FABRISCOPE_INTERNAL`. Nothing is kept here; what a handle keeps is in
//! [`Cluster`]. What the caller promises of its pointers stands in the header, under each function.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use crate::cluster::Cluster;
use crate::collective::{Collective, CollectiveKind, CollectiveLibrary};
use crate::engine::Engine;
use crate::flows::{Flow, Order, completions};
use crate::message::{Message, Operation};
use crate::status::{Failure, Status};

/// The number of this interface; one more whenever a program that was compiled before would go wrong.
pub const ABI_VERSION: u32 = 1;

/// The version of the library, as `fabriscope --version` has it.
#[unsafe(no_mangle)]
pub extern "C" fn fabriscope_version() -> *const c_char {
    const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(version) => version,
        Err(_) => c"",
    };
    VERSION.as_ptr()
}

/// The number of this interface.
#[unsafe(no_mangle)]
pub extern "C" fn fabriscope_abi_version() -> u32 {
    ABI_VERSION
}

/// A cluster of the catalogue or of a file.
///
/// # Safety
/// `target` is NULL or ends with a NUL; `cluster` and `error` are NULL or can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fabriscope_cluster_open(target: *const c_char, cluster: *mut *mut Cluster, error: *mut *mut c_char) -> Status {
    // SAFETY: as promised by the caller.
    unsafe { made(target, cluster, error, "the name of a cluster", Cluster::open) }
}

/// A cluster from the text of a TOML file.
///
/// # Safety
/// As for [`fabriscope_cluster_open`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fabriscope_cluster_from_text(toml: *const c_char, cluster: *mut *mut Cluster, error: *mut *mut c_char) -> Status {
    // SAFETY: as promised by the caller.
    unsafe { made(toml, cluster, error, "the text of a cluster", Cluster::from_text) }
}

/// Gives a cluster back.
///
/// # Safety
/// `cluster` is NULL or was made by this library and has not been given back, and no call with it is in progress.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fabriscope_cluster_free(cluster: *mut Cluster) {
    if !cluster.is_null() {
        // SAFETY: it was made by `Box::into_raw` in `made`, and the caller owns it.
        let owned = unsafe { Box::from_raw(cluster) };
        let _ = catch_unwind(AssertUnwindSafe(|| drop(owned)));
    }
}

/// How many nodes it has; 0 of NULL.
///
/// # Safety
/// `cluster` is NULL or a cluster that has not been given back.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fabriscope_nodes(cluster: *const Cluster) -> u32 {
    // SAFETY: as promised by the caller.
    unsafe { count(cluster, Cluster::nodes) }
}

/// How many adapters a node has; of unlike nodes the fewest; 0 of NULL.
///
/// # Safety
/// As for [`fabriscope_nodes`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fabriscope_adapters_per_node(cluster: *const Cluster) -> u32 {
    // SAFETY: as promised by the caller.
    unsafe { count(cluster, Cluster::adapters_per_node) }
}

/// How many cores a node has; of unlike nodes the fewest; 0 of NULL.
///
/// # Safety
/// As for [`fabriscope_nodes`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fabriscope_cores_per_node(cluster: *const Cluster) -> u32 {
    // SAFETY: as promised by the caller.
    unsafe { count(cluster, Cluster::cores_per_node) }
}

/// How many GPUs a node has; of unlike nodes the fewest; 0 of NULL.
///
/// # Safety
/// As for [`fabriscope_nodes`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fabriscope_gpus_per_node(cluster: *const Cluster) -> u32 {
    // SAFETY: as promised by the caller.
    unsafe { count(cluster, Cluster::gpus_per_node) }
}

/// The time of one message in an idle fabric.
///
/// # Safety
/// `cluster` as for [`fabriscope_nodes`]; `picoseconds` and `error` are NULL or can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fabriscope_message_ps(
    cluster: *const Cluster,
    from: u32,
    to: u32,
    bytes: u64,
    operation: i32,
    picoseconds: *mut u64,
    error: *mut *mut c_char,
) -> Status {
    let ask = |cluster: &Cluster| {
        let operation = coded(&Operation::ALL, operation, "operation")?;
        Message { from, to, bytes, operation }.picoseconds(cluster)
    };
    // SAFETY: as promised by the caller.
    unsafe { timed(cluster, picoseconds, error, ask) }
}

/// The time of a collective operation of a job that has the fabric to itself.
///
/// # Safety
/// As for [`fabriscope_message_ps`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fabriscope_collective_ps(
    cluster: *const Cluster,
    kind: i32,
    library: i32,
    nodes: u32,
    ranks_per_node: u32,
    bytes: u64,
    engine: i32,
    picoseconds: *mut u64,
    error: *mut *mut c_char,
) -> Status {
    let ask = |cluster: &Cluster| {
        let kind = coded(&CollectiveKind::ALL, kind, "collective operation")?;
        let library = coded(&CollectiveLibrary::ALL, library, "library")?;
        let engine = coded(&Engine::ALL, engine, "engine")?;
        Collective { kind, library, nodes, ranks_per_node, bytes, engine }.picoseconds(cluster)
    };
    // SAFETY: as promised by the caller.
    unsafe { timed(cluster, picoseconds, error, ask) }
}

/// When each of some flows is over.
///
/// # Safety
/// `cluster` as for [`fabriscope_nodes`]; `flows` is NULL or has `count` flows, `completion_ps` is NULL or has room for as many numbers;
/// `error` is NULL or can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fabriscope_flows_run(
    cluster: *const Cluster,
    flows: *const Flow,
    count: usize,
    engine: i32,
    order: i32,
    seed: u64,
    completion_ps: *mut u64,
    error: *mut *mut c_char,
) -> Status {
    let ask = || {
        // SAFETY: as promised by the caller.
        let cluster = unsafe { cluster.as_ref() }.ok_or_else(|| null("cluster"))?;
        let engine = coded(&Engine::ALL, engine, "engine")?;
        let order = coded(&Order::ALL, order, "order")?;
        if count == 0 {
            return Ok(());
        }
        if flows.is_null() || completion_ps.is_null() {
            return Err(null(if flows.is_null() { "flows" } else { "completion_ps" }));
        }
        if count > MOST_FLOWS {
            return Err(Failure::argument(format!("{count} flows"), format!("give at most {MOST_FLOWS}")));
        }
        // SAFETY: the caller promises so many; none are written to while they are read.
        let flows = unsafe { std::slice::from_raw_parts(flows, count) };
        let done = completions(cluster, flows, engine, order, seed)?;
        // SAFETY: the caller promises room for as many; what was computed does not overlap it.
        unsafe { ptr::copy_nonoverlapping(done.as_ptr(), completion_ps, done.len()) };
        Ok(())
    };
    // SAFETY: as promised by the caller.
    unsafe { guarded(error, ask) }
}

/// Gives the text of an error back.
///
/// # Safety
/// `text` is NULL or came out of this library as an error, and has not been given back.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fabriscope_text_free(text: *mut c_char) {
    if !text.is_null() {
        // SAFETY: it was made by `CString::into_raw` in `guarded`, and the caller owns it.
        drop(unsafe { CString::from_raw(text) });
    }
}

/// Flows of a call; operations of a schedule are numbered in 32 bits, and a flow is two. Basis: assumed; some gigabytes.
const MOST_FLOWS: usize = 10_000_000;

/// The entry of a table that a code of the header stands for.
fn coded<T: Copy>(all: &[T], code: i32, what: &str) -> Result<T, Failure> {
    let found = usize::try_from(code).ok().and_then(|code| all.get(code));
    found.copied().ok_or_else(|| Failure::argument(format!("there is no {what} {code}"), format!("give 0 to {}", all.len() - 1)))
}

fn null(argument: &str) -> Failure {
    Failure::argument(format!("`{argument}` is NULL"), "give a valid pointer")
}

/// Runs `ask`; whatever comes of it is a status, and a text behind `error`.
///
/// # Safety
/// `error` is NULL or can be written to.
unsafe fn guarded(error: *mut *mut c_char, ask: impl FnOnce() -> Result<(), Failure>) -> Status {
    let asked = catch_unwind(AssertUnwindSafe(ask)).unwrap_or_else(|panic| Err(fault(panic.as_ref())));
    let (status, text) = match asked {
        Ok(()) => (Status::Ok, ptr::null_mut()),
        Err(Failure { status, text }) => (status, CString::new(text.replace('\0', " ")).map_or(ptr::null_mut(), CString::into_raw)),
    };
    if error.is_null() {
        // SAFETY: it comes from just above.
        unsafe { fabriscope_text_free(text) };
    } else {
        // SAFETY: as promised by the caller.
        unsafe { error.write(text) };
    }
    status
}

/// What a panic says.
fn fault(panic: &(dyn std::any::Any + Send)) -> Failure {
    let said = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
    Failure { status: Status::Internal, text: format!("a fault of the library: {said}; please report it with the call that led here") }
}

/// A question whose answer is one time.
///
/// # Safety
/// As for [`fabriscope_message_ps`].
unsafe fn timed(
    cluster: *const Cluster,
    picoseconds: *mut u64,
    error: *mut *mut c_char,
    ask: impl FnOnce(&Cluster) -> Result<u64, Failure>,
) -> Status {
    let ask = || {
        // SAFETY: as promised by the caller.
        let cluster = unsafe { cluster.as_ref() }.ok_or_else(|| null("cluster"))?;
        if picoseconds.is_null() {
            return Err(null("picoseconds"));
        }
        let time = ask(cluster)?;
        // SAFETY: as promised by the caller.
        unsafe { picoseconds.write(time) };
        Ok(())
    };
    // SAFETY: as promised by the caller.
    unsafe { guarded(error, ask) }
}

/// A cluster from a text.
///
/// # Safety
/// As for [`fabriscope_cluster_open`].
unsafe fn made(
    text: *const c_char,
    cluster: *mut *mut Cluster,
    error: *mut *mut c_char,
    what: &str,
    make: impl FnOnce(&str) -> Result<Cluster, Failure>,
) -> Status {
    let ask = || {
        if cluster.is_null() {
            return Err(null("cluster"));
        }
        // SAFETY: as promised by the caller.
        unsafe { cluster.write(ptr::null_mut()) };
        if text.is_null() {
            return Err(Failure::argument(format!("{what} is NULL"), "give a text that ends with a NUL"));
        }
        // SAFETY: as promised by the caller.
        let text = unsafe { CStr::from_ptr(text) };
        let text = text.to_str().map_err(|_| Failure::argument(format!("{what} is not UTF-8"), "give it in UTF-8"))?;
        let made = Box::into_raw(Box::new(make(text)?));
        // SAFETY: as promised by the caller.
        unsafe { cluster.write(made) };
        Ok(())
    };
    // SAFETY: as promised by the caller.
    unsafe { guarded(error, ask) }
}

/// A number of a cluster.
///
/// # Safety
/// As for [`fabriscope_nodes`].
unsafe fn count(cluster: *const Cluster, of: impl FnOnce(&Cluster) -> u32) -> u32 {
    // SAFETY: as promised by the caller.
    let cluster = unsafe { cluster.as_ref() };
    catch_unwind(AssertUnwindSafe(|| cluster.map_or(0, of))).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_a_status_with_its_text() {
        let mut error = ptr::null_mut();
        // SAFETY: `error` is of this frame.
        let status = unsafe { guarded(&raw mut error, || panic!("rank {} fell over", 3)) };
        assert_eq!(status, Status::Internal);
        // SAFETY: `guarded` wrote a text, which is given back once.
        let text = unsafe { CStr::from_ptr(error) }.to_str().unwrap().to_owned();
        unsafe { fabriscope_text_free(error) };
        assert!(text.contains("rank 3 fell over"), "{text}");
    }
}
