//! Output of commands: data on stdout, as tables for people or as JSON for programs.

use super::exit::Outcome;
use mundi_model::Moment;
use serde_json::{Value, json};
use std::io::{IsTerminal, Write};

/// The benchmarks have the same option; with another type, clap would panic at run time.
pub(crate) use mundi_bench::Format;

/// How to print.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Out {
    pub(crate) format: Format,
    colours: bool,
}

/// A column of a table: its head, and where its cells are.
pub(crate) type Column = (&'static str, &'static str);

impl Out {
    /// Colours only on a terminal, and not where they are unwanted (<https://no-color.org>).
    pub(crate) fn new(format: Format) -> Self {
        let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self { format, colours: std::io::stderr().is_terminal() && std::io::stdout().is_terminal() && !unwanted }
    }

    pub(crate) fn is_json(self) -> bool {
        self.format == Format::Json
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.colours { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    pub(crate) fn red(self, text: &str) -> String {
        self.paint("31;1", text)
    }

    pub(crate) fn green(self, text: &str) -> String {
        self.paint("32", text)
    }

    pub(crate) fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }

    pub(crate) fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    /// One thing: its fields as lines, or as a document.
    pub(crate) fn object(self, object: &Value) -> Outcome {
        if self.is_json() {
            return print(&format!("{object:#}"));
        }
        let mut fields = Vec::new();
        flatten("", object, &mut fields);
        let width = fields.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        let line = |(name, value): &(String, String)| format!("{}  {value}", self.dim(&format!("{name:<width$}")));
        print(&fields.iter().map(line).collect::<Vec<_>>().join("\n"))
    }

    /// A created object: its name alone, or the whole document.
    pub(crate) fn made(self, object: &Value, name: &str) -> Outcome {
        if self.is_json() { print(&format!("{object:#}")) } else { print(&text(name, &object[name])) }
    }

    /// Many things. `next` says that there are more.
    pub(crate) fn rows(self, columns: &[Column], rows: &[Value], next: &Value) -> Outcome {
        if self.is_json() {
            return print(&format!("{:#}", json!({ "items": rows, "next": next })));
        }
        let cells = |row: &Value| columns.iter().map(|(_, path)| text(path, &row[*path])).collect::<Vec<_>>();
        let cells: Vec<Vec<String>> = rows.iter().map(cells).collect();
        let heads: Vec<String> = columns.iter().map(|(head, _)| (*head).to_owned()).collect();
        let width = |at: usize| cells.iter().chain([&heads]).map(|row| row[at].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns.len()).map(width).collect();
        let line = |row: &[String]| {
            let padded = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
            padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        };
        let mut lines = vec![self.bold(&line(&heads))];
        lines.extend(cells.iter().map(|row| self.tinted(row, &line(row))));
        print(&lines.join("\n"))?;
        if !next.is_null() {
            eprintln!("{}", self.dim(&format!("more: --after {}, or a larger --limit", text("", next))));
        }
        Ok(())
    }

    /// Marks a problem.
    fn tinted(self, row: &[String], line: &str) -> String {
        match row.iter().find(|cell| ["WRONG", "NOT PROVEN"].contains(&&***cell)) {
            Some(bad) => line.replacen(bad.as_str(), &self.red(bad), 1),
            None => line.to_owned(),
        }
    }

    /// A value of a program: JSON in either format.
    pub(crate) fn value(self, value: &Value) -> Outcome {
        print(&value.to_string())
    }
}

/// Data, for people and pipes. A closed pipe is not a failure.
pub(crate) fn print(text: &str) -> Outcome {
    match writeln!(std::io::stdout().lock(), "{}", text.trim_end()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => std::process::exit(0),
        written => Ok(written?),
    }
}

/// The fields of an object with those of the objects in it, as `outer.inner`.
fn flatten(prefix: &str, object: &Value, fields: &mut Vec<(String, String)>) {
    let all = object.as_object();
    // A moment stands there as a number and as text: once is enough for people.
    let is_again = |name: &str| all.is_some_and(|all| all.contains_key(&format!("{name}_ns")));
    for (name, value) in all.into_iter().flatten().filter(|(name, _)| !is_again(name)) {
        let full = format!("{prefix}{name}");
        match value {
            Value::Object(inner) if !inner.is_empty() => flatten(&format!("{full}."), value, fields),
            Value::Array(items) if !items.is_empty() && items.iter().all(Value::is_object) => {
                for (at, item) in items.iter().enumerate() {
                    flatten(&format!("{full}.{at}."), item, fields);
                }
            }
            value => fields.push((full.trim_end_matches("_ns").to_owned(), text(name, value))),
        }
    }
}

/// A field as a table cell.
fn text(name: &str, value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        // A moment that never was.
        Value::Number(number) if name.ends_with("_ns") && number.as_u64() == Some(0) => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(number) if name.ends_with("_ns") => number.as_u64().map_or_else(|| number.to_string(), time),
        Value::Array(items) if items.is_empty() => "-".to_owned(),
        Value::Array(items) => items.iter().map(|item| text("", item)).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}

/// A timestamp as text (UTC), to the millisecond.
pub(crate) fn time(ns: u64) -> String {
    let exact = Moment(ns).to_string();
    let cut = exact.len() - "000000Z".len();
    format!("{}Z", &exact[..cut])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_written_as_people_write_it() {
        assert_eq!(time(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(time(951_782_400_000_000_000), "2000-02-29T00:00:00.000Z");
        assert_eq!(time(1_767_225_599_123_000_000), "2025-12-31T23:59:59.123Z");
    }
}
