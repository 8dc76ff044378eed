//! A real PostgreSQL server, with TLS and passwords.

mod home;
mod programs;

use std::{
    os::unix::fs::{PermissionsExt, chown},
    path::Path,
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use nix::sys::signal::Signal;
use parking_lot::Mutex;
use tokio_postgres::NoTls;

use self::{
    home::{Account, Home},
    programs::Programs,
};
use crate::{
    certs::Authority,
    child::{Child, Spec},
    port::Port,
    scratch::Scratch,
};

const START: Duration = Duration::from_secs(60);
const STOP: Duration = Duration::from_secs(10);
const USER: &str = "postgres";

/// A PostgreSQL server on 127.0.0.1. Dropping it stops it and removes its files.
///
/// It accepts connections with and without TLS; its certificate is for `127.0.0.1` and `localhost`.
/// It does not run as root, so under root its files are in a folder that all users can access.
pub struct Postgres {
    // The order of these fields is the order in which they end.
    server: Mutex<Option<Child>>,
    home: Home,
    scratch: Arc<Scratch>,
    spec: Spec,
    port: Port,
    authority: String,
    password: String,
}

impl Postgres {
    /// Starts one and returns when it answers.
    ///
    /// # Errors
    /// Also if there is no PostgreSQL on this machine and it cannot be fetched: with the command to
    /// run.
    pub async fn start() -> Result<Self> {
        let programs = programs::ensure()?;
        let scratch = Arc::new(Scratch::new("postgres")?);
        let home = Home::new(scratch.path())?;
        let port = Port::free()?;
        let authority = Authority::new()?;
        let password: String = std::iter::repeat_with(fastrand::alphanumeric)
            .take(24)
            .collect();
        let prepared = prepare(&programs, &home, &scratch, &authority, &password);
        prepared.inspect_err(|_| scratch.preserve())?;
        let postgres = Self {
            server: Mutex::default(),
            spec: server(&programs, &home, &scratch, &port),
            home,
            scratch,
            port,
            authority: authority.pem(),
            password,
        };
        let started = postgres.start_again().await;
        started.inspect_err(|_| postgres.scratch.preserve())?;
        Ok(postgres)
    }

    /// The connection string of the superuser, without an `sslmode`.
    pub fn connection_string(&self) -> String {
        self.connection_string_as(USER, &self.password)
    }

    /// The connection string of another user.
    pub fn connection_string_as(&self, user: &str, password: &str) -> String {
        let at = self.port.address();
        format!("postgres://{user}:{password}@{at}/{USER}")
    }

    /// The CA of its certificate, as PEM.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// The password of the superuser.
    pub fn password(&self) -> &str {
        &self.password
    }

    /// Runs statements as the superuser.
    pub async fn run(&self, statements: &str) -> Result<()> {
        let address = format!("{}?sslmode=disable", self.connection_string());
        let (client, connection) = tokio_postgres::connect(&address, NoTls).await?;
        let run = async {
            let ran = client.batch_execute(statements).await;
            ran.with_context(|| format!("PostgreSQL does not run {statements}"))
        };
        tokio::select! {
            ran = run => ran,
            ended = connection => bail!("the connection ended: {ended:?}"),
        }
    }

    /// Ends the server; its address refuses connections until [`Self::start_again`].
    pub async fn stop(&self) -> Result<()> {
        let Some(server) = self.server.lock().take() else {
            return Ok(());
        };
        server.signal(Signal::SIGINT)?; // "fast": ends connections instead of waiting for them
        if server.wait(STOP).await.is_err() {
            server.kill();
        }
        Ok(())
    }

    /// Starts a stopped server at the same address, with the same data.
    pub async fn start_again(&self) -> Result<()> {
        *self.server.lock() = Some(Child::start(&self.spec)?);
        let began = Instant::now();
        loop {
            let answer = self.run("SELECT 1").await;
            let Err(error) = answer else { return Ok(()) };
            let (ended, tail) = {
                let server = self.server.lock();
                let server = server.as_ref().context("PostgreSQL is stopped")?;
                (server.exit_status(), server.log_tail(20))
            };
            if ended.is_some() || began.elapsed() > START {
                bail!("PostgreSQL does not answer ({error:#}, ended: {ended:?}):\n{tail}");
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Freezes it: connections stay open and nothing answers new ones.
    pub fn freeze(&self) -> Result<()> {
        let server = self.server.lock();
        server.as_ref().context("PostgreSQL is stopped")?.freeze()
    }

    /// Continues a frozen server.
    pub fn thaw(&self) -> Result<()> {
        let server = self.server.lock();
        server.as_ref().context("PostgreSQL is stopped")?.thaw()
    }

    /// The folder of its files.
    pub fn folder(&self) -> &Path {
        self.home.path()
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let Some(server) = self.server.get_mut().take() else {
            return;
        };
        // On SIGQUIT it frees its shared memory; on SIGKILL it would not.
        let _ = server.thaw();
        if server.signal(Signal::SIGQUIT).is_ok() {
            let began = Instant::now();
            while server.exit_status().is_none() && began.elapsed() < STOP {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

/// Creates the files of the database, and its certificate.
fn prepare(
    programs: &Programs,
    home: &Home,
    scratch: &Scratch,
    authority: &Authority,
    password: &str,
) -> Result<()> {
    let serving = authority.server(["127.0.0.1", "localhost"])?;
    let own = |name: &str, content: &str| -> Result<()> {
        let path = home.path().join(name);
        std::fs::write(&path, content)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
        if let Some(Account { uid, gid }) = home.account() {
            chown(&path, Some(uid), Some(gid))?;
        }
        Ok(())
    };
    own("server.crt", &serving.cert)?;
    own("server.key", &serving.key)?;
    own("password", password)?;
    let args = [
        "--username=postgres",
        "--auth=scram-sha-256",
        "--no-locale",
        "--encoding=UTF8",
        "--no-sync",
        "--no-instructions",
        "--pwfile=password",
        "--pgdata=data",
    ];
    let (program, args) = home.as_account(&programs.initdb, args.map(Into::into).to_vec());
    let made = Command::new(&program)
        .args(args)
        .envs(programs.env.iter().cloned())
        .current_dir(home.path())
        .output()
        .with_context(|| format!("cannot run {}", program.display()))?;
    scratch.write("initdb.log", [made.stdout, made.stderr.clone()].concat())?;
    if !made.status.success() {
        let output = String::from_utf8_lossy(&made.stderr);
        bail!("initdb failed ({}): {output}", made.status);
    }
    Ok(())
}

fn server(programs: &Programs, home: &Home, scratch: &Scratch, port: &Port) -> Spec {
    let settings = [
        "listen_addresses=127.0.0.1".to_owned(),
        format!("port={}", port.number()),
        "unix_socket_directories=".to_owned(),
        "ssl=on".to_owned(),
        "ssl_cert_file=../server.crt".to_owned(),
        "ssl_key_file=../server.key".to_owned(),
        // The data is not needed after the test.
        "fsync=off".to_owned(),
        "log_statement=all".to_owned(),
        "timezone=GMT".to_owned(),
        "log_timezone=GMT".to_owned(),
    ];
    let mut args = vec!["-D".into(), "data".into()];
    for setting in settings {
        args.extend(["-c".into(), setting.into()]);
    }
    let (program, args) = home.as_account(&programs.postgres, args);
    Spec {
        name: "postgres".into(),
        program,
        args,
        env: programs.env.clone(),
        dir: scratch.path().to_owned(),
        workdir: Some(home.path().to_owned()),
    }
}
