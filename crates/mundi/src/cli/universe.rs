//! `mundi universe export` and `import`: a universe moves to another engine. They work on engine and objects themselves,
//! with no server running.

use super::{
    ServerArgs,
    exit::{Failed, Outcome},
};
use clap::Subcommand;
use mundi_server::transfer;
use mundi_store::transfer::Progress;
use std::{io::Write, path::Path};

#[derive(Subcommand)]
pub(super) enum MoveCommand {
    /// Writes a universe to a folder or bucket. Stop every process that serves it first; broken off, it goes on where it was.
    Export {
        #[command(flatten)]
        server: ServerArgs,
        #[arg(long, default_value = "default")]
        universe: String,
        /// A folder, or a URL such as `s3://bucket/prefix`.
        #[arg(long)]
        to: String,
    },
    /// Takes a universe in that was exported, into a database or a new data folder; broken off, it goes on where it was.
    Import {
        #[command(flatten)]
        server: ServerArgs,
        /// A folder, or a URL such as `s3://bucket/prefix`.
        #[arg(long)]
        from: String,
    },
}

impl MoveCommand {
    pub(super) async fn run(self) -> Outcome {
        let (header, done) = match self {
            Self::Export { server, universe, to } => {
                (transfer::export(&server.load()?, &universe, &place(&to)?, show).await, "exported")
            }
            Self::Import { server, from } => {
                (transfer::import(&server.load()?, &place(&from)?, show).await, "imported")
            }
        };
        let header = header.map_err(|error| Failed::coded(&error))?;
        let (name, keys, objects) = (header.name, header.keys, header.objects);
        eprintln!("\r{done} `{name}`: {keys} keys and {objects} objects, compared once more");
        Ok(())
    }
}

/// A URL as it is; a folder as its absolute path, made if it is missing.
fn place(text: &str) -> Outcome<String> {
    if text.contains("://") {
        return Ok(text.to_owned());
    }
    let failed = |error: std::io::Error| Failed::plain(format!("{text}: {error}"));
    std::fs::create_dir_all(Path::new(text)).map_err(failed)?;
    Ok(Path::new(text).canonicalize().map_err(failed)?.display().to_string())
}

/// One line that changes.
fn show(progress: Progress) {
    let mut out = std::io::stderr().lock();
    let _nobody_looks = match progress {
        Progress::Keys(keys) => write!(out, "\r{keys} keys written            "),
        Progress::Objects(objects) => write!(out, "\r{objects} objects copied       "),
        Progress::Compared(keys) => write!(out, "\r{keys} keys compared          "),
    };
}
