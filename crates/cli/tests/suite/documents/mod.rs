//! What the documents say holds: links lead somewhere, every page can be reached, outputs are what the program prints, indices and tables of results
//! are those of the files they list, and lines are short.
//!
//! - A fenced block with lines `$ fabriscope …` shows commands and what they print on standard output; a line `…` stands for any lines. A command that
//!   tests/golden/cases.txt pins is compared with its golden and not run: that is the place for what takes more than a second.
//! - A block whose first line is `# NAME.EXTENSION` is a file that the commands of the same page may name. Their folder has the `labs`, `fabrics`,
//!   `validation` and `catalog` of the repository.
//! - Regions between `<!-- name: … -->` and `<!-- end -->` are computed.
//!
//! With UPDATE_GOLDEN=1 outputs and regions are written anew.

mod commands;
mod links;
mod lists;
mod outputs;
mod page;
mod results;
