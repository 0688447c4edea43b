//! Builds the pages about error codes into the program: users have no `docs` folder.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a build fails by panicking")]

use std::{env, fs, path::Path};

fn main() {
    let folder =
        Path::new(&env::var("CARGO_MANIFEST_DIR").unwrap()).join("../../docs/reference/errors").canonicalize().unwrap();
    // Relative, so that a target folder that several clones share looks at the pages of each.
    println!("cargo::rerun-if-changed=../../docs/reference/errors");
    let files = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let mut pages: Vec<_> = files.filter(|path| path.extension().is_some_and(|it| it == "md")).collect();
    pages.sort();
    let page = |path: &std::path::PathBuf| {
        format!(
            "    ({:?}, include_str!({:?})),\n",
            path.file_stem().unwrap().to_str().unwrap(),
            path.to_str().unwrap()
        )
    };
    let table: String = pages.iter().map(page).collect();
    let out = Path::new(&env::var("OUT_DIR").unwrap()).join("error_pages.rs");
    fs::write(out, format!("&[\n{table}]\n")).unwrap();
}
