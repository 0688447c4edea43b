//! The server that is measured: the real program, as a process on a folder of its own.

use crate::machine::{Used, resident_bytes_of};
use std::{
    error::Error,
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::Path,
    process::{Child, Command, Stdio},
};

pub(super) struct Server {
    child: Child,
    pub(super) address: SocketAddr,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

impl Server {
    pub(super) fn start(mundi: &Path, data: &Path) -> Result<Self, Box<dyn Error>> {
        let mut command = Command::new(mundi);
        command.args(["dev", "--bind", "127.0.0.1:0", "--data"]).arg(data).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("{}: {error}", mundi.display()))?;
        let Some(stderr) = child.stderr.take() else { return Err("the server has no standard error".into()) };
        let (mut lines, mut said) = (BufReader::new(stderr).lines(), String::new());
        let address = loop {
            let Some(line) = lines.next().transpose()? else {
                let _reaped = child.wait();
                return Err(format!("the server ended before it said where it is:\n{said}").into());
            };
            if let Some((_, rest)) = line.split_once("API at http://") {
                break rest.split_whitespace().next().unwrap_or_default().parse()?;
            }
            said.push_str(&line);
        };
        std::thread::spawn(move || lines.for_each(drop)); // else the process would block on a full pipe
        Ok(Self { child, address })
    }

    pub(super) fn used(&self) -> Used {
        Used::of(self.child.id())
    }

    pub(super) fn resident_mib(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "figures for people")]
        let bytes = resident_bytes_of(&self.child.id().to_string()) as f64;
        bytes / 1_048_576.0
    }
}
