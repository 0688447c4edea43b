//! PostgreSQL servers for tests: Debian's package, in a temporary folder, on a loopback port.
//!
//! [`shared`] is one server for a whole test run, whichever processes the run consists of: the first that asks starts it,
//! and a small script beside it stops it and removes its folder once nobody has used it for a while. [`Server`] is one of
//! your own, for a test that stops, kills or configures it.

#![allow(clippy::expect_used, reason = "tests fail this way")]

use rustix::fs::{FlockOperation, flock};
use std::{
    fs::{self, File, Permissions},
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    os::unix::{
        fs::{PermissionsExt, chown},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};
use tempfile::TempDir;

const MISSING: &str =
    "PostgreSQL is not installed: `cargo xtask services` installs it, or `apt-get install postgresql`";
/// Looks, two seconds apart, at which nobody used the shared server.
const UNUSED_LOOKS: u32 = 10;

/// A use of the shared server; it stays up at least as long as this lives.
pub struct Shared {
    url: String,
    _in_use: File,
}

impl Shared {
    pub fn url(&self) -> &str {
        &self.url
    }
}

/// The server of this test run.
pub fn shared() -> &'static Shared {
    static SHARED: OnceLock<Shared> = OnceLock::new();
    SHARED.get_or_init(|| {
        let home = std::env::temp_dir().join(format!("mundi-postgres-{:08x}", crc(env!("CARGO_MANIFEST_DIR"))));
        fs::create_dir_all(&home).expect("a folder for the server");
        let owner = Owner::find();
        owner.give(&home);
        let in_use = locked(&home.join("in-use"), FlockOperation::LockShared);
        let _starting = locked(&home.join("starting"), FlockOperation::LockExclusive);
        let note = home.join("url");
        let noted = fs::read_to_string(&note).ok().filter(|url| answers(url));
        let url = noted.unwrap_or_else(|| start_shared(&home, &note, owner));
        Shared { url, _in_use: in_use }
    })
}

fn start_shared(home: &Path, note: &Path, owner: Owner) -> String {
    let cluster = Cluster { folder: home.join("data"), port: free_port(), owner };
    let _none = fs::remove_dir_all(&cluster.folder);
    cluster.init();
    cluster.start(&["-c fsync=off", "-c max_connections=400"]);
    File::create(note).and_then(|mut file| file.write_all(cluster.url().as_bytes())).expect("a note of the URL");
    cluster.owner.give(note);
    watch_over(home, &cluster);
    cluster.url()
}

/// Stops the server when it has been out of use for a while. It ends with the server.
fn watch_over(home: &Path, cluster: &Cluster) {
    let script = format!(
        "n=0; while sleep 2; do
             if flock --nonblock --exclusive in-use true; then n=$((n+1)); else n=0; fi
             if [ $n -ge {UNUSED_LOOKS} ]; then
                 flock --nonblock --exclusive in-use sh -c '{pg_ctl} --pgdata=data --mode=immediate stop; rm -rf data url' && exit
             fi
         done",
        pg_ctl = program("pg_ctl").display(),
    );
    let mut command = cluster.owner.command("setsid");
    // In a session of its own, so that it outlives this process; `setsid` itself ends at once.
    command.args(["--fork", "sh", "-c", &script]).current_dir(home);
    command.status().expect("the script that stops the server again");
}

fn locked(path: &Path, how: FlockOperation) -> File {
    let file = File::options().create(true).append(true).open(path).expect("a lock file");
    let _owned_by_another = fs::set_permissions(path, Permissions::from_mode(0o666));
    flock(&file, how).expect("a lock");
    file
}

fn answers(url: &str) -> bool {
    let address = url.rsplit('@').next().and_then(|rest| rest.split('/').next());
    address.is_some_and(|address| TcpStream::connect(address).is_ok())
}

/// A name for a schema that no other test uses.
pub fn fresh_schema() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let mut random = [0; 6];
    File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut random)).expect("random bytes");
    let random: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("t_{}_{random}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A server of its own, which ends with this.
pub struct Server {
    cluster: Cluster,
    settings: Vec<String>,
    _home: TempDir,
}

impl Server {
    /// Starts one; settings are as on its command line, such as `-c fsync=off`.
    pub fn start(settings: &[&str]) -> Self {
        let server = Self::prepare(settings);
        server.up();
        server
    }

    /// One that is not started yet.
    pub fn prepare(settings: &[&str]) -> Self {
        let home = tempfile::tempdir().expect("a temporary folder");
        let owner = Owner::find();
        owner.give(home.path());
        let cluster = Cluster { folder: home.path().join("data"), port: free_port(), owner };
        cluster.init();
        Self { cluster, settings: settings.iter().map(|&setting| setting.to_owned()).collect(), _home: home }
    }

    pub fn url(&self) -> String {
        self.cluster.url()
    }

    pub fn port(&self) -> u16 {
        self.cluster.port
    }

    pub fn folder(&self) -> &Path {
        &self.cluster.folder
    }

    /// Makes a file in its folder that it can read: keys are read only from a file of its own.
    pub fn write(&self, name: &str, content: &[u8]) {
        let path = self.cluster.folder.join(name);
        fs::write(&path, content).expect("a file for the server");
        fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("permissions");
        self.cluster.owner.give(&path);
    }

    pub fn up(&self) {
        let settings: Vec<&str> = self.settings.iter().map(String::as_str).collect();
        self.cluster.start(&settings);
    }

    /// Stops it: `fast` breaks connections, `immediate` is a crash.
    pub fn down(&self, mode: &str) {
        self.cluster.stop(mode);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.cluster.stop("immediate");
    }
}

struct Cluster {
    folder: PathBuf,
    port: u16,
    owner: Owner,
}

impl Cluster {
    fn url(&self) -> String {
        format!("postgres://mundi@127.0.0.1:{}/postgres", self.port)
    }

    fn init(&self) {
        let mut command = self.owner.command(program("initdb"));
        command.args(["--username=mundi", "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C", "--pgdata"]);
        run(command.arg(&self.folder));
    }

    fn start(&self, settings: &[&str]) {
        let options = format!(
            "-p {} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c shared_buffers=64MB {}",
            self.port,
            settings.join(" ")
        );
        let mut command = self.owner.command(program("pg_ctl"));
        command.args(["--wait", "--silent", "--options", &options, "--log"]).arg(self.folder.join("log"));
        run(command.arg("--pgdata").arg(&self.folder).arg("start"));
    }

    fn stop(&self, mode: &str) {
        let mut command = self.owner.command(program("pg_ctl"));
        command.args(["--wait", "--silent", "--mode", mode, "--pgdata"]).arg(&self.folder);
        let _is_down_already = command.arg("stop").status();
    }
}

/// The user that runs the server: PostgreSQL refuses root.
#[derive(Clone, Copy)]
struct Owner(Option<(u32, u32)>);

impl Owner {
    fn find() -> Self {
        if !rustix::process::geteuid().is_root() {
            return Self(None);
        }
        let users = fs::read_to_string("/etc/passwd").expect("a list of users");
        let line = users.lines().find(|line| line.starts_with("postgres:")).expect(MISSING);
        let mut ids = line.split(':').skip(2).map(|id| id.parse().expect("a number"));
        Self(ids.next().zip(ids.next()))
    }

    fn give(self, path: &Path) {
        if let Self(Some((user, group))) = self {
            let _owned_by_it_already = chown(path, Some(user), Some(group));
        }
    }

    fn command(self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).current_dir("/");
        if let Self(Some((user, group))) = self {
            command.gid(group).uid(user);
        }
        command
    }
}

fn run(command: &mut Command) {
    let status = command.status().expect(MISSING);
    assert!(status.success(), "{command:?}: {status}");
}

/// A program of the newest installed version; Debian keeps them out of the path.
fn program(name: &str) -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let found = versions.map(|version| version.path().join("bin").join(name)).filter(|path| path.exists()).max();
    found.unwrap_or_else(|| PathBuf::from(name))
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("its address").port()
}

/// Tells working copies apart; nothing depends on its quality.
fn crc(text: &str) -> u32 {
    text.bytes().fold(0, |sum: u32, byte| sum.rotate_left(5) ^ u32::from(byte))
}
