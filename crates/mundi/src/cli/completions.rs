//! `mundi completions`: completion scripts for shells.

use super::{Cli, exit::Outcome, output::print};
use clap::{Args, CommandFactory};
use clap_complete::Shell;

#[derive(Args)]
pub(super) struct Completions {
    shell: Shell,
}

impl Completions {
    pub(super) fn run(self) -> Outcome {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "mundi", &mut script);
        print(&String::from_utf8_lossy(&script))
    }
}
