//! TypeScript: bundled by esbuild, and made a component by componentize-js with every ambient feature disabled.

use super::{
    BuildError, Builder, Project, sdk,
    tools::{command, file, find, missing, run, version, write},
};
use std::path::{Path, PathBuf};

/// The oldest node that the script runs on.
const NODE_MIN: u32 = 20;

const PACKAGES: [&str; 2] = ["@bytecodealliance/componentize-js@0.23", "esbuild@0.28"];

/// The script that makes a component of sources; it is run by node, beside the packages that it needs.
const SCRIPT: &str = include_str!("../../../../sdk/typescript/build.mjs");

pub(super) fn build(builder: &Builder, project: &Project) -> Result<Vec<u8>, BuildError> {
    let Tools { node, packages } = tools(builder, project)?;
    let workshop = tempfile::tempdir().map_err(|error| file(&builder.cache, &error))?;
    let at = |name: &str| workshop.path().join(name);
    let own_sdk = sdk::of_project(project, workshop.path())?;
    for (from, name) in [(own_sdk.clone(), "mundi-sdk"), (sdk::contract_of(&own_sdk), "wit")] {
        if !at(name).exists() {
            std::os::unix::fs::symlink(&from, at(name)).map_err(|error| file(&at(name), &error))?;
        }
    }
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
    // componentize-js grows a memory in thousands of small steps, and each makes node collect garbage: on threads of their own, that is half
    // of all processor time.
    let mut componentize = command(node);
    componentize.arg("--single-threaded-gc").arg(at("build.mjs")).current_dir(workshop.path());
    run("componentize-js", &mut componentize)?;
    std::fs::read(at("program.wasm")).map_err(|error| file(&at("program.wasm"), &error))
}

struct Tools {
    node: PathBuf,
    /// The folder whose `node_modules` has what is needed.
    packages: PathBuf,
}

/// The tools, or all that are missing at once.
fn tools(builder: &Builder, project: &Project) -> Result<Tools, BuildError> {
    let (mut lacks, mut get) = (Vec::new(), Vec::new());
    let node = find("node");
    let found = node.as_deref().and_then(version);
    let is_new = found
        .as_deref()
        .and_then(|version| version.split('.').next()?.parse().ok())
        .is_some_and(|major: u32| major >= NODE_MIN);
    if !is_new {
        let instead = found.map_or_else(String::new, |version| format!(" (here it is {version})"));
        lacks.push(format!("node {NODE_MIN} or later{instead}"));
        get.push("Get node from nodejs.org or your distribution.".to_owned());
    }
    let own = builder.cache.join("typescript");
    let packages = [project.folder.clone(), own.clone()].into_iter().find(|folder| has_packages(folder));
    let (has_npm, install) = (find("npm").is_some(), PACKAGES.join(" "));
    match (node, packages) {
        (Some(node), Some(packages)) if is_new => return Ok(Tools { node, packages }),
        (Some(node), None) if is_new && has_npm && builder.install => {
            (builder.tell)(&format!("getting {} into {}, once", PACKAGES.join(" and "), own.display()));
            write(&own.join("package.json"), b"{\"private\":true}\n")?;
            let mut npm = command("npm");
            run("npm install", npm.args(["install", "--no-fund", "--no-audit"]).args(PACKAGES).current_dir(&own))?;
            return Ok(Tools { node, packages: own });
        }
        (_, Some(_)) => {}
        (_, None) => {
            if !has_npm {
                lacks.push("npm".to_owned());
                get.push("npm comes with node, or as a package of its own.".to_owned());
            }
            lacks.push("componentize-js 0.23 and esbuild".to_owned());
            get.push(format!(
                "Get them with `npm install --prefix {} {install}`, or let `--install` do so.",
                own.display()
            ));
        }
    }
    Err(missing(&lacks, &get))
}

/// Of the version that programs were seen to work with: another one may make something else of the same sources.
fn has_packages(folder: &Path) -> bool {
    let modules = folder.join("node_modules");
    let about = std::fs::read(modules.join("@bytecodealliance/componentize-js/package.json")).unwrap_or_default();
    let about: serde_json::Value = serde_json::from_slice(&about).unwrap_or_default();
    about["version"].as_str().is_some_and(|version| version.starts_with("0.23.")) && modules.join("esbuild").is_dir()
}
