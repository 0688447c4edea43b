//! How commands end: exit codes, and errors that say what to do. `docs/reference/cli.md` has the same table, and a test compares.

use super::output::{Format, Out};
use mundi_model::{Code, Coded, Kind};
use serde_json::json;
use std::{error::Error, fmt, process::ExitCode};

/// Exit codes and their meaning. Stable: scripts depend on them. A test compares the page with this table.
#[cfg(test)]
const EXIT_CODES: &[(u8, &str)] = &[
    (0, "done"),
    (1, "failed for a reason that has no code of its own"),
    (2, "the command line is wrong"),
    (3, "refused: the request itself is wrong"),
    (4, "not found"),
    (5, "conflict with another request, or it exists already"),
    (6, "not possible now: full, unavailable, or no server answers"),
    (7, "damaged, or verification failed"),
    (8, "the token is missing or lacks the permission"),
    (9, "two things differ: a rehearsal diverges, a diff is not empty"),
];

/// A command that failed.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) code: Option<Code>,
    /// The exit code of a failure without an error code.
    exit: u8,
    detail: String,
}

pub(crate) type Outcome<T = ()> = Result<T, Failed>;

impl Failed {
    pub(crate) fn new(code: Code, detail: impl Into<String>) -> Self {
        Self { code: Some(code), exit: 1, detail: detail.into() }
    }

    /// No server answers.
    pub(crate) fn silent(detail: impl Into<String>) -> Self {
        Self { code: None, exit: 6, detail: detail.into() }
    }

    /// The command line is wrong in a way that only shows when the command runs.
    pub(crate) fn usage(detail: impl Into<String>) -> Self {
        Self { code: None, exit: 2, detail: detail.into() }
    }

    /// Whether it failed because no server answered.
    pub(crate) fn is_silent(&self) -> bool {
        self.code.is_none() && self.exit == 6
    }

    /// For a reason that has no code.
    pub(crate) fn plain(detail: impl Into<String>) -> Self {
        Self { code: None, exit: 1, detail: detail.into() }
    }

    /// The comparison that was requested found a difference.
    pub(crate) fn differs(detail: impl Into<String>) -> Self {
        Self { code: None, exit: 9, detail: detail.into() }
    }

    /// A check found a problem.
    pub(crate) fn unproven(detail: impl Into<String>) -> Self {
        Self { code: None, exit: 7, detail: detail.into() }
    }

    pub(crate) fn coded(error: &(impl Coded + fmt::Display)) -> Self {
        Self::new(error.code(), error.to_string())
    }

    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }

    fn exit(&self) -> u8 {
        let Some(code) = self.code else { return self.exit };
        match code {
            Code::TokenMissing | Code::TokenDenied | Code::OriginDenied => 8,
            Code::BundleInvalid | Code::BundleTooLarge => 7,
            Code::WorldExists | Code::SnapshotExists => 5,
            code => match code.kind() {
                Kind::Invalid => 3,
                Kind::NotFound => 4,
                Kind::Conflict | Kind::Fenced => 5,
                Kind::Full | Kind::Unavailable => 6,
                Kind::Corrupt => 7,
            },
        }
    }

    /// The advice.
    fn hint(&self) -> Option<String> {
        let Some(code) = self.code else {
            let silent = "is a server running? `mundi dev` starts one; --url or MUNDI_URL says where it is";
            return (self.exit == 6).then(|| silent.to_owned());
        };
        Some(match code {
            Code::WorldNotFound => {
                "`mundi world list` shows the worlds of this universe; --universe names another".into()
            }
            Code::EffectNotFound => {
                "`mundi effect list` shows what is open; one that has ended is found with --world WORLD only, in its journal".into()
            }
            Code::UniverseNotFound => "`mundi universe list` shows the universes".into(),
            Code::ProgramUnknown => "`mundi program list` shows the programs that have a name here".into(),
            Code::TokenMissing => "give one with --token or MUNDI_TOKEN; `mundi token create` makes one".into(),
            Code::WorldExists => "choose another name; `mundi world import FILE --as NAME` takes one, too".into(),
            Code::CallTimeout => {
                "`mundi world reply WORLD CALL` waits on for the reply, `mundi world why WORLD` says what it waits for"
                    .into()
            }
            Code::EventInvalid => {
                "`mundi program describe PROGRAM` shows the events that a program takes, with their schemas".into()
            }
            Code::FolderInUse => "stop the process that has it open, or give another folder with --data".into(),
            Code::UpgradeDiverges => {
                "`mundi world replay WORLD` with the same program shows it; --force insists, and is on record".into()
            }
            code => format!("`mundi explain {code}` says more"),
        })
    }

    /// Prints the failure to stderr; returns its exit code.
    pub(super) fn report(&self, out: Out) -> ExitCode {
        let (code, hint) = (self.code.map(Code::as_str), self.hint());
        match out.format {
            Format::Json => {
                let error = json!({ "code": code, "detail": self.detail, "hint": hint, "exit": self.exit() });
                eprintln!("{}", json!({ "error": error }));
            }
            Format::Table => {
                let named = code.map_or_else(String::new, |code| format!("{code}: "));
                eprintln!("{} {named}{}", out.red("error:"), self.detail);
                if let Some(hint) = hint {
                    eprintln!("{} {hint}", out.dim("hint:"));
                }
            }
        }
        ExitCode::from(self.exit())
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)
    }
}

/// Errors of other libraries have no code.
impl<E: Error> From<E> for Failed {
    fn from(error: E) -> Self {
        let mut detail = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            detail = format!("{detail}: {cause}");
            source = cause.source();
        }
        Self { code: None, exit: 1, detail }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_about_the_command_line_has_the_same_exit_codes() {
        let page =
            std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/cli.md")).unwrap();
        for (code, meaning) in EXIT_CODES {
            assert!(
                page.contains(&format!("| {code} | {meaning} |")),
                "docs/reference/cli.md lacks exit code {code}: {meaning}"
            );
        }
    }

    #[test]
    fn every_error_code_has_an_exit_code_of_the_table() {
        for &code in Code::ALL {
            let exit = Failed::new(code, "").exit();
            assert!((3..=8).contains(&exit), "{code} ends with {exit}");
        }
    }
}
