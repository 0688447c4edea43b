//! A project: a folder with a `mundi.json`.

use super::{BuildError, tools, types};
use crate::offer::Offer;
use std::{
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    Rust,
    TypeScript,
    Python,
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rust => "Rust",
            Self::TypeScript => "TypeScript",
            Self::Python => "Python",
        })
    }
}

impl FromStr for Language {
    type Err = BuildError;

    fn from_str(text: &str) -> Result<Self, BuildError> {
        match text {
            "rust" => Ok(Self::Rust),
            "ts" | "typescript" => Ok(Self::TypeScript),
            "python" => Ok(Self::Python),
            other => Err(BuildError::Project(format!("`{other}` is no language of programs: rust, ts, python"))),
        }
    }
}

/// A program's folder.
#[derive(Debug, Clone)]
pub struct Project {
    pub folder: PathBuf,
    pub language: Language,
    pub offer: Offer,
    /// The text that the component will say.
    pub offer_text: String,
}

impl Project {
    pub fn open(folder: &Path) -> Result<Self, BuildError> {
        let at = |path: &Path, error: std::io::Error| BuildError::Project(format!("{}: {error}", path.display()));
        let folder = folder.canonicalize().map_err(|error| at(folder, error))?;
        let path = folder.join("mundi.json");
        let offer_text = std::fs::read_to_string(&path).map_err(|error| at(&path, error))?;
        let offer = Offer::parse(&offer_text).map_err(|error| BuildError::Project(error.to_string()))?;
        offer.named().map_err(|error| BuildError::Project(format!("mundi.json: {error}")))?;
        let language = detect(&folder)?;
        Ok(Self { folder, language, offer, offer_text })
    }

    /// Writes the types that the sources use.
    pub fn write_types(&self) -> Result<(), BuildError> {
        let text = match self.language {
            Language::Rust => types::rust(&self.offer),
            Language::TypeScript => types::typescript(&self.offer),
            Language::Python => types::python(&self.offer),
        };
        let path = self.types_path();
        // A file that is as it should be keeps its time, and nothing is built again.
        if std::fs::read_to_string(&path).is_ok_and(|present| present == text) {
            return Ok(());
        }
        tools::write(&path, text.as_bytes())
    }

    /// Where the types go.
    pub fn types_path(&self) -> PathBuf {
        self.folder.join(match self.language {
            Language::Rust => "src/types.rs",
            Language::TypeScript => "src/types.ts",
            Language::Python => "vocabulary.py",
        })
    }

    /// Where the component goes.
    pub fn output(&self) -> PathBuf {
        self.folder.join("program.wasm")
    }
}

/// Each language has one file that every project of it has.
fn detect(folder: &Path) -> Result<Language, BuildError> {
    let signs =
        [("Cargo.toml", Language::Rust), ("src/program.ts", Language::TypeScript), ("program.py", Language::Python)];
    let found: Vec<_> = signs.iter().filter(|(sign, _)| folder.join(sign).is_file()).collect();
    match found[..] {
        [(_, language)] => Ok(*language),
        [] => Err(BuildError::Project(format!(
            "{} has no Cargo.toml (Rust), src/program.ts (TypeScript) or program.py (Python)",
            folder.display()
        ))),
        _ => Err(BuildError::Project(format!("{} is a project of more than one language", folder.display()))),
    }
}
