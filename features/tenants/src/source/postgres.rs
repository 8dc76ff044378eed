//! A table in PostgreSQL: one connection a reading, one read-only transaction, and a cursor.
//!
//! The cursor is why the query can do no more than read: PostgreSQL opens one for a single query
//! that gives rows, and for nothing else. It also lets PostgreSQL write every type as text, and
//! gives no more rows than asked for.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::{Either, select};
use kernel::{Redacted, redact};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres::error::SqlState;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage, SimpleQueryRow, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::address::Address;
use super::rows::{Cell, DOMAIN, Place, Row, check_columns, is_ours};

/// Connecting, with TLS and login, to however many hosts.
const CONNECT: Duration = Duration::from_secs(20);
/// From the first statement to the last row: the longest statement, and its rows on the way.
const READ: Duration = Duration::from_secs(60);
/// What a table may hold, in the columns that mean something here.
const BYTES: usize = 64 << 20;

const BEGIN: &str = "BEGIN TRANSACTION READ ONLY; SET LOCAL statement_timeout = '30s'";
const CURSOR: &str = "pontoon_rows";
/// PostgreSQL takes no higher count than 2³¹ - 1, and one row more than may be is asked for.
const ROWS: usize = 0x7FFF_FFFE;

/// The rows that `query` gives, if they are at most `max`.
///
/// The server has to show a certificate for its name, by `authority` (PEM) or else by the system's
/// authorities, unless `connection` says `sslmode=disable`.
/// # Errors
/// What is wrong and what to do next. Neither the connection string nor the password is in it.
pub async fn read(
    connection: &Redacted<String>,
    authority: Option<&str>,
    query: &str,
    max: usize,
) -> Result<Vec<Row>, String> {
    let address = Address::parse(connection.expose())?;
    let reading = async {
        if address.tls {
            let tls = MakeRustlsConnect::new(verified(authority)?);
            connected(&address, tls, query, max).await
        } else {
            connected(&address, NoTls, query, max).await
        }
    };
    reading.await.map_err(|why: String| {
        let secrets: Vec<&str> = address
            .secrets
            .expose()
            .iter()
            .map(String::as_str)
            .collect();
        redact(&why, &secrets)
    })
}

async fn connected<T>(
    address: &Address,
    tls: T,
    query: &str,
    max: usize,
) -> Result<Vec<Row>, String>
where
    T: MakeTlsConnect<Socket>,
{
    let connecting = tokio::time::timeout(CONNECT, address.config.connect(tls));
    let (client, connection) = connecting
        .await
        .map_err(|_| late("it cannot be reached", CONNECT))?
        .map_err(|error| told(&error))?;
    let reading = tokio::time::timeout(READ, fetched(&client, query, max));
    driven(reading, connection)
        .await
        .map_err(|error| told(&error))?
        .map_err(|_| late("the rows did not come", READ))?
}

/// Runs `work` on a connection, which moves only while somebody polls it.
async fn driven<T>(
    work: impl Future<Output = T>,
    connection: impl Future<Output = Result<(), tokio_postgres::Error>>,
) -> Result<T, tokio_postgres::Error> {
    // In a box, because that goes when it has ended, and with it what the work would wait for.
    match select(pin!(work), Box::pin(connection)).await {
        Either::Left((done, _)) => Ok(done),
        Either::Right((Err(error), _)) if !error.is_closed() => Err(error),
        // Why the server has closed it may be among what came before.
        Either::Right((Ok(()) | Err(_), work)) => Ok(work.await),
    }
}

async fn fetched(client: &Client, query: &str, max: usize) -> Result<Vec<Row>, String> {
    let told = |error: tokio_postgres::Error| told(&error);
    client.batch_execute(BEGIN).await.map_err(told)?;
    // Prepared, so that PostgreSQL takes no second statement behind the first.
    let declare = format!("DECLARE {CURSOR} NO SCROLL CURSOR FOR\n{query}");
    client.execute(declare.as_str(), &[]).await.map_err(told)?;
    let max = max.min(ROWS);
    let mut answer = pin!(client.simple_query_raw(&fetch(max)).await.map_err(told)?);

    let mut columns: Vec<Arc<str>> = Vec::new();
    let mut rows = Vec::new();
    let mut bytes = 0;
    while let Some(message) = answer.next().await {
        match message.map_err(told)? {
            SimpleQueryMessage::RowDescription(described) => {
                columns = described.iter().map(|one| one.name().into()).collect();
                check_columns(columns.iter().map(|one| &**one))
                    .map_err(|why| format!("the query gives no table to use: {why}"))?;
            }
            SimpleQueryMessage::Row(found) => {
                if rows.len() == max {
                    return Err(super::too_many(max));
                }
                let row = row(rows.len() + 1, &columns, &found)?;
                bytes += size(&row);
                if bytes > BYTES {
                    let most = BYTES >> 20;
                    return Err(format!("its rows hold more than {most} MiB; select less"));
                }
                rows.push(row);
            }
            _ => {} // the end of the statement
        }
    }
    Ok(rows)
}

/// Asks for one row more than there may be, to know if there are more.
fn fetch(max: usize) -> String {
    format!("FETCH FORWARD {} FROM {CURSOR}", max + 1)
}

fn row(number: usize, columns: &[Arc<str>], found: &SimpleQueryRow) -> Result<Row, String> {
    let mut row = Row {
        place: Place::Row(number),
        cells: BTreeMap::new(),
    };
    for (at, column) in columns.iter().enumerate().filter(|(_, one)| is_ours(one)) {
        let text = found.try_get(at);
        let text = text.map_err(|_| format!("a row has no text in the column {column}"))?;
        let Some(text) = text else { continue };
        let list = (&**column == DOMAIN).then(|| array(text)).flatten();
        let cell = list.map_or_else(|| Cell::Text(text.to_owned()), Cell::List);
        row.cells.insert(column.clone(), cell);
    }
    Ok(row)
}

fn size(row: &Row) -> usize {
    let held = |cell: &Cell| match cell {
        Cell::Text(text) => text.len(),
        Cell::List(texts) => texts.iter().map(String::len).sum(),
        Cell::Other(_) => 0,
    };
    row.cells.values().map(held).sum()
}

/// The texts of an array as PostgreSQL writes it: `{a,"b c",NULL}`. None if it is no such array; no
/// domain looks like one.
fn array(text: &str) -> Option<Vec<String>> {
    let inside = text.strip_prefix('{')?.strip_suffix('}')?;
    let mut found = Vec::new();
    let mut left = inside.chars().peekable();
    while left.peek().is_some() {
        let quoted = left.next_if_eq(&'"').is_some();
        let mut entry = String::new();
        loop {
            match left.next() {
                Some('\\') => entry.push(left.next()?),
                Some('"') if quoted => break,
                None if quoted => return None,
                Some('{' | '}' | '"') if !quoted => return None,
                Some(',') if !quoted => break,
                None => break,
                Some(other) => entry.push(other),
            }
        }
        if quoted && !matches!(left.next(), Some(',') | None) {
            return None;
        }
        if quoted || entry != "NULL" {
            found.push(entry);
        }
    }
    Some(found)
}

/// TLS that holds only with a server whose certificate and name are right.
fn verified(authority: Option<&str>) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    match authority {
        Some(pem) => {
            for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
                let added = certificate.ok().map(|one| roots.add(one));
                if !matches!(added, Some(Ok(()))) {
                    return Err(
                        "the key ca.crt holds something that is no certificate; store \
                                certificates there as PEM"
                            .to_owned(),
                    );
                }
            }
            if roots.is_empty() {
                return Err(
                    "the key ca.crt holds no certificate; store the authority's there as \
                            PEM"
                    .to_owned(),
                );
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider has the usual versions of TLS");
    let mut config = config.with_root_certificates(roots).with_no_client_auth();
    // What a server asks for that takes TLS from the first byte.
    config.alpn_protocols = vec![b"postgresql".to_vec()];
    Ok(config)
}

fn late(what: &str, after: Duration) -> String {
    format!(
        "{what} within {} s; look at the server and the network between",
        after.as_secs()
    )
}

/// What went wrong, and what to do next.
fn told(error: &tokio_postgres::Error) -> String {
    let Some(said) = error.as_db_error() else {
        let mut text = error.to_string();
        let mut source = std::error::Error::source(error);
        while let Some(cause) = source {
            text = format!("{text}: {cause}");
            source = cause.source();
        }
        return format!("{text}; correct the connection string, or look at the server");
    };
    let code = said.code();
    let next = if *code == SqlState::QUERY_CANCELED {
        "let the query give its rows within 30 s"
    } else if [
        SqlState::INVALID_PASSWORD,
        SqlState::INVALID_AUTHORIZATION_SPECIFICATION,
    ]
    .contains(code)
    {
        "correct user and password in the connection string"
    } else if *code == SqlState::INSUFFICIENT_PRIVILEGE {
        "let the user select what the query names"
    } else if code.code().starts_with("42") {
        "correct the query: one SELECT that gives the rows"
    } else {
        "look at the server and the query"
    };
    format!(
        "PostgreSQL says: {} ({}); {next}",
        said.message(),
        code.code()
    )
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::plain("{a.x.com,b.x.com}", Some(&["a.x.com", "b.x.com"][..]))]
    #[case::empty("{}", Some(&[][..]))]
    #[case::quoted(r#"{"a b","c\"d\\e"}"#, Some(&["a b", "c\"d\\e"][..]))]
    #[case::null_is_none("{a,NULL,b}", Some(&["a", "b"][..]))]
    #[case::a_quoted_null_is_a_text(r#"{"NULL"}"#, Some(&["NULL"][..]))]
    #[case::no_array("a.x.com", None)]
    #[case::open("{a", None)]
    #[case::nested("{{a},{b}}", None)]
    #[case::open_quote(r#"{"a}"#, None)]
    #[case::text_behind_a_quote(r#"{"a"b}"#, None)]
    fn an_array_is_its_texts(#[case] text: &str, #[case] texts: Option<&[&str]>) {
        let texts = texts.map(|all| all.iter().map(|&one| one.to_owned()).collect::<Vec<_>>());
        assert_eq!(array(text), texts);
    }

    #[rstest]
    #[case::few(2, 3)]
    #[case::all_that_can_be_counted(ROWS, i32::MAX)]
    fn one_row_more_is_asked_for_as_far_as_postgresql_counts(
        #[case] max: usize,
        #[case] asked: i32,
    ) {
        assert_eq!(fetch(max), format!("FETCH FORWARD {asked} FROM {CURSOR}"));
    }

    #[rstest]
    #[case::no_pem("nonsense", "holds no certificate")]
    #[case::no_certificate(
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        "is no certificate"
    )]
    fn an_authority_that_is_none_is_told(#[case] pem: &str, #[case] said: &str) {
        let why = verified(Some(pem)).unwrap_err();
        assert!(why.contains(said), "{why}");
    }

    #[tokio::test]
    async fn a_string_that_cannot_be_used_is_not_shown() {
        let connection = Redacted::new("postgres://hush@hush:hush".to_owned());
        let why = read(&connection, None, "SELECT 1", 1).await.unwrap_err();
        assert!(!why.contains("hush"), "{why}");
    }

    #[tokio::test]
    async fn a_connection_that_breaks_ends_the_work() {
        let broken = async { Ok(()) };
        let done = driven(async { 7 }, broken).await;
        assert_eq!(done.unwrap(), 7);
    }

    proptest! {
        #[test]
        fn arrays_are_read_back(texts in vec("[ab,\"\\\\{} ]{1,6}", 0..5)) {
            let quoted = |text: &String| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
            let written: Vec<String> = texts.iter().map(quoted).collect();
            prop_assert_eq!(array(&format!("{{{}}}", written.join(","))), Some(texts));
        }

        #[test]
        fn any_text_is_an_array_or_not(text in "[{}a,\"\\\\N]{0,12}") {
            let _ = array(&text);
        }
    }
}
