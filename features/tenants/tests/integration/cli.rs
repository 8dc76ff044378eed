//! What people find out with `pontoon tenants`, which writes nothing.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use crate::stories::cloud::{CERTIFICATE, D0};
use crate::stories::objects::{acme, acme_with_dns, manifest, requesting, serving, with};
use crate::stories::{Site, USUAL, tell};
use crate::verbs::{ask, ends, has_line, pontoon};
use api::tenants::{DistributionTenant, names};
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use testkit::{Result, eventually, is};

#[test]
fn a_plan_names_fields_and_steps_and_does_nothing() -> Result<()> {
    tell(USUAL, async |site| {
        site.makes("acme", acme_with_dns()).await?;
        let here = ["-n", site.name()];
        let plan = |more: &[&str]| ask(site, &[&["plan"][..], more, &here].concat());
        ends(&plan(&["acme"])?, 0);

        // Nobody is there to carry out the edit.
        site.stop().await?;
        let both = serving(&["a.example.com", "b.example.com"]);
        site.edit("acme", both).await?;
        let (mark, kubernetes) = (site.mark()?, site.world.mark());
        let said = ends(&plan(&["acme"])?, 1);
        has_line(&said, &["domains", "b.example.com"]);
        let said = ends(&plan(&["acme", "-o", "json"])?, 1);
        let _: Value = serde_json::from_str(&said)?;
        let diff = ask(site, &[&["diff", "dt/acme"][..], &here].concat())?;
        has_line(&ends(&diff, 1), &["acme", "domains", "b.example.com"]);

        // A file that is not applied yet.
        let fresh = manifest::<DistributionTenant>("fresh", &serving(&["c.example.com"]));
        let file = site.writes_file("fresh.yaml", fresh)?;
        let said = ends(&plan(&["-f", &file.to_string_lossy()])?, 1);
        assert!(said.contains("fresh"), "{said}");
        ends(&plan(&["nobody"])?, 2);

        assert_eq!(site.done_since(mark)?, [""; 0]);
        let writes = site.world.control_plane();
        let ours = |entry: &testkit::Entry| entry.group == names::GROUP;
        assert_eq!(writes.writes_since(kubernetes, ours).await?, []);
        Ok(())
    })
}

/// Takes an object out of the cluster as if the cluster had been lost.
async fn loses(site: &Site, name: &str) -> Result<()> {
    let tenants = Api::<DistributionTenant>::namespaced(site.client(), site.name());
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    tenants.patch(name, &PatchParams::default(), &free).await?;
    tenants.delete(name, &DeleteParams::default()).await?;
    Ok(())
}

/// Makes a tenant that has something of everything, its certificate from CloudFront; then the
/// cluster is lost.
async fn makes_and_loses(site: &Site, name: &str) -> Result<()> {
    let acl = "arn:aws:wafv2:us-east-1:000000000000:global/webacl/shop/1";
    let everything = json!({
        "parameters": [{"name": "tier", "value": "gold"}],
        "customizations": {
            "webAcl": {"action": "override", "arn": acl},
            "geoRestrictions": {"restrictionType": "whitelist", "locations": ["DE", "FR"]},
        },
    });
    let spec = with(acme_with_dns(), requesting("self-hosted"));
    site.makes(name, with(spec, everything)).await?;
    site.certificate_is(name, "issued")?;
    site.sees(name, is("CertificateReady", "Validated")).await?;
    site.ready(name).await?;
    site.stop().await?;
    loses(site, name).await
}

/// Makes tenants of nobody: one with all that the console offers, one whose name no object can
/// have, a plain one.
fn seeds_others(site: &Site) -> Result<()> {
    let others = [
        json!({
            "name": "fenced", "domains": ["b.example.com"], "certificate": CERTIFICATE,
            "parameters": {"tier": "lead"}, "webAcl": {"action": "disable"},
            "geo": {"type": "blacklist", "locations": ["AQ"]},
        }),
        json!({"name": "Legacy.Site", "domains": ["c.example.com"]}),
        json!({"name": "plain", "domains": ["d.example.com"]}),
    ];
    for tenant in others {
        let usual = json!({"distribution": "E1", "tags": {"team": "shop"}});
        site.seeds_tenant(with(usual, tenant))?;
    }
    site.may_take(&["fenced", "Legacy.Site", "plain"])
}

#[test]
fn what_is_imported_and_applied_is_ready_without_an_update() -> Result<()> {
    tell(USUAL, async |site| {
        site.switch("cloudfront", json!({"pageSize": 2}))?;
        makes_and_loses(site, "acme").await?;
        seeds_others(site)?;
        let (before, zone, mark) = (site.live_tenants()?, site.zone("Z1")?, site.mark()?);
        let certificate = &before["acme"]["customizations"]["certificate"];
        assert_eq!(*certificate, before["acme"]["managed"]["arn"]);

        let here = ["-n", site.name()];
        let import = ["import", "--distribution", "E1", "--dns"];
        let manifests = ends(&ask(site, &[&import[..], &here].concat())?, 0);
        assert!(manifests.contains("tenantName: Legacy.Site"), "{manifests}");
        assert!(manifests.contains("by: Name"), "{manifests}");
        let calls = site.since(mark)?.into_iter();
        let pages = calls.filter(|call| call.operation() == "ListDistributionTenants");
        assert_eq!(pages.count(), 2);

        site.apply(&manifests).await?;
        site.start().await?;
        for name in ["acme", "fenced", "legacy.site", "plain"] {
            site.ready(name).await?;
        }
        site.sees("acme", is("CertificateReady", "Validated"))
            .await?;
        site.sees("acme", is("DNSReady", "DNSReady")).await?;
        site.stays_quiet(2).await?;
        // Those of nobody got our tags, and records that were ours the values they have.
        let mut done = site.done_since(mark)?;
        done.retain(|operation| operation != "ChangeResourceRecordSets");
        assert_eq!(done, ["TagResource"; 3]);
        let after = site.live_tenants()?;
        assert!(after.keys().eq(before.keys()), "{after:#?}");
        for (name, live) in after {
            assert_eq!(live["etag"], before[&name]["etag"], "{name}");
            assert_eq!(live["tags"][names::CLUSTER_TAG], site.cluster, "{name}");
        }
        assert_eq!(site.zone("Z1")?, zone);
        Ok(())
    })
}

#[test]
fn an_import_into_a_folder_is_a_file_for_each() -> Result<()> {
    tell(USUAL, async |site| {
        site.seeds_tenant(json!({
            "name": "plain", "distribution": "E1", "domains": ["b.example.com"],
        }))?;
        let folder = site.world.control_plane().scratch().path();
        let folder = folder.join(format!("import-{}", site.name()));
        let shown = folder.to_string_lossy();
        let args = ["import", "--distribution", "E1", "--out", &shown];
        ends(&ask(site, &args)?, 0);
        let files = std::fs::read_dir(&folder)?.collect::<Result<Vec<_>, _>>()?;
        assert_eq!(files.len(), 1, "{files:?}");
        let text = std::fs::read_to_string(files[0].path())?;
        assert!(text.contains("b.example.com"), "{text}");
        assert_eq!(site.done()?, [""; 0]);
        Ok(())
    })
}

#[test]
fn required_records_are_printed_also_as_lines_of_a_zone() -> Result<()> {
    tell(USUAL, async |site| {
        let by_hand = json!({"dns": {"provider": "none"}});
        site.makes("acme", with(acme(), by_hand)).await?;
        let said = ends(&ask(site, &["dns", "acme", "-n", site.name()])?, 0);
        has_line(&said, &["a.example.com", "CNAME", D0]);
        let said = ends(
            &ask(site, &["dns", "acme", "-n", site.name(), "-o", "zone"])?,
            0,
        );
        has_line(&said, &["a.example.com.", "CNAME", "d0.cloudfront.net."]);
        Ok(())
    })
}

#[test]
fn conflicts_name_both_sides() -> Result<()> {
    tell(USUAL, async |site| {
        site.makes("acme", acme()).await?;
        let none = ask(site, &["conflicts", "-A"])?;
        ends(&none, 0);
        site.declare("second", acme()).await?;
        site.sees("second", is("Ready", "DomainConflict")).await?;
        let said = ends(&ask(site, &["conflicts", "-A"])?, 1);
        has_line(&said, &["a.example.com", "second", "acme"]);
        let said = ends(&ask(site, &["conflicts", "a.example.com"])?, 1);
        assert!(said.contains("acme"), "{said}");
        Ok(())
    })
}

#[test]
fn a_status_is_a_line_for_each_tenant() -> Result<()> {
    tell(USUAL, async |site| {
        let status = site.makes("acme", acme()).await?;
        site.declare("ab", serving(&["b.example.com"])).await?;
        site.sees("ab", is("Ready", "ValidationFailed")).await?;
        let said = String::from_utf8(ask(site, &["status", "-A"])?.stdout)?;
        has_line(&said, &[site.name(), "acme", "Deployed"]);
        has_line(&said, &[site.name(), "ab", "ValidationFailed"]);
        let listed = ask(site, &["status", "-n", site.name(), "-o", "json"])?;
        let said = String::from_utf8(listed.stdout)?;
        let _: Value = serde_json::from_str(&said)?;
        assert!(said.contains(&status.id.unwrap_or_default()), "{said}");
        Ok(())
    })
}

/// A verb that goes on until it is dropped, and the lines it has printed so far.
struct Watch {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Watch {
    fn start(mut command: Command) -> Result<Self> {
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let printed = BufReader::new(child.stdout.take().expect("it is piped"));
        let lines = Arc::<Mutex<Vec<String>>>::default();
        let shared = Arc::clone(&lines);
        std::thread::spawn(move || {
            for line in printed.lines().map_while(std::io::Result::ok) {
                shared.lock().expect("nobody panics there").push(line);
            }
        });
        Ok(Self { child, lines })
    }

    /// Waits until these words are on one line.
    async fn says(&self, words: &[&str]) -> Result<()> {
        eventually(&format!("a line with {words:?}"), async || {
            let lines = self.lines.lock().expect("nobody panics there");
            let has = |line: &String| words.iter().all(|word| line.contains(word));
            Ok(lines.iter().any(has).then_some(()))
        })
        .await
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

#[test]
fn a_watch_goes_on_and_prints_each_one_that_changes() -> Result<()> {
    tell(USUAL, async |site| {
        site.makes("acme", acme()).await?;
        let verb = ["tenants", "status", "--watch", "-n", site.name()];
        let mut command = pontoon(site)?;
        command.args(verb);
        let table = Watch::start(command)?;
        table.says(&["NAMESPACE", "NAME", "READY"]).await?;
        table.says(&[site.name(), "acme", "Deployed"]).await?;
        let mut command = pontoon(site)?;
        command.args(verb).args(["-o", "json"]);
        let json = Watch::start(command)?;
        json.says(&["\"acme\""]).await?;

        site.makes("second", serving(&["b.example.com"])).await?;
        table.says(&["second", "Creating"]).await?;
        table.says(&["second", "Deployed"]).await?;
        site.removes("second").await?;
        table.says(&["second", "(gone)"]).await?;
        json.says(&["\"second\"", "\"gone\":true"]).await?;
        let lines = json.lines.lock().expect("nobody panics there");
        for line in lines.iter() {
            let _: Value = serde_json::from_str(line)?;
        }
        Ok(())
    })
}

#[test]
fn a_watch_that_nobody_reads_ends() -> Result<()> {
    tell(USUAL, async |site| {
        let mut command = pontoon(site)?;
        command.args(["tenants", "status", "-A", "-w"]);
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let mut heading = String::new();
        BufReader::new(child.stdout.take().expect("it is piped")).read_line(&mut heading)?;
        assert!(heading.contains("NAMESPACE"), "{heading}");
        // Its next line has no reader.
        site.declare("acme", acme()).await?;
        let status = eventually("it ends", async || Ok(child.try_wait()?)).await?;
        assert!(status.success(), "{status}");
        Ok(())
    })
}
