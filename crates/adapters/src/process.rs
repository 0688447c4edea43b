//! `process.run`: a command on the worker's machine. It exists only where someone made this adapter, with a list.
//!
//! Parameters: `command` (the name of an entry of the list), and optionally `args` and `stdin`. The answer is
//! `{status, stdout, stderr}`; `status` is null for a command that a signal ended. Commands run without a shell, in an
//! empty environment but for what their entry names, in the folder that it names, and are killed when their time is up or
//! nobody waits for them any more. `MUNDI_INTENT` holds the idempotency key.

use crate::{Params, params::map};
use futures_util::future::BoxFuture;
use mundi_model::{Code, Value};
use mundi_runtime::effects::{Adapter, Call, denied, failed, invalid, too_large};
use mundi_store::protocol::{Failure, Repeat};
use std::{collections::BTreeMap, path::PathBuf, process::Stdio, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    process::Command,
};

/// Calls of `process.run` of one universe that a process carries out at a time, unless `effects.kinds` says otherwise: each takes more of the
/// machine than a call that waits for an answer. The calls of agents are counted apart, up to the same number, and children of kind `process`
/// are not calls.
const PROCESSES_MAX: usize = 256;

#[derive(Debug, Clone)]
pub struct ProcessConfig {
    /// The allowed commands, by the name under which programs ask for them.
    pub commands: BTreeMap<String, AllowedCommand>,
    pub timeout: Duration,
    /// Of each of the two streams.
    pub output_bytes_max: usize,
}

#[derive(Debug, Clone)]
pub struct AllowedCommand {
    /// An absolute path: nothing is looked up.
    pub program: PathBuf,
    /// Come before those that a program gives.
    pub args: Vec<String>,
    /// Whether a program may give arguments at all.
    pub takes_args: bool,
    pub folder: PathBuf,
    pub environment: BTreeMap<String, String>,
}

pub struct ProcessAdapter {
    config: ProcessConfig,
}

impl ProcessAdapter {
    pub fn new(config: ProcessConfig) -> Self {
        Self { config }
    }

    /// The entry of the list that the parameters name, if they may use it so.
    pub(crate) fn allowed<'a>(&'a self, params: Params<'a>) -> Result<(&'a AllowedCommand, Vec<String>), Failure> {
        let name = params.text("command")?;
        let Some(allowed) = self.config.commands.get(name) else {
            return Err(denied(format!("no setting `process.commands.{name}` allows the command `{name}`")));
        };
        let args = params.list("args")?;
        if !args.is_empty() && !allowed.takes_args {
            let setting = format!("process.commands.{name}.takes_args");
            return Err(denied(format!(
                "the command `{name}` takes arguments of programs only with `{setting} = true`"
            )));
        }
        if !allowed.program.is_absolute() {
            return Err(denied(format!("the setting `process.commands.{name}.program` is not an absolute path")));
        }
        Ok((allowed, args))
    }

    fn command(&self, params: Params<'_>, environment: &[(&str, String)]) -> Result<Command, Failure> {
        let (allowed, args) = self.allowed(params)?;
        let mut command = Command::new(&allowed.program);
        command.args(&allowed.args).args(args).current_dir(&allowed.folder);
        command.env_clear().envs(&allowed.environment).envs(environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        Ok(command)
    }

    async fn run(&self, call: &Call) -> Result<Value, Failure> {
        let mut environment = vec![("MUNDI_INTENT", call.intent.to_string())];
        if let Some(lease) = &call.lease {
            environment.push(("MUNDI_LEASE", lease.name()));
            environment.push(("MUNDI_LEASE_EPOCH", lease.lease_epoch.to_string()));
        }
        self.run_command(&call.params, &environment).await
    }

    /// Runs the command that the parameters name. It is killed when this is dropped.
    pub(crate) async fn run_command(&self, params: &Value, environment: &[(&str, String)]) -> Result<Value, Failure> {
        let params = Params::of(params)?;
        let mut child = self.command(params, environment)?.spawn().map_err(|error| failed(error.to_string()))?;
        let stdin = params.bytes_or_none("stdin")?.unwrap_or_default();
        let missing = || invalid("the command has no streams");
        let mut input = child.stdin.take().ok_or_else(missing)?;
        let (out, err) = (child.stdout.take().ok_or_else(missing)?, child.stderr.take().ok_or_else(missing)?);
        let bytes_max = self.config.output_bytes_max;
        let write = async {
            // A command that does not read its input is not wrong.
            let _ = input.write_all(stdin).await;
            drop(input);
            Ok(())
        };
        let wait = async { child.wait().await.map_err(|error| failed(error.to_string())) };
        let (stdout, stderr, (), status) =
            tokio::try_join!(capped(out, bytes_max), capped(err, bytes_max), write, wait)?;
        let status = status.code().map_or(Value::Null, |code| Value::Integer(code.into()));
        Ok(map([("status", status), ("stdout", Value::Bytes(stdout)), ("stderr", Value::Bytes(stderr))]))
    }
}

impl Adapter for ProcessAdapter {
    fn name(&self) -> &str {
        "process"
    }

    fn kinds(&self) -> &[&str] {
        &["process.run"]
    }

    fn calls_max(&self) -> usize {
        PROCESSES_MAX
    }

    fn call<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Value, Failure>> {
        Box::pin(async move {
            let timeout = self.config.timeout;
            tokio::time::timeout(timeout, self.run(call)).await.unwrap_or_else(|_| {
                let reason = format!("the command ran for {} ms and was killed", timeout.as_millis());
                Err(Failure { code: Code::EffectTimeout, reason, repeat: Repeat::Backoff })
            })
        })
    }
}

/// All that a stream gives; more than the bound is an error, and the command is killed for it.
async fn capped(stream: impl AsyncRead + Unpin, bytes_max: usize) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let mut stream = stream.take(bytes_max as u64 + 1);
    stream.read_to_end(&mut bytes).await.map_err(|error| failed(error.to_string()))?;
    if bytes.len() > bytes_max { Err(too_large(bytes_max)) } else { Ok(bytes) }
}
