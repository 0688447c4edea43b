//! Decoders under libFuzzer, on the compiler that everything else is built with: coverage is a pass of LLVM, so neither
//! nightly nor `cargo-fuzz` is needed (which runs the same targets, if it is there).

use std::{
    path::PathBuf,
    process::{Command, Stdio},
};

/// The formats of bytes from outside that are decoded, and bundles that are forged; and, with the components' own decoders, the targets that take long to
/// build.
const DECODERS: [&str; 8] = ["record", "item", "value", "meta", "snapshot", "frame", "key", "bundle"];
const COMPONENTS: [&str; 3] = ["component", "offer", "said"];

const FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Cdebug-assertions -Coverflow-checks";

/// `cargo xtask fuzz [seconds for each, else 60] [components]`.
pub(crate) fn all() -> bool {
    let arguments: Vec<String> = std::env::args().skip(2).collect();
    let seconds = arguments.iter().find_map(|argument| argument.parse::<u32>().ok()).unwrap_or(60);
    fuzz(seconds, arguments.iter().any(|argument| argument == "components"))
}

/// Everything, those of components included: a night has the time.
pub(crate) fn nightly() -> bool {
    fuzz(60, true)
}

fn fuzz(seconds: u32, components: bool) -> bool {
    let Some(host) = host() else {
        eprintln!("rustc does not say for which machine it compiles");
        return false;
    };
    // A folder of its own: nothing else is compiled with these flags. Naming the machine keeps them from build scripts.
    let target = PathBuf::from(std::env::var_os("CARGO_TARGET_DIR").unwrap_or("target".into())).join("fuzz");
    let folder = target.display().to_string();
    let mut build = vec!["build", "--profile", "fuzz", "--manifest-path", "fuzz/Cargo.toml", "--target", &host];
    build.extend(["--target-dir", &folder]);
    if components {
        build.extend(["--features", "components"]);
    }
    if !super::run("cargo", &build, &[("RUSTFLAGS", FLAGS)]) {
        return false;
    }
    // All of them, also after one that failed.
    let targets = DECODERS.iter().chain(COMPONENTS.iter().filter(|_| components));
    let failed = targets.filter(|name| !one(&target.join(&host).join("fuzz").join(name), name, seconds));
    failed.count() == 0
}

/// Findings are kept in `fuzz/corpus`, failures in `fuzz/artifacts`; neither is committed.
fn one(program: &std::path::Path, name: &str, seconds: u32) -> bool {
    let (corpus, artifacts) = (format!("fuzz/corpus/{name}"), format!("fuzz/artifacts/{name}/"));
    if let Err(error) = std::fs::create_dir_all(&corpus).and_then(|()| std::fs::create_dir_all(&artifacts)) {
        eprintln!("{corpus}: {error}");
        return false;
    }
    let (time, kept) = (format!("-max_total_time={seconds}"), format!("-artifact_prefix={artifacts}"));
    let arguments = [&*time, &kept, "-rss_limit_mb=2048", "-timeout=10", "-print_final_stats=1", &corpus];
    super::run(&program.display().to_string(), &arguments, &[])
}

fn host() -> Option<String> {
    let told = Command::new("rustc").arg("-vV").stderr(Stdio::inherit()).output().ok()?;
    let text = String::from_utf8(told.stdout).ok()?;
    text.lines().find_map(|line| line.strip_prefix("host: ")).map(str::to_owned)
}
