//! How people name programs: `todo`, the newest version; `todo@2`, a certain one.

use crate::{Code, Coded, Hash, ParseIdError, limits};
use std::{fmt, str::FromStr};

/// A program by its name, and by its version if one is meant.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProgramRef {
    name: String,
    version: Option<u32>,
}

/// A text that names no program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` names no program: expected a hash (`h_…`), or a name of up to {max} small letters, digits and `-` that begins with a letter, \
     and a version after `@` if not the newest is meant, from 1 on: `todo@2`",
    max = limits::PROGRAM_NAME_BYTES_MAX
)]
pub struct ProgramNameInvalid(String);

impl Coded for ProgramNameInvalid {
    fn code(&self) -> Code {
        Code::NameInvalid
    }
}

impl ProgramRef {
    pub fn new(name: &str, version: Option<u32>) -> Result<Self, ProgramNameInvalid> {
        let named = Self { name: name.to_owned(), version };
        let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let is_name = name.starts_with(|letter: char| letter.is_ascii_lowercase()) && name.bytes().all(fits);
        match is_name && name.len() <= limits::PROGRAM_NAME_BYTES_MAX && version != Some(0) {
            true => Ok(named),
            false => Err(ProgramNameInvalid(named.to_string())),
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// `None` for the newest.
    pub fn version(&self) -> Option<u32> {
        self.version
    }
}

impl FromStr for ProgramRef {
    type Err = ProgramNameInvalid;

    fn from_str(text: &str) -> Result<Self, ProgramNameInvalid> {
        let invalid = || ProgramNameInvalid(text.to_owned());
        let Some((name, version)) = text.split_once('@') else { return Self::new(text, None) };
        // One way to write a number: without a sign or a zero in front.
        let is_plain = version.bytes().all(|byte| byte.is_ascii_digit()) && !version.starts_with('0');
        let version = version.parse().ok().filter(|_| is_plain).ok_or_else(invalid)?;
        Self::new(name, Some(version)).map_err(|_| invalid())
    }
}

impl fmt::Display for ProgramRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.version {
            Some(version) => write!(f, "{}@{version}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// The code that a new world is to run: the hash of a manifest, or the name of a program, whose manifest is looked up when the world is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProgramAddress {
    Manifest(Hash),
    Named(ProgramRef),
}

impl From<Hash> for ProgramAddress {
    fn from(manifest: Hash) -> Self {
        Self::Manifest(manifest)
    }
}

impl FromStr for ProgramAddress {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        if let Ok(manifest) = text.parse() {
            return Ok(Self::Manifest(manifest));
        }
        let expected = "the hash of a manifest (`h_…`), or a name of small letters, digits and `-`, with `@` and a version if not the newest is meant";
        text.parse().map(Self::Named).map_err(|_| ParseIdError::new("program", expected, text))
    }
}

impl fmt::Display for ProgramAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Manifest(manifest) => manifest.fmt(f),
            Self::Named(named) => named.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_hash_is_a_manifest_and_a_name_is_a_program() {
        let manifest = Hash::of(b"manifest");
        assert_eq!(manifest.to_string().parse(), Ok(ProgramAddress::Manifest(manifest)));
        for name in ["todo", "todo@2"] {
            let named: ProgramAddress = name.parse().unwrap();
            assert_eq!((named.to_string(), named), (name.to_owned(), ProgramAddress::Named(name.parse().unwrap())));
        }
        for bad in ["", "h_", "h_00", "Todo", "todo@", "a b"] {
            assert!(bad.parse::<ProgramAddress>().is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(name in "[a-z][a-z0-9-]{0,63}", version in prop::option::of(1..=u32::MAX)) {
            let named = ProgramRef::new(&name, version).unwrap();
            prop_assert_eq!(named.to_string().parse(), Ok(named));
        }

        #[test]
        fn whatever_is_read_is_written_as_it_was(text in "[a-c0-2@h_-]{0,9}") {
            if let Ok(named) = text.parse::<ProgramRef>() {
                prop_assert_eq!(named.to_string(), text);
            }
        }
    }

    #[test]
    fn what_is_no_name_is_refused() {
        let long = "a".repeat(limits::PROGRAM_NAME_BYTES_MAX + 1);
        for text in
            ["", "@1", "Todo", "to do", "2do", "-a", "h_00", "todo@", "todo@0", "todo@02", "todo@+2", "todo@1@2", &long]
        {
            assert_eq!(text.parse::<ProgramRef>().unwrap_err().code(), Code::NameInvalid, "{text}");
        }
        assert!("todo@4294967296".parse::<ProgramRef>().is_err());
    }
}
