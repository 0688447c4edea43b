//! The processes of a fleet, and what they share: a database and a folder of objects.

use mundi_engine::postgres::testing::Server;
use std::{
    cell::Cell,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};
use tempfile::TempDir;

/// A PostgreSQL server that the test starts, or a deployment of its own in the FoundationDB cluster whose file `MUNDI_TEST_FDB` names.
pub(crate) enum Database {
    Postgres(Server),
    Cluster(String),
}

impl Database {
    fn start() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        // A build without the engine cannot open a cluster: it tests on PostgreSQL, whatever the variable says.
        match std::env::var("MUNDI_TEST_FDB").ok().filter(|_| cfg!(feature = "foundationdb")) {
            Some(file) => {
                let (process, number) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
                Self::Cluster(format!("foundationdb://{file}?prefix=fleet-{process}-{number}"))
            }
            None => Self::Postgres(Server::start(&["-c max_connections=300"])),
        }
    }

    pub(crate) fn url(&self) -> String {
        match self {
            Self::Postgres(server) => server.url(),
            Self::Cluster(url) => url.clone(),
        }
    }

    /// The server, if the test may stop it. A cluster belongs to somebody else; `foundationdb_faults` starts one of its own.
    pub(crate) const fn server(&self) -> Option<&Server> {
        match self {
            Self::Postgres(server) => Some(server),
            Self::Cluster(_) => None,
        }
    }
}

pub(crate) struct Fleet {
    pub(crate) database: Database,
    objects: TempDir,
    lease: Duration,
    workers: Cell<u64>,
}

/// A process in some roles. It ends with the test.
pub(crate) struct Member {
    roles: &'static str,
    skew_ms: i64,
    /// The URL of the database as this one knows it.
    database: String,
    /// Its `MUNDI_CONFIG`, if it has one.
    config: Option<PathBuf>,
    /// No two processes share it, not even one after the other.
    pub(crate) worker: u64,
    child: Option<Child>,
    /// Where its API is, if it has one.
    pub(crate) url: String,
}

impl Fleet {
    pub(crate) fn start(lease: Duration) -> Self {
        Self { database: Database::start(), objects: tempfile::tempdir().unwrap(), lease, workers: Cell::new(100) }
    }

    pub(crate) fn objects_url(&self) -> String {
        format!("file://{}", self.objects.path().display())
    }

    pub(crate) fn member(&self, roles: &'static str) -> Member {
        Member {
            roles,
            skew_ms: 0,
            database: self.database.url(),
            config: None,
            worker: 0,
            child: None,
            url: String::new(),
        }
    }

    /// Starts it, again if it was there before: another process, with another number.
    pub(crate) fn launch(&self, member: &mut Member) {
        self.workers.set(self.workers.get() + 1);
        member.worker = self.workers.get();
        let mut command = Command::new(env!("CARGO_BIN_EXE_mundi"));
        command.args(["server", "--bind", "127.0.0.1:0", "--roles", member.roles]);
        let settings = [
            ("MUNDI_ENGINE__URL", member.database.clone()),
            ("MUNDI_OBJECTS__URL", self.objects_url()),
            ("MUNDI_NODE__WORKER", member.worker.to_string()),
            ("MUNDI_NODE__LEASE_TTL_MS", self.lease.as_millis().to_string()),
            ("MUNDI_NODE__CLOCK_SKEW_MS", member.skew_ms.to_string()),
            ("MUNDI_API__ADVERTISE", "http://127.0.0.1:0".to_owned()),
            ("MUNDI_LOG", std::env::var("MUNDI_LOG").unwrap_or_else(|_| "error".to_owned())),
        ];
        command.envs(member.config.iter().map(|path| ("MUNDI_CONFIG", path)));
        let mut child = command.envs(settings).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        loop {
            let line = lines.next().expect("it says that it runs").unwrap();
            if let Some((_, rest)) = line.split_once("API at ") {
                rest.split_whitespace().next().unwrap().clone_into(&mut member.url);
                break;
            }
            if line.contains("running without an API") {
                break;
            }
        }
        let who = format!("{} {}", member.roles, member.worker);
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(|line| eprintln!("[{who}] {line}")));
        member.child = Some(child);
    }
}

impl Member {
    pub(crate) fn skewed(mut self, skew_ms: i64) -> Self {
        self.skew_ms = skew_ms;
        self
    }

    pub(crate) fn through(mut self, url: &str) -> Self {
        url.clone_into(&mut self.database);
        self
    }

    pub(crate) fn configured(mut self, config: &Path) -> Self {
        self.config = Some(config.to_owned());
        self
    }

    pub(crate) fn signal(&self, signal: &str) {
        let id = self.child.as_ref().expect("it runs").id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
    }

    /// As the machine would: at once, and gone when this returns.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Asked to go; it gives its worlds back first.
    pub(crate) async fn drain(&mut self) {
        self.signal("-TERM");
        let mut child = self.child.take().expect("it runs");
        let ended = tokio::task::spawn_blocking(move || child.wait()).await.unwrap().unwrap();
        assert!(ended.success(), "{ended}");
    }
}

impl Member {
    /// As an operator would ask for it.
    pub(crate) fn proves_every_world(&self, worlds: u64) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mundi"));
        command.args(["verify", "--all", "--format", "json", "--url", &self.url]);
        let output = command.output().unwrap();
        let (said, why) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{said}{why}");
        let proven = said.matches("\"verdict\": \"proven\"").count() + said.matches("\"verdict\":\"proven\"").count();
        assert_eq!(proven as u64, worlds, "{said}");
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _gone = child.kill();
            let _reaped = child.wait();
        }
    }
}
