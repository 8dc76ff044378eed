//! Tables in a real PostgreSQL.

use kernel::Redacted;
use tenants::source::{Cell, Row, postgres};
use testkit::{Postgres, Result, eventually};

const MAX: usize = 100;
/// One row, for questions about the connection itself.
const ONE: &str = "SELECT 'acme' AS name, 'a.x.com' AS domain";

/// What a query gives over verified TLS.
async fn read(postgres: &Postgres, query: &str) -> Result<Vec<Row>, String> {
    read_by(
        &postgres.connection_string(),
        Some(postgres.authority()),
        query,
    )
    .await
}

async fn read_by(
    connection: &str,
    authority: Option<&str>,
    query: &str,
) -> Result<Vec<Row>, String> {
    let connection = Redacted::new(connection.to_owned());
    postgres::read(&connection, authority, query, MAX).await
}

fn text<'a>(row: &'a Row, column: &str) -> Option<&'a str> {
    match row.cells.get(column)? {
        Cell::Text(text) => Some(text),
        other => panic!("{column} is {other:?}"),
    }
}

#[track_caller]
fn refused(answer: Result<Vec<Row>, String>, said: &str) -> String {
    let why = answer.expect_err("this must not give rows");
    assert!(why.contains(said), "{why}");
    why
}

#[tokio::test]
async fn every_type_comes_as_text_and_null_as_nothing() -> Result<()> {
    let postgres = Postgres::start().await?;
    postgres
        .run(
            "CREATE TYPE plan AS ENUM ('free', 'paid');
             CREATE DOMAIN host AS varchar(254);
             CREATE TABLE tenants (
                 name text, domain host, enabled boolean, distribution_id char(6),
                 connection_group_id varchar(40), param_count bigint, param_small smallint,
                 param_id uuid, param_price numeric(8,2), param_plan plan, param_json jsonb,
                 tag_day date, tag_none text, secret bytea
             );
             INSERT INTO tenants VALUES (
                 'acme', 'A.example.com', true, 'E1', 'cg_1', 9007199254740993, -3,
                 '00000000-0000-0000-0000-00000000000a', 12.50, 'paid', '{\"a\": 1}',
                 '2024-02-29', NULL, '\\x00'
             );",
        )
        .await?;
    let rows = read(&postgres, "SELECT * FROM tenants;").await.unwrap();
    let [row] = &rows[..] else { panic!("{rows:?}") };
    let wanted = [
        ("name", Some("acme")),
        ("domain", Some("A.example.com")),
        ("enabled", Some("t")),
        ("distribution_id", Some("E1    ")),
        ("connection_group_id", Some("cg_1")),
        ("param_count", Some("9007199254740993")),
        ("param_small", Some("-3")),
        ("param_id", Some("00000000-0000-0000-0000-00000000000a")),
        ("param_price", Some("12.50")),
        ("param_plan", Some("paid")),
        ("param_json", Some("{\"a\": 1}")),
        ("tag_day", Some("2024-02-29")),
        ("tag_none", None),
        ("secret", None),
    ];
    for (column, value) in wanted {
        assert_eq!(text(row, column), value, "{column}");
    }
    assert_eq!(row.place.to_string(), "row 1");
    Ok(())
}

#[tokio::test]
async fn rows_come_in_order_with_arrays_and_not_beyond_the_limit() -> Result<()> {
    let postgres = Postgres::start().await?;
    let arrays = "SELECT name, array_agg(domain ORDER BY domain) AS domain
        FROM (VALUES ('acme', 'b.x.com'), ('acme', 'a.x.com'), ('beta', 'c.x.com'))
        AS t(name, domain) GROUP BY name ORDER BY name -- by name";
    let rows = read(&postgres, arrays).await.unwrap();
    let list = |of: &[&str]| Cell::List(of.iter().map(|&one| one.to_owned()).collect());
    assert_eq!(rows[0].cells["domain"], list(&["a.x.com", "b.x.com"]));
    assert_eq!(rows[1].cells["domain"], list(&["c.x.com"]));

    let many = |count: usize| {
        let series = format!("SELECT generate_series(1, {count}) AS n");
        format!("SELECT 't' || n AS name, n || '.x.com' AS domain FROM ({series}) AS s")
    };
    let rows = read(&postgres, &many(MAX)).await.unwrap();
    assert_eq!(rows.len(), MAX);
    assert_eq!(rows[MAX - 1].place.to_string(), "row 100");
    refused(
        read(&postgres, &many(MAX + 1)).await,
        "it has more than 100 rows; raise maxRows",
    );
    // A query without end is asked for no more than it takes to know that.
    refused(
        read(&postgres, &many(2_000_000_000)).await,
        "more than 100 rows",
    );

    assert_eq!(
        read(&postgres, &format!("{ONE} WHERE false")).await,
        Ok(vec![])
    );
    let nameless = "SELECT 'a.x.com' AS domain WHERE false";
    refused(read(&postgres, nameless).await, "it has no column name");
    let twice = "SELECT 'a' AS name, 'b' AS name, 'c' AS domain";
    refused(read(&postgres, twice).await, "the column name twice");
    Ok(())
}

#[tokio::test]
async fn a_query_can_only_read() -> Result<()> {
    let postgres = Postgres::start().await?;
    postgres
        .run(
            "CREATE TABLE t (name text, domain text);
             INSERT INTO t VALUES ('acme', 'a.x.com');
             CREATE FUNCTION spoil() RETURNS text LANGUAGE plpgsql AS
                 $$ BEGIN DELETE FROM t; RETURN 'gone'; END $$;",
        )
        .await?;
    let table = "SELECT name, domain FROM t";
    let writes = [
        ("DELETE FROM t RETURNING name, domain", "one SELECT"),
        (
            "WITH d AS (DELETE FROM t RETURNING *) SELECT * FROM d",
            "PostgreSQL says",
        ),
        (
            "SELECT spoil() AS name, 'a.x.com' AS domain",
            "read-only transaction",
        ),
        (&format!("{table}; DELETE FROM t"), "one SELECT"),
        (
            &format!("{table}; COMMIT; DELETE FROM t; {table}"),
            "one SELECT",
        ),
        ("COMMIT", "one SELECT"),
        (
            "SELECT name, domain FROM t FOR UPDATE",
            "read-only transaction",
        ),
        (
            "SELECT set_config('transaction_read_only', 'off', true) AS name, spoil() AS domain",
            "PostgreSQL says",
        ),
        ("SELECT name, domain FROM t WHERE name = $1", "parameter"),
    ];
    for (query, said) in writes {
        refused(read(&postgres, query).await, said);
    }
    assert_eq!(read(&postgres, table).await.unwrap().len(), 1);

    let limit = "SELECT current_setting('statement_timeout') AS name,
        current_setting('transaction_read_only') AS domain";
    let rows = read(&postgres, limit).await.unwrap();
    assert_eq!(
        (text(&rows[0], "name"), text(&rows[0], "domain")),
        (Some("30s"), Some("on"))
    );
    Ok(())
}

#[tokio::test]
async fn only_a_server_that_proves_itself_is_asked() -> Result<()> {
    let postgres = Postgres::start().await?;
    let other = Postgres::start().await?;
    let connection = postgres.connection_string();
    let encrypted = "SELECT 'acme' AS name, 'a.x.com' AS domain, ssl AS enabled
        FROM pg_stat_ssl WHERE pid = pg_backend_pid()";

    for mode in [
        "",
        "?sslmode=prefer",
        "?sslmode=require",
        "?sslmode=verify-full",
    ] {
        let connection = format!("{connection}{mode}");
        let rows = read_by(&connection, Some(postgres.authority()), encrypted)
            .await
            .unwrap();
        assert_eq!(text(&rows[0], "enabled"), Some("t"), "{mode}");
        refused(read_by(&connection, None, ONE).await, "UnknownIssuer");
        refused(
            read_by(&connection, Some(other.authority()), ONE).await,
            "invalid peer certificate",
        );
    }
    let plain = format!("{connection}?sslmode=disable");
    let rows = read_by(&plain, None, encrypted).await.unwrap();
    assert_eq!(text(&rows[0], "enabled"), Some("f"));

    // The right server under a name that its certificate does not have.
    let (_, at) = connection.rsplit_once('@').unwrap();
    let (port, password) = (at[10..].trim_end_matches("/postgres"), postgres.password());
    let renamed = format!(
        "host=db.example.com hostaddr=127.0.0.1 port={port} user=postgres password={password}"
    );
    let answer = read_by(&renamed, Some(postgres.authority()), ONE).await;
    refused(answer, "not valid for name");
    Ok(())
}

#[tokio::test]
async fn errors_say_what_to_do_and_never_the_password() -> Result<()> {
    let postgres = Postgres::start().await?;
    postgres
        .run("CREATE ROLE reader LOGIN PASSWORD 'read-only-1'; CREATE TABLE hidden (name text)")
        .await?;
    let authority = Some(postgres.authority());
    let told = async |connection: String, query: &str, said: &str| {
        let why = refused(read_by(&connection, authority, query).await, said);
        for secret in [
            &*connection,
            postgres.password(),
            "read-only-1",
            "wr%40ng-word",
            "wr@ng-word",
        ] {
            assert!(!why.contains(secret), "{why}");
        }
    };
    let wrong = postgres.connection_string_as("postgres", "wr%40ng-word");
    told(wrong, ONE, "correct user and password").await;
    let reader = postgres.connection_string_as("reader", "read-only-1");
    told(
        reader,
        "SELECT name, name AS domain FROM hidden",
        "let the user select",
    )
    .await;
    let own = postgres.connection_string();
    told(
        own.clone(),
        "SELECT nonsense",
        "correct the query: one SELECT",
    )
    .await;
    let cut_off = "SELECT 'acme' AS name,
        pg_terminate_backend(pg_backend_pid())::text || pg_sleep(5)::text AS domain";
    told(own.clone(), cut_off, "terminating connection").await;
    let nobody = format!(
        "postgres://u:{}@no-such-host.invalid/x",
        postgres.password()
    );
    told(nobody, ONE, "error connecting to server").await;
    postgres.stop().await?;
    told(own, ONE, "Connection refused").await;
    Ok(())
}

#[tokio::test]
async fn a_reading_leaves_no_connection_behind() -> Result<()> {
    let postgres = Postgres::start().await?;
    for _ in 0..3 {
        assert_eq!(read(&postgres, ONE).await.unwrap().len(), 1);
    }
    refused(
        read(&postgres, "SELECT 1/0 AS name, 'a' AS domain").await,
        "division by zero",
    );
    // The count itself is read by another name.
    let count = format!("{}?application_name=count", postgres.connection_string());
    let others = "SELECT count(*) AS name, '' AS domain
        FROM pg_stat_activity WHERE application_name = 'pontoon'";
    eventually("every connection is closed", async || {
        let rows = read_by(&count, Some(postgres.authority()), others).await;
        let rows = rows.expect("the server answers");
        Ok((text(&rows[0], "name") == Some("0")).then_some(()))
    })
    .await
}
