//! The bench's world as a Restate virtual object: one per world.

use restate_sdk::prelude::*;

struct Bench(reqwest::Client);

#[object]
impl Bench {
    /// Adds, and answers with the sum.
    #[handler]
    async fn add(&self, ctx: ObjectContext<'_>, number: i64) -> Result<i64, HandlerError> {
        let sum = ctx.get::<i64>("count").await?.unwrap_or(0) + number;
        ctx.set("count", sum);
        Ok(sum)
    }

    /// Asks an HTTP server, and answers once its answer is on record.
    #[handler]
    async fn http(&self, ctx: ObjectContext<'_>, url: Json<String>) -> Result<u16, HandlerError> {
        let (client, url) = (self.0.clone(), url.into_inner());
        let status = ctx.run(|| async move { Ok(client.get(url).send().await?.status().as_u16()) }).await?;
        Ok(status)
    }

    /// Sends to another object, and answers once that is durable.
    #[handler]
    async fn message(&self, ctx: ObjectContext<'_>, to: Json<String>) -> Result<(), HandlerError> {
        ctx.object_client::<BenchClient>(to.into_inner()).add(1).send().await?;
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).ok_or("usage: restate-peer ADDRESS")?.parse()?;
    let endpoint = Endpoint::builder().bind(Bench(reqwest::Client::new())).build();
    HttpServer::new(endpoint).listen_and_serve(address).await;
    Ok(())
}
