//! `mundi universe`: a universe moves to another engine. It works on engine and objects themselves, with no server running.

use super::{Outcome, ServerArgs};
use clap::Subcommand;
use mundi_server::transfer;
use mundi_store::transfer::Progress;
use std::{error::Error, io::Write, path::Path};

#[derive(Subcommand)]
pub(crate) enum UniverseCommand {
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

impl UniverseCommand {
    pub(crate) async fn run(self) -> Outcome {
        let (header, done) = match self {
            Self::Export { server, universe, to } => {
                (transfer::export(&server.load()?, &universe, &place(&to)?, show).await?, "exported")
            }
            Self::Import { server, from } => {
                (transfer::import(&server.load()?, &place(&from)?, show).await?, "imported")
            }
        };
        let (name, keys, objects) = (header.name, header.keys, header.objects);
        eprintln!("\r{done} `{name}`: {keys} keys and {objects} objects, compared once more");
        Ok(())
    }
}

/// A URL as it is; a folder as its absolute path, made if it is missing.
fn place(text: &str) -> Result<String, Box<dyn Error + Send + Sync>> {
    if text.contains("://") {
        return Ok(text.to_owned());
    }
    std::fs::create_dir_all(Path::new(text))?;
    Ok(Path::new(text).canonicalize()?.display().to_string())
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
