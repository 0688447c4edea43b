//! The commands of the README, as they stand there.

use crate::program::{Done, mundi};
use std::{path::Path, process::Command, time::Instant};

/// The shell commands below a heading.
fn commands(heading: &str) -> String {
    let readme = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md")).unwrap();
    let section = readme.split_once(&format!("\n## {heading}\n")).expect("the heading is there").1;
    let section = section.split("\n## ").next().unwrap();
    let blocks = section.split("```sh\n").skip(1).map(|block| block.split_once("```").unwrap().0);
    blocks.collect::<Vec<_>>().join("\n")
}

/// A port that nobody has.
fn port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
#[expect(clippy::disallowed_methods, reason = "how long it took is told, and nothing depends on it")]
fn every_command_of_the_tour_works_as_it_stands() {
    let folder = tempfile::tempdir().unwrap();
    let address = format!("127.0.0.1:{}", port());
    let program = mundi();
    let bin = Path::new(program.get_program()).parent().unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    // A server that a command leaves behind when the script fails is not left behind by the test.
    let script =
        format!("set -ex\ntrap 'kill -9 $(jobs -p) 2>/dev/null || true' EXIT\n{}", commands("The sixty-second tour"));
    let began = Instant::now();
    let mut bash = Command::new("bash");
    bash.arg("-c").arg(&script).current_dir(folder.path()).env("PATH", path);
    bash.env("MUNDI_API__BIND", &address).env("MUNDI_URL", format!("http://{address}"));
    let done: Done = bash.output().unwrap().into();
    eprintln!("the tour took {:?}", began.elapsed());
    assert_eq!(done.code, 0, "{}{}", done.out, done.err);
    let printed: Vec<&str> = done.out.lines().collect();
    for line in ["5", "15", "105", "count  15    105"] {
        assert!(printed.contains(&line), "{line} was not printed:\n{}{}", done.out, done.err);
    }
}
