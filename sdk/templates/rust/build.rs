//! Keeps `src/types.rs` as `mundi.json` says, also for `cargo test`.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=mundi.json");
    println!("cargo:rerun-if-changed=src/types.rs");
    match Command::new("mundi").args(["program", "types"]).output() {
        Ok(made) if made.status.success() => {}
        Ok(made) => panic!("{}", String::from_utf8_lossy(&made.stderr)),
        Err(error) => println!("cargo:warning=`mundi program types` did not run ({error}): src/types.rs stays as it is"),
    }
}
