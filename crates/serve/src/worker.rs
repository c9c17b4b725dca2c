//! One question in a process of its own: ending it takes nothing else along.

use std::io::{Read, Write};

use fabriscope_catalog::Catalog;

use crate::answer::reply;

/// Reads a question, writes its answer.
///
/// # Errors
/// The question cannot be read, the answer cannot be written.
pub fn work(catalog: &Catalog, question: &mut dyn Read, answer: &mut dyn Write) -> std::io::Result<()> {
    let mut query = String::new();
    question.read_to_string(&mut query)?;
    // A stack that is there from the begin: one that grows into a limit ends a process without a word.
    let reply = std::thread::scope(|scope| {
        let worker = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, || reply(catalog, &query));
        let worker = worker.map_err(|_| std::io::Error::from(std::io::ErrorKind::OutOfMemory))?;
        worker.join().map_err(|_| std::io::Error::other("the answer ended in a panic"))
    })?;
    serde_json::to_writer(&mut *answer, &reply)?;
    answer.flush()
}

/// The stack of an answer. Basis: as much as systems give a main thread.
const STACK: usize = 8 << 20;
