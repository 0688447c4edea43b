//! The commands of the README, and of the start page, as they stand there; and the shell that they are typed into.

use crate::{
    kinds::languages,
    program::{Done, mundi},
};
use std::{path::Path, process::Command, time::Instant};

pub(crate) fn page(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// The shell commands in a part of a page.
pub(crate) fn commands(text: &str) -> String {
    let blocks = text.split("```sh\n").skip(1).map(|block| block.split_once("```").unwrap().0);
    blocks.collect::<Vec<_>>().join("\n")
}

/// A port that nobody has.
pub(crate) fn port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Types commands into a shell in a new folder, where `mundi` is on the path and `examples` are at hand.
pub(crate) fn typed(commands: &str) -> Done {
    typed_within(120, commands)
}

/// The same, for commands that compile programs first. Ends them when the time is up.
pub(crate) fn typed_within(seconds: u32, commands: &str) -> Done {
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(root().join("examples"), folder.path().join("examples")).unwrap();
    let address = format!("127.0.0.1:{}", port());
    let program = mundi();
    let bin = Path::new(program.get_program()).parent().unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    // A server that a command leaves behind when the script fails is not left behind by the test.
    let script = format!("set -ex\ntrap 'kill -9 $(jobs -p) 2>/dev/null || true' EXIT\n{commands}");
    let mut bash = Command::new("timeout");
    bash.args([&*seconds.to_string(), "bash", "-c"]).arg(&script).current_dir(folder.path()).env("PATH", path);
    bash.env("SERVICE_PORT", port().to_string());
    bash.env("MUNDI_API__BIND", &address).env("MUNDI_URL", format!("http://{address}"));
    bash.output().unwrap().into()
}

#[test]
#[expect(clippy::disallowed_methods, reason = "how long it took is told, and nothing depends on it")]
fn every_command_of_the_tour_works_as_it_stands() {
    let readme = page("README.md");
    let tour = readme.split_once("\n## The sixty-second tour\n").expect("the heading is there").1;
    let began = Instant::now();
    let done = typed(&commands(tour.split("\n## ").next().unwrap()));
    eprintln!("the tour took {:?}", began.elapsed());
    assert_eq!(done.code, 0, "{}{}", done.out, done.err);
    let printed: Vec<&str> = done.out.lines().collect();
    for line in ["5", "15", "105", "count  15    105"] {
        assert!(printed.contains(&line), "{line} was not printed:\n{}{}", done.out, done.err);
    }
}

/// A Rust compiler for components may have to be told to build its standard library: that takes minutes the first time.
#[test]
#[ignore = "needs the compilers of guests: cargo xtask guests"]
fn every_command_of_the_start_page_works_as_it_stands() {
    let start = page("docs/start.md");
    let change = |file: &str| start.lines().find(|line| line.starts_with("sed -i") && line.ends_with(file)).unwrap();
    for (lang, _) in languages() {
        let file = match &*lang {
            "ts" => "src/program.ts",
            "python" => "program.py",
            _ => "src/lib.rs",
        };
        let typed = commands(&start).replace("--lang rust", &format!("--lang {lang}"));
        let done = typed_within(1_200, &typed.replace(change("src/lib.rs"), change(file)));
        assert_eq!(done.code, 0, "{lang}: {}{}", done.out, done.err);
        let printed: Vec<&str> = done.out.lines().collect();
        for line in ["tea@1", "2", "5", "102", "count  5     102", "tea@2", "32"] {
            assert!(printed.contains(&line), "{lang}: {line} was not printed:\n{}{}", done.out, done.err);
        }
    }
}
