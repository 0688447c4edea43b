//! Python: `componentize-py`, with all of WASI replaced by stubs.

use super::{
    BuildError, Builder, Project, sdk,
    tools::{command, file, find, run, write},
};
use std::path::PathBuf;

const VERSION: &str = "componentize-py==0.25.*";

pub(super) fn build(builder: &Builder, project: &Project) -> Result<Vec<u8>, BuildError> {
    let tool = tool(builder, project)?;
    let workshop = tempfile::tempdir().map_err(|error| file(&builder.cache, &error))?;
    let at = |name: &str| workshop.path().join(name);
    sdk::write_python(workshop.path())?;
    // A text of JSON is one of Python, too.
    let offer = serde_json::Value::from(project.offer_text.clone());
    write(&at("mundi_offer.py"), format!("OFFER = {offer}\n").as_bytes())?;
    write(&at("wit/program.wit"), crate::contract::WIT.as_bytes())?;
    let mut componentize = command(tool);
    componentize.arg("-q").arg("-d").arg(at("wit")).args(["-w", "program", "componentize", "--stub-wasi"]);
    componentize.arg("-p").arg(&project.folder).arg("-p").arg(workshop.path()).arg("-o").arg(at("program.wasm"));
    (builder.tell)("componentize-py makes a component of the sources and the interpreter");
    run("componentize-py", componentize.arg("mundi_component").current_dir(workshop.path()))?;
    std::fs::read(at("program.wasm")).map_err(|error| file(&at("program.wasm"), &error))
}

fn tool(builder: &Builder, project: &Project) -> Result<PathBuf, BuildError> {
    let own = builder.cache.join("python");
    let places = [project.folder.join(".venv/bin/componentize-py"), own.join("bin/componentize-py")];
    if let Some(tool) = places.iter().find(|path| path.is_file()).cloned().or_else(|| find("componentize-py")) {
        return Ok(tool);
    }
    if builder.install && find("python3").is_some() {
        (builder.tell)(&format!("getting {VERSION} into {}, once", own.display()));
        run("python3 -m venv", command("python3").args(["-m", "venv"]).arg(&own))?;
        run("pip install", command(own.join("bin/pip")).args(["install", "--quiet", VERSION]))?;
        return Ok(own.join("bin/componentize-py"));
    }
    let get = format!(
        "Get it with `python3 -m venv {0} && {0}/bin/pip install '{VERSION}'`, or let `--install` do so.",
        own.display()
    );
    Err(BuildError::Missing { what: "componentize-py".to_owned(), get })
}
