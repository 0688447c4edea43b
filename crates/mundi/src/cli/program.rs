//! `mundi program`: from sources to something that worlds run.

use super::{
    client::Server,
    exit::{Failed, Outcome},
    output::{Out, print},
    progress::{Progress, bytes},
    upload::body_of,
};
use clap::{Args, Subcommand};
use mundi_model::{Code, Hash, limits};
use mundi_wasm::{
    build::{Builder, Built, Language, scaffold},
    inspect::{Refusal, is_wasm},
};
use reqwest::Method;
use serde_json::{Value, json};
use std::{
    path::{Path, PathBuf},
    time::Duration,
};

/// Between two looks at a component that is being compiled.
const LOOK_EVERY: Duration = Duration::from_millis(200);

#[derive(Subcommand)]
pub(super) enum ProgramCommand {
    /// Starts a project that builds, and whose test passes.
    New {
        /// rust, ts or python.
        #[arg(long)]
        lang: String,
        /// The folder to make; its last part is the name.
        name: PathBuf,
    },
    /// Makes the types of a project from its mundi.json, as each build does.
    Types {
        /// The project's folder.
        #[arg(default_value = ".")]
        folder: PathBuf,
    },
    /// Builds the component of a project, checks it, and says what it offers.
    Build(Build),
    /// Stores a component and, when it is compiled, the manifest that it offers; prints the manifest's hash.
    Upload(Upload),
    /// Lists the programs that have a name here.
    List {
        #[command(flatten)]
        server: Server,
    },
    /// Deletes a program that was uploaded. Its code goes once no world and no manifest needs it, and after the sweep's grace period.
    Delete {
        #[command(flatten)]
        server: Server,
        /// The hash of the program: `h_…`.
        hash: String,
    },
    /// How far a program is and, when it is ready, what it offers.
    Describe {
        #[command(flatten)]
        server: Server,
        /// Its hash, or its name.
        #[arg(value_name = "HASH|NAME")]
        program: String,
    },
}

#[derive(Args)]
pub(super) struct Build {
    /// The project's folder.
    #[arg(default_value = ".")]
    folder: PathBuf,
    /// Gets compilers that are missing from the package registries (not rustc).
    #[arg(long)]
    install: bool,
}

#[derive(Args)]
pub(super) struct Upload {
    #[command(flatten)]
    server: Server,
    /// A component, or the folder of a project that was built.
    #[arg(default_value = ".")]
    file: PathBuf,
}

impl ProgramCommand {
    pub(super) async fn run(self, out: Out) -> Outcome {
        match self {
            Self::New { lang, name } => {
                let language: Language = lang.parse().map_err(|error| Failed::coded(&error))?;
                let project = scaffold(&name, language).map_err(|error| Failed::coded(&error))?;
                print(&format!("{}", project.folder.display()))?;
                let test = test_of(language);
                eprintln!("next: cd {} && {test} && mundi program build && mundi program upload", name.display());
                Ok(())
            }
            Self::Types { folder } => {
                let project = Builder::default().types(&folder).map_err(|error| Failed::coded(&error))?;
                print(&format!("{}", project.types_path().display()))
            }
            Self::Build(build) => build.run(out),
            Self::Upload(upload) => upload.run(out).await,
            Self::List { server } => {
                let columns = [("NAME", "name"), ("MANIFEST", "manifest"), ("PROGRAM", "program")];
                server.list_all(out, &server.of("programs"), &columns).await
            }
            Self::Delete { server, hash } => {
                server.json(Method::DELETE, &server.of(&format!("programs/{hash}")), None).await.map(drop)
            }
            Self::Describe { server, program } => {
                let hash = server.hash_of(&program, "program").await?;
                print(&format!("{:#}", server.get(&server.of(&format!("programs/{hash}"))).await?))
            }
        }
    }
}

/// The command that runs a new project's test.
fn test_of(language: Language) -> &'static str {
    match language {
        Language::Rust => "cargo test",
        Language::TypeScript => "npm install && npm test",
        Language::Python => "mundi program types && PYTHONPATH=mundi-sdk python3 -m unittest",
    }
}

impl Build {
    fn run(self, out: Out) -> Outcome {
        let tell = |what: &str| eprintln!("{what} ...");
        let builder = Builder { install: self.install, tell, ..Builder::default() };
        let built =
            tokio::task::block_in_place(|| builder.build(&self.folder)).map_err(|error| Failed::coded(&error))?;
        let described = described(&built);
        out.object(&if out.is_json() { described } else { in_lines(described) })
    }
}

/// What people want to know about a component.
fn described(built: &Built) -> Value {
    let manifest = &built.manifest;
    json!({
        "file": built.path.display().to_string(),
        "language": built.language.to_string(),
        "hash": built.hash.to_string(),
        "bytes": built.component.len(),
        "events": manifest.events,
        "effects": manifest.effects,
        "queries": manifest.queries,
        "limits": manifest.wasm.as_ref().map(|wasm| wasm.limits),
        "engine": mundi_wasm::ENGINE,
    })
}

/// Each schema as one line: a schema in a column of its own names would be read by nobody.
fn in_lines(mut described: Value) -> Value {
    for part in ["events", "effects", "queries"] {
        let schemas = described[part].as_object_mut().into_iter().flat_map(|schemas| schemas.values_mut());
        schemas.for_each(|schema| *schema = Value::from(schema.to_string()));
    }
    described
}

impl Upload {
    async fn run(self, out: Out) -> Outcome {
        let Self { server, file } = self;
        let file = if file.is_dir() { file.join("program.wasm") } else { file };
        let (hash, len) = look_at(&file)?;
        let at = server.of(&format!("programs/{hash}"));
        let (body, sent) = body_of(&file)?;
        sent.during(out, "uploading", bytes, server.upload(Method::PUT, &at, body)).await?;
        let ahead = Progress::default();
        let what = format!("the server compiles {}, once", bytes(len));
        let behind = |ahead: u64| if ahead == 0 { String::new() } else { format!("after {ahead} others") };
        let manifest = ahead.during(out, &what, behind, offered(&server, &at, &ahead)).await?;
        let stored = server.post(&server.of("manifests"), &manifest).await?;
        out.made(&stored, "hash")?;
        if let Some(hash) = stored["hash"].as_str() {
            eprintln!("{}", out.dim(&format!("next: mundi world create NAME --manifest {hash}")));
        }
        Ok(())
    }
}

/// The manifest that the program offers, once it is compiled.
async fn offered(server: &Server, at: &str, ahead: &Progress) -> Outcome<Value> {
    loop {
        let state = server.get(at).await?;
        match state["state"].as_str() {
            Some("ready") => return Ok(state["manifest"].clone()),
            Some("refused") => {
                return Err(Failed::new(Code::ProgramRefused, state["why"].as_str().unwrap_or_default()));
            }
            Some("stored") => {
                return Err(Failed::new(Code::ProgramRefused, "the server stored it, and runs no components"));
            }
            _ => ahead.set(state["ahead"].as_u64().unwrap_or(0)),
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// What a file is, by its hash, and how many bytes it has. One that every server refuses is not even read.
fn look_at(file: &Path) -> Outcome<(Hash, u64)> {
    let missing = |error| {
        let hint = "build it first: `mundi program build`";
        Failed::new(Code::ProgramRefused, format!("{}: {error}; {hint}", file.display()))
    };
    let bytes = usize::try_from(std::fs::metadata(file).map_err(missing)?.len()).unwrap_or(usize::MAX);
    if bytes > limits::COMPONENT_BYTES_MAX {
        return Err(Failed::coded(&Refusal::TooLarge { bytes }));
    }
    let code = std::fs::read(file).map_err(missing)?;
    if !is_wasm(&code) {
        return Err(Failed::coded(&Refusal::NotWasm));
    }
    Ok((Hash::of(&code), code.len() as u64))
}
