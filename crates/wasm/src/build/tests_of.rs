//! The tests of a project, by the command that its language has for it.

use super::{
    BuildError, Language, Project,
    tools::{command, run_tests},
};
use std::process::Command;

/// Runs them to their end; what they said is in the error.
pub fn test(project: &Project) -> Result<(), BuildError> {
    let (what, mut tests) = tests_of(project);
    tests.current_dir(&project.folder);
    run_tests(what, &mut tests)
}

fn tests_of(project: &Project) -> (&'static str, Command) {
    let with = |program: &str, arguments: &[&str]| {
        let mut command = command(program);
        command.args(arguments);
        command
    };
    match project.language {
        // In a folder of their own: cargo lets one command at a time use one, and the build runs beside.
        Language::Rust => ("cargo test", with("cargo", &["test", "--quiet"])),
        Language::TypeScript => ("npm test", with("npm", &["test", "--silent"])),
        Language::Python => {
            let mut unittest = with("python3", &["-m", "unittest", "--quiet"]);
            unittest.env("PYTHONPATH", project.folder.join("mundi-sdk"));
            ("python3 -m unittest", unittest)
        }
    }
}
