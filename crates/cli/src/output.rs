//! Where results go: standard output, or a file that appears only when it is complete.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use fabriscope_report::render::{self, Csv, Json, Renderer, Text};
use fabriscope_report::{Outcome, Verdict};

use crate::error::Failure;

/// In which format a result is printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::Args)]
pub struct FormatArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Print the tables as CSV
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
}

/// Where the result goes, and in which format.
#[derive(Debug, Clone, Default, PartialEq, Eq, clap::Args)]
pub struct OutputArgs {
    #[command(flatten)]
    pub format: FormatArgs,
    /// Write the result to this file; as JSON or CSV where its name ends in .json or .csv, as pictures in .svg or .png, as a page in .html
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

impl FormatArgs {
    /// Prints an outcome; for a file of that name, where there is one.
    pub fn write(self, outcome: &Outcome, file: Option<&Path>, output: &mut Output) -> Result<Verdict, Failure> {
        if file.is_none()
            && let Some(kept) = &mut output.kept
        {
            *kept = outcome.clone();
            return Ok(outcome.verdict());
        }
        let by_name = file.map(render::for_file);
        let renderer: &dyn Renderer = match by_name {
            // A picture and a file to go on from are asked for by their name alone.
            Some(format) if format.draws() || format.extension() == "toml" => format,
            _ if self.json => &Json,
            _ if self.csv => &Csv,
            Some(format) => format,
            None => &Text,
        };
        let Some(path) = file else {
            output.text(&renderer.render(outcome).map_err(Failure::of)?)?;
            return Ok(outcome.verdict());
        };
        let bytes = renderer.bytes(outcome).map_err(Failure::of)?;
        output.redirect(path)?;
        output.bytes(&bytes)?;
        Ok(outcome.verdict())
    }
}

impl OutputArgs {
    /// Whether pictures are asked for.
    pub fn draws(&self) -> bool {
        self.output.as_deref().is_some_and(|file| render::for_file(file).draws())
    }
    /// Writes an outcome to where it was asked for; whether what was checked holds.
    pub fn write(&self, outcome: &Outcome, output: &mut Output) -> Result<Verdict, Failure> {
        self.format.write(outcome, self.output.as_deref(), output)
    }
    /// The same of an outcome whose TOML file is what the command is called for: the outcome itself is printed as well.
    pub fn write_with_draft(&self, outcome: &Outcome, output: &mut Output) -> Result<Verdict, Failure> {
        let drafted = self.output.as_deref().filter(|path| path.extension().is_some_and(|extension| extension == "toml"));
        let Some((path, draft)) = drafted.zip(outcome.draft()) else { return self.write(outcome, output) };
        write_file(path, draft)?;
        self.format.write(outcome, None, output)
    }
}

/// The place a command writes its result to.
pub struct Output {
    writer: Box<dyn Write>,
    /// What has been written past it, and stands at the begin of what will be.
    written: String,
    file: Option<Unfinished>,
    /// The outcome, where a program of its own reads it.
    kept: Option<Outcome>,
    /// The exit status, where programs that were run say it.
    status: Option<u8>,
}

/// A file under its temporary name; removed unless it is finished.
struct Unfinished {
    temporary: PathBuf,
    target: PathBuf,
}

impl Output {
    /// Standard output.
    pub fn stdout() -> Output {
        Output { writer: Box::new(BufWriter::new(io::stdout())), written: String::new(), file: None, kept: None, status: None }
    }
    /// Nowhere: the outcome is kept for [`Output::into_outcome`].
    pub fn kept() -> Output {
        Output { writer: Box::new(io::sink()), written: String::new(), file: None, kept: Some(Outcome::new()), status: None }
    }
    /// The command ends with the exit status of programs that it ran.
    pub fn end_with(&mut self, status: u8) {
        self.status = Some(status);
    }
    /// That status.
    pub fn status(&self) -> Option<u8> {
        self.status
    }
    /// Whether a program of its own reads the outcome.
    pub fn is_kept(&self) -> bool {
        self.kept.is_some()
    }
    /// The outcome that was kept.
    pub fn into_outcome(mut self) -> Outcome {
        self.kept.take().unwrap_or_default()
    }
    /// From here on, `path`: written under a temporary name beside it and renamed when all is done.
    pub fn redirect(&mut self, path: &Path) -> Result<(), Failure> {
        let name = path.file_name().ok_or_else(|| Failure::told(format!("{} is not a file", path.display()), "name a file to write to"))?;
        let temporary = path.with_file_name(format!(".{}.{}.partial", name.to_string_lossy(), std::process::id()));
        let file = std::fs::File::create(&temporary).map_err(|cause| unwritable(path, &cause))?;
        self.writer = Box::new(BufWriter::new(file));
        self.file = Some(Unfinished { temporary, target: path.to_owned() });
        Ok(())
    }
    /// So much stands on standard output already: the text that begins with it goes on from there.
    pub fn has_written(&mut self, text: String) {
        self.written = text;
    }
    /// Writes text.
    pub fn text(&mut self, text: &str) -> Result<(), Failure> {
        if self.file.is_none()
            && let Some(kept) = &mut self.kept
        {
            kept.text(text);
            return Ok(());
        }
        let text = text.strip_prefix(std::mem::take(&mut self.written).as_str()).unwrap_or(text);
        self.writer.write_all(text.as_bytes()).map_err(|cause| self.cannot(&cause))
    }
    /// Writes bytes.
    fn bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.writer.write_all(bytes).map_err(|cause| self.cannot(&cause))
    }
    /// Writes a value as JSON with a line end.
    pub fn json(&mut self, value: &serde_json::Value) -> Result<(), Failure> {
        self.text(&format!("{value:#}\n"))
    }
    /// Lets a reader see what there is so far.
    pub fn flush(&mut self) -> Result<(), Failure> {
        self.writer.flush().map_err(|cause| self.cannot(&cause))
    }
    /// Flushes, and gives a file its name.
    pub fn finish(&mut self) -> Result<(), Failure> {
        self.flush()?;
        if let Some(file) = self.file.take() {
            self.writer = Box::new(io::sink());
            let renamed = std::fs::rename(&file.temporary, &file.target);
            return renamed.map_err(|cause| {
                let failure = unwritable(&file.target, &cause);
                drop(std::fs::remove_file(&file.temporary));
                failure
            });
        }
        Ok(())
    }

    fn cannot(&self, cause: &io::Error) -> Failure {
        match &self.file {
            None if cause.kind() == io::ErrorKind::BrokenPipe => Failure::ReaderGone,
            None => Failure::told(format!("standard output: {cause}"), "is the disk full?"),
            Some(file) => unwritable(&file.target, cause),
        }
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if let Some(file) = &self.file {
            drop(std::fs::remove_file(&file.temporary));
        }
    }
}

/// Writes a whole file at once, under a temporary name first.
pub fn write_file(path: &Path, text: &str) -> Result<(), Failure> {
    write_with(path, |writer| writer.write_all(text.as_bytes()))
}

/// Writes a file by `write`, under a temporary name first.
pub fn write_with(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
    let mut output = Output { writer: Box::new(io::sink()), written: String::new(), file: None, kept: None, status: None };
    output.redirect(path)?;
    write(&mut output.writer).map_err(|cause| unwritable(path, &cause))?;
    output.finish()
}

fn unwritable(path: &Path, cause: &io::Error) -> Failure {
    Failure::told(format!("{}: cannot be written: {cause}", path.display()), "choose a folder that exists and that you may write to")
}
