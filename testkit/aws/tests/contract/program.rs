//! The program: prints its address, and says what is wrong with its flags.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Output, Stdio};

use crate::world::World;

/// Killed at the end, also after a failure.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_aws-emulator"))
}

fn refused(arguments: &[&str]) -> (Option<i32>, String) {
    let Output { status, stderr, .. } = program().args(arguments).output().expect("it runs");
    (status.code(), String::from_utf8_lossy(&stderr).into_owned())
}

#[tokio::test]
async fn it_prints_its_url_and_answers_there() {
    let world = World::start().await; // for its client
    let child = program()
        .args(["--listen", "127.0.0.1:0", "--clock-factor", "60"])
        .stdout(Stdio::piped())
        .spawn();
    let mut running = Running(child.expect("it starts"));
    let mut url = String::new();
    BufReader::new(running.0.stdout.take().expect("piped"))
        .read_line(&mut url)
        .expect("a line");
    let answer = world
        .http
        .get(format!("{}/_emu/clock", url.trim()))
        .send()
        .await
        .expect("an answer");
    let clock: serde_json::Value = answer.json().await.expect("JSON");
    assert_eq!(clock["factor"], 60.0);
}

#[test]
fn an_invalid_flag_ends_with_2_and_the_valid_form() {
    let (code, message) = refused(&["--listen", "nowhere"]);
    assert_eq!(code, Some(2));
    assert!(message.contains("--listen <ADDRESS:PORT>"), "{message}");
    let (code, message) = refused(&["--listen", "127.0.0.1:0", "--clock-factor", "2e9"]);
    assert_eq!(code, Some(2));
    assert!(message.contains("out of range"), "{message}");
}

#[test]
fn a_port_in_use_ends_with_2_and_a_message() {
    let in_use = TcpListener::bind("127.0.0.1:0").expect("a port");
    let (code, message) = refused(&["--listen", &in_use.local_addr().expect("bound").to_string()]);
    assert_eq!(code, Some(2));
    assert!(message.contains("cannot listen on"), "{message}");
}
