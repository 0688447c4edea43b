//! The SDKs, which are included in the program: a project needs no registry for them, and a new one starts with a
//! copy.

use super::{BuildError, Language, Project, tools::write};
use std::{
    path::{Path, PathBuf},
    str::FromStr,
};

type File = (&'static str, &'static str);

macro_rules! files {
    ($root:literal: $($path:literal),* $(,)?) => {
        &[$(($path, include_str!(concat!("../../../../sdk/", $root, "/", $path)))),*]
    };
}

const RUST: &[File] = files!("rust":
    "Cargo.toml",
    "README.md",
    "macros/Cargo.toml",
    "macros/src/lib.rs",
    "src/arena.rs",
    "src/bytes.rs",
    "src/cbor.rs",
    "src/children.rs",
    "src/component.rs",
    "src/event.rs",
    "src/failure.rs",
    "src/functions/cells.rs",
    "src/functions/error.rs",
    "src/functions/mod.rs",
    "src/functions/mutants.rs",
    "src/functions/program.rs",
    "src/functions/rows.rs",
    "src/functions/run.rs",
    "src/functions/waits.rs",
    "src/host.rs",
    "src/kinds.rs",
    "src/native.rs",
    "src/pools.rs",
    "src/lib.rs",
    "src/sha256.rs",
    "src/testing/bundle.rs",
    "src/testing/children.rs",
    "src/testing/functions.rs",
    "src/testing/host.rs",
    "src/testing/meter.rs",
    "src/testing/mod.rs",
    "src/testing/offer.rs",
    "src/testing/schema.rs",
    "src/testing/state.rs",
    "src/world.rs",
);
const TYPESCRIPT: &[File] = files!("typescript":
    "README.md",
    "package.json",
    "src/cbor.ts",
    "src/children.ts",
    "src/component.ts",
    "src/function-cells.ts",
    "src/function-errors.ts",
    "src/function-program.ts",
    "src/function-run.ts",
    "src/functions.ts",
    "src/index.ts",
    "src/jobs.ts",
    "src/kinds.ts",
    "src/pools.ts",
    "src/offer.ts",
    "src/replay-bundle.ts",
    "src/schema.ts",
    "src/sha256.ts",
    "src/test-functions.ts",
    "src/test-host.ts",
    "src/test-world.ts",
    "src/testing.ts",
);
const PYTHON: &[File] = files!("python":
    "README.md",
    "mundi/__init__.py",
    "mundi/cbor.py",
    "mundi/children.py",
    "mundi/function_cells.py",
    "mundi/function_errors.py",
    "mundi/function_program.py",
    "mundi/function_run.py",
    "mundi/function_tasks.py",
    "mundi/functions.py",
    "mundi/kinds.py",
    "mundi/pools.py",
    "mundi/offer.py",
    "mundi/schema.py",
    "mundi/testing.py",
    "mundi/testing_functions.py",
    "mundi_component.py",
);

const NEW_RUST: &[File] =
    files!("templates/rust": "Cargo.toml", "build.rs", "mundi.json", "src/lib.rs", "tests/counter.rs");
const NEW_TYPESCRIPT: &[File] = files!("templates/typescript":
    "mundi.json",
    "package.json",
    "src/program.ts",
    "test/counter.test.ts",
    "tsconfig.json",
);
const NEW_PYTHON: &[File] = files!("templates/python": "mundi.json", "program.py", "test_counter.py");
/// The files that differ in a project that starts with a durable function.
const DURABLE_RUST: &[File] = files!("templates/durable/rust": "mundi.json", "src/lib.rs", "tests/counter.rs");
const DURABLE_TYPESCRIPT: &[File] =
    files!("templates/durable/typescript": "mundi.json", "src/program.ts", "test/counter.test.ts");
const DURABLE_PYTHON: &[File] = files!("templates/durable/python": "mundi.json", "program.py", "test_counter.py");

/// The start of a new project.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Template {
    /// A counter with a durable function beside its handler.
    #[default]
    Durable,
    /// A counter that is a handler.
    Handler,
}

impl FromStr for Template {
    type Err = BuildError;

    fn from_str(text: &str) -> Result<Self, BuildError> {
        match text {
            "durable" => Ok(Self::Durable),
            "handler" => Ok(Self::Handler),
            _ => Err(BuildError::Project(format!("`{text}` is no template: durable, handler"))),
        }
    }
}

fn write_all(files: &[File], folder: &Path, name: &str) -> Result<(), BuildError> {
    files.iter().try_for_each(|(path, text)| write(&folder.join(path), text.replace("NAME", name).as_bytes()))
}

fn files_of(language: Language) -> &'static [File] {
    match language {
        Language::Rust => RUST,
        Language::TypeScript => TYPESCRIPT,
        Language::Python => PYTHON,
    }
}

/// The project's own copy of the SDK, which its tests use, too; where it has none, one in the workshop.
pub(super) fn of_project(project: &Project, workshop: &Path) -> Result<PathBuf, BuildError> {
    let own = project.folder.join("mundi-sdk");
    if own.is_dir() {
        return Ok(own);
    }
    let ours = workshop.join("mundi-sdk");
    write_copy(project.language, &ours)?;
    Ok(ours)
}

/// The SDK with the contract that it was written for.
fn write_copy(language: Language, folder: &Path) -> Result<(), BuildError> {
    write_all(files_of(language), folder, "NAME")?;
    write(&folder.join(WIT_PATH), crate::contract::WIT.as_bytes())
}

const WIT_PATH: &str = "wit/program.wit";

/// The contract that an SDK was written for: a copy may be older than this program.
pub(super) fn contract_of(sdk: &Path) -> PathBuf {
    sdk.join("wit")
}

/// A new project in a folder that is not there yet: a counter, with a test that passes.
pub fn scaffold(folder: &Path, language: Language, template: Template) -> Result<Project, BuildError> {
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let fits = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
    if !name.starts_with(|letter: char| letter.is_ascii_lowercase()) || !name.chars().all(fits) {
        let why = format!("`{name}` cannot be the name of a project: small letters, digits and `-`, a letter first");
        return Err(BuildError::Project(why));
    }
    if folder.exists() {
        return Err(BuildError::Project(format!("{} is there already", folder.display())));
    }
    let (handler, durable) = match language {
        Language::Rust => (NEW_RUST, DURABLE_RUST),
        Language::TypeScript => (NEW_TYPESCRIPT, DURABLE_TYPESCRIPT),
        Language::Python => (NEW_PYTHON, DURABLE_PYTHON),
    };
    write_all(handler, folder, name)?;
    if template == Template::Durable {
        write_all(durable, folder, name)?;
    }
    write_copy(language, &folder.join("mundi-sdk"))?;
    write(&folder.join(".gitignore"), b"/target\n/node_modules\n/program.wasm\n/mundi-data\n__pycache__/\n")?;
    let project = Project::open(folder)?;
    project.write_types()?;
    Ok(project)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{collections::BTreeSet, fs};

    /// All files below a folder that end so, from its parent on.
    fn below(root: &Path, folder: &str, ext: &str) -> BTreeSet<String> {
        let entries = fs::read_dir(root.join(folder)).unwrap().map(|entry| entry.unwrap());
        let files = entries.map(|entry| (entry.path().is_dir(), format!("{folder}/{}", entry.file_name().display())));
        files
            .flat_map(|(is_folder, path)| match is_folder {
                true => below(root, &path, ext),
                false => BTreeSet::from([path]),
            })
            .filter(|path| path.ends_with(ext))
            .collect()
    }

    #[test]
    fn a_project_gets_every_source_of_its_sdk() {
        let sdk = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sdk");
        for (language, folder, sources, ext) in [
            (Language::Rust, "rust", "src", ".rs"),
            (Language::Rust, "rust", "macros/src", ".rs"),
            (Language::TypeScript, "typescript", "src", ".ts"),
            (Language::Python, "python", "mundi", ".py"),
        ] {
            let copied: BTreeSet<_> = files_of(language).iter().map(|(path, _)| (*path).to_owned()).collect();
            let missing: Vec<_> =
                below(&sdk.join(folder), sources, ext).into_iter().filter(|path| !copied.contains(path)).collect();
            assert!(missing.is_empty(), "{language}: a new project does not get {missing:?}");
        }
    }
}
