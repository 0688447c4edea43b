//! The server that is measured, as processes on a folder of their own: ours, or a peer's.

use crate::{
    Again,
    machine::{Used, resident_bytes_of},
};
use rustix::process::{Pid, Signal, kill_process_group};
use std::{
    error::Error,
    io::{BufRead, BufReader},
    net::SocketAddr,
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, Stdio},
};

/// The server that is measured.
pub(super) enum Subject<'a> {
    Mundi(Again<'a>),
    /// Takes a peer's requests.
    Floor(Again<'a>),
    /// A folder with a program `start`, which takes a data folder, says on stderr which processes do the work
    /// (`measured process 12`) and where the API is (`API at http://…`), and serves until it is killed.
    Peer(&'a Path),
}

impl Subject<'_> {
    pub(super) fn name(&self) -> String {
        match self {
            Self::Mundi(_) => "mundi".to_owned(),
            Self::Floor(_) => "floor".to_owned(),
            Self::Peer(folder) => folder.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        }
    }

    fn command(&self, data: &Path) -> Command {
        let mut command = match self {
            Self::Mundi(again) => itself(again, "node"),
            Self::Floor(again) => itself(again, "floor"),
            Self::Peer(folder) => Command::new(folder.join("start")),
        };
        command.arg(data);
        command
    }
}

fn itself(again: Again<'_>, subcommand: &str) -> Command {
    let mut command = again();
    command.args([subcommand, "--data"]);
    command
}

pub(super) struct Server {
    child: Child,
    measured: Vec<u32>,
    pub(super) address: SocketAddr,
    pub(super) is_peer: bool,
}

/// As `kill -9`: of the whole group, so that what a peer started goes with it.
impl Drop for Server {
    fn drop(&mut self) {
        if let Some(group) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _gone = kill_process_group(group, Signal::KILL);
        }
        let _reaped = self.child.wait();
    }
}

impl Server {
    /// Starts it, and returns once it says where it is.
    pub(super) fn start(subject: &Subject<'_>, data: &Path) -> Result<Self, Box<dyn Error>> {
        let mut command = subject.command(data);
        let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).process_group(0).spawn();
        let mut child = child.map_err(|error| format!("{}: {error}", command.get_program().display()))?;
        let Some(stderr) = child.stderr.take() else { return Err("the server has no standard error".into()) };
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut server = Self { child, measured: Vec::new(), address, is_peer: !matches!(subject, Subject::Mundi(_)) };
        let (mut lines, mut said) = (BufReader::new(stderr).lines(), String::new());
        server.address = loop {
            let Some(line) = lines.next().transpose()? else {
                return Err(format!("the server ended before it said where it is:\n{said}").into());
            };
            if let Some((_, process)) = line.split_once("measured process ") {
                server.measured.push(process.trim().parse()?);
            }
            if let Some((_, rest)) = line.split_once("API at http://") {
                break rest.split_whitespace().next().unwrap_or_default().parse()?;
            }
            said.push_str(&line);
            said.push('\n');
        };
        if server.measured.is_empty() {
            server.measured.push(server.child.id());
        }
        std::thread::spawn(move || lines.for_each(drop)); // else the process would block on a full pipe
        Ok(server)
    }

    pub(super) fn used(&self) -> Used {
        self.measured.iter().map(|process| Used::of(*process)).sum()
    }

    pub(super) fn resident_mib(&self) -> f64 {
        let bytes: u64 = self.measured.iter().map(|process| resident_bytes_of(&process.to_string())).sum();
        #[expect(clippy::cast_precision_loss, reason = "figures for people")]
        let bytes = bytes as f64;
        bytes / 1_048_576.0
    }
}
