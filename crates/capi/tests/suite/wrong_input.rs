//! Whatever a caller gives, it gets a status and a text with the remedy; outputs stay as they were.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char};
use std::ptr::{null, null_mut};

use fabriscope_c::boundary::{
    fabriscope_cluster_free, fabriscope_cluster_from_text, fabriscope_cluster_open, fabriscope_collective_ps, fabriscope_cores_per_node,
    fabriscope_flows_run, fabriscope_message_ps, fabriscope_nodes, fabriscope_text_free, fabriscope_version,
};
use fabriscope_c::{Cluster, Flow, Status};

/// Calls with a place for the text of an error; what came of it.
fn told(call: impl FnOnce(*mut *mut c_char) -> Status) -> (Status, String) {
    let mut error = null_mut();
    let status = call(&raw mut error);
    assert_eq!(error.is_null(), status == Status::Ok);
    if error.is_null() {
        return (status, String::new());
    }
    // SAFETY: the library wrote a text, which is given back once.
    let text = unsafe { CStr::from_ptr(error) }.to_str().unwrap().to_owned();
    unsafe { fabriscope_text_free(error) };
    assert!(text.contains("; "), "no remedy: {text}");
    (status, text)
}

fn opened(target: &str) -> *mut Cluster {
    let (target, mut cluster) = (CString::new(target).unwrap(), null_mut());
    // SAFETY: all pointers are of this frame.
    assert_eq!(told(|error| unsafe { fabriscope_cluster_open(target.as_ptr(), &raw mut cluster, error) }), (Status::Ok, String::new()));
    cluster
}

fn refused(call: impl FnOnce(*mut *mut c_char) -> Status, status: Status, word: &str) {
    let (got, text) = told(call);
    assert_eq!(got, status, "{text}");
    assert!(text.contains(word), "{text}");
}

#[test]
fn clusters() {
    let mut cluster = null_mut();
    let mut open = |target: *const c_char, status, word| {
        cluster = std::ptr::dangling_mut();
        // SAFETY: `target` is NULL or a literal; the others are of this frame.
        refused(|error| unsafe { fabriscope_cluster_open(target, &raw mut cluster, error) }, status, word);
        assert!(cluster.is_null());
    };
    open(null(), Status::InvalidArgument, "NULL");
    open(c"\xff\xfe".as_ptr(), Status::InvalidArgument, "UTF-8");
    open(c"ri3".as_ptr(), Status::Cluster, "ri2");
    open(c"no-such-file.toml".as_ptr(), Status::Cluster, "no-such-file.toml");
    open(c"lab-16:17".as_ptr(), Status::Cluster, "17");
    // SAFETY: as above.
    refused(|error| unsafe { fabriscope_cluster_open(c"ri2".as_ptr(), null_mut(), error) }, Status::InvalidArgument, "`cluster`");
    let text = c"name = \"x\"\nnodes = many";
    refused(|error| unsafe { fabriscope_cluster_from_text(text.as_ptr(), &raw mut cluster, error) }, Status::Cluster, "text of a cluster");
    // Nobody reads the text.
    assert_eq!(unsafe { fabriscope_cluster_open(null(), &raw mut cluster, null_mut()) }, Status::InvalidArgument);
    unsafe { fabriscope_cluster_free(null_mut()) };
    unsafe { fabriscope_text_free(null_mut()) };
    assert_eq!(unsafe { (fabriscope_nodes(null()), fabriscope_cores_per_node(null())) }, (0, 0));
    assert_eq!(unsafe { CStr::from_ptr(fabriscope_version()) }.to_str(), Ok(env!("CARGO_PKG_VERSION")));
}

#[test]
fn a_cluster_from_a_text_is_that_of_the_text() {
    let mut cluster = null_mut();
    let text = c"base = \"lab-16\"\nname = \"mine\"\nnodes = 3\n";
    // SAFETY: all pointers are of this frame.
    assert_eq!(told(|error| unsafe { fabriscope_cluster_from_text(text.as_ptr(), &raw mut cluster, error) }).0, Status::Ok);
    assert_eq!(unsafe { fabriscope_nodes(cluster) }, 3);
    unsafe { fabriscope_cluster_free(cluster) };
}

#[test]
fn messages() {
    let (ri2, opa) = (opened("ri2"), opened("csd3-opa"));
    let mut time = 7;
    let mut ask = |cluster, (from, to), bytes, operation, status, word| {
        // SAFETY: clusters were opened above, the rest is of this frame.
        let call = |error: *mut *mut c_char| unsafe { fabriscope_message_ps(cluster, from, to, bytes, operation, &raw mut time, error) };
        refused(call, status, word);
        assert_eq!(time, 7);
    };
    ask(null_mut(), (0, 1), 8, 0, Status::InvalidArgument, "`cluster`");
    ask(ri2, (0, 2), 8, 0, Status::InvalidArgument, "from 0 to 1");
    ask(ri2, (u32::MAX, 0), 8, 0, Status::InvalidArgument, "no node 4294967295");
    ask(ri2, (1, 1), 8, 0, Status::InvalidArgument, "to itself");
    ask(ri2, (0, 1), 0, 0, Status::InvalidArgument, "0 bytes");
    ask(ri2, (0, 1), u64::MAX, 0, Status::InvalidArgument, "2147483647");
    ask(ri2, (0, 1), 1 << 31, 3, Status::InvalidArgument, "1073741824");
    ask(ri2, (0, 1), 8, 4, Status::InvalidArgument, "no operation 4");
    ask(ri2, (0, 1), 8, -1, Status::InvalidArgument, "no operation -1");
    ask(opa, (0, 1), 8, 0, Status::Refused, "FABRISCOPE_MPI_MESSAGE");
    // SAFETY: as above.
    refused(|error| unsafe { fabriscope_message_ps(ri2, 0, 1, 8, 0, null_mut(), error) }, Status::InvalidArgument, "`picoseconds`");
    for cluster in [ri2, opa] {
        unsafe { fabriscope_cluster_free(cluster) };
    }
}

#[test]
fn collectives() {
    let ri2 = opened("ri2");
    let mut time = 7;
    let mut ask = |(kind, library), (nodes, ranks), bytes, engine, status, word| {
        let time = &raw mut time;
        // SAFETY: the cluster was opened above, the rest is of this frame.
        refused(|error| unsafe { fabriscope_collective_ps(ri2, kind, library, nodes, ranks, bytes, engine, time, error) }, status, word);
    };
    ask((7, 0), (2, 1), 8, 0, Status::InvalidArgument, "no collective operation 7");
    ask((0, 2), (2, 1), 8, 0, Status::InvalidArgument, "no library 2");
    ask((0, 0), (2, 1), 8, 3, Status::InvalidArgument, "no engine 3");
    ask((0, 0), (0, 1), 8, 0, Status::InvalidArgument, "1 to 2 nodes");
    ask((0, 0), (3, 1), 8, 0, Status::InvalidArgument, "1 to 2 nodes");
    ask((0, 0), (2, 29), 8, 0, Status::InvalidArgument, "28 cores");
    ask((0, 0), (2, 1), 0, 0, Status::InvalidArgument, "0 bytes");
    ask((0, 0), (2, 1), u64::MAX, 0, Status::InvalidArgument, "at most 1073741824");
    ask((0, 1), (2, 1), 8, 0, Status::Refused, "no GPUs");
    assert_eq!(time, 7);
    unsafe { fabriscope_cluster_free(ri2) };
    let gpus = opened("azure-ndh100v5");
    let mut ask = |kind, ranks, bytes, engine, status, word| {
        // SAFETY: as above.
        let call =
            |error: *mut *mut c_char| unsafe { fabriscope_collective_ps(gpus, kind, 1, 2, ranks, bytes, engine, &raw mut time, error) };
        refused(call, status, word);
    };
    ask(6, 0, 8, 0, Status::Refused, "no barrier");
    ask(0, 9, 8, 0, Status::InvalidArgument, "8 GPUs");
    ask(0, 0, 8, 2, Status::Refused, "FABRISCOPE_PACKET");
    ask(0, 0, 1001, 0, Status::InvalidArgument, "multiple of 4");
    ask(5, 0, u64::MAX / 2, 0, Status::InvalidArgument, "more than can be counted");
    unsafe { fabriscope_cluster_free(gpus) };
}

#[test]
fn flows() {
    let (lab, sprayed) = (opened("lab-16"), opened("lab-1024"));
    let mut done = [7; 2];
    let mut ask = |cluster, flow: Flow, engine, order, status, word| {
        let flows = [Flow { from: 2, to: 3, bytes: 8, ..Flow::default() }, flow];
        // SAFETY: clusters were opened above, the rest is of this frame.
        let call = |error: *mut *mut c_char| unsafe {
            fabriscope_flows_run(cluster, flows.as_ptr(), 2, engine, order, 1, done.as_mut_ptr(), error)
        };
        refused(call, status, word);
        assert_eq!(done, [7; 2]);
    };
    let good = Flow { from: 0, to: 1, bytes: 8, ..Flow::default() };
    ask(null_mut(), good, 0, 0, Status::InvalidArgument, "`cluster`");
    ask(lab, Flow { from: 16, ..good }, 0, 0, Status::InvalidArgument, "flow 1: there is no node 16");
    ask(lab, Flow { to: 0, ..good }, 0, 0, Status::InvalidArgument, "flow 1: from node 0 to itself");
    ask(lab, Flow { bytes: 0, ..good }, 0, 0, Status::InvalidArgument, "flow 1: 0 bytes");
    ask(lab, Flow { bytes: u64::MAX, ..good }, 0, 0, Status::InvalidArgument, "several flows");
    ask(lab, Flow { to_adapter: 1, ..good }, 0, 0, Status::InvalidArgument, "no adapter 1 at node 1");
    ask(lab, Flow { start_ps: u64::MAX, ..good }, 0, 0, Status::InvalidArgument, "106 days");
    ask(lab, good, 7, 0, Status::InvalidArgument, "no engine 7");
    ask(lab, good, 0, 2, Status::InvalidArgument, "no order 2");
    ask(sprayed, good, 0, 0, Status::Refused, "FABRISCOPE_ANY_ORDER");
    let (of, room) = (&raw const good, done.as_mut_ptr());
    // SAFETY: as above.
    let call = |of: *const Flow, count, room| told(|error| unsafe { fabriscope_flows_run(lab, of, count, 0, 0, 1, room, error) });
    assert_eq!(call(null(), 0, null_mut()), (Status::Ok, String::new()));
    assert_eq!(call(null(), 1, room).0, Status::InvalidArgument);
    assert_eq!(call(of, 1, null_mut()).0, Status::InvalidArgument);
    assert_eq!(call(of, usize::MAX, room).0, Status::InvalidArgument);
    // As late as it can be.
    let late = Flow { start_ps: 1 << 63, ..good };
    assert_eq!(call(&raw const late, 1, room).0, Status::Ok);
    assert!(done[0] > 1 << 63);
    for cluster in [lab, sprayed] {
        unsafe { fabriscope_cluster_free(cluster) };
    }
}
