//! The rows of a benchmark as they are done: on standard output at once, and how far it is on standard error where that is a terminal.
#![expect(
    clippy::disallowed_methods,
    reason = "what a person waits for passes by the clock on the wall, and an interrupt ends the program"
)]

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fabriscope_tools::{Listener, Said};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::progress::stderr_is_terminal;

/// What is printed of a table whose end is not known yet.
#[derive(Debug, Clone, Default)]
pub struct Live(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// What is on standard output.
    printed: String,
    done: usize,
    all: usize,
    /// When each row was done, the begin first.
    times: Vec<Duration>,
    bar: Option<ProgressBar>,
    /// Standard output took nothing more.
    broken: bool,
}

impl Live {
    /// Nothing is printed yet. With `prints` an interrupt keeps the rows that are printed, and says so.
    pub fn new(prints: bool) -> (Live, Listener) {
        let live = Live::default();
        live.0.lock().unwrap_or_else(PoisonError::into_inner).bar = stderr_is_terminal().then(line);
        if prints {
            let state = live.clone();
            // Where no handler can be set, an interrupt ends the program as it always does.
            drop(ctrlc::set_handler(move || state.interrupt()));
        }
        let (heard, begun) = (live.clone(), Instant::now());
        let listener = Box::new(move |said: Said<'_>| heard.hear(said, prints, begun.elapsed()));
        (live, listener)
    }

    /// What is on standard output already; the line about how far it is goes.
    pub fn end(&self) -> String {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bar) = state.bar.take() {
            bar.finish_and_clear();
        }
        std::mem::take(&mut state.printed)
    }

    fn hear(&self, said: Said<'_>, prints: bool, now: Duration) {
        let state = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (state.done, state.all) = (said.done, said.all);
        state.times.push(now);
        if let Some(bar) = state.bar.as_ref().filter(|_| said.done < said.all) {
            let left = left(&state.times, said.all - said.done).map_or(String::new(), |left| format!(", about {} left", spoken(left)));
            bar.set_message(format!("size {} of {}{left}", said.done + 1, said.all));
        }
        if !prints || state.broken {
            return;
        }
        let print = || {
            let mut out = io::stdout().lock();
            out.write_all(said.text.as_bytes()).and_then(|()| out.flush())
        };
        match state.bar.as_ref().map_or_else(print, |bar| bar.suspend(print)) {
            Ok(()) => state.printed.push_str(said.text),
            // Whoever prints the end says why it cannot.
            Err(_) => state.broken = true,
        }
    }

    fn interrupt(&self) {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bar) = &state.bar {
            bar.finish_and_clear();
        }
        let (done, all) = (state.done, state.all);
        if !state.broken {
            let mut out = io::stdout().lock();
            let how_far = if all == 0 { "before the first size".to_owned() } else { format!("{done} of {all} sizes are done") };
            drop(writeln!(out, "# Interrupted: {how_far}").and_then(|()| out.flush()));
        }
        interrupted();
    }
}

/// Ends the program as an interrupt does.
#[expect(clippy::exit, reason = "whoever is interrupted cannot return: it is in the middle of a run")]
pub fn interrupted() -> ! {
    std::process::exit(INTERRUPTED)
}

/// A moving line that shows after two seconds.
fn line() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
    bar.set_style(ProgressStyle::with_template("{spinner} {msg} {elapsed}").expect("the template is fixed"));
    bar.set_message("running");
    let shown = bar.downgrade();
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(2));
        if let Some(bar) = shown.upgrade().filter(|bar| !bar.is_finished()) {
            bar.set_draw_target(ProgressDrawTarget::stderr());
            bar.enable_steady_tick(Duration::from_millis(250));
        }
    });
    bar
}

/// How long the rows that are left take, if each takes as much more than the one before as the last ones did.
fn left(times: &[Duration], rows: usize) -> Option<Duration> {
    let spans: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64()).collect();
    let [.., before, last] = spans[..] else { return spans.first().map(|span| Duration::from_secs_f64(span * rows as f64)) };
    let growth = if before > 0.0 { (last / before).clamp(0.8, 2.0) } else { 1.0 };
    let after = std::iter::successors(Some(last * growth), |span| Some(span * growth));
    Some(Duration::from_secs_f64(after.take(rows).sum::<f64>().min(MOST)))
}

fn spoken(span: Duration) -> String {
    match span.as_secs() {
        seconds @ 0..=119 => format!("{seconds} s"),
        seconds @ 120..=7199 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3600),
    }
}

/// The exit status of a program that an interrupt ended (basis: POSIX shells, 128 + SIGINT).
const INTERRUPTED: i32 = 130;
/// The longest time that is said, in seconds. Basis: assumed; a month.
const MOST: f64 = 2_592_000.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_grows_as_the_last_rows_did() {
        let at = |seconds: &[u64]| seconds.iter().map(|second| Duration::from_secs(*second)).collect::<Vec<_>>();
        assert_eq!(left(&at(&[0]), 3), None);
        assert_eq!(left(&at(&[0, 2]), 3), Some(Duration::from_secs(6)));
        // 2 s, then 4 s: 8 s and 16 s are left.
        assert_eq!(left(&at(&[0, 2, 6]), 2), Some(Duration::from_secs(24)));
        assert_eq!(spoken(Duration::from_secs(119)), "119 s");
        assert_eq!(spoken(Duration::from_secs(7000)), "116 min");
    }
}
