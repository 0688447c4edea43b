//! `mundi program`, as people who write programs use it: begin, build, upload, upgrade.

use crate::{
    guest::{adder, asker},
    process::Server,
    program::{Done, at, mundi, run},
};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Output,
};

const LANGUAGES: [&str; 3] = ["rust", "ts", "python"];

/// A new project in a folder.
fn new(folder: &Path, lang: &str) -> PathBuf {
    let project = folder.join(format!("my-{lang}"));
    assert_eq!(
        run(&["program", "new", "--lang", lang, project.to_str().unwrap()]).ok().trim_end(),
        project.to_str().unwrap()
    );
    project
}

#[test]
fn a_project_begins_with_its_sources_a_test_types_and_the_page_of_its_sdk() {
    let folder = tempfile::tempdir().unwrap();
    for (lang, files) in [
        ("rust", ["src/lib.rs", "tests/counter.rs", "src/types.rs"]),
        ("ts", ["src/program.ts", "test/counter.test.ts", "src/types.ts"]),
        ("python", ["program.py", "test_counter.py", "vocabulary.py"]),
    ] {
        let project = new(folder.path(), lang);
        for file in files.into_iter().chain(["mundi.json", "mundi-sdk/README.md"]) {
            assert!(project.join(file).is_file(), "{lang}: {file}");
        }
        run(&["program", "new", "--lang", lang, project.to_str().unwrap()]).failed(3, "is there already");
    }
    run(&["program", "new", "--lang", "cobol", "x"]).failed(3, "rust, ts, python");
    let plain = folder.path().join("plain");
    run(&["program", "new", "--lang", "python", "--template", "handler", plain.to_str().unwrap()]).ok();
    let has_function = |project: &Path| fs::read_to_string(project.join("mundi.json")).unwrap().contains("later");
    assert!(has_function(&folder.path().join("my-python")) && !has_function(&plain));
    run(&["program", "new", "--lang", "python", "--template", "workflow", "x"]).failed(3, "durable, handler");
    run(&["program", "new", "--lang", "python", "No-Name"]).failed(3, "small letters");
}

/// A machine on whose path are these programs, each of which says its version, and nothing else.
fn build_with(folder: &Path, project: &Path, programs: &[(&str, &str)], arguments: &[&str]) -> Done {
    let bin = tempfile::tempdir_in(folder).unwrap();
    for (name, version) in programs {
        let path = bin.path().join(name);
        fs::write(&path, format!("#!/bin/sh\necho {version}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut build = mundi();
    build.args(["program", "build"]).arg(project).args(arguments);
    build.env("PATH", bin.path()).env("XDG_CACHE_HOME", folder.join("cache")).env("HOME", folder);
    build.output().unwrap().into()
}

#[test]
fn what_a_machine_lacks_is_named_with_the_command_that_gets_it() {
    let folder = tempfile::tempdir().unwrap();
    let [rust, ts, python] = LANGUAGES.map(|lang| new(folder.path(), lang));
    let lacks = |project: &Path, programs: &[(&str, &str)], said: &[&str], not_said: &[&str]| {
        for arguments in [&[][..], &["--install"]] {
            let done = build_with(folder.path(), project, programs, arguments);
            assert_eq!((done.code, &*done.out), (3, ""), "{}", done.err);
            let said = said.iter().filter(|words| !arguments.contains(&"--install") || !words.contains("npm install"));
            said.for_each(|words| assert!(done.err.contains(words), "no `{words}` in: {}", done.err));
            not_said.iter().for_each(|words| assert!(!done.err.contains(words), "`{words}` in: {}", done.err));
        }
    };
    let target = "the standard library of Rust for wasm32-unknown-unknown";
    lacks(&rust, &[], &["cargo, and ", target, "`rustup target add wasm32-unknown-unknown`", "lld-16"], &[]);
    lacks(&rust, &[("cargo", "cargo 1.95.0")], &[target, "apt-get install"], &["cargo, and"]);
    lacks(&ts, &[], &["node 20 or later", "npm", "componentize-js 0.23"], &["here it is"]);
    lacks(&ts, &[("node", "v18.19.1"), ("npm", "9.2.0")], &["node 20 or later (here it is 18.19.1)"], &["npm comes"]);
    lacks(&ts, &[("node", "v20.11.1")], &["npm", "componentize-js 0.23"], &["node 20"]);
    lacks(&python, &[], &["python3", "componentize-py 0.25", "pip install"], &["on the path"]);
    let old = [("componentize-py", "componentize-py 0.17.2")];
    lacks(&python, &old, &["componentize-py 0.25 (on the path is 0.17.2)"], &[]);
    // Without --install nothing is got, and what would get it is said.
    let done = build_with(folder.path(), &ts, &[("node", "v22.1.0"), ("npm", "10.0.0")], &[]);
    assert!(done.err.contains("`npm install --prefix") && !done.err.contains("node 20"), "{}", done.err);
    assert!(!folder.path().join("cache").exists(), "something was got");
}

#[tokio::test]
async fn what_is_uploaded_is_compiled_and_runs_or_hears_why_not() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let upload = |file: &str| at(&server.url, &["program", "upload", file]);
    let manifest = upload(&file("program.wasm", &adder())).ok();
    at(&server.url, &["world", "create", "shop", "--manifest", manifest.trim()]).ok();
    assert_eq!(at(&server.url, &["world", "call", "shop", "add", "2"]).ok(), "2\n");
    assert_eq!(upload(folder.path().to_str().unwrap()).ok(), manifest, "the folder of a project that was built");

    upload("nowhere").failed(3, "`mundi program build`");
    let wasi = wat::parse_str(r#"(component (import "wasi:clocks/wall-clock@0.2.0" (instance)))"#).unwrap();
    upload(&file("wasi.wasm", &wasi)).failed(3, "Rust for wasm32-unknown-unknown");
    upload(&file("wasi.wasm", &wasi)).failed(3, "wasi:clocks/wall-clock@0.2.0");
    upload(&file("cut.wasm", &adder()[..1_000])).failed(3, "PROGRAM_REFUSED");
    upload(&file("script.wasm", b"#!/bin/sh")).failed(3, "no WebAssembly");
    let huge = fs::File::create(folder.path().join("huge.wasm")).unwrap();
    huge.set_len(100_000_000).unwrap();
    upload(folder.path().join("huge.wasm").to_str().unwrap()).failed(3, "100000000 bytes, at most 50331648");
    assert_eq!(at(&server.url, &["world", "call", "shop", "add", "3"]).ok(), "5\n", "the others do not notice");
}

#[tokio::test]
async fn an_upgrade_is_rehearsed_refused_where_it_diverges_and_on_record_when_it_is_forced() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let ask = |arguments: &[&str]| at(&server.url, arguments);
    let [same, other] = [asker(""), asker("unreachable")].map(|code| {
        let path = folder.path().join("program.wasm");
        fs::write(&path, code).unwrap();
        ask(&["program", "upload", path.to_str().unwrap()]).ok().trim_end().to_owned()
    });
    ask(&["world", "create", "shop", "--manifest", &same]).ok();
    ask(&["world", "send", "shop", "go", "null"]).ok();
    while !ask(&["effect", "list"]).ok().contains("outside") {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    ask(&["world", "replay", "shop", "--manifest", &same]).ok();
    let rehearsed = ask(&["world", "replay", "shop", "--manifest", &other]);
    assert_eq!(rehearsed.code, 9, "{}{}", rehearsed.out, rehearsed.err);
    assert!(rehearsed.err.contains("first shop at height 1"), "{}", rehearsed.err);
    let refused = ask(&["world", "upgrade", "shop", "--manifest", &other]);
    assert!(refused.code != 0 && refused.err.contains("UPGRADE_DIVERGES"), "{}", refused.err);
    assert!(refused.err.contains("--force"), "what to do next: {}", refused.err);
    assert!(!ask(&["--format", "json", "world", "journal", "shop"]).ok().contains("forced"));
    ask(&["world", "upgrade", "shop", "--manifest", &other, "--force"]).ok();
    while !ask(&["--format", "json", "world", "journal", "shop"]).ok().contains("\"forced\": true") {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

/// The command that `program new` names, with `mundi` on the path as people have it.
fn run_tests(project: &Path, lang: &str) {
    // Types are made again from mundi.json before the tests run.
    let types = project.join(match lang {
        "rust" => "src/types.rs",
        "python" => "vocabulary.py",
        _ => "src/types.ts",
    });
    fs::remove_file(&types).unwrap();
    let output = tested(project, lang);
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{lang}:\n{}", String::from_utf8_lossy(&said));
    assert!(types.is_file(), "{lang}");
}

fn tested(project: &Path, lang: &str) -> Output {
    let cache = std::env::var_os("MUNDI_GUESTS_CACHE").map(PathBuf::from);
    let cache = cache.unwrap_or_else(|| PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cache/mundi"));
    let mut command = std::process::Command::new("sh");
    match lang {
        "rust" => {
            command.arg("-c").arg(format!("cargo test --quiet --target-dir {}", cache.join("rust-tests").display()))
        }
        "python" => command.args(["-c", "mundi program types && PYTHONPATH=mundi-sdk python3 -m unittest"]),
        _ => {
            // What `npm install` would make, from what the builder has got already.
            let modules = project.join("node_modules");
            if fs::create_dir(&modules).is_ok() {
                for entry in cache.join("typescript/node_modules").read_dir().unwrap().map(Result::unwrap) {
                    std::os::unix::fs::symlink(entry.path(), modules.join(entry.file_name())).unwrap();
                }
                std::os::unix::fs::symlink(project.join("mundi-sdk"), modules.join("mundi-sdk")).unwrap();
            }
            // What an earlier run has left there is not run again.
            fs::create_dir_all(project.join("target/test")).unwrap();
            fs::write(project.join("target/test/old.test.mjs"), "throw new Error(\"a test of before\")").unwrap();
            command.args(["-c", "npm test --silent"])
        }
    };
    let bin = Path::new(env!("CARGO_BIN_EXE_mundi")).parent().unwrap();
    let path = std::env::join_paths(
        [bin.to_owned()].into_iter().chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
    );
    command.current_dir(project).env("PATH", path.unwrap()).env_remove("CARGO_TARGET_DIR").output().unwrap()
}

/// A recorded world as a unit test of its project: one line in each language, which finds a change of a handler and one of a running function.
fn replay_as_a_test(url: &str, project: &Path, lang: &str) {
    let later = [r#"{"by": 4, "after": "1h"}"#, "--key", "one", "--world", lang, "--timeout", "1s"];
    at(url, &[&["function", "run", "later"][..], &later].concat());
    let bundle = project.join("shop.mundi");
    at(url, &["world", "export", lang, "--output", bundle.to_str().unwrap()]).ok();
    let (test, line, source, handler, function) = match lang {
        "rust" => (
            // Before the other test: cargo stops at the first file that fails.
            "tests/a_replay.rs",
            "#[test]\nfn it_replays() {\n    mundi_sdk::testing::replay_bundle(\"shop.mundi\");\n}\n",
            "src/lib.rs",
            ("&count)?;\n            world.reply", "&(count + 1))?;\n            world.reply"),
            ("ctx.sleep(&after)", "ctx.sleep(\"5m\")"),
        ),
        "python" => (
            "test_replay.py",
            "import unittest\nfrom mundi.testing import replay_bundle\nclass It(unittest.TestCase):\n    \
             def test_it_replays(self):\n        replay_bundle(\"shop.mundi\")\n",
            "program.py",
            ("world.put(\"count\", count)", "world.put(\"count\", count + 1)"),
            ("ctx.sleep(given[\"after\"])", "ctx.sleep(\"5m\")"),
        ),
        _ => (
            "test/replay.test.ts",
            "import { test } from \"node:test\";\nimport { replayBundle } from \"mundi-sdk/testing\";\n\
             test(\"it replays\", () => replayBundle(\"shop.mundi\"));\n",
            "src/program.ts",
            ("world.put(\"count\", count)", "world.put(\"count\", count + 1)"),
            ("ctx.sleep(after)", "ctx.sleep(\"5m\")"),
        ),
    };
    fs::write(project.join(test), line).unwrap();
    run_tests(project, lang);
    let source = project.join(source);
    let text = fs::read_to_string(&source).unwrap();
    let said = |(from, to): (&str, &str)| {
        assert!(text.contains(from), "{lang}: {from}");
        fs::write(&source, text.replace(from, to)).unwrap();
        let output = tested(project, lang);
        assert!(!output.status.success(), "{lang}: {to}");
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    };
    let said_of_handler = said(handler);
    assert!(said_of_handler.contains("at height 1"), "{lang}: {said_of_handler}");
    let said_of_function = said(function);
    assert!(said_of_function.contains("later/one"), "{lang}: {said_of_function}");
}

#[test]
fn types_follow_the_description() {
    let folder = tempfile::tempdir().unwrap();
    for (lang, types) in [("rust", "src/types.rs"), ("ts", "src/types.ts"), ("python", "vocabulary.py")] {
        let project = new(folder.path(), lang);
        fs::write(
            project.join("mundi.json"),
            r#"{"events": {"rename": {"type": "string"}}, "effects": {"http.request": {}}}"#,
        )
        .unwrap();
        let path = run(&["program", "types", project.to_str().unwrap()]).ok();
        assert_eq!(Path::new(path.trim_end()), project.join(types).canonicalize().unwrap());
        let text = fs::read_to_string(project.join(types)).unwrap();
        assert!(text.contains("rename") && !text.contains("add"), "{lang}: {text}");
    }
    run(&["program", "types", folder.path().to_str().unwrap()]).failed(3, "mundi.json");
}

/// A change in the project's own copy of the SDK is in the component, too, and not only in its tests.
#[test]
#[ignore = "needs the compilers of guests: cargo xtask guests"]
fn a_build_uses_the_projects_own_copy_of_the_sdk() {
    let folder = tempfile::tempdir().unwrap();
    for (lang, file, from, to) in [
        (
            "rust",
            "mundi-sdk/src/world.rs",
            "host::put(key, &cbor::to_vec(value)?);",
            "host::put(&format!(\"own/{key}\"), &cbor::to_vec(value)?);",
        ),
        (
            "ts",
            "mundi-sdk/src/index.ts",
            "this.host.put(key, encode(value));",
            "this.host.put(`own/${key}`, encode(value));",
        ),
        (
            "python",
            "mundi-sdk/mundi/__init__.py",
            "self._host.put(key, cbor.encode(value))",
            "self._host.put(f\"own/{key}\", cbor.encode(value))",
        ),
    ] {
        if !std::env::var("MUNDI_GUESTS").unwrap_or_else(|_| LANGUAGES.join(",")).split(',').any(|named| named == lang)
        {
            continue;
        }
        let project = new(folder.path(), lang);
        let text = fs::read_to_string(project.join(file)).unwrap();
        assert!(text.contains(from), "{lang}");
        fs::write(project.join(file), text.replace(from, to)).unwrap();
        let home = tempfile::tempdir_in(folder.path()).unwrap();
        let server = Server::start(home.path());
        let manifest = crate::kinds::deployed(&server, &project);
        at(&server.url, &["world", "create", lang, "--manifest", &manifest]).ok();
        at(&server.url, &["world", "call", lang, "add", "2"]).ok();
        assert!(at(&server.url, &["world", "cells", lang]).ok().contains("own/count"), "{lang}");
    }
}

/// The steps of `docs/guides/write-a-program.md`, with the compilers that people use.
#[test]
#[ignore = "needs the compilers of guests: cargo xtask guests"]
fn a_new_project_is_tested_built_uploaded_and_called_in_every_language() {
    let named = std::env::var("MUNDI_GUESTS").unwrap_or_else(|_| LANGUAGES.join(","));
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    for lang in named.split(',') {
        let project = new(folder.path(), lang);
        run_tests(&project, lang);
        let mut build = mundi();
        build.args(["--format", "json", "program", "build", "--install"]).current_dir(&project);
        let built: Done = build.output().unwrap().into();
        let built: serde_json::Value = serde_json::from_str(&built.ok()).unwrap();
        assert_eq!(built["events"]["add"], serde_json::json!({ "type": "integer" }), "{built}");
        assert!(
            built["hash"].as_str().unwrap().starts_with("h_") && built["bytes"].as_u64().unwrap() > 1_000,
            "{built}"
        );
        let manifest = at(&server.url, &["program", "upload", project.to_str().unwrap()]).ok();
        at(&server.url, &["world", "create", lang, "--manifest", manifest.trim_end()]).ok();
        for (add, sum) in [("2", "2\n"), ("3", "5\n")] {
            assert_eq!(at(&server.url, &["world", "call", lang, "add", add]).ok(), sum, "{lang}");
        }
        assert_eq!(at(&server.url, &["world", "query", lang, "count"]).ok(), "5\n", "{lang}");
        replay_as_a_test(&server.url, &project, lang);
    }
}
