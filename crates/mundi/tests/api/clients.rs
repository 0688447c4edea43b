//! The served document, judged by a validator, and clients that strangers' generators make of it, at work on a real server.

use crate::process::Server;
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// Where `cargo xtask services` puts the tools.
fn tools(name: &str) -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cache");
    let folder = cache.unwrap_or_else(home).join("mundi").join(name);
    assert!(folder.is_dir(), "{} is missing: `cargo xtask services` installs it", folder.display());
    folder
}

#[track_caller]
fn done(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{}\n{out}{err}", output.status);
    out + &err
}

/// The document of a server, as a file.
async fn document(server: &Server, folder: &Path) -> PathBuf {
    let file = folder.join("openapi.json");
    let document = server.get("/openapi.json").await;
    fs::write(&file, &document.text).unwrap();
    file
}

#[tokio::test]
async fn the_document_is_valid_and_every_large_number_has_a_text_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let file = document(&server, folder.path()).await;
    let validator = tools("openapi-python").join("bin/openapi-spec-validator");
    done(&Command::new(&validator).arg(&file).output().unwrap());
    let mut broken: serde_json::Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    let schemas = broken["components"]["schemas"].as_object().unwrap().clone();
    for (name, schema) in &schemas {
        let parts = [vec![schema], schema["allOf"].as_array().into_iter().flatten().collect()].concat();
        for properties in parts.iter().filter_map(|part| part["properties"].as_object()) {
            for property in properties.keys().filter_map(|property| property.strip_suffix("_ns")) {
                assert!(properties.contains_key(property), "{name} has {property}_ns without {property}");
            }
        }
    }
    // The validator is awake: what it is there for is refused.
    broken["paths"]["/livez"]["get"]["responses"]["200"].as_object_mut().unwrap().remove("description");
    fs::write(&file, broken.to_string()).unwrap();
    assert!(!Command::new(&validator).arg(&file).output().unwrap().status.success());
}

#[tokio::test]
async fn a_generated_python_client_creates_calls_sends_pages_and_tails() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let file = document(&server, folder.path()).await;
    let bin = tools("openapi-python").join("bin");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let mut generate = Command::new(bin.join("openapi-python-client"));
    generate.args(["generate", "--meta", "none", "--fail-on-warning", "--path"]).arg(&file);
    generate.arg("--output-path").arg(folder.path().join("mundi_client")).env("PATH", path);
    done(&generate.current_dir(folder.path()).output().unwrap());
    let program = folder.path().join("client.py");
    fs::write(&program, include_str!("clients/client.py")).unwrap();
    let ran = Command::new(bin.join("python")).arg(&program).arg(&server.url).current_dir(folder.path()).output();
    assert!(done(&ran.unwrap()).contains("all of it worked"));
}

#[tokio::test]
async fn a_generated_typescript_client_creates_calls_sends_pages_and_tails() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let file = document(&server, folder.path()).await;
    let tools = tools("openapi-typescript");
    let bin = tools.join("node_modules/.bin");
    std::os::unix::fs::symlink(tools.join("node_modules"), folder.path().join("node_modules")).unwrap();
    let run = |program: &str, arguments: &[&str]| {
        done(&Command::new(bin.join(program)).args(arguments).current_dir(folder.path()).output().unwrap())
    };
    run("openapi-typescript", &[file.to_str().unwrap(), "--output", "api.d.ts"]);
    fs::write(folder.path().join("client.ts"), include_str!("clients/client.ts")).unwrap();
    fs::write(folder.path().join("package.json"), r#"{ "type": "module" }"#).unwrap();
    let strict =
        ["--strict", "--target", "es2022", "--module", "nodenext", "--skipLibCheck", "--types", "node", "client.ts"];
    run("tsc", &strict);
    let ran = Command::new("node").args(["client.js", &server.url]).current_dir(folder.path()).output().unwrap();
    assert!(done(&ran).contains("all of it worked"));
}
