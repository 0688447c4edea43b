//! Running the program.

use std::{
    path::Path,
    process::{Command, Output},
};

/// The result of a command.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl From<Output> for Done {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Self { code: output.status.code().unwrap_or(-1), out: text(output.stdout), err: text(output.stderr) }
    }
}

/// The program without what the environment of the tests says.
pub(crate) fn mundi() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mundi"));
    for name in ["MUNDI_URL", "MUNDI_TOKEN", "MUNDI_UNIVERSE", "MUNDI_FORMAT", "NO_COLOR"] {
        command.env_remove(name);
    }
    command
}

pub(crate) fn run(arguments: &[&str]) -> Done {
    mundi().args(arguments).output().unwrap().into()
}

/// Against a server.
pub(crate) fn at(url: &str, arguments: &[&str]) -> Done {
    mundi().env("MUNDI_URL", url).args(arguments).output().unwrap().into()
}

impl Done {
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.code, 0, "{}{}", self.out, self.err);
        self.out
    }

    /// Ended so, and said this on stderr.
    #[track_caller]
    pub(crate) fn failed(self, code: i32, words: &str) {
        assert_eq!(self.code, code, "{}{}", self.out, self.err);
        assert!(self.err.contains(words), "{}", self.err);
        assert!(self.out.is_empty(), "data was printed: {}", self.out);
    }
}

/// Compares with a file of the repository; `MUNDI_BLESS=1` writes it instead.
#[track_caller]
pub(crate) fn is_as_in(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/snapshots").join(name);
    let text = redacted(text);
    if std::env::var_os("MUNDI_BLESS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(expected == text, "{} is no longer so; MUNDI_BLESS=1 writes it anew\n{text}", path.display());
}

/// Replaces values that differ from run to run: ids, hashes, moments, ports. A placeholder is as long as its value, so that
/// columns stay where they are.
fn redacted(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        // How many worlds a worker runs at the moment of its last heartbeat.
        let worlds =
            line.split_once("\"worlds\": ").filter(|(_, number)| number.starts_with(|c: char| c.is_ascii_digit()));
        if let Some((indent, _)) = worlds {
            out.push_str(&format!("{indent}\"worlds\": 0,\n"));
            continue;
        }
        let mut line = line.to_owned();
        if let Some(at) = line.rfind("Z  ").filter(|_| line.starts_with("k_")) {
            line.replace_range(at + 3..at + 4, "0"); // the same, in a table
        }
        let mut word = String::new();
        for c in line.chars().chain(['\n']) {
            if c.is_ascii_alphanumeric() || "_-:.".contains(c) {
                word.push(c);
                continue;
            }
            out.push_str(&one(&word));
            word.clear();
            out.push(c);
        }
    }
    out
}

fn one(word: &str) -> String {
    let id = word.split_once('_').filter(|(kind, rest)| kind.len() == 1 && rest.len() >= 16);
    match id {
        Some((kind, rest)) => format!("{kind}_{}", "x".repeat(rest.len())),
        None if word.len() == 24 && word.ends_with('Z') && word.contains('T') => "YYYY-MM-DDTHH:MM:SS.mmmZ".to_owned(),
        None if word.len() == 30 && word.ends_with('Z') && word.contains('T') => {
            "YYYY-MM-DDTHH:MM:SS.nnnnnnnnnZ".to_owned()
        }
        None if word.len() >= 18 && word.bytes().all(|byte| byte.is_ascii_digit()) => "0".repeat(word.len()),
        None if word.len() == 55 && word.starts_with("00-") => "T".repeat(word.len()),
        None if word.starts_with("127.0.0.1:") => "127.0.0.1:00000".to_owned(),
        None => word.to_owned(),
    }
}
