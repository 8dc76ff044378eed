//! The chart in a separate folder, the real Helm, and the rendered objects.

pub(crate) mod rendered;
pub(crate) mod schemas;

use std::{
    fs,
    io::Error,
    path::{Path, PathBuf},
    process::{Output, Stdio},
    time::Duration,
};

use testkit::{
    ControlPlane, Options, Result, binary, checkout,
    scratch::Scratch,
    tools::{self, Tool},
};
use tokio::process::Command;

/// Longer than any of these commands takes on a busy machine.
const DEADLINE: Duration = Duration::from_secs(120);
/// The namespace in which stories install the release `pontoon`.
pub(crate) const NAMESPACE: &str = "pontoon-system";

/// A copy of the chart, which a story may change.
pub(crate) struct Chart {
    scratch: Scratch,
}

impl Chart {
    /// The released chart.
    pub(crate) fn released() -> Result<Self> {
        let scratch = Scratch::new("chart")?;
        copy(&source(), &scratch.path().join("pontoon"))?;
        Ok(Self { scratch })
    }

    /// The chart with the test feature, as the operator under test prints it.
    pub(crate) async fn with_probe() -> Result<Self> {
        let chart = Self::released()?;
        let folder = chart.folder().join("generated/probe");
        fs::create_dir_all(&folder)?;
        for verb in ["crds", "rbac"] {
            let printed = operator(&[verb, "--feature", "probe"]).await?;
            fs::write(folder.join(format!("{verb}.yaml")), expect(printed)?)?;
        }
        Ok(chart)
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.scratch.path().join("pontoon")
    }

    pub(crate) fn scratch(&self) -> &Scratch {
        &self.scratch
    }

    /// The features of the chart.
    pub(crate) fn features(&self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(self.folder().join("generated"))? {
            let entry = entry?;
            if entry.path().join("crds.yaml").exists() {
                names.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
        Ok(names)
    }

    /// The output of `helm template` with these flags, or its error output.
    pub(crate) async fn render(&self, flags: &[&str]) -> Result<Result<String, String>> {
        let folder = self.folder();
        let release = ["template", "pontoon", path(&folder), "-n", NAMESPACE];
        let output = self.helm(&[&release, flags].concat(), None).await?;
        Ok(if output.status.success() {
            Ok(text(output.stdout))
        } else {
            Err(text(output.stderr))
        })
    }

    /// The rendered manifest.
    pub(crate) async fn rendered(&self, flags: &[&str]) -> Result<String> {
        Ok(self.render(flags).await?.map_err(Error::other)?)
    }

    /// The notes that Helm prints after an installation.
    pub(crate) async fn notes(&self, flags: &[&str]) -> Result<String> {
        let folder = self.folder();
        let install = ["install", "pontoon", path(&folder), "-n", NAMESPACE];
        let dry_run = ["--dry-run=client"];
        let args = [&install[..], &dry_run, flags].concat();
        let printed = expect(self.helm(&args, None).await?)?;
        let (_, notes) = printed.split_once("NOTES:").expect("it prints notes");
        Ok(notes.to_owned())
    }

    /// Edits the CRDs of the test feature, as a new version of the chart would.
    pub(crate) fn edit_probe_crds(&self, from: &str, to: &str) -> Result<()> {
        let file = self.folder().join("generated/probe/crds.yaml");
        let before = fs::read_to_string(&file)?;
        assert!(before.contains(from), "no {from:?} in\n{before}");
        Ok(fs::write(&file, before.replace(from, to))?)
    }

    async fn helm(&self, args: &[&str], kubeconfig: Option<&Path>) -> Result<Output> {
        let mut helm = Command::new(tools::find(Tool::Helm)?);
        helm.args(args);
        // The user's own Helm settings must not affect the test.
        for home in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
            helm.env(home, self.scratch.path().join("helm"));
        }
        helm.env("KUBECONFIG", kubeconfig.unwrap_or(Path::new("/dev/null")));
        run(helm).await
    }
}

/// A cluster for one story, because CRDs are cluster-wide.
pub(crate) struct Cluster {
    pub(crate) plane: ControlPlane,
}

impl Cluster {
    pub(crate) async fn start() -> Result<Self> {
        let plane = ControlPlane::start(Options::default()).await?;
        plane.ensure_namespace(NAMESPACE).await?;
        Ok(Self { plane })
    }

    /// Runs `helm <verb> pontoon` with the chart; it must succeed.
    pub(crate) async fn helm(&self, verb: &str, chart: &Chart, flags: &[&str]) -> Result<String> {
        expect(self.try_helm(verb, chart, flags).await?)
    }

    pub(crate) async fn try_helm(
        &self,
        verb: &str,
        chart: &Chart,
        flags: &[&str],
    ) -> Result<Output> {
        let folder = chart.folder();
        let what: &[&str] = match verb {
            "uninstall" => &[verb, "pontoon", "-n", NAMESPACE],
            _ => &[verb, "pontoon", path(&folder), "-n", NAMESPACE],
        };
        let kubeconfig = self.plane.kubeconfig();
        chart.helm(&[what, flags].concat(), Some(&kubeconfig)).await
    }

    /// Runs kubectl; it must succeed.
    pub(crate) async fn kubectl(&self, args: &[&str]) -> Result<String> {
        let mut kubectl = Command::new(tools::find(Tool::Kubectl)?);
        kubectl
            .args(args)
            .env("KUBECONFIG", self.plane.kubeconfig());
        expect(run(kubectl).await?)
    }

    /// The same with `args` and a file that contains `manifest`.
    pub(crate) async fn kubectl_file(&self, args: &[&str], manifest: &str) -> Result<String> {
        let file = self.plane.scratch().write("manifest.yaml", manifest)?;
        self.kubectl(&[args, &["-f", path(&file)]].concat()).await
    }
}

/// Runs the operator under test with `args`, without a cluster.
pub(crate) async fn operator(args: &[&str]) -> Result<Output> {
    let mut operator = Command::new(binary(None)?);
    operator.args(args).env("KUBECONFIG", "/nowhere");
    run(operator).await
}

pub(crate) async fn run(mut command: Command) -> Result<Output> {
    command.stdin(Stdio::null()).kill_on_drop(true);
    let called = format!("{:?}", command.as_std());
    let output = tokio::time::timeout(DEADLINE, command.output()).await;
    Ok(output.map_err(|_| Error::other(format!("{called} does not end")))??)
}

/// The stdout of a command that succeeded; otherwise its stderr, as an error.
pub(crate) fn expect(output: Output) -> Result<String> {
    if !output.status.success() {
        return Err(Error::other(text(output.stderr)).into());
    }
    Ok(text(output.stdout))
}

pub(crate) fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("these commands print text")
}

pub(crate) fn path(path: &Path) -> &str {
    path.to_str().expect("scratch folders have plain names")
}

/// The chart in the repository.
pub(crate) fn source() -> PathBuf {
    checkout().join("charts/pontoon")
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
