//! What every command shares: the catalogue, the seed.

use std::cell::OnceCell;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fabriscope_catalog::{Catalog, ResolvedCluster};

use crate::arguments::Arguments;
use crate::error::Failure;

/// The global options, resolved.
pub struct Context {
    folder: Option<PathBuf>,
    program: Vec<OsString>,
    catalog: OnceCell<Arc<Catalog>>,
    /// Seed of everything random in a run, where one is given.
    pub seed: Option<u64>,
}

impl Context {
    /// The options of a command line of a program that is started by these words; the catalogue is read when it is first needed.
    pub fn new(arguments: &Arguments, program: Vec<OsString>) -> Context {
        Context { folder: arguments.catalog.clone(), program, catalog: OnceCell::new(), seed: arguments.seed }
    }
    /// The options of a command line on a catalogue of the caller, unless it names a folder itself.
    pub fn on(arguments: &Arguments, catalog: Arc<Catalog>) -> Context {
        let context = Context::new(arguments, Vec::new());
        if context.folder.is_none() { Context { catalog: OnceCell::from(catalog), ..context } } else { context }
    }
    /// The words that start this program.
    pub fn program(&self) -> std::io::Result<Vec<OsString>> {
        if self.program.is_empty() { std::env::current_exe().map(|path| vec![path.into()]) } else { Ok(self.program.clone()) }
    }
    /// The folder that lies over the catalogue.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }
    /// The same with another catalogue or seed, where one is given.
    pub fn with(&self, catalog: Option<PathBuf>, seed: Option<u64>) -> Option<Context> {
        let other = catalog.is_some() || seed.is_some();
        other.then(|| Context {
            folder: catalog.or_else(|| self.folder.clone()),
            program: self.program.clone(),
            catalog: OnceCell::new(),
            seed: seed.or(self.seed),
        })
    }
    /// The given seed, or that of a run for which none is given.
    pub fn seed(&self) -> u64 {
        self.seed.unwrap_or(1)
    }
    /// The catalogue, with the user's folder over it.
    pub fn catalog(&self) -> Result<&Catalog, Failure> {
        if let Some(catalog) = self.catalog.get() {
            return Ok(catalog);
        }
        let read = match &self.folder {
            Some(folder) => Catalog::load(folder).map(Arc::new),
            None => fabriscope::embedded().map(Arc::clone),
        };
        let catalog = read.map_err(Failure::of)?;
        Ok(self.catalog.get_or_init(|| catalog))
    }
    /// The cluster that `text` names: a name or a file, with or without `:nodes` or `:group`.
    pub fn cluster(&self, text: &str) -> Result<ResolvedCluster, Failure> {
        self.catalog()?.target(text).map_err(Failure::of)
    }
    /// The same for what looks at one kind of node only.
    pub fn alike(&self, text: &str) -> Result<ResolvedCluster, Failure> {
        self.catalog()?.target_alike(text).map_err(Failure::of)
    }
}
