//! Builds the documents into the server, for assistants that are connected over MCP: users have no `docs` folder.

#![allow(clippy::unwrap_used, reason = "a build fails by panicking")]

use std::{
    env, fs,
    path::{Path, PathBuf},
};

/// Folders of `docs` that are for users.
const FOLDERS: [&str; 6] = ["", "concepts", "guides", "operating", "reference", "reference/errors"];

fn main() {
    let docs = Path::new(&env::var("CARGO_MANIFEST_DIR").unwrap()).join("../../docs").canonicalize().unwrap();
    let mut pages: Vec<(String, PathBuf)> = Vec::new();
    for folder in FOLDERS {
        // Relative, so that a target folder that several clones share looks at the documents of each.
        println!("cargo::rerun-if-changed=../../docs/{folder}");
        let folder = docs.join(folder);
        let files = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
        for path in files.filter(|path| path.extension().is_some_and(|it| it == "md")) {
            let name = path.strip_prefix(&docs).unwrap().with_extension("");
            pages.push((name.to_str().unwrap().to_owned(), path));
        }
    }
    pages.sort();
    let table: String = pages
        .iter()
        .map(|(name, path)| format!("    ({name:?}, include_str!({:?})),\n", path.to_str().unwrap()))
        .collect();
    let out = Path::new(&env::var("OUT_DIR").unwrap()).join("documents.rs");
    fs::write(out, format!("&[\n{table}]\n")).unwrap();
}
