//! `mundi blob`: immutable objects, named by their hash.

use super::{
    client::{Server, escape},
    exit::Outcome,
    output::Out,
    progress::{Progress, bytes},
    upload::body_of,
};
use clap::Subcommand;
use futures_util::StreamExt;
use reqwest::Method;
use std::{io::Write, path::PathBuf};

#[derive(Subcommand)]
pub(super) enum BlobCommand {
    /// Writes a blob to a file, or to stdout.
    Get {
        #[command(flatten)]
        server: Server,
        /// As `mundi blob put` printed it: `h_…`.
        hash: String,
        /// The file to write; stdout if it is not given.
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Stores a file and prints its hash.
    Put {
        #[command(flatten)]
        server: Server,
        /// The file to store.
        file: PathBuf,
    },
}

impl BlobCommand {
    pub(super) async fn run(self, out: Out) -> Outcome {
        match self {
            Self::Get { server, hash, output } => {
                let progress = Progress::default();
                let mut pieces = server
                    .ask(Method::GET, &server.of(&format!("blobs/{}", escape(&hash))), None)
                    .await?
                    .bytes_stream();
                let mut sink: Box<dyn Write> = match &output {
                    Some(path) => Box::new(std::fs::File::create(path)?),
                    None => Box::new(std::io::stdout()),
                };
                let work = async {
                    while let Some(piece) = pieces.next().await {
                        let piece = piece?;
                        progress.add(piece.len() as u64);
                        sink.write_all(&piece)?;
                    }
                    Ok(sink.flush()?)
                };
                progress.during(out, "reading", bytes, work).await
            }
            Self::Put { server, file } => {
                let (path, (body, progress)) = (server.of("blobs"), body_of(&file)?);
                let work = server.upload(Method::POST, &path, body);
                out.made(&progress.during(out, "storing", bytes, work).await?, "hash")
            }
        }
    }
}
