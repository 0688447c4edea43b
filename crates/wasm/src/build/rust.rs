//! Rust: the ordinary `wasm32-unknown-unknown` target, which has no WASI to ask for.

use super::{
    BuildError, Builder, Project, componentize,
    tools::{command, file, find, missing, run, version},
};
use std::{
    fs::File,
    io::{Read, Seek, Write},
    path::{Path, PathBuf},
    process::Command,
};

/// Its name, and whether it is there.
type Package = (&'static str, fn() -> bool);

const TARGET: &str = "wasm32-unknown-unknown";
/// The packages that Debian has in place of a standard library for the target: a compiler that can build it, and its sources.
const DEBIAN: [Package; 4] = [
    ("rustc-web", || version(Path::new("/usr/bin/rustc")).is_some_and(|found| is_new_enough(&found))),
    ("cargo-web", || Path::new("/usr/bin/cargo").is_file()),
    ("rust-web-src", has_sources),
    ("lld-16", || linker().is_some()),
];

/// A profile of its own beside the project's release, in whose folder nothing is built again for it: optimized so far that a
/// server compiles it at once, and no further.
const QUICK: [&str; 5] = [
    "profile.mundi-dev.inherits=\"release\"",
    "profile.mundi-dev.opt-level=1",
    "profile.mundi-dev.lto=false",
    "profile.mundi-dev.codegen-units=16",
    "profile.mundi-dev.incremental=true",
];

pub(super) fn build(builder: &Builder, project: &Project) -> Result<Vec<u8>, BuildError> {
    let toolchain = toolchain().ok_or_else(lacking)?;
    (builder.tell)(toolchain.about());
    let mut cargo = toolchain.cargo(builder.quick);
    cargo.current_dir(&project.folder).args(["--target", TARGET, "--message-format=json-render-diagnostics"]);
    let target = builder.cache.join("rust");
    cargo.arg("--target-dir").arg(&target);
    let _own = OwnModules::of(&target, &project.folder)?;
    let said = run("cargo build", &mut cargo)?;
    let built = artifact(&said, &project.folder).ok_or_else(|| {
        BuildError::Project("the crate makes no module: set `crate-type = [\"cdylib\", \"rlib\"]` in [lib]".to_owned())
    })?;
    let core = std::fs::read(&built).map_err(|error| file(&built, &error))?;
    componentize(&core).map_err(|why| BuildError::Failed { what: "making a component".to_owned(), said: why })
}

/// All projects share a target folder, so that what they depend on is compiled once. The name of a module there is that of its library alone, which
/// is the same in every new project, and cargo takes the module of another project for its own if both are up to date. So the modules of the project
/// that built last are removed before another one builds, and no two projects build at a time.
struct OwnModules {
    /// Locked for as long as it is open.
    _lock: File,
}

impl OwnModules {
    fn of(target: &Path, project: &Path) -> Result<Self, BuildError> {
        let path = target.join("mundi-project");
        std::fs::create_dir_all(target).map_err(|error| file(target, &error))?;
        let failed = |error: std::io::Error| file(&path, &error);
        let mut lock =
            File::options().read(true).write(true).create(true).truncate(false).open(&path).map_err(failed)?;
        lock.lock().map_err(failed)?;
        let mut last = Vec::new();
        lock.read_to_end(&mut last).map_err(failed)?;
        let own = std::path::absolute(project).map_err(failed)?;
        let own = own.as_os_str().as_encoded_bytes();
        if last != own {
            remove_modules(&target.join(TARGET))?;
            lock.set_len(0).map_err(failed)?;
            lock.rewind().map_err(failed)?;
            lock.write_all(own).map_err(failed)?;
        }
        Ok(Self { _lock: lock })
    }
}

/// Of each profile, the modules and the copies that cargo makes of them.
fn remove_modules(target: &Path) -> Result<(), BuildError> {
    for profile in files_of(target) {
        for module in files_of(&profile).chain(files_of(&profile.join("deps"))) {
            if module.extension().is_some_and(|extension| extension == "wasm") {
                std::fs::remove_file(&module).map_err(|error| file(&module, &error))?;
            }
        }
    }
    Ok(())
}

/// None if there is no such folder.
fn files_of(folder: &Path) -> impl Iterator<Item = PathBuf> {
    std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok).map(|entry| entry.path())
}

/// The oldest compiler that the SDK is built with; its Cargo.toml says the same.
const VERSION_MIN: (u32, u32) = (1, 87);

fn is_new_enough(version: &str) -> bool {
    let mut numbers = version.split('.').map_while(|number| number.parse().ok());
    (numbers.next(), numbers.next()) >= (Some(VERSION_MIN.0), Some(VERSION_MIN.1))
}

fn lacking() -> BuildError {
    let what = if find("cargo").is_some() {
        format!("the standard library of Rust for {TARGET}")
    } else {
        format!("cargo, and the standard library of Rust for {TARGET}")
    };
    let packages: Vec<_> = DEBIAN.iter().filter(|(_, is_there)| !is_there()).map(|(package, _)| *package).collect();
    let rustup = format!("With rustup: `rustup target add {TARGET}`.");
    let (major, minor) = VERSION_MIN;
    let debian = format!(
        "On Debian: `apt-get update && apt-get install {}` (rustc {major}.{minor} or newer); the library is then built along.",
        packages.join(" ")
    );
    missing(&[what], &[rustup, debian])
}

/// The compilers for the target.
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
    let linker = linker()?;
    DEBIAN.iter().all(|(_, is_there)| is_there()).then_some(Toolchain::Sources { linker })
}

fn linker() -> Option<PathBuf> {
    ["wasm-ld-16", "wasm-ld-19", "wasm-ld"].into_iter().find_map(find)
}

fn has_sources() -> bool {
    let folders = std::fs::read_dir("/usr/src").into_iter().flatten().filter_map(Result::ok);
    folders.map(|entry| entry.path().join("library/std/Cargo.toml")).any(|path| path.is_file())
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

    fn cargo(&self, quick: bool) -> Command {
        let mut cargo = match self {
            Self::Target => {
                let mut cargo = command("cargo");
                cargo.arg("build");
                cargo
            }
            Self::Sources { linker } => {
                let mut cargo = command("/usr/bin/cargo");
                // Building the standard library is not stable; this compiler is told that it may.
                cargo.env("RUSTC", "/usr/bin/rustc").env("RUSTC_BOOTSTRAP", "1").env_remove("RUSTUP_TOOLCHAIN");
                cargo.env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", linker);
                cargo.args(["build", "-Z", "build-std=std,panic_abort"]);
                cargo
            }
        };
        if !quick {
            cargo.arg("--release");
            return cargo;
        }
        for setting in QUICK {
            cargo.args(["--config", setting]);
        }
        cargo.args(["--profile", "mundi-dev"]);
        cargo
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_modules_of_another_project_are_removed_and_those_of_the_same_one_stay() {
        let folder = tempfile::tempdir().unwrap();
        let release = folder.path().join(TARGET).join("release");
        let modules = [release.join("program.wasm"), release.join("deps/program.wasm")];
        let other = release.join("deps/libserde.rlib");
        std::fs::create_dir_all(release.join("deps")).unwrap();
        let built = |project: &str| {
            let own = OwnModules::of(folder.path(), Path::new(project)).unwrap();
            let kept = modules.iter().filter(|path| path.exists()).count();
            modules.iter().chain([&other]).for_each(|path| std::fs::write(path, project).unwrap());
            drop(own);
            kept
        };
        assert_eq!(["/one", "/one", "/another/one", "/one", "/one"].map(built), [0, 2, 0, 0, 2]);
        assert!(other.exists(), "what all depend on is not compiled again");
    }

    #[test]
    fn a_compiler_that_is_too_old_for_the_sdk_counts_as_missing() {
        assert!(["1.87.0", "1.96.0", "2.0"].iter().all(|version| is_new_enough(version)));
        assert!(!["1.85.0", "1.86.1", "nonsense"].iter().any(|version| is_new_enough(version)));
        let sdk = include_str!("../../../../sdk/rust/Cargo.toml");
        assert!(sdk.contains(&format!("rust-version = \"{}.{}\"", VERSION_MIN.0, VERSION_MIN.1)), "{sdk}");
    }
}
