//! The verbs of `storagemover`: one volume with its claim, by hand.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::api::Api;
use serde_json::{Value, json};
use testkit::Result;
use testkit::disks::SetPlan;
use testkit::stories::change_object;

use crate::stories::{DESTINATION, SOURCE, Shop, VerbOutput, replicas, run_story_of};

/// The program under the name of the one that it replaces, with administrators' kubeconfigs of both clusters.
struct Mover<'a> {
    shop: &'a Shop,
    program: PathBuf,
}

impl<'a> Mover<'a> {
    fn new(shop: &'a Shop) -> Result<Self> {
        let folder = shop.file("storagemover.folder", "")?.with_extension("d");
        std::fs::create_dir(&folder)?;
        let program = folder.join("storagemover");
        symlink(testkit::binary(None)?, &program)?;
        Ok(Self { shop, program })
    }

    fn run(&self, args: &[&str]) -> Result<VerbOutput> {
        self.run_as(&self.program, args)
    }

    fn run_as(&self, program: &Path, args: &[&str]) -> Result<VerbOutput> {
        let kubeconfig = |cluster: &str| self.shop.cluster(cluster).control_plane().kubeconfig();
        let (source, destination) = (kubeconfig(SOURCE), kubeconfig(DESTINATION));
        let flags = [
            format!("--source-kubeconfig={}", source.display()),
            format!("--dest-kubeconfig={}", destination.display()),
        ];
        let flags = flags.iter().map(String::as_str);
        let args: Vec<&str> = args.iter().copied().chain(flags).collect();
        self.shop.run_program(program, &source, &args)
    }
}

#[test]
fn storagemover_moves_a_claim_that_no_pod_uses() -> Result<()> {
    let set = SetPlan {
        reclaim_policy: "Retain".to_owned(),
        ..replicas(1)
    };
    run_story_of(set, async |shop| {
        shop.open_shop().await?;
        let mover = Mover::new(shop)?;
        let (volume, disk) = (
            shop.set.persistent_volume("data", 0),
            shop.set.volume("data", 0),
        );
        let (from, to) = (shop.source.name(), shop.destination.name());
        let claim = ["-n", from, "--name", "data-web-0"];

        let shown = mover.run(&["inspect-pv", "--name", &volume, "-o", "json"])?;
        assert_eq!(shown.exits(0).findings()?[0]["volumeId"], *disk);
        let shown = mover.run(&[&["inspect-pvc", "-o", "json"][..], &claim].concat())?;
        assert_eq!(shown.exits(0).findings()?[0]["volumeId"], *disk);
        mover.run(&["inspect-pv", "--name", "absent"])?.exits(1);
        mover.run(&["inspect-pv"])?.exits(2).prints("--name");
        let pontoon = testkit::binary(None)?;
        let validate = ["storagemover", "validate", "--name", &volume];
        mover.run_as(&pontoon, &validate)?.exits(0).prints("passed");

        let target = ["--dest-namespace", to, "--storage-class-mapping", "gp2=gp3"];
        let translated =
            mover.run(&[&["translate", "-o", "json"][..], &claim, &target].concat())?;
        let objects = translated.exits(0).findings()?;
        let classes: Vec<&Value> = objects
            .iter()
            .map(|one| &one["spec"]["storageClassName"])
            .collect();
        assert_eq!(classes, ["gp3", "gp3"]);
        assert_eq!(objects[0]["spec"]["csi"]["volumeHandle"], *disk);

        let wait = ["wait-detach", "--volume-id", &disk, "--timeout"];
        mover
            .run(&[&wait[..], &["1ms"]].concat())?
            .exits(3)
            .prints("in-use");
        mover
            .run(&["wait-detach", "--volume-id", "vol-1"])?
            .exits(2);
        let migrate = [
            "migrate-volume",
            "-s",
            from,
            "--pvc",
            "data-web-0",
            "-d",
            to,
        ];
        mover.run(&migrate)?.exits(1).prints("is used by web-0");
        assert_eq!(shop.disks(&shop.destination).await?, []);

        let none = json!({"spec": {"replicas": 0}});
        change_object::<StatefulSet>(&shop.source, "web", &none).await?;
        shop.source.gone::<Pod>("web-0").await?;
        mover.run(&[&wait[..], &["60s"]].concat())?.exits(0);
        mover
            .run(&[&migrate[..], &["--dry-run"]].concat())?
            .exits(0);
        assert_eq!(shop.disks(&shop.destination).await?, []);
        mover.run(&migrate)?.exits(0);
        assert_eq!(shop.disks(&shop.destination).await?, shop.own_disks());
        let claims = Api::<PersistentVolumeClaim>::namespaced(shop.destination.client(), to);
        let status = claims.get("data-web-0").await?.status;
        let phase = status.and_then(|status| status.phase);
        assert_eq!(phase.as_deref(), Some("Bound"));
        mover.run(&migrate)?.exits(1).prints("already");
        Ok(())
    })
}
