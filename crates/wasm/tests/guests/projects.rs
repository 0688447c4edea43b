//! A new project builds, and its test passes, with nothing but what the project and this machine have.

use crate::{
    builder, components, languages, repository,
    rig::{Rig, failure},
    tell,
};
use mundi_model::record::{Payload, ReplyOutcome};
use mundi_wasm::build::{BuildError, Language, scaffold};
use std::{path::Path, process::Command};

/// The command that the project's own README would name.
fn run_tests(folder: &Path, language: Language) {
    let cache = builder().cache;
    let mut command = match language {
        Language::Rust => {
            let mut cargo = Command::new("cargo");
            cargo.args(["test", "--quiet", "--target-dir"]).arg(cache.join("rust-tests"));
            cargo
        }
        Language::Python => {
            let mut python = Command::new("python3");
            python.args(["-m", "unittest"]).env("PYTHONPATH", "mundi-sdk");
            python
        }
        Language::TypeScript => {
            // What `npm install` would make, from what the builder has got already.
            let modules = folder.join("node_modules");
            std::fs::create_dir_all(&modules).unwrap();
            for entry in cache.join("typescript/node_modules").read_dir().unwrap() {
                let entry = entry.unwrap();
                std::os::unix::fs::symlink(entry.path(), modules.join(entry.file_name())).unwrap();
            }
            std::os::unix::fs::symlink(folder.join("mundi-sdk"), modules.join("mundi-sdk")).unwrap();
            let mut npm = Command::new("npm");
            npm.args(["test", "--silent"]);
            npm
        }
    };
    let output = command.current_dir(folder).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{language}:\n{}", String::from_utf8_lossy(&said));
}

#[test]
#[ignore = "needs the compilers of guests: cargo xtask guests"]
fn a_new_project_builds_counts_and_its_test_passes() {
    let folder = tempfile::tempdir().unwrap();
    for language in languages() {
        tell(&format!("a new project in {language}"));
        let project = folder.path().join(format!("my-{}", language.to_string().to_lowercase()));
        scaffold(&project, language).unwrap();
        let built = builder().build(&project).unwrap_or_else(|error| panic!("{language}: {error}"));
        assert_eq!(built.manifest.events.keys().collect::<Vec<_>>(), ["add"]);
        let mut rig = Rig::with(&components(), &built.component, |_| {}).unwrap();
        for (by, sum) in [(2, 2), (3, 5)] {
            let output = rig.send("add", by.into()).unwrap();
            assert_eq!(failure(&output), None);
            assert_eq!(output.replies[0].outcome, ReplyOutcome::Ok(Payload::Inline(vec![sum])));
        }
        tell("its own test");
        run_tests(&project, language);
    }
}

/// The tests that the SDKs themselves have. Those of the Rust one run with the workspace.
#[test]
#[ignore = "needs the compilers of guests: cargo xtask guests"]
fn the_sdks_own_tests_pass() {
    let (sdk, folder) = (repository().join("sdk"), tempfile::tempdir().unwrap());
    let run = |command: &mut Command| {
        let output = command.current_dir(&sdk).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
    };
    if languages().contains(&Language::Python) {
        let tests = ["-m", "unittest", "discover", "-s", "python/tests"];
        run(Command::new("python3").args(tests).env("PYTHONPATH", "python"));
    }
    if languages().contains(&Language::TypeScript) {
        let bundle = folder.path().join("sdk.test.mjs");
        let esbuild = builder().cache.join("typescript/node_modules/.bin/esbuild");
        let mut bundled = Command::new(esbuild);
        bundled.args(["typescript/test/sdk.test.ts", "--bundle", "--format=esm", "--platform=node"]);
        run(bundled.arg(format!("--outfile={}", bundle.display())));
        run(Command::new("node").arg("--test").arg(bundle).env("MUNDI_VECTORS", "vectors.json"));
    }
}

#[test]
fn what_is_no_project_says_what_it_lacks() {
    let folder = tempfile::tempdir().unwrap();
    let refused = builder().build(folder.path()).unwrap_err();
    assert!(refused.to_string().contains("mundi.json"), "{refused}");
    std::fs::write(folder.path().join("mundi.json"), "{}").unwrap();
    let refused = builder().build(folder.path()).unwrap_err();
    assert!(refused.to_string().contains("program.py"), "{refused}");
    std::fs::write(folder.path().join("mundi.json"), "{\"evnts\": {}}").unwrap();
    let refused = builder().build(folder.path()).unwrap_err();
    assert!(matches!(&refused, BuildError::Project(why) if why.contains("evnts")), "{refused}");
}

#[test]
fn a_project_is_not_begun_over_another_or_under_a_name_that_tools_refuse() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["", "Big", "1st", "a b", "a/../b_c"] {
        assert!(scaffold(&folder.path().join(name), Language::Python).is_err(), "{name}");
    }
    scaffold(&folder.path().join("one"), Language::Python).unwrap();
    assert!(scaffold(&folder.path().join("one"), Language::Rust).is_err());
}
