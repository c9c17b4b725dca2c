//! Progress on standard error: only on a terminal, and only for what takes longer than two seconds.
#![expect(clippy::disallowed_methods, reason = "what a person waits for passes by the clock on the wall")]

use std::io::{IsTerminal, stderr};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Whether a person sees standard error.
pub fn stderr_is_terminal() -> bool {
    static TERMINAL: OnceLock<bool> = OnceLock::new();
    *TERMINAL.get_or_init(|| stderr().is_terminal())
}

/// A line that tells how far a command is.
pub struct Progress {
    bar: ProgressBar,
    started: Instant,
    shown: AtomicBool,
}

impl Progress {
    /// Starts to count, unseen.
    pub fn new(what: &'static str) -> Progress {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        let style =
            ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} {elapsed}, about {eta} left").expect("the template is fixed");
        bar.set_style(style);
        bar.set_message(what);
        Progress { bar, started: Instant::now(), shown: AtomicBool::new(false) }
    }
    /// `done` of `all` pieces are finished.
    pub fn at(&self, done: usize, all: usize) {
        if !stderr_is_terminal() || self.started.elapsed() < Duration::from_secs(2) {
            return;
        }
        if !self.shown.swap(true, Ordering::Relaxed) {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
            self.bar.set_length(all as u64);
        }
        self.bar.set_position(done as u64);
    }
    /// Shows a line that moves after two seconds, for work that cannot be counted; ends with the value.
    pub fn spinner(what: &'static str) -> Spinner {
        let ended = std::sync::Arc::new(AtomicBool::new(false));
        let seen = ended.clone();
        let watcher = stderr_is_terminal().then(|| {
            std::thread::spawn(move || {
                let started = Instant::now();
                let mut bar = None;
                while !seen.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(100));
                    if started.elapsed() >= Duration::from_secs(2) {
                        let bar = bar.get_or_insert_with(|| {
                            let bar = ProgressBar::new_spinner();
                            bar.set_style(ProgressStyle::with_template("{spinner} {msg} {elapsed}").expect("the template is fixed"));
                            bar.set_message(what);
                            bar
                        });
                        bar.tick();
                    }
                }
                if let Some(bar) = bar {
                    bar.finish_and_clear();
                }
            })
        });
        Spinner { ended, watcher }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// A moving line; dropping it takes the line away.
pub struct Spinner {
    ended: std::sync::Arc<AtomicBool>,
    watcher: Option<std::thread::JoinHandle<()>>,
}

impl Drop for Spinner {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(watcher) = self.watcher.take() {
            drop(watcher.join());
        }
    }
}
