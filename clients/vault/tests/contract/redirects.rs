//! Redirects: one is followed, but never from TLS to plain text.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::thread::JoinHandle;

use http::Method;
use kernel::{Class, RealClock};
use testkit::Result;
use testkit::fault_proxy::{FaultProxy, Listen, Upstream};
use vault_client::{Client, Config, Error};

use crate::tls::Authority;
use crate::world::{Seen, World, config, parts, with_token};

/// Answers this many requests with `answer`, one per connection, and returns them: the head in
/// lower case, and the body.
pub(crate) fn answering(
    listener: TcpListener,
    requests: usize,
    answer: impl Fn(&str) -> String + Send + 'static,
) -> JoinHandle<Vec<String>> {
    std::thread::spawn(move || {
        (0..requests)
            .map(|_| {
                let (mut stream, _) = listener.accept().unwrap();
                let mut head = Vec::new();
                let mut byte = [0];
                while !head.ends_with(b"\r\n\r\n") {
                    stream.read_exact(&mut byte).unwrap();
                    head.push(byte[0]);
                }
                let head = String::from_utf8(head).unwrap().to_lowercase();
                let length = head
                    .lines()
                    .find_map(|line| line.strip_prefix("content-length: "))
                    .map_or(0, |length| length.parse().unwrap());
                let mut body = vec![0; length];
                stream.read_exact(&mut body).unwrap();
                let answer = answer(&head);
                let closing = answer.replacen("\r\n", "\r\nConnection: close\r\n", 1);
                stream.write_all(closing.as_bytes()).unwrap();
                head + &String::from_utf8(body).unwrap()
            })
            .collect()
    })
}

/// A server that redirects `requests` calls to the same path at `to`.
fn pointing(requests: usize, to: &str) -> (String, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let to = to.to_owned();
    let server = answering(listener, requests, move |head| {
        let path = head.split(' ').nth(1).unwrap();
        format!("HTTP/1.1 307 Moved\r\nLocation: {to}{path}\r\nContent-Length: 0\r\n\r\n")
    });
    (address, server)
}

fn client(config: Config) -> Client {
    let clock = Arc::new(RealClock::new());
    Client::new(config, parts(clock, Arc::<Seen>::default())).unwrap()
}

#[tokio::test]
async fn a_redirect_is_followed_with_method_and_body() -> Result<()> {
    let world = World::start().await?;
    // The token's lookup, and the write.
    let (address, server) = pointing(2, world.proxy.url());
    let client = client(config("f", &address, with_token(world.vault.root_token())));
    client.write_policy("p", "# hello").await?;
    server.join().unwrap();
    assert_eq!(world.proxy.count(Method::PUT, "/v1/sys/policies/acl/p"), 1);
    let text = world.root().read_policy("p").await?;
    assert_eq!(text.as_deref(), Some("# hello"));
    Ok(())
}

#[tokio::test]
async fn a_second_redirect_is_not_followed() -> Result<()> {
    let world = World::start().await?;
    let (second, last) = pointing(1, world.proxy.url());
    let (first, server) = pointing(1, &second);
    let client = client(config("f", &first, with_token("hvs.x")));
    let error = client.read_policy("p").await.unwrap_err();
    assert!(matches!(error, Error::Redirect { .. }), "{error:?}");
    assert!(error.to_string().contains("more than once"), "{error}");
    assert_eq!(error.class(), Class::Invalid);
    assert_eq!(world.proxy.requests(), []);
    server.join().unwrap();
    last.join().unwrap();
    Ok(())
}

#[tokio::test]
async fn a_redirect_out_of_tls_is_not_followed() -> Result<()> {
    let world = World::start().await?;
    let (pointer, server) = pointing(1, world.proxy.url());
    let authority = Authority::new();
    let (cert_pem, key_pem) = authority.server("127.0.0.1");
    let upstream = Upstream {
        url: pointer,
        ca_pem: None,
    };
    let front = FaultProxy::start(upstream, Listen::Https { cert_pem, key_pem }).await?;
    let mut config = config("f", front.url(), with_token("hvs.x"));
    config.settings.tls.ca_pem = Some(authority.pem());
    let error = client(config).read_policy("p").await.unwrap_err();
    assert!(error.to_string().contains("TLS to plain text"), "{error}");
    assert_eq!(world.proxy.requests(), []);
    server.join().unwrap();
    Ok(())
}
