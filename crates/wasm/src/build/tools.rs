//! Compilers and other programs of this machine.

use mundi_model::{Code, Coded};
use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    process::Command,
};

/// How much of what a compiler said is shown.
const SAID_BYTES_MAX: usize = 8 << 10;

/// Why there is no component.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    #[error("{0}")]
    Project(String),
    /// This machine cannot build it yet.
    #[error("missing on this machine: {what}. {get}")]
    Missing { what: String, get: String },
    #[error("{what} failed:\n{said}")]
    Failed { what: String, said: String },
    #[error("the component was built, and cannot be a program: {0}")]
    Refused(String),
    #[error("{path}: {why}")]
    File { path: String, why: String },
}

impl Coded for BuildError {
    fn code(&self) -> Code {
        Code::ProgramRefused
    }
}

/// The error that names the missing tools, and how to get them.
pub(super) fn missing(what: &[String], get: &[String]) -> BuildError {
    BuildError::Missing { what: what.join(", "), get: get.join(" ") }
}

pub(super) fn file(path: &Path, error: &std::io::Error) -> BuildError {
    BuildError::File { path: path.display().to_string(), why: error.to_string() }
}

/// Writes a file, and the folders that it is in.
pub(super) fn write(path: &Path, bytes: &[u8]) -> Result<(), BuildError> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|error| file(folder, &error))?;
    }
    std::fs::write(path, bytes).map_err(|error| file(path, &error))
}

/// A program by its name, if it is on the path.
pub(super) fn find(name: &str) -> Option<PathBuf> {
    let paths = std::env::var_os("PATH")?;
    std::env::split_paths(&paths).map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// The first version that a program says when it is asked, such as `20.11.1` of `v20.11.1`.
pub(super) fn version(program: &Path) -> Option<String> {
    let said = run("--version", command(program).arg("--version")).ok()?;
    let said = String::from_utf8_lossy(&said);
    let number = said.split_whitespace().find_map(|word| word.trim_start_matches('v').split_once('.').map(|_| word))?;
    Some(number.trim_start_matches('v').to_owned())
}

/// A command in an environment of its own: what an outer `cargo` or virtual environment has set is not for it.
pub(super) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        let outer = name.starts_with("CARGO_") && !name.starts_with("CARGO_HOME") && !name.starts_with("CARGO_HTTP");
        if outer || ["CARGO", "RUSTC", "RUSTFLAGS", "RUSTDOCFLAGS", "VIRTUAL_ENV", "PYTHONPATH"].contains(&&*name) {
            command.env_remove(name);
        }
    }
    command
}

/// Runs a command to its end and gives what it printed, or what it complained about.
pub(super) fn run(what: &str, command: &mut Command) -> Result<Vec<u8>, BuildError> {
    let failed = |said: String| BuildError::Failed { what: what.to_owned(), said };
    let output = command.output().map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    // What is meant for people is on stderr, if there is anything.
    Err(failed(last(if output.stderr.is_empty() { &output.stdout } else { &output.stderr })))
}

/// The same for tests, which say on stdout what failed, or on stderr, or on both.
pub(super) fn run_tests(what: &str, command: &mut Command) -> Result<(), BuildError> {
    let failed = |said: String| BuildError::Failed { what: what.to_owned(), said };
    let output = command.output().map_err(|error| failed(error.to_string()))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(failed(format!("{}\n{}", last(&output.stdout), last(&output.stderr)).trim().to_owned())),
    }
}

/// The end of what a program said.
fn last(said: &[u8]) -> String {
    let said = String::from_utf8_lossy(said);
    let from = said.ceil_char_boundary(said.len().saturating_sub(SAID_BYTES_MAX));
    said[from..].trim_end().to_owned()
}
