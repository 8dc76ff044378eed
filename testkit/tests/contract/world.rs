//! Real worlds with a stand-in for the operator: this binary, started through a script that has the
//! commands of the real one. It gives each `Greeting` the condition `Ready`.

use std::{
    io::{Read, Write},
    net::TcpListener,
    os::unix::fs::PermissionsExt,
    os::unix::process::ExitStatusExt,
    path::PathBuf,
    time::Duration,
};

use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams},
    config::{KubeConfigOptions, Kubeconfig},
    core::GroupVersionKind,
};
use serde_json::json;
use testkit::{Result, World, is, scratch::Scratch};

/// Set by the script to the arguments of `run`.
const RUN: &str = "TESTKIT_STAND_IN";

const CRDS: &str = r"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: { name: greetings.test.pontoon.io }
spec:
  group: test.pontoon.io
  names: { kind: Greeting, plural: greetings, singular: greeting }
  scope: Namespaced
  versions:
    - name: v1
      served: true
      storage: true
      subresources: { status: {} }
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec: { type: object, properties: { to: { type: string } } }
            status: { type: object, x-kubernetes-preserve-unknown-fields: true }
";

/// Greetings, but no ConfigMaps.
const RBAC: &str = r"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: { name: greeter }
rules:
  - { apiGroups: [test.pontoon.io], resources: [greetings], verbs: [list] }
  - { apiGroups: [test.pontoon.io], resources: [greetings/status], verbs: [patch] }
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: { name: greeter }
roleRef: { apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: greeter }
subjects:
  - { kind: ServiceAccount, namespace: NAMESPACE, name: ACCOUNT }
";

pub(crate) const HELLO: &str = "
apiVersion: test.pontoon.io/v1
kind: Greeting
metadata: { name: hello }
spec: { to: world }
";

/// The script: `crds --feature F`, `rbac --feature F --namespace N --service-account S`, `run …`.
pub(crate) fn stand_in(scratch: &Scratch) -> Result<PathBuf> {
    let exe = std::env::current_exe()?;
    let crds = scratch.write("crds.yaml", CRDS)?;
    let rbac = scratch.write("rbac.yaml", RBAC)?;
    let script = format!(
        "#!/bin/sh\ncase $1 in\n\
         crds) [ \"$2 $3\" = '--feature greet' ] && cat '{}' ;;\n\
         rbac) sed -e \"s/NAMESPACE/$5/\" -e \"s/ACCOUNT/$7/\" '{}' ;;\n\
         run) {RUN}=\"$*\" exec '{}' --exact world::greeter --nocapture ;;\n\
         esac\n",
        crds.display(),
        rbac.display(),
        exe.display()
    );
    let path = scratch.write("pontoon", script)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?;
    Ok(path)
}

/// Not a test: what this binary does when a world runs it as its operator.
#[tokio::test]
async fn greeter() {
    let Ok(args) = std::env::var(RUN) else { return };
    let flag = |name: &str| {
        args.split(' ')
            .find_map(|arg| arg.strip_prefix(name))
            .unwrap()
            .to_owned()
    };
    assert!(args.starts_with("run --features greet "), "{args}");
    serve(flag("--health-probe-bind-address="), "ok");
    serve(
        flag("--metrics-bind-address="),
        "greetings_total{kind=\"a\"} 2\n",
    );

    let config = Kubeconfig::read_from(std::env::var("KUBECONFIG").unwrap()).unwrap();
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(config, &options)
        .await
        .unwrap();
    testkit::install_crypto();
    let client = Client::try_from(config).unwrap();
    let all = Api::<DynamicObject>::all_with(client.clone(), &greetings());
    loop {
        for greeting in all.list(&ListParams::default()).await.unwrap() {
            greet(&client, greeting).await;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn greet(client: &Client, greeting: DynamicObject) {
    let generation = greeting.metadata.generation;
    if greeting.data["status"]["conditions"][0]["observedGeneration"].as_i64() == generation {
        return;
    }
    if std::env::var("PONTOON_TEST_KILL_POINT").is_ok() {
        std::process::abort();
    }
    reach_point().await;
    let time = std::env::var("PONTOON_TEST_TIME_FACTOR").unwrap();
    let condition = json!({
        "type": "Ready", "status": "True", "reason": "Greeted", "observedGeneration": generation,
    });
    let patch = Patch::Merge(json!({ "status": { "conditions": [condition], "time": time } }));
    let namespace = greeting.metadata.namespace.unwrap();
    let api = Api::<DynamicObject>::namespaced_with(client.clone(), &namespace, &greetings());
    api.patch_status(
        &greeting.metadata.name.unwrap(),
        &PatchParams::default(),
        &patch,
    )
    .await
    .unwrap();
    println!("greeted in {namespace}");
}

/// The kill point `before-status`, as the operator has it.
async fn reach_point() {
    let chosen = || {
        let file = std::env::var("PONTOON_TEST_KILL_FILE").unwrap();
        std::fs::read_to_string(file).unwrap_or_default()
    };
    if chosen().contains("before-status abort") {
        println!("kill point before-status#1");
        std::process::abort();
    }
    if chosen().contains("before-status hold") {
        println!("kill point before-status held");
        while chosen().contains("before-status hold") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Answers every request at `address` with `body`.
fn serve(address: String, body: &'static str) {
    let listener = TcpListener::bind(address).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close",
                body.len()
            );
            let _ = write!(stream, "{head}\r\n\r\n{body}");
        }
    });
}

pub(crate) fn greetings() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("test.pontoon.io", "v1", "Greeting"))
}

#[tokio::test]
async fn an_operator_works_as_its_service_account_and_then_stops() -> Result<()> {
    let scratch = Scratch::new("stand-in")?;
    let plan = World::new()
        .feature("greet")
        .time(60)
        .binary(stand_in(&scratch)?);
    let world = plan.start().await?;
    let team = world.namespace("payments").await?;

    let before = world.mark();
    team.apply(HELLO).await?;
    let hello = team
        .until_dynamic(&greetings(), "hello", is("Ready", "Greeted"))
        .await?;
    assert_eq!(hello.data["status"]["time"], "60");

    // One write by the operator: the administrator's apply does not count.
    let writes = world.writes_since(before).await?;
    assert_eq!(writes.len(), 1, "{writes:#?}");
    assert_eq!(
        (&*writes[0].subresource, &*writes[0].namespace),
        ("status", team.name())
    );
    assert!(world.writes_since(world.mark()).await?.is_empty());

    assert_eq!(world.operator().probe("/readyz").await?, (200, "ok".into()));
    assert!(
        (world
            .operator()
            .metric("greetings_total", &[("kind", "a")])
            .await?
            - 2.0)
            .abs()
            < 0.1
    );
    let greeted = format!("greeted in {}", team.name());
    world.operator().logs(&greeted).await?;
    Ok(())
}

#[tokio::test]
async fn an_operator_continues_after_a_death_at_a_kill_point() -> Result<()> {
    let scratch = Scratch::new("stand-in")?;
    let plan = World::new()
        .feature("greet")
        .time(1)
        .binary(stand_in(&scratch)?);
    let world = plan.kill_point("before-status").start().await?;
    let team = world.namespace("payments").await?;

    team.apply(HELLO).await?;
    let status = world.operator().ended(Duration::from_secs(10)).await?;
    assert_eq!(status.signal(), Some(6), "{status}");

    world
        .operator()
        .restart(|options| options.kill_point = None)
        .await?;
    team.until_dynamic(&greetings(), "hello", is("Ready", "Greeted"))
        .await?;
    Ok(())
}

#[tokio::test]
async fn kill_points_are_chosen_while_the_operator_runs() -> Result<()> {
    let scratch = Scratch::new("stand-in")?;
    let plan = World::new()
        .feature("greet")
        .time(1)
        .binary(stand_in(&scratch)?);
    let world = plan.start().await?;
    let team = world.namespace("payments").await?;
    let (operator, points) = (world.operator(), world.operator().kill_file());

    points.pause("before-status")?;
    let before = world.mark();
    team.apply(HELLO).await?;
    operator.logs("kill point before-status held").await?;
    assert!(world.writes_since(before).await?.is_empty(), "it waits");
    points.release("before-status")?;
    team.until_dynamic(&greetings(), "hello", is("Ready", "Greeted"))
        .await?;
    assert!(points.fired()?.is_empty());

    points.abort("before-status")?;
    team.apply(&HELLO.replace("name: hello", "name: again"))
        .await?;
    operator.died().await?;
    assert_eq!(points.fired()?, ["before-status#1"]);
    operator.restart(|_| {}).await?; // the choice is gone with its abort
    team.until_dynamic(&greetings(), "again", is("Ready", "Greeted"))
        .await?;
    Ok(())
}

#[tokio::test]
async fn a_missing_sign_fails_with_object_and_log() -> Result<()> {
    let scratch = Scratch::new("stand-in")?;
    let world = World::new()
        .feature("greet")
        .time(1)
        .binary(stand_in(&scratch)?)
        .start()
        .await?;
    let team = world.namespace("payments").await?;
    team.apply(HELLO).await?;
    team.until_dynamic(&greetings(), "hello", is("Ready", "Greeted"))
        .await?;

    let team = team.within(Duration::from_secs(1));
    let failure = team
        .until_dynamic(&greetings(), "hello", is("Ready", "Applauded"))
        .await;
    let text = failure.unwrap_err().to_string();
    assert!(text.contains("Greeting payments-"), "{text}");
    assert!(
        text.contains("with condition Ready of reason Applauded"),
        "{text}"
    );
    assert!(text.contains("reason: Greeted"), "{text}");
    assert!(
        text.contains(&format!("greeted in {}", team.name())),
        "{text}"
    );

    // A failure keeps the folder; this failure was intended.
    let kept = world.control_plane().scratch().path().to_owned();
    drop(team);
    drop(world);
    assert!(kept.join("audit.log").exists());
    std::fs::remove_dir_all(kept)?;
    Ok(())
}

#[tokio::test]
async fn a_reused_plane_has_none_of_the_earlier_objects() -> Result<()> {
    let scratch = Scratch::new("stand-in")?;
    let program = stand_in(&scratch)?;
    let start = async || {
        let plan = World::new().on_reused_plane().feature("greet").time(1);
        plan.binary(&program).start().await
    };
    let first = start().await?;
    let team = first.namespace("payments").await?;
    let held = HELLO.replace(
        "name: hello",
        "name: hello, finalizers: [test.pontoon.io/held]",
    );
    assert_ne!(held, HELLO);
    team.apply(&held).await?;
    let address = first.control_plane().url();
    drop((team, first));

    let second = start().await?;
    assert_eq!(second.control_plane().url(), address);
    let left = Api::<DynamicObject>::all_with(second.cluster().client(), &greetings());
    let left = left.list(&ListParams::default()).await?.items;
    assert!(left.is_empty(), "{left:?}");
    Ok(())
}
