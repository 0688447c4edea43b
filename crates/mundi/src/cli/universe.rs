//! `mundi universe export` and `import`: a universe moves to another engine. They work on engine and objects themselves,
//! with no server running.

use super::{
    ServerArgs,
    exit::{Failed, Outcome},
    output::Out,
    progress::Progress,
};
use clap::Subcommand;
use mundi_server::transfer;
use mundi_store::transfer::Progress as Step;
use std::{cell::Cell, path::Path};

#[derive(Subcommand)]
pub(super) enum MoveCommand {
    /// Writes a universe to a folder or bucket. Stop every process that serves it first; an interrupted export resumes.
    Export {
        #[command(flatten)]
        server: ServerArgs,
        #[arg(long, default_value = "default")]
        universe: String,
        /// A folder, or a URL such as `s3://bucket/prefix`.
        #[arg(long)]
        to: String,
    },
    /// Imports an exported universe into a database or a new data folder; an interrupted import resumes.
    Import {
        #[command(flatten)]
        server: ServerArgs,
        /// A folder, or a URL such as `s3://bucket/prefix`.
        #[arg(long)]
        from: String,
    },
}

impl MoveCommand {
    pub(super) async fn run(self, out: Out) -> Outcome {
        let at = Cell::new(Step::Keys(0));
        let (progress, show) = (Progress::default(), |_| words(at.get()));
        let (header, done) = match self {
            Self::Export { server, universe, to } => {
                let (config, to) = (server.load()?, place(&to)?);
                let work = transfer::export(&config, &universe, &to, |step| at.set(step));
                (progress.during(out, "exporting", show, work).await, "exported")
            }
            Self::Import { server, from } => {
                let (config, from) = (server.load()?, place(&from)?);
                let work = transfer::import(&config, &from, |step| at.set(step));
                (progress.during(out, "importing", show, work).await, "imported")
            }
        };
        let header = header.map_err(|error| Failed::coded(&error))?;
        let (name, keys, objects) = (header.name, header.keys, header.objects);
        eprintln!("{done} `{name}`: {keys} keys and {objects} objects, compared once more");
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

/// The present phase and its progress.
fn words(step: Step) -> String {
    match step {
        Step::Keys(keys) => format!("{keys} keys written"),
        Step::Objects(objects) => format!("{objects} objects copied"),
        Step::Compared(keys) => format!("{keys} keys compared"),
    }
}
