//! `spinney-eval`: scores one file of documents, or, as `spinney-eval arena`, all collections of a folder.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
