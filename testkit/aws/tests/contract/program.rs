//! The program: tells where it listens, and says what is wrong with its flags.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Output, Stdio};

use crate::world::World;

/// Killed at the end, whatever happens.
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
fn a_wrong_flag_ends_with_2_and_says_what_is_right() {
    let (code, told) = refused(&["--listen", "nowhere"]);
    assert_eq!(code, Some(2));
    assert!(told.contains("--listen <ADDRESS:PORT>"), "{told}");
    let (code, told) = refused(&["--listen", "127.0.0.1:0", "--clock-factor", "2e9"]);
    assert_eq!(code, Some(2));
    assert!(told.contains("out of range"), "{told}");
}

#[test]
fn a_taken_port_ends_with_2_and_says_so() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let (code, told) = refused(&["--listen", &taken.local_addr().expect("bound").to_string()]);
    assert_eq!(code, Some(2));
    assert!(told.contains("cannot listen on"), "{told}");
}
