//! `mundi program`: create, build, upload and upgrade programs.

use super::{
    client::{Server, escape},
    exit::{Failed, Outcome},
    output::{Out, print},
    program_dev::Dev,
    program_upgrade::Upgrade,
    progress::{Progress, bytes},
    upload::body_of,
};
use clap::{Args, Subcommand};
use mundi_model::{Code, Hash, ProgramRef, limits};
use mundi_wasm::{
    build::{Builder, Built, Language, Template, scaffold},
    inspect::{Refusal, is_wasm},
    offer::Offer,
};
use reqwest::Method;
use serde_json::{Value, json};
use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// The interval between two polls of a component that is being compiled.
const LOOK_EVERY: Duration = Duration::from_millis(200);

#[derive(Subcommand)]
pub(super) enum ProgramCommand {
    /// Creates a project with a counter and a test.
    New {
        /// rust, ts or python.
        #[arg(long)]
        lang: String,
        /// The start of the project: durable, a durable function beside a handler, or handler, a handler alone.
        #[arg(long, default_value = "durable")]
        template: String,
        /// The folder to create; its last part is the name.
        name: PathBuf,
    },
    /// Generates the types of a project from its mundi.json, as each build does.
    Types {
        /// The project's folder.
        #[arg(default_value = ".")]
        folder: PathBuf,
    },
    /// Builds and checks the component of a project, and prints what it declares.
    Build(Build),
    /// Uploads a component and, when it is compiled, the manifest that it declares, under the name and version of `mundi.json`;
    /// prints `name@version`, or the manifest's hash if it has no name.
    Upload(Upload),
    /// Watches a project: after each change tests, builds and uploads it, switches a world to it, and prints what the world does.
    Dev(Dev),
    /// Upgrades all worlds of a named program, each after a rehearsal; stops at the first one that diverges.
    Upgrade(Upgrade),
    /// Lists named programs, or all versions of one.
    List {
        #[command(flatten)]
        server: Server,
        /// All versions of this one.
        name: Option<String>,
    },
    /// Deletes a version of a named program, or uploaded code. Worlds that run it keep running; the sweep removes code when no world and no
    /// manifest needs it, after the grace period.
    Delete {
        #[command(flatten)]
        server: Server,
        /// `name@version`, or the hash of the code.
        #[arg(value_name = "VERSION|HASH")]
        program: String,
    },
    /// Shows the state of a program and, when it is ready, what it declares.
    Describe {
        #[command(flatten)]
        server: Server,
        /// The hash of its code, or its name: `todo`, the newest version, or `todo@2`.
        #[arg(value_name = "HASH|NAME")]
        program: String,
    },
}

#[derive(Args)]
pub(super) struct Build {
    /// The project's folder.
    #[arg(default_value = ".")]
    folder: PathBuf,
    /// Installs missing compilers from the package registries (not rustc).
    #[arg(long)]
    install: bool,
    /// Also compiles it to machine code here, as a server does with each upload; slow for interpreters.
    #[arg(long)]
    check: bool,
}

#[derive(Args)]
pub(super) struct Upload {
    #[command(flatten)]
    server: Server,
    /// A component, or the folder of a built project.
    #[arg(default_value = ".")]
    file: PathBuf,
    /// Its name, and its version if not the next one; overrides `mundi.json`.
    #[arg(long = "as", value_name = "NAME[@VERSION]")]
    named: Option<ProgramRef>,
}

impl ProgramCommand {
    pub(super) async fn run(self, out: Out) -> Outcome {
        match self {
            Self::New { lang, template, name } => {
                let language: Language = lang.parse().map_err(|error| Failed::coded(&error))?;
                let template: Template = template.parse().map_err(|error| Failed::coded(&error))?;
                let project = scaffold(&name, language, template).map_err(|error| Failed::coded(&error))?;
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
            Self::Dev(dev) => dev.run(out).await,
            Self::Upgrade(upgrade) => upgrade.run(out).await,
            Self::List { server, name } => list(&server, out, name.as_deref()).await,
            Self::Delete { server, program } => {
                let at = server.of(&format!("programs/{}", escape(&program)));
                server.json(Method::DELETE, &at, None).await.map(drop)
            }
            Self::Describe { server, program } => {
                print(&format!("{:#}", server.get(&server.of(&format!("programs/{}", escape(&program)))).await?))
            }
        }
    }
}

async fn list(server: &Server, out: Out, name: Option<&str>) -> Outcome {
    if let Some(name) = name {
        let columns = [("NAME", "name"), ("GIVEN", "at_ns"), ("MANIFEST", "manifest"), ("PROGRAM", "program")];
        return server.list_all(out, &server.of(&format!("programs/{}/versions", escape(name))), &columns).await;
    }
    let columns = [
        ("NAME", "name"),
        ("VERSION", "version"),
        ("VERSIONS", "versions_total"),
        ("BUILT IN", "built_in"),
        ("MANIFEST", "manifest"),
        ("PROGRAM", "program"),
    ];
    server.list_all(out, &server.of("programs"), &columns).await
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
        let builder = Builder { install: self.install, check: self.check, tell, ..Builder::default() };
        let built =
            tokio::task::block_in_place(|| builder.build(&self.folder)).map_err(|error| Failed::coded(&error))?;
        let described = described(&built);
        out.object(&if out.is_json() { described } else { in_lines(described) })
    }
}

/// A summary of a component.
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

/// Each schema as one line, because nested columns would be unreadable.
fn in_lines(mut described: Value) -> Value {
    for part in ["events", "effects", "queries"] {
        let schemas = described[part].as_object_mut().into_iter().flat_map(|schemas| schemas.values_mut());
        schemas.for_each(|schema| *schema = Value::from(schema.to_string()));
    }
    described
}

impl Upload {
    #[expect(clippy::disallowed_methods, reason = "how long it took is told, and nothing depends on it")]
    async fn run(self, out: Out) -> Outcome {
        let Self { server, file, named } = self;
        let is_project = file.is_dir();
        let file = if is_project { file.join("program.wasm") } else { file };
        let named = match (named, file.parent()) {
            (None, Some(folder)) if is_project => named_in(folder)?,
            (named, _) => named,
        };
        let started = Instant::now();
        let stored = upload(&server, out, &file, named.as_ref()).await?;
        let took = started.elapsed();
        let printed = if stored["name"].is_null() { "hash" } else { "name" };
        out.made(&stored, printed)?;
        if let Some(program) = stored[printed].as_str().filter(|_| !out.is_json()) {
            let took = format!("{}.{} s", took.as_secs(), took.subsec_millis() / 100);
            eprintln!("{}", out.dim(&format!("ready after {took}")));
            eprintln!("{}", out.dim(&format!("next: mundi world create NAME --program {program}")));
        }
        Ok(())
    }
}

/// The name in a project's `mundi.json`, if there is one.
fn named_in(folder: &Path) -> Outcome<Option<ProgramRef>> {
    let Ok(text) = std::fs::read_to_string(folder.join("mundi.json")) else { return Ok(None) };
    let offer = Offer::parse(&text).map_err(|error| Failed::coded(&error))?;
    offer.named().map_err(|error| Failed::coded(&error))
}

/// Stores a component and the manifest that it declares; returns both hashes, and the version if it has a name.
pub(super) async fn upload(server: &Server, out: Out, file: &Path, named: Option<&ProgramRef>) -> Outcome<Value> {
    let (hash, len) = look_at(file)?;
    let at = server.of(&format!("programs/{hash}"));
    let (body, sent) = body_of(file)?;
    sent.during(out, "uploading", bytes, server.upload(Method::PUT, &at, body)).await?;
    let ahead = Progress::default();
    let what = format!("the server compiles {}, once", bytes(len));
    let behind = |ahead: u64| if ahead == 0 { String::new() } else { format!("after {ahead} others") };
    let manifest = ahead.during(out, &what, behind, offered(server, &at, &ahead)).await?;
    let mut stored = server.post(&server.of("manifests"), &manifest).await?;
    stored["program"] = hash.to_string().into();
    if let Some(named) = named {
        let form = json!({ "manifest": stored["hash"], "version": named.version() });
        let given = server.post(&server.of(&format!("programs/{}/versions", named.name())), &form).await?;
        for field in ["name", "version", "before"] {
            stored[field] = given[field].clone();
        }
    }
    Ok(stored)
}

/// The manifest that the program declares, once it is compiled.
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

/// The hash and size of a file. A file that is too large for every server is not read.
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
