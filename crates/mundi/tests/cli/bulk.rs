//! Commands to all worlds that filters name, against a server that answers as the test says.

use serde_json::json;
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    process::{Command, Stdio},
    thread,
};

/// One request: its method with its path, and its body.
fn request(stream: &TcpStream) -> Option<(String, String)> {
    let mut reader = BufReader::new(stream);
    let (mut first, mut length) = (String::new(), 0);
    if reader.read_line(&mut first).ok()? == 0 {
        return None;
    }
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        if line.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((first, String::from_utf8(body).unwrap()))
}

/// Serves until the answer is `None`, which is never given.
fn serve(answer: impl Fn(&str, &str) -> Option<serde_json::Value> + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let answer = std::sync::Arc::new(answer);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, answer) = (stream.unwrap(), answer.clone());
            thread::spawn(move || {
                while let Some((path, body)) = request(&stream) {
                    let Some(answer) = answer(&path, &body) else {
                        thread::park(); // the connection stays open
                        return;
                    };
                    let body = answer.to_string();
                    let head =
                        format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}", body.len());
                    write!(&stream, "{head}\r\n\r\n{body}").unwrap();
                }
            });
        }
    });
    url
}

fn mundi(url: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mundi"));
    command.args(["--format", "json"]).env("MUNDI_URL", url).env_remove("MUNDI_TOKEN").stdin(Stdio::null());
    command
}

#[test]
fn a_confirmation_names_all_worlds_and_labels_keep_their_commas() {
    let url = serve(|path, _| {
        assert!(path.contains("label=region%3Da%2Cb&label=tier"), "{path}");
        Some(match path.contains("after=i_00") {
            false => json!({ "count": 20_000, "states": { "live": 20_000 }, "next": "i_00" }),
            true => json!({ "count": 5, "states": { "live": 5 }, "next": null }),
        })
    });
    let labels = ["--label", "region=a,b", "--label", "tier"];
    let asked = mundi(&url).args(["world", "delete"]).args(labels).output().unwrap();
    let said = String::from_utf8_lossy(&asked.stderr).into_owned();
    assert!(said.contains("delete 20005 worlds for good?"), "{said}");
    let counted = mundi(&url).args(["world", "count"]).args(labels).output().unwrap();
    let counted: serde_json::Value = serde_json::from_slice(&counted.stdout).unwrap();
    assert_eq!(counted, json!({ "count": 20_005, "states": { "live": 20_005 } }));
}

#[test]
fn a_command_that_is_interrupted_prints_its_results_and_where_to_go_on() {
    let (sender, second) = std::sync::mpsc::channel();
    let sender = std::sync::Mutex::new(sender);
    let url = serve(move |path, body| {
        if path.contains("world-count") {
            return Some(json!({ "count": 2, "states": {}, "next": null }));
        }
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(body["filters"]["label"], json!(["a=b,c"]));
        if body["after"].is_null() {
            let done = json!({ "world": "w_1", "name": "alice", "result": "done", "code": null, "detail": null });
            return Some(json!({ "items": [done], "next": "i_77" }));
        }
        sender.lock().unwrap().send(()).unwrap();
        None
    });
    let mut command = mundi(&url);
    command.args(["world", "pause", "--label", "a=b,c"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let paused = command.spawn().unwrap();
    second.recv().unwrap();
    assert!(Command::new("kill").args(["-INT", &paused.id().to_string()]).status().unwrap().success());
    let ended = paused.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(1), "{said}");
    let printed: serde_json::Value = serde_json::from_slice(&ended.stdout).unwrap();
    assert_eq!((&printed["items"][0]["name"], &printed["next"]), (&json!("alice"), &json!("i_77")));
    assert!(said.contains("--after i_77"), "{said}");
}
