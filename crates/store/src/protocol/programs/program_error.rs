//! Why a program does not get a name, or a manifest does not go.

use mundi_model::{Code, Coded, Hash, limits};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    #[error("the manifest {0} is not registered")]
    NotRegistered(Hash),
    #[error(
        "{name}@{version} is another program, with the manifest {manifest}; give another version, or none for the next one"
    )]
    VersionTaken { name: String, version: u32, manifest: Hash },
    #[error(
        "there is no room for `{name}`: a universe has up to {names} names, a name up to {versions} versions, and these {what} are all taken",
        names = limits::PROGRAM_NAMES_MAX,
        versions = limits::PROGRAM_VERSIONS_MAX
    )]
    NamesFull { name: String, what: &'static str },
    #[error("the manifest {manifest} is {name}@{version}; delete that version first")]
    Named { manifest: Hash, name: String, version: u32 },
}

impl Coded for ProgramError {
    fn code(&self) -> Code {
        match self {
            Self::NotRegistered(_) => Code::ManifestNotRegistered,
            Self::VersionTaken { .. } => Code::ProgramVersionTaken,
            Self::NamesFull { .. } => Code::ProgramNamesFull,
            Self::Named { .. } => Code::ProgramNamed,
        }
    }
}
