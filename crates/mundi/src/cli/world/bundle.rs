//! Worlds as files.

use super::{
    super::{
        client::{Server, escape},
        exit::{Failed, Outcome},
        output::Out,
        progress::{Progress, bytes},
        upload::body_of,
    },
    World,
};
use clap::Args;
use futures_util::StreamExt;
use mundi_model::Code;
use reqwest::Method;
use serde_json::json;
use std::{
    io::Write,
    path::{Path, PathBuf},
};

#[derive(Args)]
pub(crate) struct Export {
    #[command(flatten)]
    of: World,
    /// The file to write; `WORLD.mundi` by default.
    #[arg(long, short)]
    output: Option<PathBuf>,
}

impl Export {
    pub(super) async fn run(self, out: Out) -> Outcome {
        let Self { of, output } = self;
        let output = output.unwrap_or_else(|| PathBuf::from(format!("{}.mundi", of.world)));
        let progress = Progress::default();
        let work = download(&of, &output, &progress);
        let written = progress.during(out, "exporting", bytes, work).await?;
        out.made(&json!({ "file": output.display().to_string(), "bytes": written }), "file")
    }
}

/// Writes under a temporary name until the file is complete.
async fn download(of: &World, output: &Path, progress: &Progress) -> Outcome<u64> {
    let named =
        |error: std::io::Error, path: &Path| Failed::new(Code::FolderDenied, format!("{}: {error}", path.display()));
    let mut pieces = of.server.ask(Method::GET, &of.path("/bundle"), None).await?.bytes_stream();
    let mut part = output.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    let mut file = std::fs::File::create(&part).map_err(|error| named(error, &part))?;
    let mut written = 0;
    while let Some(piece) = pieces.next().await {
        let piece = match piece {
            Ok(piece) => piece,
            Err(error) => {
                drop(std::fs::remove_file(&part));
                return Err(Failed::silent(format!("the export broke off: {error}")));
            }
        };
        file.write_all(&piece).map_err(|error| named(error, &part))?;
        written += piece.len() as u64;
        progress.add(piece.len() as u64);
    }
    file.sync_all().map_err(|error| named(error, &part))?;
    std::fs::rename(&part, output).map_err(|error| named(error, output))?;
    Ok(written)
}

#[derive(Args)]
pub(crate) struct Import {
    #[command(flatten)]
    server: Server,
    /// A bundle, as `mundi world export` wrote it.
    file: PathBuf,
    /// The name or the id of the imported world; its own id by default.
    #[arg(long = "as", value_name = "WORLD")]
    name: Option<String>,
    /// The policy for its open effects: suppress cancels them, live carries them out. A sandbox stays a sandbox.
    #[arg(long, default_value = "suppress")]
    effects: String,
}

impl Import {
    pub(super) async fn run(self, out: Out) -> Outcome {
        let Self { server, file, name, effects } = self;
        let name = name.map_or_else(String::new, |name| format!("&world={}", escape(&name)));
        let path = format!("{}?effects={}{name}", server.of("bundles"), escape(&effects));
        let (body, progress) = body_of(&file)?;
        let work = server.upload(Method::POST, &path, body);
        out.made(&progress.during(out, "importing", bytes, work).await?, "world")
    }
}
