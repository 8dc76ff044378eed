//! Verbs as people run them: the operator's program with the kubeconfig of an administrator of both clusters.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use testkit::Result;

use super::{DESTINATION, SOURCE, Shop};

/// What a verb has printed, and how it has ended.
#[derive(Debug)]
pub(crate) struct VerbOutput {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl VerbOutput {
    /// The same, if this is the exit code.
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{}", self.text());
        self
    }

    /// Whether this is the exit code.
    pub(crate) fn has_exited(&self, code: i32) -> bool {
        self.code == Some(code)
    }

    /// All that was printed.
    pub(crate) fn text(&self) -> String {
        format!("{}{}", self.stdout, self.stderr)
    }

    /// The same, if this was printed.
    #[track_caller]
    pub(crate) fn prints(self, part: &str) -> Self {
        assert!(self.text().contains(part), "{part:?} in {}", self.text());
        self
    }

    /// The findings, after `-o json`.
    pub(crate) fn findings(&self) -> Result<Vec<Value>> {
        Ok(serde_json::from_str(&self.stdout)?)
    }
}

impl Shop {
    /// Runs `pontoon migrate …` in the namespace of the migration.
    pub(crate) fn verb(&self, args: &[&str]) -> Result<VerbOutput> {
        let kubeconfig = self.user_kubeconfig()?;
        let args = [&["migrate"][..], args].concat();
        self.run_program(&testkit::binary(None)?, &kubeconfig, &args)
    }

    /// Runs a program with the operator's access to AWS.
    pub(crate) fn run_program(
        &self,
        program: &Path,
        kubeconfig: &Path,
        args: &[impl AsRef<OsStr>],
    ) -> Result<VerbOutput> {
        let mut command = Command::new(program);
        command.args(args).stdin(Stdio::null());
        command.env("KUBECONFIG", kubeconfig);
        command.envs(self.site.world.aws().env());
        let output = command.output()?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(VerbOutput {
            code: output.status.code(),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
        })
    }

    /// A kubeconfig with a context for each cluster, `source` and `destination`. The current one is the
    /// destination, with the namespace of the migration.
    pub(crate) fn user_kubeconfig(&self) -> Result<PathBuf> {
        let mut all = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": DESTINATION,
            "clusters": [], "users": [], "contexts": [],
        });
        for name in [SOURCE, DESTINATION] {
            let of_cluster = std::fs::read(self.cluster(name).control_plane().kubeconfig())?;
            let of_cluster: Value = serde_json::from_slice(&of_cluster)?;
            let context = json!({"cluster": name, "user": name, "namespace": self.ops.name()});
            add(&mut all, "contexts", name, "context", &context);
            let cluster = &of_cluster["clusters"][0]["cluster"];
            add(&mut all, "clusters", name, "cluster", cluster);
            let user = &of_cluster["users"][0]["user"];
            add(&mut all, "users", name, "user", user);
        }
        self.file("kubeconfig", &all.to_string())
    }

    /// A file of this story alone.
    pub(crate) fn file(&self, name: &str, content: &str) -> Result<PathBuf> {
        let scratch = self.cluster(DESTINATION).control_plane().scratch();
        scratch.write(&format!("{}-{name}", self.ops.name()), content)
    }
}

fn add(kubeconfig: &mut Value, list: &str, name: &str, field: &str, value: &Value) {
    let list = kubeconfig[list].as_array_mut();
    list.expect("each is a list")
        .push(json!({"name": name, field: value}));
}
