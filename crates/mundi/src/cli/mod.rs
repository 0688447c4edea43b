//! The command line. What commands print as data goes to stdout, all else to stderr. `docs/reference/cli.md` is the page about it.

mod blob;
mod client;
mod completions;
mod config;
mod dead_letter;
mod demo;
mod doctor;
mod effect;
mod evidence;
mod exit;
mod explain;
mod function;
mod gate;
mod lease;
mod manifest;
mod mcp;
mod output;
mod pool;
mod program;
mod program_dev;
mod program_upgrade;
mod progress;
mod quotas;
mod resource;
mod serve;
mod sql;
mod telemetry;
mod timer;
mod token;
mod universe;
mod universe_events;
mod universes;
mod upload;
mod verify;
mod whoami;
mod worker;
mod world;

use clap::{Args, Parser, Subcommand};
use exit::{Failed, Outcome};
use mundi_server::config::{Config, environment};
use mundi_wasm::{CompileLimits, compile_stdin};
use output::{Format, Out};
use std::{path::PathBuf, process::ExitCode};
use toml::Value;

/// Durable deterministic worlds.
#[derive(Parser)]
#[command(name = "mundi", version, propagate_version = true, after_help = AFTER_HELP)]
struct Cli {
    /// How data is printed.
    #[arg(long, global = true, value_enum, env = "MUNDI_FORMAT", default_value = "table")]
    format: Format,
    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str =
    "Exit codes: 0 done, 1 failed, 2 wrong command line, 3 refused, 4 not found, 5 exists or conflict,
6 unavailable, 7 damaged or not proven, 8 token, 9 differs. `mundi explain CODE` says what an error code means.";

#[derive(Subcommand)]
enum Command {
    /// Runs benchmarks, with the raw limit of the disk for comparison.
    Bench(mundi_bench::BenchArgs),
    /// Blobs: immutable objects, named by their hash.
    #[command(subcommand)]
    Blob(blob::BlobCommand),
    /// Prints the completion script of a shell.
    Completions(completions::Completions),
    /// Shows the configuration.
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// Compiles the component on standard input, within bounds. Servers start this command.
    #[command(hide = true)]
    CompileComponent(CompileComponent),
    /// Dead letters: items that a queue gave up on.
    #[command(subcommand)]
    DeadLetter(dead_letter::DeadLetterCommand),
    /// Demonstrates ten durable steps, a worker that is killed at random, and a fork, in under a minute.
    Demo(demo::Demo),
    /// Carries out the demo's steps until it is killed.
    #[command(hide = true)]
    DemoWorker(demo::DemoWorker),
    /// Runs a server with all roles in this process, on a folder.
    Dev(ServerArgs),
    /// Checks a data folder or a server, and lists problems.
    Doctor(doctor::Doctor),
    /// Effects: external actions that worlds requested.
    #[command(subcommand)]
    Effect(effect::EffectCommand),
    /// Evidence: the events of children, as lines of canonical JSON.
    #[command(subcommand)]
    Evidence(evidence::EvidenceCommand),
    /// Explains an error code, and what to do.
    Explain(explain::Explain),
    /// Functions: run, list, inspect and cancel instances of durable functions.
    #[command(subcommand)]
    Function(function::FunctionCommand),
    /// The stop gate: replays fixtures of dispatch, recovery and budgets, and compares; exit code 9 if any differs.
    Gate(gate::Gate),
    /// Leases: which worker holds which world.
    #[command(subcommand)]
    Lease(lease::LeaseCommand),
    /// Manifests: program, events, effects and limits of worlds.
    #[command(subcommand)]
    Manifest(manifest::ManifestCommand),
    /// Serves an assistant over MCP, on standard input and output.
    Mcp(mcp::Mcp),
    /// Pools: resources that are leased, and never handed out early.
    #[command(subcommand)]
    Pool(pool::PoolCommand),
    /// Programs: write, build and upload the code of worlds.
    #[command(subcommand)]
    Program(program::ProgramCommand),
    /// Resources: what a pool leases.
    #[command(subcommand)]
    Resource(resource::ResourceCommand),
    /// Runs a server with chosen roles, for fleets.
    Server(ServerArgs),
    Sim(mundi_sim::cli::SimArgs),
    /// Runs a read-only SQL query over the worlds of a universe, their journals, state and queues.
    Sql(sql::Sql),
    /// Timers: inputs that worlds requested for a later time.
    #[command(subcommand)]
    Timer(timer::TimerCommand),
    /// Tokens: access to the API.
    #[command(subcommand)]
    Token(token::TokenCommand),
    /// Universes: create, measure, limit, export and import them.
    #[command(subcommand)]
    Universe(universes::UniversesCommand),
    /// Verifies bundles, a data folder, or all worlds of a server.
    Verify(verify::Verify),
    /// Shows what the token allows.
    Whoami(whoami::Whoami),
    /// Workers: the processes that run worlds.
    #[command(subcommand)]
    Worker(worker::WorkerCommand),
    /// Worlds: create, call, inspect, fork and verify them.
    #[command(subcommand)]
    World(world::WorldCommand),
}

#[derive(Args)]
pub(crate) struct CompileComponent {
    #[arg(long)]
    cpu_s_max: u64,
    #[arg(long)]
    memory_bytes_max: u64,
    /// Where functions that were compiled before are.
    #[arg(long)]
    functions: Option<PathBuf>,
}

/// Flags that override file and environment.
#[derive(Args, Clone)]
pub(crate) struct ServerArgs {
    /// A TOML file; its keys are those of `mundi config show`.
    #[arg(long, env = "MUNDI_CONFIG")]
    config: Option<PathBuf>,
    /// The data folder.
    #[arg(long)]
    data: Option<PathBuf>,
    /// The address of the API; port 0 chooses a free one.
    #[arg(long)]
    bind: Option<String>,
    /// Some of world, adapter, timer, orchestrator, watcher, api.
    #[arg(long, value_delimiter = ',')]
    roles: Option<Vec<String>>,
    /// A file that gets a line of JSON for each step of the worker shells, for a postmortem.
    #[arg(long)]
    replay_log: Option<PathBuf>,
}

impl ServerArgs {
    fn load(&self) -> Outcome<Config> {
        let text = |value: &Option<String>| value.clone().map(Value::String);
        let data = self.data.as_ref().map(|path| Value::String(path.display().to_string()));
        let roles = self.roles.clone().map(|roles| Value::Array(roles.into_iter().map(Value::String).collect()));
        let replay_log = self.replay_log.as_ref().map(|path| Value::String(path.display().to_string()));
        let given = [
            ("data.folder", data),
            ("api.bind", text(&self.bind)),
            ("node.roles", roles),
            ("node.replay_log", replay_log),
        ];
        let flags: Vec<_> = given.into_iter().filter_map(|(path, value)| Some((path, value?))).collect();
        Config::load(self.config.as_deref(), environment(), &flags).map_err(|error| Failed::coded(&error))
    }
}

pub(crate) fn run() -> ExitCode {
    let Cli { format, command } = Cli::parse();
    let out = Out::new(format);
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return Failed::from(error).report(out),
    };
    match runtime.block_on(command.run(out)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failed) => failed.report(out),
    }
}

impl Command {
    async fn run(self, out: Out) -> Outcome {
        match self {
            // Both bring their own threads and runtimes, and nothing else happens in this process meanwhile.
            Self::Bench(args) => tokio::task::block_in_place(|| {
                let this = std::env::current_exe()?;
                let again = || {
                    let mut command = std::process::Command::new(&this);
                    command.arg("bench");
                    command
                };
                args.run(&again).map_err(|error| Failed::plain(error.to_string()))
            }),
            Self::Sim(args) => tokio::task::block_in_place(|| sim(&args, out)),
            Self::Blob(command) => command.run(out).await,
            Self::Completions(completions) => completions.run(),
            Self::Config(config::ConfigCommand::Show(show)) => show.run(out),
            Self::CompileComponent(CompileComponent { cpu_s_max, memory_bytes_max, functions }) => {
                let limits = CompileLimits { cpu_s_max, memory_bytes_max };
                compile_stdin(limits, functions.as_deref()).map_err(Failed::plain)
            }
            Self::DeadLetter(command) => command.run(out).await,
            Self::Demo(demo) => demo.run(out).await,
            Self::DemoWorker(worker) => worker.run().await,
            Self::Dev(args) | Self::Server(args) => serve::run(&args.load()?).await,
            Self::Doctor(doctor) => doctor.run(out).await,
            Self::Effect(command) => command.run(out).await,
            Self::Explain(explain) => explain.run(out),
            Self::Lease(command) => command.run(out).await,
            Self::Manifest(command) => command.run(out).await,
            Self::Evidence(command) => command.run(out).await,
            Self::Gate(gate) => gate.run(out),
            Self::Mcp(mcp) => mcp.run().await,
            Self::Pool(command) => command.run(out).await,
            Self::Program(command) => command.run(out).await,
            Self::Resource(command) => command.run(out).await,
            Self::Function(command) => command.run(out).await,
            Self::Timer(command) => command.run(out).await,
            Self::Token(command) => command.run(out).await,
            Self::Universe(command) => command.run(out).await,
            Self::Verify(verify) => verify.run(out).await,
            Self::Whoami(whoami) => whoami.run(out).await,
            Self::Sql(sql) => sql.run(out).await,
            Self::Worker(command) => command.run(out).await,
            Self::World(command) => command.run(out).await,
        }
    }
}

fn sim(args: &mundi_sim::cli::SimArgs, out: Out) -> Outcome {
    let format = if out.is_json() { mundi_sim::cli::Format::Json } else { mundi_sim::cli::Format::Text };
    match mundi_sim::cli::run(args, format, &mut std::io::stdout(), &mut *mundi_sim::cli::watched())? {
        true => Ok(()),
        false => Err(Failed::unproven("a promise was broken")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::error::ErrorKind;
    use std::{
        fs,
        path::{Path, PathBuf},
    };

    /// The words of a shell command without redirections; `None` if it is not a `mundi` command.
    fn ours(line: &str) -> Option<Vec<String>> {
        let at = line.find("-p mundi -- ").map(|at| at + "-p mundi -- ".len()).or_else(|| {
            let at = line.find("mundi ")?;
            let before = line[..at].split_whitespace().last().unwrap_or_default();
            let begins = before.is_empty() || before.contains('=') || ["until", "then", "|"].contains(&before);
            begins.then_some(at + "mundi ".len())
        })?;
        let (mut words, mut word, mut quote) = (vec!["mundi".to_owned()], String::new(), None);
        for letter in line[at..].chars() {
            match (quote, letter) {
                (Some(open), _) if open == letter => quote = None,
                (None, '\'' | '"') => quote = Some(letter),
                (None, '#' | '|' | '&' | ')' | ';') => break,
                (None, ' ') if word.is_empty() => {}
                (None, ' ') => words.push(std::mem::take(&mut word)),
                _ => word.push(letter),
            }
        }
        words.extend((!word.is_empty()).then_some(word));
        Some(words)
    }

    /// All pages in a folder, at any depth.
    fn below(folder: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let pages = |path: PathBuf| match path.is_dir() {
            true => below(&path),
            false => vec![path].into_iter().filter(|path| path.extension().is_some_and(|it| it == "md")).collect(),
        };
        entries.flat_map(pages).collect()
    }

    /// The commands in code spans that are whole: a span with alternatives or omissions only names a command.
    fn in_prose(text: &str) -> Vec<&str> {
        let spans =
            text.split('`').skip(1).step_by(2).filter(|span| span.starts_with("mundi ") && !span.contains('\n'));
        spans.filter(|span| !span.contains(['…', '|', '[', '*', '<']) && span.contains(" --")).collect()
    }

    /// Whether a command is right but for what it leaves open: prose names a command with an option, and leaves out its value and operands, or
    /// has a word in capitals in their place.
    fn only_lacks(error: &clap::Error, words: &[String]) -> bool {
        match error.kind() {
            ErrorKind::MissingRequiredArgument | ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => true,
            ErrorKind::InvalidValue | ErrorKind::ValueValidation => {
                let stands_for_another = |word: &String| word.bytes().all(|byte| byte.is_ascii_uppercase());
                words.last().is_some_and(|word| word.starts_with("--")) || words.iter().any(stands_for_another)
            }
            _ => false,
        }
    }

    #[test]
    fn every_command_on_every_page_is_one_that_the_program_takes() {
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        let listed = |folder: &str| fs::read_dir(root.join(folder)).unwrap().map(|entry| entry.unwrap().path());
        let examples = listed("examples").map(|path| path.join("README.md")).filter(|path| path.is_file());
        let at_root = listed(".").filter(|path| path.extension().is_some_and(|it| it == "md"));
        let pages = at_root.chain(below(&root.join("docs"))).chain(examples);
        let (mut taken, mut wrong) = (0, Vec::new());
        for path in pages {
            let page = fs::read_to_string(&path).unwrap();
            for (number, part) in page.split("```").enumerate() {
                let is_prose = number % 2 == 0;
                let lines: Vec<_> = match part.split_once('\n') {
                    _ if is_prose => in_prose(part),
                    Some(("sh" | "text", lines)) => lines.lines().collect(),
                    _ => continue,
                };
                for words in lines.into_iter().filter_map(ours) {
                    let error = Cli::try_parse_from(&words).err();
                    let error = error.filter(|error| !is_prose || !only_lacks(error, &words));
                    wrong.extend(error.map(|error| format!("{}: {words:?}: {error}", path.display())));
                    taken += 1;
                }
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        assert!(taken > 40, "only {taken} were found");
    }

    /// A row for each command below this one: its operands, and its summary.
    fn rows(command: &clap::Command) -> String {
        let shown = |sub: &&clap::Command| !sub.is_hide_set() && sub.get_name() != "help";
        let row = |sub: &clap::Command| {
            if sub.get_subcommands().any(|below| shown(&below)) {
                return rows(sub);
            }
            let usage = sub.clone().render_usage().to_string();
            let line = usage.lines().next().unwrap_or_default().replace("Usage: ", "").replace(" [OPTIONS]", "");
            let about = sub.get_about().map(ToString::to_string).unwrap_or_default();
            format!("| `{}` | {} |\n", line.replace('|', "\\|"), about.replace('|', "\\|"))
        };
        command.get_subcommands().filter(shown).map(row).collect()
    }

    #[test]
    fn the_page_about_the_command_line_lists_every_command() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/cli.md");
        let mut cli = <Cli as clap::CommandFactory>::command();
        cli.build();
        let page = fs::read_to_string(path).unwrap();
        let (before, _) =
            page.split_once("| command | what it does |\n").expect("the table of commands is the end of the page");
        let wanted = format!("{before}| command | what it does |\n|---|---|\n{}", rows(&cli));
        if std::env::var_os("MUNDI_BLESS").is_some() {
            fs::write(path, &wanted).unwrap();
        }
        let found = fs::read_to_string(path).unwrap();
        assert!(found == wanted, "docs/reference/cli.md is no longer so; MUNDI_BLESS=1 writes it anew\n{wanted}");
    }

    #[test]
    fn a_value_and_a_key_may_be_negative_numbers() {
        for line in [
            "world send alice add -3",
            "world call alice add -3",
            "world query alice count -3",
            "world child spawn alice external -3",
            "world fork alice bob --at-await order/17/3 --with -3",
            "function run order -3 --key -7",
            "effect answer i_0 --status ok -3",
        ] {
            let parsed = Cli::try_parse_from(["mundi"].into_iter().chain(line.split(' ')));
            assert!(parsed.is_ok(), "{line}: {}", parsed.err().unwrap());
        }
    }
}
