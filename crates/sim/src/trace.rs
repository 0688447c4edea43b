//! The trace: lines for people and one hash, which differs if two runs of a seed differ anywhere.

use std::fmt::{self, Write};
use xxhash_rust::xxh3::Xxh3Default;

/// The lines of one run. They are hashed always and kept only when someone wants to read them.
pub(crate) struct Trace {
    hash: Xxh3Default,
    line: String,
    lines: Option<Vec<String>>,
}

impl Trace {
    pub(crate) fn new(keep: bool) -> Self {
        Self { hash: Xxh3Default::new(), line: String::new(), lines: keep.then(Vec::new) }
    }

    pub(crate) fn note(&mut self, at_ns: u64, what: fmt::Arguments<'_>) {
        self.line.clear();
        let ms = at_ns / 1_000_000;
        // Writing to a string cannot fail.
        let _never = write!(self.line, "{:>6}.{:03} {what}", ms / 1_000, ms % 1_000);
        self.hash.update(self.line.as_bytes());
        if let Some(lines) = &mut self.lines {
            lines.push(self.line.clone());
        }
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hash.digest()
    }

    pub(crate) fn into_lines(self) -> Vec<String> {
        self.lines.unwrap_or_default()
    }
}
