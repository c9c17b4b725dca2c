//! A long call: on a thread of its own, while Python goes on, shows progress, and hears of Ctrl-C.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// Tells how many parts of all are done.
pub type Heard = Box<dyn Fn(usize, usize) + Send + Sync>;

enum Message<T> {
    Progress(usize, usize),
    Done(T),
}

/// The result of `work`. Python's own threads run meanwhile; `progress` is called with what is done and all there is.
///
/// # Errors
/// What `progress` raises, an interrupt, a panic of `work`.
pub fn answer<T: Send + 'static>(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce(Heard) -> T + Send + 'static,
) -> PyResult<T> {
    answer_until(py, progress, None, work)
}

/// The same; when it is interrupted, `stop` is set, and `work` ends as soon as it can.
///
/// # Errors
/// As [`answer`].
pub fn answer_until<T: Send + 'static>(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    stop: Option<Arc<AtomicBool>>,
    work: impl FnOnce(Heard) -> T + Send + 'static,
) -> PyResult<T> {
    let (told, mut hears) = channel::<Message<T>>();
    let heard = said(told.clone());
    let worker = thread::Builder::new().name("fabriscope".to_owned()).stack_size(STACK).spawn(move || {
        // Nobody hears it after an interrupt.
        drop(told.send(Message::Done(work(heard))));
    })?;
    loop {
        // Borrowed for good: a receiver can be sent, not shared.
        let hearing = &mut hears;
        let next = py.detach(move || hearing.recv_timeout(SIGNALS));
        if let Err(interrupt) = py.check_signals() {
            if let Some(stop) = &stop {
                stop.store(true, Ordering::Relaxed);
                py.detach(move || drop(worker.join()));
            }
            return Err(interrupt);
        }
        match next {
            Ok(Message::Done(result)) => return Ok(result),
            Ok(Message::Progress(done, all)) => {
                if let Some(progress) = progress {
                    progress.call1((done, all))?;
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                let panicked = worker.join().err().and_then(|cause| cause.downcast_ref::<String>().cloned());
                let text = panicked.unwrap_or_else(|| "no result".to_owned());
                return Err(PyRuntimeError::new_err(format!("a fault in fabriscope: {text}; please report it")));
            }
        }
    }
}

fn said<T: Send + 'static>(told: Sender<Message<T>>) -> Heard {
    // Nobody hears it after an interrupt.
    Box::new(move |done, all| drop(told.send(Message::Progress(done, all))))
}

/// How often Ctrl-C is looked for.
const SIGNALS: Duration = Duration::from_millis(50);
/// As much as a program's first thread has.
const STACK: usize = 8 << 20;
