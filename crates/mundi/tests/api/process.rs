//! The real server, as a process on a folder of its own.

use reqwest::{Client, Method, RequestBuilder, Response, StatusCode};
use serde_json::Value;
use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

pub(crate) struct Server {
    child: Child,
    pub(crate) url: String,
    pub(crate) client: Client,
}

pub(crate) fn client() -> Client {
    let _before = rustls::crypto::ring::default_provider().install_default();
    Client::builder().no_proxy().build().unwrap()
}

impl Drop for Server {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

impl Server {
    pub(crate) fn start(folder: &Path) -> Self {
        Self::start_with(folder, &[])
    }

    pub(crate) fn start_with(folder: &Path, environment: &[(&str, &str)]) -> Self {
        Self::start_as(folder, &["dev"], "API at ", environment)
    }

    /// Starts a command that serves; `says` is what stands before the address that is to be asked.
    pub(crate) fn start_as(folder: &Path, arguments: &[&str], says: &str, environment: &[(&str, &str)]) -> Self {
        let client = client(); // before the process: what fails here must not leave one behind
        let mut command = Command::new(env!("CARGO_BIN_EXE_mundi"));
        command.env("MUNDI_API__BIND", "127.0.0.1:0").args(arguments).arg("--data").arg(folder.join("data"));
        command.envs(environment.iter().copied()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (mut lines, mut said) = (BufReader::new(child.stderr.take().unwrap()).lines(), String::new());
        let url = loop {
            let line = lines.next().unwrap_or_else(|| panic!("it ended before it said where it is: {said}")).unwrap();
            said.push_str(&line);
            if let Some((_, rest)) = line.split_once(says) {
                break rest.split_whitespace().next().unwrap().to_owned();
            }
        };
        std::thread::spawn(move || lines.for_each(drop)); // else the process would block on a full pipe
        Self { child, url, client }
    }

    pub(crate) fn signal(&self, signal: &str) {
        let status = Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap();
        assert!(status.success());
    }

    /// As the machine would: at once, and gone when this returns.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn wait(mut self) -> std::process::ExitStatus {
        self.child.wait().unwrap()
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("{}{path}", self.url)).timeout(Duration::from_secs(30))
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        Answer::of(self.request(Method::GET, path).send().await.unwrap()).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        Answer::of(self.request(Method::DELETE, path).send().await.unwrap()).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(Method::POST, path, &[], body).await
    }

    pub(crate) async fn send(&self, method: Method, path: &str, headers: &[(&str, &str)], body: &Value) -> Answer {
        let mut request = self.request(method, path).body(body.to_string());
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        Answer::of(request.send().await.unwrap()).await
    }
}

/// The response to a request.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) json: Value,
    pub(crate) text: String,
}

impl Answer {
    /// Of a stream, its beginning.
    pub(crate) async fn of(mut response: Response) -> Self {
        let (status, headers) = (response.status(), response.headers().clone());
        let text = match headers.get("content-type").is_some_and(|it| it == "text/event-stream") {
            true => String::from_utf8(response.chunk().await.unwrap().unwrap_or_default().to_vec()).unwrap(),
            false => response.text().await.unwrap(),
        };
        Self { status, headers, json: serde_json::from_str(&text).unwrap_or(Value::Null), text }
    }

    /// The answer, which must have this status.
    #[track_caller]
    pub(crate) fn ok(self, status: u16) -> Value {
        assert_eq!(self.status.as_u16(), status, "{}", self.text);
        self.json
    }

    /// A problem with this status and code.
    #[track_caller]
    pub(crate) fn refused(self, status: u16, code: &str) -> Value {
        assert_eq!((self.status.as_u16(), self.json["code"].as_str()), (status, Some(code)), "{}", self.text);
        assert_eq!(self.headers["content-type"], "application/problem+json");
        assert_eq!(self.json["status"], status);
        if [429, 503, 504].contains(&status) {
            assert!(self.headers.contains_key("retry-after"));
        }
        self.json
    }
}
