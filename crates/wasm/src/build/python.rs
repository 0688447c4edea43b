//! Python: `componentize-py`, with all of WASI replaced by stubs.

use super::{
    BuildError, Builder, Project, sdk,
    tools::{command, file, find, missing, run, version, write},
};
use std::path::PathBuf;

const VERSION: &str = "componentize-py==0.25.*";

pub(super) fn build(builder: &Builder, project: &Project) -> Result<Vec<u8>, BuildError> {
    let tool = tool(builder, project)?;
    let workshop = tempfile::tempdir().map_err(|error| file(&builder.cache, &error))?;
    let at = |name: &str| workshop.path().join(name);
    let own_sdk = sdk::of_project(project, workshop.path())?;
    // A text of JSON is one of Python, too.
    let offer = serde_json::Value::from(project.offer_text.clone());
    write(&at("mundi_offer.py"), format!("OFFER = {offer}\n").as_bytes())?;
    let mut componentize = command(tool);
    componentize.arg("-q").arg("-d").arg(sdk::contract_of(&own_sdk)).args([
        "-w",
        "program",
        "componentize",
        "--stub-wasi",
    ]);
    componentize
        .arg("-p")
        .arg(&project.folder)
        .arg("-p")
        .arg(&own_sdk)
        .arg("-p")
        .arg(workshop.path())
        .arg("-o")
        .arg(at("program.wasm"));
    (builder.tell)("componentize-py makes a component of the sources and the interpreter");
    run("componentize-py", componentize.arg("mundi_component").current_dir(workshop.path()))?;
    std::fs::read(at("program.wasm")).map_err(|error| file(&at("program.wasm"), &error))
}

fn tool(builder: &Builder, project: &Project) -> Result<PathBuf, BuildError> {
    let own = builder.cache.join("python");
    let (own_tool, on_path) = (own.join("bin/componentize-py"), find("componentize-py"));
    let places = [Some(project.folder.join(".venv/bin/componentize-py")), Some(own_tool.clone()), on_path.clone()];
    let fits = |tool: &PathBuf| version(tool).is_some_and(|version| version.starts_with("0.25."));
    if let Some(tool) = places.into_iter().flatten().find(|tool| tool.is_file() && fits(tool)) {
        return Ok(tool);
    }
    let has_python = find("python3").is_some();
    if builder.install && has_python {
        (builder.tell)(&format!("getting {VERSION} into {}, once", own.display()));
        run("python3 -m venv", command("python3").args(["-m", "venv"]).arg(&own))?;
        run("pip install", command(own.join("bin/pip")).args(["install", "--quiet", VERSION]))?;
        return Ok(own_tool);
    }
    let (mut lacks, mut get) = (Vec::new(), Vec::new());
    if !has_python {
        lacks.push("python3".to_owned());
        get.push("Get Python, 3.10 or later, from python.org or your distribution.".to_owned());
    }
    let other = on_path.and_then(|tool| Some(format!(" (on the path is {})", version(&tool)?)));
    lacks.push(format!("componentize-py 0.25{}", other.unwrap_or_default()));
    get.push(format!(
        "Get it with `python3 -m venv {0} && {0}/bin/pip install '{VERSION}'`, or let `--install` do so.",
        own.display()
    ));
    Err(missing(&lacks, &get))
}
