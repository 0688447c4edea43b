//! A FoundationDB cluster of three processes on this machine, from the programs of its official packages.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "tests fail this way")]

use std::{
    net::TcpListener,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};
use tempfile::TempDir;

const PROCESSES: usize = 3;

/// Each is a machine of its own to the cluster, so one of them may be lost.
pub(crate) struct Cluster {
    folder: TempDir,
    ports: Vec<u16>,
    servers: Vec<Option<Child>>,
}

impl Cluster {
    /// Redundancy is `double`: one process may be lost without losing anything.
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        // All at once, so that no two are the same.
        let listeners: Vec<_> = (0..PROCESSES).map(|_| TcpListener::bind("127.0.0.1:0").expect("a port")).collect();
        let ports = listeners.iter().map(|listener| listener.local_addr().unwrap().port()).collect();
        drop(listeners);
        let mut cluster = Self { folder, ports, servers: (0..PROCESSES).map(|_| None).collect() };
        let addresses: Vec<_> = cluster.ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        std::fs::write(cluster.file(), format!("test:test@{}", addresses.join(","))).unwrap();
        cluster.launch_all();
        assert!(cluster.exec("configure new double ssd"), "the cluster could not be configured");
        cluster
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("fdb.cluster")
    }

    pub(crate) fn url(&self) -> String {
        format!("foundationdb://{}", self.file().display())
    }

    /// Runs a command of `fdbcli`.
    pub(crate) fn exec(&self, command: &str) -> bool {
        let mut fdbcli = Command::new(program("fdbcli", "/usr/bin/fdbcli"));
        fdbcli.arg("-C").arg(self.file()).args(["--timeout", "60", "--exec", command]).stdout(Stdio::null());
        fdbcli.status().expect("fdbcli").success()
    }

    pub(crate) fn launch_all(&mut self) {
        for (number, server) in self.servers.iter_mut().enumerate() {
            let data = self.folder.path().join(number.to_string());
            std::fs::create_dir_all(&data).unwrap();
            let mut command = Command::new(program("fdbserver", "/usr/sbin/fdbserver"));
            command.arg("-C").arg(self.folder.path().join("fdb.cluster")).arg("-d").arg(&data).arg("-L").arg(&data);
            command.args([
                "-p",
                &format!("127.0.0.1:{}", self.ports[number]),
                &format!("--locality-zoneid=zone-{number}"),
            ]);
            *server = Some(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("fdbserver"));
        }
    }

    /// As a loss of power would.
    pub(crate) fn kill_all(&mut self) {
        for mut server in self.servers.iter_mut().filter_map(Option::take) {
            let _ended = server.kill();
            let _status = server.wait();
        }
    }

    /// Stops so many processes, which then answer nobody, as behind a network that is cut.
    pub(crate) fn silence(&self, processes: usize) {
        self.signal(processes, "-STOP");
    }

    pub(crate) fn heal(&self) {
        self.signal(PROCESSES, "-CONT");
    }

    fn signal(&self, processes: usize, signal: &str) {
        for server in self.servers.iter().take(processes).flatten() {
            assert!(Command::new("kill").args([signal, &server.id().to_string()]).status().unwrap().success());
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.heal();
        self.kill_all();
    }
}

/// On the path, or where the packages put it.
fn program(name: &str, packaged: &str) -> PathBuf {
    let found = Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success());
    if found { PathBuf::from(name) } else { PathBuf::from(packaged) }
}

/// Tries until it goes well.
pub(crate) async fn eventually<T, E: std::fmt::Debug>(mut attempt: impl AsyncFnMut() -> Result<T, E>) -> T {
    let mut last = None;
    for _ in 0..60 {
        match attempt().await {
            Ok(value) => return value,
            Err(error) => last = Some(error),
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    panic!("it did not go well within a minute: {last:?}")
}
