//! The server that is measured: what `mundi dev` runs, components included, with the program of the benches beside the built-in ones.

use crate::program::programs;
use mundi_server::{
    api::{Api, router},
    config::Config,
    node::Node,
    serve::Server,
};
use mundi_wasm::{Components, ComponentsConfig};
use std::{error::Error, future::pending, path::PathBuf, sync::Arc};

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct NodeSettings {
    /// The folder that it runs on.
    #[arg(long)]
    pub(super) data: PathBuf,
}

/// Serves until it is killed.
pub(crate) fn node(settings: &NodeSettings) -> Result<(), Box<dyn Error>> {
    let mut config = Config::default();
    config.data.folder.clone_from(&settings.data);
    config.api.bind.set_port(0);
    config.http.private_hosts_allowed.insert("127.0.0.1".to_owned());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let components = Components::open(ComponentsConfig {
        cache: Some(settings.data.join("compiled")),
        blocking: |work| tokio::task::block_in_place(work),
        ..ComponentsConfig::default()
    })?;
    let programs = programs().with_loader(Arc::new(components));
    runtime.block_on(async {
        let node = Node::open_configured(&config, programs).await?;
        let api = router(Api::new(node, config.api_limits(), config.access(config.api.bind)));
        let server = Server::start(config.api.bind, api, None, config.serve_limits()).await?;
        eprintln!("API at http://{}", server.address());
        pending().await
    })
}
