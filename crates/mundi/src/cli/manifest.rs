//! `mundi manifest`: program, events, effects and limits of worlds.

use super::{
    client::{Server, escape},
    exit::{Failed, Outcome},
    output::{Out, print},
};
use clap::Subcommand;
use mundi_model::Code;
use reqwest::Method;
use serde_json::Value;
use std::path::PathBuf;

#[derive(Subcommand)]
pub(super) enum ManifestCommand {
    /// Lists the manifests of named programs.
    List {
        #[command(flatten)]
        server: Server,
    },
    /// Stores a manifest (JSON) and prints its hash.
    Put {
        #[command(flatten)]
        server: Server,
        /// A file of JSON.
        file: PathBuf,
    },
    /// Unregisters a manifest. The sweep removes it when no world needs it, after the grace period.
    Delete {
        #[command(flatten)]
        server: Server,
        /// The hash of the manifest: `h_…`.
        hash: String,
    },
    /// Prints a manifest.
    Show {
        #[command(flatten)]
        server: Server,
        /// Its hash, or the name of its program, `todo` or `todo@2`.
        #[arg(value_name = "HASH|NAME")]
        manifest: String,
    },
}

impl ManifestCommand {
    pub(super) async fn run(self, out: Out) -> Outcome {
        match self {
            Self::List { server } => {
                let columns = [("NAME", "name"), ("MANIFEST", "manifest"), ("PROGRAM", "program")];
                server.list_all(out, &server.of("programs"), &columns).await
            }
            Self::Put { server, file } => {
                let wrong = |error: &dyn std::fmt::Display| {
                    Failed::new(Code::ManifestInvalid, format!("{}: {error}", file.display()))
                };
                let text = std::fs::read(&file).map_err(|error| wrong(&error))?;
                let manifest: Value = mundi_model::json::read(&text).map_err(|error| wrong(&error))?;
                out.made(&server.post(&server.of("manifests"), &manifest).await?, "hash")
            }
            Self::Delete { server, hash } => {
                server.json(Method::DELETE, &server.of(&format!("manifests/{}", escape(&hash))), None).await.map(drop)
            }
            Self::Show { server, manifest } => {
                print(&format!("{:#}", server.get(&server.of(&format!("manifests/{}", escape(&manifest)))).await?))
            }
        }
    }
}
