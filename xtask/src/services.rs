//! The services that tests need besides Rust: PostgreSQL, libclang, moto, which speaks S3, and generators of API clients. Installed where they are missing.

use crate::run;
use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

/// The version that the tests were written against.
const MOTO: &str = "moto[server,s3]==5.2.5";

/// The validator of the OpenAPI document, and the generators of clients from it.
const OPENAPI_PYTHON: [&str; 2] = ["openapi-spec-validator==0.9.0", "openapi-python-client==0.29.1"];
const OPENAPI_TYPESCRIPT: [&str; 4] =
    ["openapi-typescript@7.13.0", "openapi-fetch@0.17.0", "typescript@5.9", "@types/node@20"];

/// The packages that the Python client is built and tested with, and the SDK that MCP is tested with.
const CLIENTS_PYTHON: [&str; 6] =
    ["build==1.6.1", "hatchling==1.33.0", "httpx==0.28.1", "mcp==2.3.0", "mypy==2.4.1", "pytest==9.2.0"];

pub(crate) fn install() -> bool {
    postgres() && libclang() && moto() && openapi_python() && openapi_typescript()
}

fn postgres() -> bool {
    let on_path = Command::new("pg_ctl").arg("--version").output().is_ok_and(|output| output.status.success());
    let is_debian = fs::read_dir("/usr/lib/postgresql").is_ok_and(|mut versions| versions.next().is_some());
    if on_path || is_debian {
        return true;
    }
    if !can_install() {
        eprintln!(
            "PostgreSQL is not installed, and this is no Debian where root could install it: do `apt-get install postgresql`,"
        );
        eprintln!("or what your system calls it, and put its programs (`initdb`, `pg_ctl`) on the path");
        return false;
    }
    apt(&["postgresql"])
}

/// Reads the C header of FoundationDB when its engine is type-checked.
fn libclang() -> bool {
    // `libclang-cpp` is another library, which comes with LLVM alone.
    let is_library = |name: &str| {
        name.starts_with("libclang.so") || (name.starts_with("libclang-") && !name.starts_with("libclang-cpp"))
    };
    let holds = |folder: &Path| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries
            .into_iter()
            .any(|entry| entry.file_name().to_str().is_some_and(|name| is_library(name) && name.contains(".so")))
    };
    let versions = fs::read_dir("/usr/lib").into_iter().flatten().flatten().map(|entry| entry.path());
    let llvm = versions.filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("llvm")));
    let mut folders =
        llvm.map(|path| path.join("lib")).chain(["/usr/lib64", "/usr/lib", "/usr/local/lib"].map(PathBuf::from));
    if env::var_os("LIBCLANG_PATH").is_some() || folders.any(|folder| holds(&folder)) {
        return true;
    }
    if !can_install() {
        eprintln!(
            "libclang is not installed, and this is no Debian where root could install it: install it, or set LIBCLANG_PATH to its folder"
        );
        return false;
    }
    apt(&["libclang-dev"])
}

pub(crate) fn apt(packages: &[&str]) -> bool {
    let quiet = [("DEBIAN_FRONTEND", "noninteractive")];
    run("apt-get", &["update", "--quiet=2"], &quiet)
        && run("apt-get", &[&["install", "--quiet=2", "--yes", "--no-install-recommends"], packages].concat(), &quiet)
}

/// Counts instructions.
pub(crate) fn valgrind() -> bool {
    let found = Command::new("valgrind").arg("--version").output().is_ok_and(|output| output.status.success());
    if !found && !can_install() {
        eprintln!("valgrind is not installed, and this is no Debian where root could install it");
        return false;
    }
    found || apt(&["valgrind"])
}

/// The browser that the console is tested in.
pub(crate) fn chromium() -> bool {
    let known = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
    if env::var_os("CHROMIUM").is_some() || known.iter().any(|path| fs::exists(path).unwrap_or(false)) {
        return true;
    }
    if !can_install() {
        eprintln!(
            "Chromium is not installed, and this is no Debian where root could install it: set CHROMIUM to its path"
        );
        return false;
    }
    apt(&["chromium"])
}

/// Whether this is a Debian, and we are root there.
pub(crate) fn can_install() -> bool {
    let is_root = Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.trim_ascii() == b"0");
    is_root && Command::new("apt-get").arg("--version").output().is_ok()
}

/// In a folder of its own, because the tool belongs to nobody's Python.
fn moto() -> bool {
    let folder = cache().join("moto");
    if folder.join("bin/moto_server").exists() {
        return true;
    }
    let (folder, pip) = (folder.display().to_string(), folder.join("bin/pip").display().to_string());
    let installed = run("python3", &["-m", "venv", &folder], &[]) && run(&pip, &["install", "--quiet", MOTO], &[]);
    if !installed {
        eprintln!("moto could not be installed: the tests against S3 need Python with `venv`, and its package index");
    }
    installed
}

fn openapi_python() -> bool {
    let folder = cache().join("openapi-python");
    if folder.join("bin/openapi-python-client").exists() && folder.join("bin/openapi-spec-validator").exists() {
        return true;
    }
    let (folder, pip) = (folder.display().to_string(), folder.join("bin/pip").display().to_string());
    let installed = run("python3", &["-m", "venv", &folder], &[])
        && run(&pip, &[&["install", "--quiet"], &OPENAPI_PYTHON[..]].concat(), &[]);
    if !installed {
        eprintln!("the test of the OpenAPI document needs Python with `venv`, and its package index");
    }
    installed
}

fn openapi_typescript() -> bool {
    let folder = cache().join("openapi-typescript");
    if folder.join("node_modules/.bin/openapi-typescript").exists() {
        return true;
    }
    let folder = folder.display().to_string();
    let quiet = ["install", "--no-audit", "--no-fund", "--silent", "--prefix", &folder];
    let installed =
        fs::create_dir_all(&folder).is_ok() && run("npm", &[&quiet[..], &OPENAPI_TYPESCRIPT[..]].concat(), &[]);
    if !installed {
        eprintln!("the test of clients in TypeScript needs node and npm, and its package index");
    }
    installed
}

/// The Python of the tests of clients, with what they need. A folder for each set of versions.
pub(crate) fn clients_python() -> Option<String> {
    let folder = cache().join("clients-python-1");
    let python = folder.join("bin/python").display().to_string();
    if folder.join("bin/pytest").exists() {
        return Some(python);
    }
    let (folder, pip) = (folder.display().to_string(), folder.join("bin/pip").display().to_string());
    let installed = run("python3", &["-m", "venv", &folder], &[])
        && run(&pip, &[&["install", "--quiet"], &CLIENTS_PYTHON[..]].concat(), &[]);
    if !installed {
        eprintln!("the tests of the Python client and of MCP need Python 3.11 with `venv`, and its package index");
    }
    installed.then_some(python)
}

pub(crate) fn cache() -> PathBuf {
    let own = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || env::var_os("HOME").map_or_else(|| PathBuf::from("."), PathBuf::from).join(".cache");
    own.unwrap_or_else(home).join("mundi")
}
