//! A real PostgreSQL server.

use testkit::{Postgres, Result};

#[tokio::test]
async fn data_survives_a_restart_and_is_removed_at_the_end() -> Result<()> {
    let postgres = Postgres::start().await?;
    postgres
        .run("CREATE TABLE t (n int); INSERT INTO t VALUES (1)")
        .await?;
    postgres.stop().await?;
    assert!(postgres.run("SELECT n FROM t").await.is_err());
    postgres.start_again().await?;
    postgres.run("SELECT n FROM t").await?;

    let folder = postgres.folder().to_owned();
    assert!(folder.join("data/PG_VERSION").exists());
    drop(postgres);
    assert!(!folder.exists());
    Ok(())
}

#[tokio::test]
async fn a_frozen_server_continues_and_ends() -> Result<()> {
    let postgres = Postgres::start().await?;
    postgres.freeze()?;
    postgres.thaw()?;
    postgres.run("SELECT 1").await?;
    postgres.freeze()?;
    Ok(()) // it is dropped while it is frozen
}

#[tokio::test]
async fn a_wrong_password_is_refused() -> Result<()> {
    let postgres = Postgres::start().await?;
    let wrong = postgres.connection_string_as("postgres", "wrong");
    let address = format!("{wrong}?sslmode=disable");
    let refused = tokio_postgres::connect(&address, tokio_postgres::NoTls).await;
    assert!(refused.is_err());
    Ok(())
}
