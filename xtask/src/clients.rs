//! The client libraries in `clients/`, and MCP by the official Python SDK: each against a real server that is killed in between, and ready to
//! publish.

use crate::{
    guests::{self, on_path},
    run, services,
};
use std::{env, fs, path::Path};

const TYPESCRIPT: &str = "clients/typescript";
const PYTHON: &str = "clients/python";

/// `cargo xtask clients`: writes the document and everything that is generated from it.
pub(crate) fn generate() -> bool {
    let Some(python) = services::clients_python() else { return false };
    built()
        && run(&python, &[&format!("{PYTHON}/generate.py"), "--document"], &[])
        && installed()
        && run("node", &[&format!("{TYPESCRIPT}/generate.mjs")], &[])
}

fn built() -> bool {
    run("cargo", &["build", "--package", "mundi", "--bin", "mundi"], &[])
}

pub(crate) fn test() -> bool {
    // Their tests upload a program in Rust, with durable functions.
    guests::rust() && built() && rust() && typescript() && python()
}

/// That it works is tested with the crate `mundi`; here, that it can be published.
fn rust() -> bool {
    run("cargo", &["package", "--package", "mundi-client", "--allow-dirty", "--no-verify", "--quiet"], &[])
}

fn typescript() -> bool {
    if !on_path("node") {
        eprintln!("node is not on the path: the TypeScript client is not tested");
        return true;
    }
    let at = |path: &str| format!("{TYPESCRIPT}/{path}");
    services::chromium()
        && installed()
        && run("node", &[&at("generate.mjs"), "--check"], &[])
        && run(&at("node_modules/.bin/tsc"), &["--project", TYPESCRIPT], &[])
        && ["client", "functions", "holders", "package", "browser"]
            .iter()
            .all(|name| run("node", &["--test", "--test-reporter=spec", &at(&format!("tests/{name}.test.mjs"))], &[]))
}

/// Installs the packages of the lockfile, once for each lockfile.
fn installed() -> bool {
    let changed = |path: &str| fs::metadata(Path::new(TYPESCRIPT).join(path)).and_then(|it| it.modified()).ok();
    if changed("node_modules/.package-lock.json") >= changed("package-lock.json") {
        return true;
    }
    run("npm", &["ci", "--no-audit", "--no-fund", "--silent", "--prefix", TYPESCRIPT], &[])
}

fn python() -> bool {
    let Some(python) = services::clients_python() else { return false };
    // An absolute path: tests start programs in other folders.
    let Ok(source) = env::current_dir().map(|root| root.join(PYTHON).join("src").display().to_string()) else {
        return false;
    };
    let tests = format!("{PYTHON}/tests");
    run(&python, &["-m", "pytest", "--quiet", "--durations=5", &tests], &[("PYTHONPATH", &source)])
}
