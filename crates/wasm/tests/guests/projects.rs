//! A new project builds with nothing but what the project and this machine have.

use crate::{
    builder, components, languages, repository,
    rig::{Rig, failure},
    tell,
};
use mundi_model::record::{Payload, ReplyOutcome};
use mundi_wasm::build::{BuildError, Language, Template, scaffold};
use std::{path::Path, process::Command};

#[test]
#[ignore = "needs the compilers of guests: cargo xtask guests"]
fn a_new_project_builds_and_counts() {
    let folder = tempfile::tempdir().unwrap();
    let templates = [(Template::Durable, &["add", "later"][..]), (Template::Handler, &["add"])];
    for (language, (template, events)) in languages().into_iter().flat_map(|it| templates.map(|other| (it, other))) {
        tell(&format!("a new project in {language}: {template:?}"));
        let name = format!("my-{language}-{template:?}").to_lowercase();
        let project = folder.path().join(name);
        scaffold(&project, language, template).unwrap();
        let built = builder().build(&project).unwrap_or_else(|error| panic!("{language}: {error}"));
        assert_eq!(built.manifest.events.keys().collect::<Vec<_>>(), events);
        let mut rig = Rig::with(&components(), &built.component, |_| {}).unwrap();
        for (by, sum) in [(2, 2), (3, 5)] {
            let output = rig.send("add", by.into()).unwrap();
            assert_eq!(failure(&output), None);
            assert_eq!(output.replies[0].outcome, ReplyOutcome::Ok(Payload::Inline(vec![sum])));
        }
    }
}

/// All projects share a folder of compiled crates, and the library of each new one has the same name there.
#[test]
#[ignore = "needs the compilers of guests: cargo xtask guests"]
fn two_projects_that_are_built_in_turns_are_not_taken_for_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let projects = ["one", "two"].map(|name| folder.path().join(name));
    for project in &projects {
        scaffold(project, Language::Rust, Template::Handler).unwrap();
    }
    let source = projects[1].join("src/lib.rs");
    let text = std::fs::read_to_string(&source).unwrap();
    std::fs::write(&source, text.replace("unwrap_or(0) + by", "unwrap_or(0) - by")).unwrap();
    let hash = |number: usize| builder().build(&projects[number]).unwrap().hash;
    let (one, two) = (hash(0), hash(1));
    assert_ne!(one, two);
    assert_eq!([hash(0), hash(1), hash(1), hash(0)], [one, two, two, one]);
}

/// Runs a command to its end; what it printed is shown if it fails.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{command:?}: {said}");
    said
}

/// Runs a test in TypeScript of a program, with the SDK of this repository.
fn run_typescript(test: &Path, folder: &Path) {
    let sdk = repository().join("sdk/typescript/src").canonicalize().unwrap();
    let bundle = folder.join("bundle/program.test.mjs");
    let mut bundled = Command::new(builder().cache.join("typescript/node_modules/.bin/esbuild"));
    bundled.arg(test).args(["--bundle", "--format=esm", "--platform=node"]);
    bundled.arg(format!("--alias:mundi-sdk/testing={}", sdk.join("testing.ts").display()));
    bundled.arg(format!("--alias:mundi-sdk={}", sdk.join("index.ts").display()));
    run(bundled.arg(format!("--outfile={}", bundle.display())));
    let said = run(Command::new("node").arg("--test").arg(bundle));
    assert!(!said.contains("# tests 0"), "{said}");
}

/// The examples with tests in three languages.
const EXAMPLES: [&str; 4] = ["todo-agent", "order-saga/durable", "payment-saga/durable", "chat-agent/durable"];

/// The tests that the examples have. Those in Python need no compiler and run with the tests of the SDK in Python, below.
#[test]
#[ignore = "needs the compilers of guests: cargo xtask guests"]
fn the_tests_of_the_examples_pass() {
    let (examples, folder) = (repository().join("examples").canonicalize().unwrap(), tempfile::tempdir().unwrap());
    let mut tests = 0;
    for example in EXAMPLES.map(|example| format!("{example}/rust")).into_iter().chain(["order-saga/rust".to_owned()]) {
        tell(&format!("the tests of examples/{example}"));
        let mut cargo = Command::new("cargo");
        cargo.args(["test", "--locked", "--tests"]).current_dir(examples.join(&example));
        // What they depend on is compiled once for all of them, and again only if it changes.
        let said = run(cargo.env("CARGO_TARGET_DIR", builder().cache.join("examples")));
        tests += said.lines().filter(|line| line.starts_with("test ") && line.ends_with(" ... ok")).count();
    }
    assert!(tests > 14, "only {tests} tests in Rust ran");
    if languages().contains(&Language::TypeScript) {
        for project in EXAMPLES.map(|example| examples.join(example).join("typescript")) {
            tell(&format!("the tests of {}", project.display()));
            builder().types(&project).unwrap();
            for test in std::fs::read_dir(project.join("test")).unwrap() {
                run_typescript(&test.unwrap().path(), folder.path());
            }
        }
    }
}

/// The tests that the SDK itself has. Those of the Rust one run with the workspace, and so do those of Python.
#[test]
#[ignore = "needs the compilers of guests: cargo xtask guests"]
fn the_tests_of_the_sdk_in_typescript_pass() {
    let (sdk, folder) = (repository().join("sdk"), tempfile::tempdir().unwrap());
    if languages().contains(&Language::TypeScript) {
        let esbuild = builder().cache.join("typescript/node_modules/.bin/esbuild");
        let mut bundled = Command::new(esbuild);
        let tests = ["sdk", "misuses", "calls", "children", "pools", "functions", "function-vectors", "jobs"]
            .map(|name| format!("typescript/test/{name}.test.ts"));
        bundled.args(tests).args(["--bundle", "--format=esm"]);
        bundled.args(["--platform=node", "--out-extension:.js=.mjs"]);
        run(bundled.arg(format!("--outdir={}", folder.path().display())).current_dir(&sdk));
        let mut node = Command::new("node");
        node.arg("--test").arg(folder.path()).current_dir(&sdk);
        node.env("MUNDI_FUNCTION_VECTORS", "function-vectors.json");
        run(node.env("MUNDI_VECTORS", "vectors.json").env("MUNDI_MISUSES", "misuses.json"));

        // The program on the page about it, with its test.
        let source = folder.path().join("page.ts");
        std::fs::write(&source, blocks("docs/reference/sdk-typescript.md", "ts").join("\n")).unwrap();
        run_typescript(&source, folder.path());

        // The durable function of its guide, as the project that the guide describes.
        let (guide, project) = ("docs/guides/durable-functions.md", folder.path().join("shop"));
        let sources = blocks(guide, "ts");
        let test = sources.iter().find(|block| block.contains("new DurableWorld")).unwrap();
        let files =
            [("mundi.json", &blocks(guide, "json")[0]), ("src/program.ts", &sources[0]), ("test/order.test.ts", test)];
        for (name, text) in files {
            let path = project.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        run_typescript(&project.join("test/order.test.ts"), folder.path());

        // And the program of the page for those who come from other tools.
        let page = OTHER_TOOLS.map(|tool| section_of(tool, "ts")).into_iter().find(|(_, sources)| !sources.is_empty());
        let (declared, sources) = page.unwrap();
        let project = folder.path().join("hello");
        for (name, text) in
            [("mundi.json", &declared), ("src/program.ts", &sources[0]), ("test/hello.test.ts", &sources[1])]
        {
            let path = project.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        run_typescript(&project.join("test/hello.test.ts"), folder.path());
    }
}

/// The sections of `docs/guides/from-other-tools.md` that have a program in TypeScript or Python.
const OTHER_TOOLS: [&str; 3] = ["Temporal", "DBOS", "LangGraph"];

/// The declaration in a section of that page, and its programs and tests in one language.
fn section_of(tool: &str, language: &str) -> (String, Vec<String>) {
    let page = std::fs::read_to_string(repository().join("docs/guides/from-other-tools.md")).unwrap();
    let section = page.split("\n## ").find(|section| section.starts_with(tool)).unwrap();
    (blocks_of(section, "json").remove(0), blocks_of(section, language))
}

/// No compiler is needed, as for the tests of the SDK in Python.
#[test]
fn the_programs_in_python_for_those_who_come_from_other_tools_pass_their_tests() {
    let sdk = repository().join("sdk/python").canonicalize().unwrap();
    let mut tested = 0;
    for tool in OTHER_TOOLS {
        let (declared, sources) = section_of(tool, "python");
        let [program, test] = &sources[..] else { continue };
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [("mundi.json", &declared), ("program.py", program), ("test_program.py", test)] {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let mut python = Command::new("python3");
        python.args(["-m", "unittest", "test_program"]).current_dir(folder.path()).env("PYTHONPATH", &sdk);
        assert!(run(&mut python).contains("Ran 1 test"), "{tool}");
        tested += 1;
    }
    assert_eq!(tested, 2);
}

/// The code on a page, in one language.
fn blocks(page: &str, language: &str) -> Vec<String> {
    blocks_of(&std::fs::read_to_string(repository().join(page)).unwrap(), language)
}

fn blocks_of(page: &str, language: &str) -> Vec<String> {
    let begin = format!("```{language}\n");
    page.split(&begin).skip(1).map(|block| block.split("```").next().unwrap().to_owned()).collect()
}

/// No compiler is needed: the SDK in Python and the example are tested as sources.
#[test]
fn the_tests_of_the_sdk_in_python_pass() {
    let sdk = repository().join("sdk/python").canonicalize().unwrap();
    let examples = EXAMPLES.map(|example| (repository().join("examples").join(example).join("python"), "."));
    for (folder, tests) in examples.into_iter().chain([(sdk.clone(), "tests")]) {
        let mut python = Command::new("python3");
        python.args(["-m", "unittest", "discover", "-s", tests]).current_dir(folder).env("PYTHONPATH", &sdk);
        let output = python.env("PYTHONDONTWRITEBYTECODE", "1").output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && !said.contains("Ran 0 tests"), "{said}");
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
        assert!(scaffold(&folder.path().join(name), Language::Python, Template::Durable).is_err(), "{name}");
    }
    scaffold(&folder.path().join("one"), Language::Python, Template::Durable).unwrap();
    assert!(scaffold(&folder.path().join("one"), Language::Rust, Template::Durable).is_err());
}
