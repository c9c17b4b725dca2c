//! Processes that answer questions: as many at once as allowed, each under its limits, ended when nobody waits for its answer.
//!
//! A question waits for its turn; more than can wait are turned away. Dropping the future of [`Children::ask`] ends its process.

use std::ffi::OsString;
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fabriscope_units::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;
use tokio::sync::Semaphore;

use crate::answer::Reply;
use crate::kept::Kept;
use crate::limits::Limits;
use crate::question::Question;
use crate::refused::Refused;

/// How questions are answered.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The command line of a process that reads a question and writes its answer ([`crate::worker::work`]).
    pub worker: Vec<OsString>,
    /// What each may take; the process takes care of the memory, the server of the time.
    pub limits: Limits,
    /// How many are answered at once.
    pub at_once: usize,
    /// How many wait.
    pub waiting: usize,
}

/// Why a question got no reply.
#[derive(Debug, thiserror::Error)]
pub enum Unanswered {
    /// Too many are waiting.
    #[error("{waiting} questions are waiting already")]
    Busy {
        /// How many.
        waiting: usize,
    },
    /// It takes too long.
    #[error("there is no answer after {} s", limit.as_secs())]
    TooLong {
        /// What was allowed.
        limit: Duration,
    },
    /// It takes too much memory.
    #[error("the answer takes more than {} MiB of memory", limit.0 >> 20)]
    TooMuch {
        /// What was allowed.
        limit: Bytes,
    },
    /// The process ended without an answer.
    #[error("the process that was to answer ended without: {reason}")]
    Ended {
        /// What is known.
        reason: String,
    },
}

impl Unanswered {
    /// The same with a remedy.
    #[must_use]
    pub fn refused(&self) -> Refused {
        let help = match self {
            Unanswered::Busy { .. } => "ask again in a while".to_owned(),
            Unanswered::TooLong { .. } => {
                "ask for fewer nodes, ranks or sizes, or fewer repetitions (-i); or start the server with a larger --timeout".to_owned()
            }
            Unanswered::TooMuch { .. } => {
                "ask for fewer nodes, ranks or a smaller cluster; or start the server with a larger --memory".to_owned()
            }
            Unanswered::Ended { .. } => "ask the same on the command line, and report what it says".to_owned(),
        };
        Refused::told(self.to_string(), help)
    }
}

/// The processes of a server.
#[derive(Debug)]
pub struct Children {
    settings: Settings,
    turns: Semaphore,
    waiting: AtomicUsize,
    kept: Mutex<Kept>,
}

impl Children {
    /// No process yet.
    #[must_use]
    pub fn new(settings: Settings) -> Children {
        Children { turns: Semaphore::new(settings.at_once.max(1)), waiting: AtomicUsize::new(0), kept: Mutex::default(), settings }
    }

    /// The reply to a question, as JSON.
    ///
    /// # Errors
    /// It takes too long or too much, or too many wait.
    pub async fn ask(&self, question: &Question) -> Result<Arc<[u8]>, Unanswered> {
        let query = question.query();
        if let Some(answer) = self.kept(&query) {
            return Ok(answer);
        }
        let _ticket = Ticket::take(&self.waiting, self.settings.waiting)?;
        let turn = self.turns.acquire().await.map_err(|closed| Unanswered::Ended { reason: closed.to_string() })?;
        // Somebody may have asked the same before.
        if let Some(answer) = self.kept(&query) {
            return Ok(answer);
        }
        let limit = self.settings.limits.time;
        let answer: Arc<[u8]> = match tokio::time::timeout(limit, self.answered(&query)).await {
            Ok(answer) => answer?.into(),
            Err(_) => return Err(Unanswered::TooLong { limit }),
        };
        drop(turn);
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).insert(query, Arc::clone(&answer));
        Ok(answer)
    }

    fn kept(&self, query: &str) -> Option<Arc<[u8]>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).get(query)
    }

    /// Starts a process, and has it answer.
    async fn answered(&self, query: &str) -> Result<Vec<u8>, Unanswered> {
        let ended = |reason: String| Unanswered::Ended { reason };
        let (program, words) = self.settings.worker.split_first().ok_or_else(|| ended("no program is named".to_owned()))?;
        let mut child = Command::new(program)
            .args(words)
            .env("RAYON_NUM_THREADS", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|cause| ended(cause.to_string()))?;
        if let Some(mut input) = child.stdin.take() {
            // A process that does not read its question says why below.
            let _ = input.write_all(query.as_bytes()).await;
        }
        let (answer, said) = tokio::join!(read(child.stdout.take(), MOST_ANSWER + 1), read(child.stderr.take(), MOST_SAID));
        let (answer, said) = (answer.map_err(|cause| ended(cause.to_string()))?, said.unwrap_or_default());
        if answer.len() as u64 > MOST_ANSWER {
            return Err(ended(format!("the answer has more than {} MiB", MOST_ANSWER >> 20)));
        }
        let status = child.wait().await.map_err(|cause| ended(cause.to_string()))?;
        if status.success() && serde_json::from_slice::<Reply>(&answer).is_ok() {
            return Ok(answer);
        }
        let said = String::from_utf8_lossy(&said);
        // What the standard library says before it gives up.
        if ["memory allocation of", "Cannot allocate memory", "out of memory"].iter().any(|words| said.contains(words)) {
            return Err(Unanswered::TooMuch { limit: self.settings.limits.memory });
        }
        let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
        Err(ended(format!("{status}{}{last}", if last.is_empty() { "" } else { ": " })))
    }
}

/// What a stream of a process gives, up to so many bytes.
async fn read(stream: Option<impl AsyncRead + Unpin>, most: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(stream) = stream {
        stream.take(most).read_to_end(&mut bytes).await?;
    }
    Ok(bytes)
}

/// What a question holds while it waits or is answered.
struct Ticket<'a>(&'a AtomicUsize);

impl<'a> Ticket<'a> {
    fn take(waiting: &'a AtomicUsize, most: usize) -> Result<Ticket<'a>, Unanswered> {
        let before = waiting.fetch_add(1, Ordering::Relaxed);
        let ticket = Ticket(waiting);
        if before >= most { Err(Unanswered::Busy { waiting: before }) } else { Ok(ticket) }
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Bytes of an answer. Basis: assumed; a browser draws no more.
const MOST_ANSWER: u64 = 32 << 20;
/// Bytes that are kept of what a process says besides.
const MOST_SAID: u64 = 64 << 10;
