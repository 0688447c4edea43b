//! Rust: the ordinary `wasm32-unknown-unknown` target, which has no WASI to ask for.

use super::{
    BuildError, Builder, Project, componentize,
    tools::{command, find, run},
};
use std::{
    path::{Path, PathBuf},
    process::Command,
};

const TARGET: &str = "wasm32-unknown-unknown";
const GET: &str = "With rustup: `rustup target add wasm32-unknown-unknown`. On Debian: \
    `apt-get install rustc-web cargo-web rust-web-src lld-16`, with which the standard library is built along.";

pub(super) fn build(builder: &Builder, project: &Project) -> Result<Vec<u8>, BuildError> {
    let toolchain = toolchain().ok_or_else(missing)?;
    (builder.tell)(toolchain.about());
    let mut cargo = toolchain.cargo();
    cargo.current_dir(&project.folder).args(["--target", TARGET, "--message-format=json-render-diagnostics"]);
    cargo.arg("--target-dir").arg(builder.cache.join("rust"));
    let said = run("cargo build", &mut cargo)?;
    let built = artifact(&said, &project.folder).ok_or_else(|| {
        BuildError::Project("the crate makes no module: set `crate-type = [\"cdylib\", \"rlib\"]` in [lib]".to_owned())
    })?;
    let core = std::fs::read(&built).map_err(|error| super::tools::file(&built, &error))?;
    componentize(&core).map_err(|why| BuildError::Failed { what: "making a component".to_owned(), said: why })
}

fn missing() -> BuildError {
    BuildError::Missing { what: format!("a Rust compiler for {TARGET}"), get: GET.to_owned() }
}

/// What can compile for the target here.
enum Toolchain {
    /// The standard library is there: rustup's way.
    Target,
    /// A compiler of the distribution, and the standard library's sources.
    Sources { linker: PathBuf },
}

fn toolchain() -> Option<Toolchain> {
    if find("cargo").is_some() && has_target() {
        return Some(Toolchain::Target);
    }
    let linker = ["wasm-ld-16", "wasm-ld-19", "wasm-ld"].iter().map(|name| Path::new("/usr/bin").join(name));
    let linker = linker.into_iter().find(|path| path.is_file())?;
    let sources = std::fs::read_dir("/usr/src").ok()?.filter_map(Result::ok);
    let has_sources = sources.map(|entry| entry.path().join("library/std/Cargo.toml")).any(|path| path.is_file());
    let has_compiler = ["/usr/bin/cargo", "/usr/bin/rustc"].iter().all(|path| Path::new(path).is_file());
    (has_sources && has_compiler).then_some(Toolchain::Sources { linker })
}

fn has_target() -> bool {
    let printed = run("rustc", command("rustc").args(["--print", "target-libdir", "--target", TARGET]));
    printed.is_ok_and(|folder| {
        Path::new(String::from_utf8_lossy(&folder).trim()).join("self-contained").exists()
            || std::fs::read_dir(String::from_utf8_lossy(&folder).trim()).is_ok_and(|mut files| files.next().is_some())
    })
}

impl Toolchain {
    fn about(&self) -> &'static str {
        match self {
            Self::Target => "cargo compiles the crate",
            Self::Sources { .. } => {
                "cargo compiles the crate; the first time the standard library, too, a minute or two"
            }
        }
    }

    fn cargo(&self) -> Command {
        match self {
            Self::Target => {
                let mut cargo = command("cargo");
                cargo.args(["build", "--release"]);
                cargo
            }
            Self::Sources { linker } => {
                let mut cargo = command("/usr/bin/cargo");
                // Building the standard library is not stable; this compiler is told that it may.
                cargo.env("RUSTC", "/usr/bin/rustc").env("RUSTC_BOOTSTRAP", "1").env_remove("RUSTUP_TOOLCHAIN");
                cargo.env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", linker);
                cargo.args(["build", "--release", "-Z", "build-std=std,panic_abort"]);
                cargo
            }
        }
    }
}

/// The module that cargo says it made of this folder's crate.
fn artifact(said: &[u8], folder: &Path) -> Option<PathBuf> {
    let manifest = folder.join("Cargo.toml");
    let messages = String::from_utf8_lossy(said);
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let own = messages.filter(|message| message["manifest_path"].as_str().map(Path::new) == Some(&manifest));
    let files = own.flat_map(|message| message["filenames"].as_array().cloned().unwrap_or_default());
    files.filter_map(|file| file.as_str().map(PathBuf::from)).find(|file| file.extension().is_some_and(|e| e == "wasm"))
}
