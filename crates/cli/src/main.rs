//! `fabriscope`: the program. The command line is the library beside it.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(fabriscope_cli::main(std::env::args_os()))
}
