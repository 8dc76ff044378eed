//! The operator as a process, as in a pod.

use std::{
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::ExitStatus,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use parking_lot::Mutex;

use crate::{
    child::{self, Child, Spec},
    control_plane::install_crypto,
    eventually,
    kill_file::KillFile,
    port::Port,
    scratch::Scratch,
};

const START: Duration = Duration::from_secs(60);
/// How long a running operator may take to answer.
const ANSWER: Duration = Duration::from_secs(60);
/// How long one request may take.
const REQUEST: Duration = Duration::from_secs(5);
/// How long it may take to reach its kill point.
const DEATH: Duration = Duration::from_secs(60);
/// A kill point ends the process with this signal.
const SIGABRT: i32 = 6;
/// A story ends it with SIGKILL.
const DEATHS: [i32; 2] = [SIGABRT, 9];

/// What the operator is started with.
#[derive(Debug, Clone, Default)]
pub struct OperatorOptions {
    /// Its identity and the address of its cluster.
    pub kubeconfig: PathBuf,
    /// The features it runs; none means the binary's default.
    pub features: Vec<String>,
    /// The namespace of its Lease.
    pub lease_namespace: String,
    /// Time runs this many times as fast inside it.
    pub time_factor: Option<u32>,
    /// It aborts at this point; only a chaos build has such points.
    pub kill_point: Option<String>,
    /// Further flags.
    pub args: Vec<String>,
    /// Further variables of its environment.
    pub env: Vec<(String, String)>,
    /// The program; `None` is what `$PONTOON_BIN` names.
    pub binary: Option<PathBuf>,
}

/// A running operator. Dropping it kills it.
pub struct Operator {
    child: Mutex<Child>,
    options: Mutex<OperatorOptions>,
    name: String,
    scratch: Arc<Scratch>,
    probes: Port,
    metrics: Port,
    kill_file: KillFile,
    http: reqwest::Client,
}

/// The operator's program: `given`, else what `$PONTOON_BIN` names.
pub fn binary(given: Option<&Path>) -> Result<PathBuf> {
    let named = given
        .map(Path::to_owned)
        .or_else(|| std::env::var_os("PONTOON_BIN").map(PathBuf::from));
    named.context("PONTOON_BIN does not name the operator's program; run: cargo xtask test")
}

impl Operator {
    /// Starts one and returns when `/readyz` succeeds (or, with a kill point, when it has died).
    /// Its log is `<name>.log` in `scratch`.
    pub async fn start(
        name: &str,
        scratch: &Arc<Scratch>,
        options: OperatorOptions,
    ) -> Result<Self> {
        install_crypto();
        let (probes, metrics) = (Port::free()?, Port::free()?);
        let file = |end: &str| scratch.path().join(format!("{name}.{end}"));
        let kill_file = KillFile::new(file("kill"), file("log"));
        let spec = spec(name, scratch, &options, &probes, &metrics, &kill_file)?;
        let operator = Self {
            child: Mutex::new(Child::start(&spec)?),
            options: Mutex::new(options),
            name: name.to_owned(),
            scratch: Arc::clone(scratch),
            probes,
            metrics,
            kill_file,
            http: reqwest::Client::builder().timeout(REQUEST).build()?,
        };
        operator.ready().await?;
        Ok(operator)
    }

    /// Starts it again after it has ended or been killed, with `change`d options, at the same
    /// ports and with the same log; then waits as [`Self::start`] does. An abort that the kill file chose
    /// does not happen again.
    pub async fn restart(&self, change: impl FnOnce(&mut OperatorOptions)) -> Result<()> {
        let options = {
            let mut options = self.options.lock();
            change(&mut options);
            options.clone()
        };
        let spec = spec(
            &self.name,
            &self.scratch,
            &options,
            &self.probes,
            &self.metrics,
            &self.kill_file,
        )?;
        {
            let mut child = self.child.lock();
            let ended = child.exit_status();
            if ended.is_some_and(|status| status.signal() == Some(SIGABRT)) {
                self.kill_file.remove_fired()?;
            }
            child.kill();
            *child = Child::start(&spec)?;
        }
        self.ready().await
    }

    /// Requests `path`, such as `/readyz?verbose`, from the probe endpoint.
    pub async fn probe(&self, path: &str) -> Result<(u16, String)> {
        self.get(&self.probes, path).await
    }

    /// All metrics, as text.
    pub async fn metrics(&self) -> Result<String> {
        let (status, text) = self.get(&self.metrics, "/metrics").await?;
        if status != 200 {
            bail!("{}: /metrics answered {status}: {text}", self.name);
        }
        Ok(text)
    }

    /// The address of its metrics.
    pub fn metrics_url(&self) -> String {
        format!("http://{}/metrics", self.metrics.address())
    }

    /// The address of its probes, without a path.
    pub fn probes_url(&self) -> String {
        format!("http://{}", self.probes.address())
    }

    /// The sum of the samples of `name` with all of `labels`; 0 if there are none, because a counter
    /// appears with its first count.
    pub async fn metric(&self, name: &str, labels: &[(&str, &str)]) -> Result<f64> {
        Ok(sum(&self.metrics().await?, name, labels))
    }

    /// Asks it to end (SIGTERM) and waits, at most for `deadline`.
    pub async fn terminate(&self, deadline: Duration) -> Result<ExitStatus> {
        self.child
            .lock()
            .signal(nix::sys::signal::Signal::SIGTERM)?;
        self.ended(deadline).await
    }

    /// Waits until it has ended by itself, as at a kill point.
    pub async fn ended(&self, deadline: Duration) -> Result<ExitStatus> {
        let started = Instant::now();
        loop {
            if let Some(status) = self.exit_status() {
                return Ok(status);
            }
            if started.elapsed() > deadline {
                bail!(
                    "{} still runs after {deadline:?}; its last lines:\n{}",
                    self.name,
                    self.log_tail(40)
                );
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits until it has died, at a kill point or killed by the story.
    ///
    /// # Errors
    /// If it still runs, or ended in another way.
    pub async fn died(&self) -> Result<()> {
        let status = self.ended(DEATH).await?;
        let is_death = status.signal().is_some_and(|one| DEATHS.contains(&one));
        ensure!(is_death, "{} did not die, it ended: {status}", self.name);
        Ok(())
    }

    /// How it ended, or `None` while it runs.
    pub fn exit_status(&self) -> Option<ExitStatus> {
        self.child.lock().exit_status()
    }

    /// Kills it (SIGKILL).
    pub fn kill(&self) {
        self.child.lock().kill();
    }

    /// Freezes it, as on a stalled machine.
    pub fn freeze(&self) -> Result<()> {
        self.child.lock().freeze()
    }

    /// Continues it.
    pub fn thaw(&self) -> Result<()> {
        self.child.lock().thaw()
    }

    /// The kill points that a story chooses while it runs.
    pub fn kill_file(&self) -> &KillFile {
        &self.kill_file
    }

    /// Its process id, for measuring.
    pub fn pid(&self) -> u32 {
        self.child.lock().pid()
    }

    /// All it has logged, over all its restarts.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    /// The first line of the log that contains `text`. A pass logs its outcome after its status, its
    /// events and its metrics are visible, so a test can wait for the line.
    ///
    /// # Errors
    /// After a minute, if there is no such line.
    pub async fn logs(&self, text: &str) -> Result<String> {
        eventually(&format!("a line with {text} in the log"), async || {
            let log = self.log();
            let mut whole = log
                .split_inclusive('\n')
                .filter_map(|line| line.strip_suffix('\n'));
            Ok(whole.find(|line| line.contains(text)).map(str::to_owned))
        })
        .await
    }

    /// The file of the log.
    pub fn log_path(&self) -> PathBuf {
        self.child.lock().log_path().to_owned()
    }

    fn log_tail(&self, lines: usize) -> String {
        child::tail(&self.log_path(), lines)
    }

    /// Repeats the request while the operator runs: on a busy machine an answer may take long.
    async fn get(&self, port: &Port, path: &str) -> Result<(u16, String)> {
        let began = Instant::now();
        loop {
            match self.get_once(port, path).await {
                Err(_) if self.exit_status().is_none() && began.elapsed() < ANSWER => {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                answer => return answer,
            }
        }
    }

    async fn get_once(&self, port: &Port, path: &str) -> Result<(u16, String)> {
        let url = format!("http://{}{path}", port.address());
        let answer = self
            .http
            .get(&url)
            .send()
            .await
            .with_context(|| format!("no answer from {url}"))?;
        Ok((answer.status().as_u16(), answer.text().await?))
    }

    async fn ready(&self) -> Result<()> {
        let dying = self.options.lock().kill_point.is_some() || self.kill_file.has_abort()?;
        let started = Instant::now();
        loop {
            let answer = self.get_once(&self.probes, "/readyz?verbose").await;
            if matches!(answer, Ok((200, _))) {
                return Ok(());
            }
            match self.exit_status() {
                Some(_) if dying => return Ok(()),
                None if started.elapsed() < START => {}
                ended => {
                    self.scratch.preserve();
                    let tail = self.log_tail(40);
                    bail!(
                        "{} is not ready ({answer:?}, ended: {ended:?}); its last lines:\n{tail}",
                        self.name
                    );
                }
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

fn spec(
    name: &str,
    scratch: &Scratch,
    options: &OperatorOptions,
    probes: &Port,
    metrics: &Port,
    kill_file: &KillFile,
) -> Result<Spec> {
    let mut args = vec!["run".to_owned()];
    if !options.features.is_empty() {
        args.extend(["--features".into(), options.features.join(",")]);
    }
    args.extend([
        format!("--namespace={}", options.lease_namespace),
        "--leader-elect=true".into(),
        "--metrics-secure=false".into(),
        format!("--health-probe-bind-address={}", probes.address()),
        format!("--metrics-bind-address={}", metrics.address()),
        "--log-format=json".into(),
    ]);
    args.extend(options.args.iter().cloned());

    let mut env = vec![
        ("KUBECONFIG".to_owned(), options.kubeconfig.clone().into()),
        ("PONTOON_TEST_KILL_FILE".into(), kill_file.path().into()),
    ];
    if let Some(factor) = options.time_factor {
        env.push(("PONTOON_TEST_TIME_FACTOR".into(), factor.to_string().into()));
    }
    if let Some(point) = &options.kill_point {
        env.push(("PONTOON_TEST_KILL_POINT".into(), point.into()));
    }
    env.extend(
        options
            .env
            .iter()
            .map(|(name, value)| (name.clone(), value.into())),
    );
    Ok(Spec {
        name: name.to_owned(),
        program: binary(options.binary.as_deref())?,
        args: args.into_iter().map(Into::into).collect(),
        env,
        dir: scratch.path().to_owned(),
        workdir: None,
    })
}

/// The sum of the samples of `name` in `text` (Prometheus' format) with all of `labels`.
fn sum(text: &str, name: &str, labels: &[(&str, &str)]) -> f64 {
    let samples = text.lines().filter_map(|line| {
        let rest = line.strip_prefix(name)?;
        let (carried, value) = match rest.strip_prefix('{') {
            Some(rest) => rest.rsplit_once('}')?,
            None => ("", rest.strip_prefix(' ')?),
        };
        // Behind a comma or at the start, so that `b="1"` is not found in `ab="1"`.
        let carried = format!(",{carried},");
        let has = |(key, value): &(&str, &str)| carried.contains(&format!(",{key}=\"{value}\","));
        labels.iter().all(has).then_some(value)
    });
    samples
        .filter_map(|value| value.split_whitespace().next()?.parse::<f64>().ok())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# HELP a_total Things.\n\
        a_total{kind=\"x\",result=\"ok\"} 2\n\
        a_total{kind=\"x\",result=\"error\"} 3 1700000000\n\
        a_total{akind=\"x\"} 100\n\
        a_total_more 50\n\
        b 1.5\n";

    #[test]
    fn a_metric_is_the_sum_of_the_samples_with_the_labels() {
        assert!((sum(TEXT, "a_total", &[("kind", "x")]) - 5.0).abs() < f64::EPSILON);
        assert!((sum(TEXT, "a_total", &[("result", "error")]) - 3.0).abs() < f64::EPSILON);
        assert!((sum(TEXT, "b", &[]) - 1.5).abs() < f64::EPSILON);
        assert!(sum(TEXT, "a_total", &[("kind", "y")]).abs() < f64::EPSILON);
    }
}
