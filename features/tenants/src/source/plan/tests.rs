use std::collections::BTreeSet;

use api::tenants::DistributionTenant;
use engine::{Kind, Projection, Stored};
use proptest::collection::btree_set;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::rows::{Cell, Place, Row, tenants};
use super::*;

fn origin() -> Origin {
    let spec = json!({"provider": "configMap", "distributionId": "E1"});
    Origin {
        name: "onboarding".into(),
        uid: "uid-source".into(),
        target: "web".into(),
        spec: serde_json::from_value(spec).unwrap(),
    }
}

fn table(rows: &[(&str, &str)]) -> Tenants {
    let row = |(name, domain): &(&str, &str)| Row {
        place: Place::Row(1),
        cells: [("name", *name), ("domain", *domain)]
            .into_iter()
            .map(|(column, text)| (column.into(), Cell::Text(text.to_owned())))
            .collect(),
    };
    tenants(&rows.iter().map(row).collect::<Vec<_>>())
}

fn stored(body: &Value) -> Held {
    let kind = Kind::of::<DistributionTenant>();
    let stored = Stored::read(&kind, &body.to_string(), &Projection::Full).unwrap();
    Held::read(&stored).unwrap()
}

/// The object that a row made before.
fn made(name: &str, domain: &str) -> Held {
    let all = table(&[(name, domain)]);
    let desired = Desired::new(&all.good[name], &origin(), None).unwrap();
    let mut body = desired.bound_to(Some(&format!("uid-{name}")));
    body["metadata"]["resourceVersion"] = json!("5");
    stored(&body)
}

/// An object that somebody else made.
fn foreign(name: &str) -> Held {
    stored(&json!({"metadata": {"name": name, "namespace": "web", "uid": "u"}, "spec": {}}))
}

fn planned(tenants: &mut Tenants, objects: &[Held], answers: &Answers, limit: usize) -> Plan {
    planned_after(None, tenants, objects, answers, limit)
}

fn planned_after(
    after: Option<&str>,
    tenants: &mut Tenants,
    objects: &[Held],
    answers: &Answers,
    limit: usize,
) -> Plan {
    let origin = origin();
    let held = |name: &str| objects.iter().find(|one| one.name == name).cloned();
    let marked: Vec<Missing> = objects
        .iter()
        .filter(|one| one.is_of(&origin) && !one.deleting)
        .map(|one| Missing {
            name: one.name.clone(),
            uid: one.uid.clone(),
            version: one.version,
        })
        .collect();
    let world = World {
        origin: &origin,
        held: &held,
        marked: &marked,
        answers,
        after,
    };
    plan(tenants, &world, limit)
}

fn steps(plan: &Plan) -> Vec<(ChangeAction, &str)> {
    let one = |step: &'_ Step| step.pending().action;
    plan.steps
        .iter()
        .map(|step| (one(step), &*step.name))
        .collect()
}

fn missing(plan: &Plan) -> Vec<&str> {
    plan.missing.iter().map(|one| &*one.name).collect()
}

#[test]
fn each_tenant_gets_what_its_object_lacks() {
    let mut tenants = table(&[
        ("new", "n.x.com"),
        ("same", "s.x.com"),
        ("edited", "now.x.com"),
        ("theirs", "t.x.com"),
        ("wrong", "nonsense"),
    ]);
    let objects = [
        made("same", "s.x.com"),
        made("edited", "before.x.com"),
        foreign("theirs"),
        foreign("nobody"),
        made("wrong", "w.x.com"),
        made("gone", "g.x.com"),
    ];
    let plan = planned(&mut tenants, &objects, &Answers::new(), 99);
    let wanted = [
        (ChangeAction::Update, "edited"),
        (ChangeAction::Create, "new"),
    ];
    assert_eq!(steps(&plan), wanted);
    assert_eq!((plan.creates, plan.updates, plan.conflicts), (1, 1, 1));
    assert_eq!((plan.marked, missing(&plan)), (4, vec!["gone"]));
    let [conflict] = &plan.held_up[..] else {
        panic!("{:?}", plan.held_up)
    };
    assert_eq!(conflict.action, ChangeAction::Conflict);
    let said = conflict.description.as_deref().unwrap();
    assert!(
        said.contains("not made from a table") && said.contains("uid-source"),
        "{said}"
    );
}

#[test]
fn an_update_is_bound_to_the_object_it_was_planned_for() {
    let mut tenants = table(&[("edited", "now.x.com")]);
    let objects = [made("edited", "before.x.com")];
    let plan = planned(&mut tenants, &objects, &Answers::new(), 99);
    let change = Change::Update {
        uid: "uid-edited".into(),
        fields: vec!["domains".into()],
    };
    assert_eq!(plan.steps[0].change, change);
    let said = plan.steps[0].pending().description;
    assert_eq!(said.as_deref(), Some("the table says otherwise in domains"));
}

#[test]
fn what_is_being_deleted_is_waited_for() {
    let mut tenants = table(&[("leaving", "l.x.com")]);
    let mut leaving = made("leaving", "l.x.com");
    leaving.deleting = true;
    let plan = planned(&mut tenants, &[leaving], &Answers::new(), 99);
    assert!(plan.steps.is_empty() && plan.missing.is_empty());
    assert_eq!((plan.marked, plan.conflicts), (0, 0));
    assert_eq!(plan.held_up[0].action, ChangeAction::Create);
}

#[test]
fn a_tenant_that_no_object_can_hold_is_a_wrong_one_and_still_there() {
    let rows: Vec<(String, String)> = (0..501)
        .map(|n| ("big".to_owned(), format!("d{n}.x.com")))
        .collect();
    let rows: Vec<(&str, &str)> = rows.iter().map(|(a, b)| (&**a, &**b)).collect();
    let mut tenants = table(&rows);
    let plan = planned(
        &mut tenants,
        &[made("big", "d0.x.com")],
        &Answers::new(),
        99,
    );
    assert!(plan.steps.is_empty() && plan.missing.is_empty());
    assert!(
        tenants.errors[0].starts_with("tenant big: "),
        "{:?}",
        tenants.errors
    );
}

#[test]
fn one_pass_takes_a_part_and_counts_the_rest() {
    let mut tenants = table(&[("aaa", "a.x.com"), ("bbb", "b.x.com"), ("ccc", "c.x.com")]);
    let plan = planned(&mut tenants, &[], &Answers::new(), 2);
    assert_eq!((plan.steps.len(), plan.creates), (2, 3));
}

#[test]
fn every_tenant_has_its_turn_though_all_before_it_are_refused() {
    let mut tenants = table(&[
        ("aaa", "a.x.com"),
        ("bbb", "b.x.com"),
        ("ccc", "c.x.com"),
        ("ddd", "d.x.com"),
        ("eee", "e.x.com"),
    ]);
    let (mut after, mut tried) = (None, Vec::new());
    for _ in 0..3 {
        let plan = planned_after(after.as_deref(), &mut tenants, &[], &Answers::new(), 2);
        let names = plan.steps.iter().map(|step| step.name.clone());
        tried.push(names.collect::<Vec<_>>());
        after = plan.stops_at().map(str::to_owned);
    }
    assert_eq!(tried, [["aaa", "bbb"], ["ccc", "ddd"], ["eee", "aaa"]]);
    let all = planned_after(Some("bbb"), &mut tenants, &[], &Answers::new(), 9);
    assert_eq!((all.steps.len(), all.stops_at()), (5, None));
}

#[test]
fn what_was_said_is_not_said_again_to_the_same_or_an_older_version() {
    let mut tenants = table(&[("edited", "now.x.com")]);
    let objects = [made("edited", "before.x.com")];
    let plan = planned(&mut tenants, &objects, &Answers::new(), 99);
    let mark = plan.steps[0].desired.mark().unwrap().to_owned();
    let said = Answers::from([("edited".to_owned(), (mark.clone(), 5))]);
    assert!(planned(&mut tenants, &objects, &said, 99).steps.is_empty());
    let newer = Answers::from([("edited".to_owned(), (mark.clone(), 6))]);
    assert!(planned(&mut tenants, &objects, &newer, 99).steps.is_empty());
    // Somebody changed it since: it is said again.
    let older = Answers::from([("edited".to_owned(), (mark, 4))]);
    assert_eq!(planned(&mut tenants, &objects, &older, 99).steps.len(), 1);
}

fn any_names() -> impl Strategy<Value = BTreeSet<String>> {
    btree_set("[a-e]{3}", 0..12)
}

proptest! {
    #[test]
    fn nothing_foreign_is_ever_changed_or_missed_and_doing_the_steps_ends_them(
        rows in any_names(), ours in any_names(), theirs in any_names(),
    ) {
        let named: Vec<(String, String)> =
            rows.iter().map(|name| (name.clone(), format!("{name}.x.com"))).collect();
        let named: Vec<(&str, &str)> = named.iter().map(|(a, b)| (&**a, &**b)).collect();
        let mut objects: Vec<Held> = ours
            .difference(&theirs)
            .map(|name| made(name, "old.x.com"))
            .collect();
        objects.extend(theirs.iter().map(|name| foreign(name)));

        let plan = planned(&mut table(&named), &objects, &Answers::new(), 99);
        for step in &plan.steps {
            prop_assert!(!theirs.contains(&step.name));
            prop_assert!(rows.contains(&step.name));
        }
        for one in &plan.missing {
            prop_assert!(ours.contains(&one.name) && !rows.contains(&one.name));
        }
        prop_assert_eq!(plan.conflicts, rows.intersection(&theirs).count());

        objects.retain(|one| !plan.steps.iter().any(|step| step.name == one.name));
        objects.extend(plan.steps.iter().map(|step| made(&step.name, &format!("{}.x.com", step.name))));
        let after = planned(&mut table(&named), &objects, &Answers::new(), 99);
        prop_assert!(after.steps.is_empty(), "{:?}", after.steps);
    }
}
