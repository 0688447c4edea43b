//! A guard for the hot paths: their instructions, counted by callgrind, against what is written down.
//!
//! Times differ from machine to machine and from minute to minute; instructions hardly do. They are those of the debug build,
//! which tests make anyway: they tell that a path does more than it did, not how fast it is.

use crate::{run, services};
use std::{collections::BTreeMap, env, fs, path::PathBuf, process::Command};

const BASELINE: &str = "xtask/instructions.txt";
/// How much more a path may do before someone has to look at it.
const TOLERANCE: f64 = 0.05;
const PATHS: [&str; 3] = ["call", "inbox", "restore"];

/// Fails if a path does more than it did.
pub(crate) fn check() -> bool {
    let (Some(counted), Ok(baseline)) = (count(), fs::read_to_string(BASELINE)) else { return false };
    let baseline: BTreeMap<&str, &str> = baseline.lines().filter_map(|line| line.split_once(' ')).collect();
    if baseline.get("rustc") != Some(&rustc().as_str()) {
        eprintln!("{BASELINE} is of another compiler ({:?}): not compared", baseline.get("rustc"));
        return true;
    }
    let mut good = true;
    for (path, instructions) in counted {
        #[allow(clippy::cast_precision_loss, reason = "a ratio for people")]
        let ratio =
            baseline.get(path).and_then(|text| text.parse::<f64>().ok()).map(|before| instructions as f64 / before);
        let more = ratio.is_none_or(|ratio| ratio > 1.0 + TOLERANCE);
        let verdict = if more { "TOO MANY" } else { "ok" };
        eprintln!(
            "  {path:<8} {instructions:>9} instructions, {:.3} of what is written down: {verdict}",
            ratio.unwrap_or(f64::NAN)
        );
        good &= !more;
    }
    if !good {
        eprintln!("if that is what it takes: `cargo xtask instructions-bless` writes it down, and the commit says why");
    }
    good
}

/// Writes down what is.
pub(crate) fn bless() -> bool {
    let Some(counted) = count() else { return false };
    let lines = counted.into_iter().map(|(path, instructions)| format!("{path} {instructions}\n"));
    let text: String = [format!("rustc {}\n", rustc())].into_iter().chain(lines).collect();
    eprint!("{text}");
    fs::write(BASELINE, text).is_ok()
}

/// Instructions of each path, once.
fn count() -> Option<Vec<(&'static str, u64)>> {
    if !services::valgrind() || !run("cargo", &["test", "--quiet", "--workspace", "--no-run"], &[]) {
        return None;
    }
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    let program = target.join("debug/examples/hot_paths");
    let counted = |path: &str, times: u64| {
        let mut command = Command::new("valgrind");
        command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(&program);
        let output = command.args([path, &times.to_string()]).output().ok()?;
        let said = String::from_utf8_lossy(&output.stderr);
        let collected = said.lines().find_map(|line| line.split_once("Collected : ")?.1.trim().parse::<u64>().ok());
        if collected.is_none() {
            eprintln!("{said}");
        }
        collected
    };
    // The difference of two runs has neither the start nor the end in it.
    let (few, many) = (20, 220);
    let each = |path| Some((path, counted(path, many)?.saturating_sub(counted(path, few)?) / (many - few)));
    PATHS.into_iter().map(each).collect()
}

fn rustc() -> String {
    let output = Command::new("rustc").arg("--version").output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default()
}
