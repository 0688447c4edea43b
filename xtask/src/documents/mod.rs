//! Pages of the documentation that are made from the sources, and the checks on all pages.

mod generated;
#[cfg(test)]
mod keys;
#[cfg(test)]
mod links;
#[cfg(test)]
mod requirements;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

pub(crate) fn read(path: &str) -> io::Result<String> {
    fs::read_to_string(root().join(path)).map_err(|error| io::Error::new(error.kind(), format!("{path}: {error}")))
}

/// `cargo xtask docs`: writes the generated pages.
pub(crate) fn write() -> bool {
    let written = generated::pages().and_then(|pages| {
        pages.iter().try_for_each(|(path, text)| {
            eprintln!("{path}");
            fs::write(root().join(path), text)
        })
    });
    written.inspect_err(|error| eprintln!("{error}")).is_ok()
}

/// All files of the repository that end in `suffix`, without what builds leave behind, by their paths from the root.
#[cfg(test)]
pub(crate) fn files(suffix: &str) -> Vec<String> {
    fn walk(folder: &Path, suffix: &str, found: &mut Vec<PathBuf>) {
        let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
        for path in entries.map(|entry| entry.path()) {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let skipped = ["target", "node_modules", ".git", "mundi-data"].contains(&name);
            if path.is_dir() && !path.is_symlink() && !skipped {
                walk(&path, suffix, found);
            } else if name.ends_with(suffix) && path.is_file() {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    walk(&root(), suffix, &mut found);
    let mut found: Vec<_> =
        found.iter().filter_map(|path| path.strip_prefix(root()).ok()?.to_str()).map(str::to_owned).collect();
    found.sort();
    found
}
