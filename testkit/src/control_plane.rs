//! A real control plane on loopback: etcd and kube-apiserver, and optional components.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use base64::{Engine, engine::general_purpose::STANDARD};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client,
    config::{KubeConfigOptions, Kubeconfig},
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{sync::OnceCell, task::JoinSet};

use crate::{
    audit::{self, Entry, Mark},
    certs::{Authority, Files},
    child::{Child, Spec},
    custom_resources::remove_custom_resources,
    fault_proxy::{FaultProxy, Listen, Upstream},
    kubeconfig::{Proof, kubeconfig},
    nodes,
    port::Port,
    scratch::{ROOT, Scratch},
    slots::{SLOT_WAIT, Slot, free_slots},
    tools::{self, Tool},
};

/// How long a server may take to start. Seconds are usual; a busy machine needs more.
const START: Duration = Duration::from_secs(60);
/// How long the API server may take to end before it is killed.
const STOP: Duration = Duration::from_secs(10);

/// What runs besides etcd and kube-apiserver.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// kube-controller-manager: garbage collection, namespace deletion, workloads. Without it the
    /// ServiceAccount admission plugin is off, because nothing creates the default ServiceAccounts.
    pub controller_manager: bool,
    /// kube-scheduler.
    pub scheduler: bool,
    /// How many nodes KWOK simulates; pods bound to them run.
    pub kwok_nodes: u32,
    /// Further flags of kube-apiserver.
    pub api_server_args: Vec<String>,
    /// Further flags of kube-controller-manager.
    pub controller_manager_args: Vec<String>,
    /// Further flags of kube-scheduler.
    pub scheduler_args: Vec<String>,
    /// Signs its certificates and tokens; a new one without.
    pub authority: Option<Authority>,
}

/// A control plane. Dropping it stops it.
pub struct ControlPlane {
    // The order of these fields is the order in which they end.
    others: Mutex<Vec<Child>>,
    api_server: Mutex<Option<Child>>,
    etcd: Child,
    scratch: Arc<Scratch>,
    /// Held while it runs.
    slot: Mutex<Option<Slot>>,
    api_server_spec: Spec,
    admin: kube::Config,
    authority: Authority,
    ca_pem: String,
    port: Port,
    etcd_port: Port,
    _peer_port: Port,
}

static SHARED: OnceCell<Arc<ControlPlane>> = OnceCell::const_new();
/// Control planes that a world of this process has used and no other uses yet.
static IDLE: Mutex<Vec<Arc<ControlPlane>>> = Mutex::new(Vec::new());

impl ControlPlane {
    /// Starts one, in about three seconds, and returns when it is ready.
    pub async fn start(options: Options) -> Result<Self> {
        let mut slots = free_slots(&slots_folder(), 1, SLOT_WAIT).await?;
        let slot = slots.pop().context("there is one slot")?;
        Self::start_with(slot, options).await
    }

    /// Starts several side by side, in the order of `all`. It waits until there is room for all.
    pub async fn start_together(all: Vec<Options>) -> Result<Vec<Self>> {
        let slots = free_slots(&slots_folder(), all.len(), SLOT_WAIT).await?;
        let mut starting = JoinSet::new();
        for (at, (slot, options)) in slots.into_iter().zip(all).enumerate() {
            starting.spawn(async move { (at, Self::start_with(slot, options).await) });
        }
        let mut started = Vec::new();
        while let Some(joined) = starting.join_next().await {
            let (at, plane) = joined?;
            started.push((at, plane?));
        }
        started.sort_by_key(|(at, _)| *at);
        Ok(started.into_iter().map(|(_, plane)| plane).collect())
    }

    async fn start_with(slot: Slot, options: Options) -> Result<Self> {
        install_crypto();
        let scratch = Arc::new(Scratch::new("control-plane")?);
        let started = Self::start_in(&scratch, slot, options).await;
        if started.is_err() {
            scratch.preserve();
        }
        started
    }

    /// The one that all tests of this binary share; the first caller starts it.
    ///
    /// # When not to use it
    /// If the test runs an operator, or changes what all namespaces see: start a separate one.
    pub async fn shared() -> Result<Arc<Self>> {
        let start = async || Self::start(Options::default()).await.map(Arc::new);
        SHARED.get_or_try_init(start).await.cloned()
    }

    /// One that earlier worlds of this process have used, without their custom resources; a new one
    /// if none is idle. [`Self::give_back`] makes it idle again.
    pub(crate) async fn reused() -> Result<Arc<Self>> {
        let idle = IDLE.lock().pop();
        match idle {
            Some(plane) => {
                remove_custom_resources(&plane.admin()).await?;
                Ok(plane)
            }
            None => Self::start(Options::default()).await.map(Arc::new),
        }
    }

    /// Makes it available to the next world that reuses one.
    pub(crate) fn give_back(self: &Arc<Self>) {
        IDLE.lock().push(Arc::clone(self));
    }

    async fn start_in(scratch: &Arc<Scratch>, slot: Slot, options: Options) -> Result<Self> {
        let (etcd_port, peer_port, port) = (Port::free()?, Port::free()?, Port::free()?);
        let authority = match &options.authority {
            Some(given) => given.clone(),
            None => Authority::new()?,
        };
        let files = authority.serving_files(scratch)?;
        let url = format!("https://{}", port.address());
        let admin = authority.client("admin", Some("system:masters"))?;
        let admin = kubeconfig(&url, &authority.pem(), &Proof::Certificate(&admin));
        scratch.write("kubeconfig", &admin)?;

        let etcd = Child::start(&etcd_spec(scratch, &etcd_port, &peer_port)?)?;
        let plane = Self {
            others: Mutex::default(),
            api_server: Mutex::default(),
            etcd,
            scratch: Arc::clone(scratch),
            slot: Mutex::new(Some(slot)),
            api_server_spec: api_server_spec(scratch, &files, &port, &etcd_port, &options)?,
            admin: client_config(&admin).await?,
            ca_pem: authority.pem(),
            authority,
            port,
            etcd_port,
            _peer_port: peer_port,
        };
        plane.start_api_server().await?;
        plane.start_others(&files, &options).await?;
        Ok(plane)
    }

    async fn start_others(&self, files: &Files, options: &Options) -> Result<()> {
        if options.controller_manager {
            let mut spec = self.component(Tool::KubeControllerManager)?;
            let key = files.token_key.display();
            let ca = files.authority.display();
            spec.args
                .push(format!("--service-account-private-key-file={key}").into());
            spec.args.push(format!("--root-ca-file={ca}").into());
            spec.args
                .push("--use-service-account-credentials=true".into());
            let further = options.controller_manager_args.iter();
            spec.args.extend(further.map(OsString::from));
            self.others.lock().push(Child::start(&spec)?);
        }
        if options.scheduler {
            let mut spec = self.component(Tool::KubeScheduler)?;
            let further = options.scheduler_args.iter();
            spec.args.extend(further.map(OsString::from));
            self.others.lock().push(Child::start(&spec)?);
        }
        if options.kwok_nodes > 0 {
            // A separate name in the audit log.
            let kwok = self
                .authority
                .client("system:kwok", Some("system:masters"))?;
            let config = kubeconfig(&self.url(), &self.ca_pem, &Proof::Certificate(&kwok));
            let config = self.scratch.write("kwok.kubeconfig", config)?;
            let kwok = nodes::start_kwok(self.scratch.path(), &config)?;
            self.others.lock().push(kwok);
            nodes::create(&self.admin(), options.kwok_nodes)
                .await
                .with_context(|| self.logs())?;
        }
        Ok(())
    }

    /// kube-controller-manager or kube-scheduler, with the user name that RBAC expects.
    fn component(&self, tool: Tool) -> Result<Spec> {
        let identity = self
            .authority
            .client(&format!("system:{}", tool.name()), None)?;
        let config = kubeconfig(&self.url(), &self.ca_pem, &Proof::Certificate(&identity));
        let config = self
            .scratch
            .write(&format!("{}.kubeconfig", tool.name()), config)?;
        let config = config.display();
        spec(
            self.scratch.path(),
            tool,
            &[
                format!("--kubeconfig={config}"),
                format!("--authentication-kubeconfig={config}"),
                format!("--authorization-kubeconfig={config}"),
                "--leader-elect=false".into(),
                // It would serve only metrics.
                "--secure-port=0".into(),
            ],
        )
    }

    /// A client with all permissions, bound to the caller's runtime: create one per test.
    pub fn admin(&self) -> Client {
        self.try_admin().expect("the certificates are our own")
    }

    /// How a client with all permissions and this name connects.
    pub(crate) async fn client_config(&self, user: &str) -> Result<kube::Config> {
        let identity = self.authority.client(user, Some("system:masters"))?;
        let proof = Proof::Certificate(&identity);
        client_config(&kubeconfig(&self.url(), &self.ca_pem, &proof)).await
    }

    fn try_admin(&self) -> Result<Client> {
        Ok(Client::try_from(self.admin.clone())?)
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.scratch.path().join("kubeconfig")
    }

    /// The API server's address.
    pub fn url(&self) -> String {
        format!("https://{}", self.port.address())
    }

    /// The certificate of the authority that signed the API server's.
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// What signs its certificates and tokens, for another control plane that shall have the same.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// The API server as a proxy reaches it.
    pub fn upstream(&self) -> Upstream {
        Upstream {
            url: self.url(),
            ca_pem: Some(self.ca_pem.clone()),
        }
    }

    /// A proxy in front of the API server, https with a certificate of this cluster's authority for
    /// 127.0.0.1 and localhost.
    pub async fn proxy(&self) -> Result<FaultProxy> {
        let serving = self.authority.server(["127.0.0.1", "localhost"])?;
        let listen = Listen::Https {
            cert_pem: serving.cert,
            key_pem: serving.key,
        };
        Ok(FaultProxy::start(self.upstream(), listen).await?)
    }

    /// Its running programs with their process ids.
    pub fn pids(&self) -> Vec<(String, u32)> {
        let named = |child: &Child| (child.name().to_owned(), child.pid());
        let server = self.api_server.lock().as_ref().map(named);
        let mut pids = vec![named(&self.etcd)];
        pids.extend(server);
        pids.extend(self.others.lock().iter().map(named));
        pids
    }

    /// Writes an object into etcd, for what the API server does not let a client choose.
    pub(crate) async fn store(&self, key: &str, object: &Value) -> Result<()> {
        let url = format!("http://{}/v3/kv/put", self.etcd_port.address());
        let put = json!({
            "key": STANDARD.encode(key),
            "value": STANDARD.encode(object.to_string()),
        });
        let answer = reqwest::Client::new().post(url).json(&put).send().await?;
        answer.error_for_status().context("etcd refused a write")?;
        Ok(())
    }

    /// The folder with its logs and kubeconfigs.
    pub fn scratch(&self) -> &Arc<Scratch> {
        &self.scratch
    }

    /// Ends the API server as an upgrade would (SIGTERM, then SIGKILL); etcd stays.
    pub async fn stop_api_server(&self) -> Result<()> {
        let Some(server) = self.api_server.lock().take() else {
            return Ok(());
        };
        if server.terminate(STOP).await.is_err() {
            server.kill();
        }
        Ok(())
    }

    /// Starts it again, same port and same objects, and waits until it is ready.
    pub async fn start_api_server(&self) -> Result<()> {
        let server = Child::start(&self.api_server_spec)?;
        *self.api_server.lock() = Some(server);
        self.ready().await
    }

    /// [`Self::stop_api_server`], then [`Self::start_api_server`].
    pub async fn restart(&self) -> Result<()> {
        self.stop_api_server().await?;
        self.start_api_server().await
    }

    /// Freezes the API server: connections stay open and nothing answers.
    pub fn freeze(&self) -> Result<()> {
        self.api_server
            .lock()
            .as_ref()
            .context("the API server is stopped")?
            .freeze()
    }

    /// Continues a frozen API server.
    pub fn thaw(&self) -> Result<()> {
        self.api_server
            .lock()
            .as_ref()
            .context("the API server is stopped")?
            .thaw()
    }

    /// Kills the API server: connections break. [`Self::start_api_server`] starts it again.
    pub fn kill(&self) {
        drop(self.api_server.lock().take());
    }

    /// Kills all its processes, as dropping it does.
    pub fn end(&self) {
        self.others.lock().clear();
        self.kill();
        self.etcd.kill();
        drop(self.slot.lock().take());
    }

    /// The current point in the audit log.
    pub fn mark(&self) -> Mark {
        audit::mark(&self.audit_log())
    }

    /// The requests received since `mark` and already answered.
    pub async fn entries_since(&self, mark: Mark) -> Result<Vec<Entry>> {
        audit::fence(&self.audit_log(), &self.admin()).await?;
        let mut entries = audit::entries(&self.audit_log(), mark)?;
        entries.retain(|entry| !audit::is_fence(entry));
        Ok(entries)
    }

    /// The writes among them that `filter` picks.
    pub async fn writes_since(
        &self,
        mark: Mark,
        filter: impl Fn(&Entry) -> bool,
    ) -> Result<Vec<Entry>> {
        let mut entries = self.entries_since(mark).await?;
        entries.retain(|entry| entry.is_write() && filter(entry));
        Ok(entries)
    }

    /// The audit log: a JSON object per line.
    pub fn audit_log(&self) -> PathBuf {
        self.scratch.path().join("audit.log")
    }

    /// Waits until `/readyz` succeeds and the built-in namespaces exist.
    async fn ready(&self) -> Result<()> {
        let started = Instant::now();
        loop {
            let answer = match tokio::time::timeout(Duration::from_secs(5), self.ready_now()).await
            {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(error)) => format!("{error:#}"),
                Err(_) => "no answer".to_owned(),
            };
            let ended = self.api_server.lock().as_ref().and_then(Child::exit_status);
            if let Some(status) = ended {
                bail!("kube-apiserver ended ({status})\n{}", self.logs());
            }
            if started.elapsed() > START {
                bail!(
                    "kube-apiserver is not ready after {START:?}: {answer}\n{}",
                    self.logs()
                );
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn ready_now(&self) -> Result<()> {
        // A new client each time: one created before the server listens would still back off.
        let client = self.try_admin()?;
        client
            .request_text(http::Request::get("/readyz").body(Vec::new())?)
            .await?;
        let namespaces = Api::<Namespace>::all(client);
        namespaces.get("default").await?;
        namespaces.get("kube-system").await?;
        Ok(())
    }

    fn logs(&self) -> String {
        let tail = |name: &str| crate::child::tail(&self.scratch.path().join(name), 15);
        let (etcd, server) = (tail("etcd.log"), tail("kube-apiserver.log"));
        format!("--- etcd ---\n{etcd}\n--- kube-apiserver ---\n{server}")
    }
}

fn slots_folder() -> PathBuf {
    ROOT.join("control-planes")
}

fn etcd_spec(scratch: &Scratch, port: &Port, peers: &Port) -> Result<Spec> {
    let (client, peer) = (port.address(), peers.address());
    let folder = scratch.path().join("etcd");
    spec(
        scratch.path(),
        Tool::Etcd,
        &[
            format!("--data-dir={}", folder.display()),
            format!("--listen-client-urls=http://{client}"),
            format!("--advertise-client-urls=http://{client}"),
            format!("--listen-peer-urls=http://{peer}"),
            format!("--initial-advertise-peer-urls=http://{peer}"),
            format!("--initial-cluster=default=http://{peer}"),
            // The store is not needed after the test.
            "--unsafe-no-fsync".into(),
            "--log-level=warn".into(),
        ],
    )
}

fn api_server_spec(
    scratch: &Scratch,
    files: &Files,
    port: &Port,
    etcd: &Port,
    options: &Options,
) -> Result<Spec> {
    let policy = scratch.write("audit-policy.yaml", audit::POLICY)?;
    let audit_log = scratch.path().join("audit.log");
    let mut args = vec![
        format!("--etcd-servers=http://{}", etcd.address()),
        format!("--secure-port={}", port.number()),
        "--bind-address=127.0.0.1".into(),
        "--advertise-address=127.0.0.1".into(),
        // Endpoints may not be loopback addresses, and this one is not needed.
        "--endpoint-reconciler-type=none".into(),
        format!("--tls-cert-file={}", files.serving_cert.display()),
        format!("--tls-private-key-file={}", files.serving_key.display()),
        format!("--client-ca-file={}", files.authority.display()),
        format!(
            "--service-account-signing-key-file={}",
            files.token_key.display()
        ),
        format!(
            "--service-account-key-file={}",
            files.token_public.display()
        ),
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local".into(),
        "--service-cluster-ip-range=10.0.0.0/16".into(),
        "--authorization-mode=RBAC".into(),
        "--allow-privileged=true".into(),
        "--profiling=false".into(),
        // Its few clients need no fairness.
        "--enable-priority-and-fairness=false".into(),
        format!("--audit-policy-file={}", policy.display()),
        format!("--audit-log-path={}", audit_log.display()),
        // Each line is written before the next request is logged, so that a mark is exact.
        "--audit-log-mode=blocking".into(),
        // In megabytes: no test writes as much, so the file is never rotated.
        "--audit-log-maxsize=100000".into(),
    ];
    if !options.controller_manager {
        args.push("--disable-admission-plugins=ServiceAccount".into());
    }
    args.extend(options.api_server_args.iter().cloned());
    spec(scratch.path(), Tool::KubeApiserver, &args)
}

async fn client_config(kubeconfig: &str) -> Result<kube::Config> {
    let parsed = Kubeconfig::from_yaml(kubeconfig)?;
    let options = KubeConfigOptions::default();
    let mut config = kube::Config::from_custom_kubeconfig(parsed, &options).await?;
    // No retries: a test checks the first answer.
    config.default_retry = false;
    Ok(config)
}

/// `tool` with `args`, its log in `dir`.
pub(crate) fn spec(dir: &Path, tool: Tool, args: &[String]) -> Result<Spec> {
    Ok(Spec {
        name: tool.name().into(),
        program: tools::find(tool)?,
        args: args.iter().map(OsString::from).collect(),
        // There is enough memory, but not enough CPU: collect garbage less often.
        env: vec![("GOGC".into(), "400".into())],
        dir: dir.to_owned(),
        ..Spec::default()
    })
}

/// Makes aws-lc-rs the TLS provider of this process; may be called repeatedly.
pub fn install_crypto() {
    // An error means that it is already installed.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
}
