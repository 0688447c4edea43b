//! TypeScript: bundled by esbuild, and made a component by componentize-js with every ambient feature disabled.

use super::{
    BuildError, Builder, Project, sdk,
    tools::{command, file, find, run, write},
};
use std::path::PathBuf;

const PACKAGES: [&str; 2] = ["@bytecodealliance/componentize-js@0.23", "esbuild@0.28"];

/// What turns sources into a component; it is run by node, beside the packages that it needs.
const SCRIPT: &str = include_str!("../../../../sdk/typescript/build.mjs");

pub(super) fn build(builder: &Builder, project: &Project) -> Result<Vec<u8>, BuildError> {
    let Some(node) = find("node") else {
        let get = "Get it from nodejs.org or your distribution, version 20 or later.".to_owned();
        return Err(BuildError::Missing { what: "node".to_owned(), get });
    };
    let packages = packages(builder, project)?;
    let workshop = tempfile::tempdir().map_err(|error| file(&builder.cache, &error))?;
    let at = |name: &str| workshop.path().join(name);
    sdk::write_typescript(&at("mundi-sdk"))?;
    write(&at("wit/program.wit"), crate::contract::WIT.as_bytes())?;
    let program = serde_json::Value::from(project.folder.join("src/program.ts").display().to_string());
    let offer = serde_json::Value::from(project.offer_text.clone());
    let entry = format!(
        "import program from {program};\nimport {{ component }} from \"mundi-sdk/component\";\n\
         export const {{ handle, query, describe }} = component(program, {offer});\n"
    );
    write(&at("entry.ts"), entry.as_bytes())?;
    write(&at("build.mjs"), SCRIPT.as_bytes())?;
    let modules = at("node_modules");
    std::os::unix::fs::symlink(packages.join("node_modules"), &modules).map_err(|error| file(&modules, &error))?;
    (builder.tell)("componentize-js makes a component of the sources and the interpreter");
    run("componentize-js", command(node).arg(at("build.mjs")).current_dir(workshop.path()))?;
    std::fs::read(at("program.wasm")).map_err(|error| file(&at("program.wasm"), &error))
}

/// The folder whose `node_modules` has what is needed.
fn packages(builder: &Builder, project: &Project) -> Result<PathBuf, BuildError> {
    let own = builder.cache.join("typescript");
    let has = |folder: &PathBuf| {
        ["@bytecodealliance/componentize-js", "esbuild"]
            .iter()
            .all(|name| folder.join("node_modules").join(name).is_dir())
    };
    if let Some(folder) = [project.folder.clone(), own.clone()].into_iter().find(has) {
        return Ok(folder);
    }
    if builder.install && find("npm").is_some() {
        (builder.tell)(&format!("getting {} into {}, once", PACKAGES.join(" and "), own.display()));
        write(&own.join("package.json"), b"{\"private\":true}\n")?;
        let mut npm = command("npm");
        run("npm install", npm.args(["install", "--no-fund", "--no-audit"]).args(PACKAGES).current_dir(&own))?;
        return Ok(own);
    }
    let get = format!(
        "Get it with `npm install --prefix {} {}`, or let `--install` do so.",
        own.display(),
        PACKAGES.join(" ")
    );
    Err(BuildError::Missing { what: "componentize-js".to_owned(), get })
}
