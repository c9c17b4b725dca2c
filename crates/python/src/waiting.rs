//! A long call: on a thread of its own, while Python goes on, shows progress, and hears of Ctrl-C.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use fabriscope_catalog::Stop;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::prototype::Trouble;

/// Tells how many parts of all are done.
pub type Heard = Box<dyn Fn(usize, usize) + Send + Sync>;

enum Message<T> {
    Progress(usize, usize),
    Done(T),
}

/// What ends a call before its time.
#[derive(Clone)]
pub struct Ending {
    /// Looked at by the engines.
    pub stop: Stop,
    /// Where prototypes leave their exceptions.
    pub trouble: Trouble,
}

impl Ending {
    /// Of a call that hears of the exceptions of `trouble`.
    pub fn new(trouble: &Trouble) -> Ending {
        Ending { stop: Stop::new(), trouble: trouble.clone() }
    }
}

/// The result of `work`. Python's own threads run meanwhile; `progress` is called with what is done and all there is. After an interrupt,
/// or an exception of a prototype or of `progress`, the stop is set, and `work` ends as soon as it can.
///
/// # Errors
/// What `progress` or a prototype raises, an interrupt, a panic of `work`.
pub fn answer<T: Send + 'static>(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    ending: Ending,
    work: impl FnOnce(Heard) -> T + Send + 'static,
) -> PyResult<T> {
    let Ending { stop, trouble } = ending;
    // What an earlier call left behind belongs to nobody.
    drop(trouble.take());
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
        let told = match (&next, progress) {
            (Ok(Message::Progress(done, all)), Some(progress)) => progress.call1((*done, *all)).map(drop),
            _ => Ok(()),
        };
        let failed = trouble.take().map_or(Ok(()), Err);
        if let Err(interrupt) = failed.and(told).and_then(|()| py.check_signals()) {
            stop.set();
            py.detach(move || drop(worker.join()));
            return Err(interrupt);
        }
        match next {
            Ok(Message::Done(result)) => return Ok(result),
            Ok(Message::Progress(..)) => {}
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
