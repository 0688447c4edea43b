//! The command line. What commands print as data goes to stdout, all else to stderr.
//!
//! Exit codes: 0 done; 1 refused or failed; 2 the command line is wrong.

mod client;
mod serve;
mod token;
mod universe;
mod world;

use clap::{Args, Parser, Subcommand};
use mundi_server::config::{Config, ConfigError, environment};
use std::{error::Error, path::PathBuf, process::ExitCode};
use toml::Value;

/// Durable deterministic worlds.
#[derive(Parser)]
#[command(name = "mundi", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs a whole universe in this process, on a folder: nothing to set up.
    Dev(ServerArgs),
    /// Runs chosen roles, for fleets.
    Server(ServerArgs),
    /// The configuration.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Tokens: who may do what.
    #[command(subcommand)]
    Token(token::TokenCommand),
    /// Universes: move them to another engine.
    #[command(subcommand)]
    Universe(universe::UniverseCommand),
    /// Worlds: create them, send to them, look into them.
    #[command(subcommand)]
    World(world::WorldCommand),
}

#[derive(Subcommand)]
enum ConfigCommand {
    /// Prints the configuration that holds, with secrets masked.
    Show(ServerArgs),
}

/// What wins over file and environment.
#[derive(Args, Clone)]
pub(crate) struct ServerArgs {
    /// A TOML file; its keys are those of `mundi config show`.
    #[arg(long, env = "MUNDI_CONFIG")]
    config: Option<PathBuf>,
    /// The data folder.
    #[arg(long)]
    data: Option<PathBuf>,
    /// Where the API is served; port 0 takes a free one.
    #[arg(long)]
    bind: Option<String>,
    /// Of world, adapter, timer, orchestrator, api.
    #[arg(long, value_delimiter = ',')]
    roles: Option<Vec<String>>,
}

impl ServerArgs {
    fn load(&self) -> Result<Config, ConfigError> {
        let text = |value: &Option<String>| value.clone().map(Value::String);
        let data = self.data.as_ref().map(|path| Value::String(path.display().to_string()));
        let roles = self.roles.clone().map(|roles| Value::Array(roles.into_iter().map(Value::String).collect()));
        let given = [("data.folder", data), ("api.bind", text(&self.bind)), ("node.roles", roles)];
        let flags: Vec<_> = given.into_iter().filter_map(|(path, value)| Some((path, value?))).collect();
        Config::load(self.config.as_deref(), environment(), &flags)
    }
}

pub(crate) fn run() -> ExitCode {
    let cli = Cli::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error),
    };
    match runtime.block_on(cli.command.run()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&*error),
    }
}

fn failed(error: &dyn Error) -> ExitCode {
    eprintln!("error: {error}");
    ExitCode::FAILURE
}

pub(crate) type Outcome = Result<(), Box<dyn Error + Send + Sync>>;

impl Command {
    async fn run(self) -> Outcome {
        match self {
            Self::Dev(args) | Self::Server(args) => serve::run(&args.load()?).await,
            Self::Config(ConfigCommand::Show(args)) => {
                print(&args.load()?.show()?);
                Ok(())
            }
            Self::Token(command) => command.run().await,
            Self::Universe(command) => command.run().await,
            Self::World(command) => command.run().await,
        }
    }
}

/// Data, for people and pipes.
#[expect(clippy::print_stdout, reason = "this is the one place that prints data")]
pub(crate) fn print(text: &str) {
    println!("{}", text.trim_end());
}
