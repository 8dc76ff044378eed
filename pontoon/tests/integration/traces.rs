//! Traces, as received by a collector.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc;
use std::time::Duration;

use crate::outside::{probe_world, start_world};
use crate::probe_objects::probe;
use api::probe::Probe;
use testkit::{Result, is};

/// Accepts requests one after another and passes on their bodies.
fn collector() -> Result<(String, mpsc::Receiver<Vec<u8>>)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}", listener.local_addr()?);
    let (sender, bodies) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            stream
                .set_read_timeout(Some(Duration::from_millis(500)))
                .ok();
            let (mut body, mut buffer) = (Vec::new(), [0; 4096]);
            while let Ok(count @ 1..) = stream.read(&mut buffer) {
                body.extend_from_slice(&buffer[..count]);
            }
            stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
                .ok();
            if sender.send(body).is_err() {
                return;
            }
        }
    });
    Ok((url, bodies))
}

#[tokio::test]
async fn each_pass_is_a_span_that_names_its_object() -> Result<()> {
    let (url, bodies) = collector()?;
    let plan = probe_world().env("OTEL_EXPORTER_OTLP_ENDPOINT", url);
    let (world, team) = start_world(plan).await?;
    team.apply(&probe("traced", "text: x")).await?;
    team.until::<Probe>("traced", is("Ready", "Succeeded"))
        .await?;
    world.operator().terminate(Duration::from_secs(25)).await?;

    let sent: Vec<u8> = std::iter::from_fn(|| bodies.recv_timeout(Duration::from_secs(5)).ok())
        .flatten()
        .collect();
    let text = String::from_utf8_lossy(&sent);
    for part in ["/v1/traces", "pontoon", "pass", "traced", "reconcileID"] {
        assert!(text.contains(part), "no {part} in {} bytes", sent.len());
    }
    Ok(())
}
