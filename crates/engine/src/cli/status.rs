//! `status [--watch]`: one row per object, from the status that the operator last wrote.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::ArgMatches;
use futures::FutureExt;
use futures::future::select_all;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use kernel::find;
use serde::Deserialize;
use serde_json::{Value, json};

use super::output::{print_text, yaml};
use super::{Answer, Failure, Finding, Format, Outcome, Session, counted, flags};
use crate::{Cache, Followed, Health, Stored};

/// The condition that every kind has.
const READY: &str = "Ready";
/// How often `--watch` checks that the cluster still answers.
const HEALTH_POLL: Duration = Duration::from_millis(500);
/// The minimum width of a column of `--watch`: later rows may need it.
const WATCH_WIDTH: usize = 18;

/// The Ready condition of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadyCondition {
    /// It is True, for the current generation of the spec.
    pub is_ready: bool,
    /// Its reason.
    pub reason: String,
    /// Its message.
    pub message: String,
}

impl ReadyCondition {
    /// Reads the conditions of an object of this generation.
    pub fn new(conditions: &[Condition], generation: Option<i64>) -> Self {
        let Some(ready) = find(conditions, READY) else {
            return Self {
                is_ready: false,
                reason: "NotLookedAt".to_owned(),
                message: "the operator has not reconciled it yet; check that it runs".to_owned(),
            };
        };
        let observed = ready.observed_generation;
        Self {
            is_ready: ready.status == "True" && (observed.is_none() || observed == generation),
            reason: ready.reason.clone(),
            message: ready.message.clone(),
        }
    }

    /// Reads the conditions of an object of any kind. Conditions that cannot be parsed count as none.
    pub fn of(object: &Stored) -> Self {
        let parsed = serde_json::from_str::<Conditioned>(object.json());
        let Conditioned { metadata, status } = parsed.unwrap_or_default();
        Self::new(&status.conditions, metadata.generation)
    }
}

/// The fields of an object that show whether it is ready.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Conditioned {
    metadata: ObjectMeta,
    status: StatusConditions,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct StatusConditions {
    conditions: Vec<Condition>,
}

/// One row of `status`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusRow {
    /// Whether it is ready. `status` exits 1 if one row is not.
    pub is_ready: bool,
    /// Cells and full form.
    pub finding: Finding,
}

/// The columns of [`StatusRow::of`]; the first two name the object.
pub const OBJECT_COLUMNS: &[&str] = &["kind", "name", "ready", "reason", "message"];

impl StatusRow {
    /// The row of an object of any kind, with [`OBJECT_COLUMNS`].
    pub fn of(kind: &str, object: &Stored) -> Self {
        let key = object.key();
        let ReadyCondition {
            is_ready,
            reason,
            message,
        } = ReadyCondition::of(object);
        let full = json!({"ready": is_ready, "reason": reason, "message": message});
        let ready = if is_ready { "yes" } else { "no" }.to_owned();
        let cells = vec![kind.to_owned(), key.to_string(), ready, reason, message];
        let finding = Finding::about(kind, key, cells, full);
        Self { is_ready, finding }
    }
}

/// What `status` shows.
pub struct StatusTable<'a> {
    /// The headings.
    pub columns: &'static [&'static str],
    /// How many of the first columns name the object.
    pub name_columns: usize,
    /// The noun for the object of a row, such as `tenant`.
    pub noun: &'static str,
    /// The remark if there is no row.
    pub empty_remark: String,
    /// Computes the current rows, in order.
    pub rows: Box<dyn Fn() -> Vec<StatusRow> + 'a>,
    /// The objects that rows depend on.
    pub caches: Vec<&'a Cache>,
}

impl StatusTable<'_> {
    /// Answers `status`. With `--watch` it prints every row, and again each row that changes, until the
    /// reader closes stdout.
    ///
    /// # Errors
    /// stdout cannot be written.
    pub async fn answer(self, session: &Session, args: &ArgMatches) -> Result<Answer, Failure> {
        if flags::is_set(args, flags::WATCH) {
            let format = flags::format(args).unwrap_or(Format::Table);
            self.watch(session, format).await?;
            return Ok(Answer::manifests(self.columns, Vec::new())); // nothing more to print
        }
        let rows = (self.rows)();
        Ok(listed(self.columns, rows, self.noun, self.empty_remark))
    }

    async fn watch(&self, session: &Session, format: Format) -> Result<(), Failure> {
        let hub = &session.deck.hub;
        let follow = |cache: &&Cache| hub.follow(cache.key().clone());
        let mut followed: Vec<_> = self.caches.iter().map(follow).collect();
        let headings: Vec<_> = self.columns.iter().map(|one| one.to_uppercase()).collect();
        if format == Format::Table && !print_text(&row(&headings))? {
            return Ok(());
        }
        let (mut printed, mut interruption) = (Printed::default(), None);
        loop {
            for finding in printed.changes((self.rows)(), self.name_columns) {
                if !print_text(&text(&finding, format)?)? {
                    return Ok(());
                }
            }
            while !has_changed(&mut followed).await {
                let now = self.caches.iter().find_map(|cache| outage(cache));
                if let Some(why) = now.as_ref().filter(|_| now != interruption) {
                    eprintln!("The cluster cannot be watched now: {why}; retrying.");
                }
                interruption = now;
            }
        }
    }
}

fn listed(
    columns: &'static [&'static str],
    rows: Vec<StatusRow>,
    noun: &str,
    empty_remark: String,
) -> Answer {
    let (ready, all) = (rows.iter().filter(|row| row.is_ready).count(), rows.len());
    let remark = match all {
        0 => empty_remark,
        all => format!("{ready} of {} are Ready.", counted(all, noun)),
    };
    let findings = rows.into_iter().map(|row| row.finding).collect();
    Answer::table(columns, findings, Outcome::of(ready == all)).with_remark(remark)
}

/// Waits up to [`HEALTH_POLL`] for a change. Several pending changes count as one.
async fn has_changed(followed: &mut [Followed]) -> bool {
    let first = select_all(followed.iter_mut().map(|one| Box::pin(one.next())));
    let mut has_changed = tokio::time::timeout(HEALTH_POLL, first).await.is_ok();
    for one in followed {
        while one.next().now_or_never().is_some() {
            has_changed = true;
        }
    }
    has_changed
}

/// Why a cache is not up to date now.
fn outage(cache: &Cache) -> Option<String> {
    match cache.health() {
        Health::Broken(why) => Some(why),
        Health::Unserved => Some("the API server answers 404".to_owned()),
        Health::Starting | Health::Synced | Health::Absent => None,
    }
}

/// The last finding that was printed of each object, by its name.
#[derive(Default)]
struct Printed(BTreeMap<String, Finding>);

impl Printed {
    /// The findings to print: rows that are new or differ, then rows whose object is gone.
    fn changes(&mut self, rows: Vec<StatusRow>, name_columns: usize) -> Vec<Finding> {
        let rows = rows.into_iter().map(|row| row.finding);
        let rows: Vec<_> = rows
            .map(|finding| (finding.name.clone(), finding))
            .collect();
        let now: BTreeMap<_, _> = rows.iter().cloned().collect();
        let before = std::mem::replace(&mut self.0, now);
        let rows = rows.into_iter();
        let changed = rows.filter(|(name, finding)| before.get(name) != Some(finding));
        let mut changes: Vec<_> = changed.map(|(_, finding)| finding).collect();
        let missing = before
            .into_iter()
            .filter(|(name, _)| !self.0.contains_key(name));
        changes.extend(missing.map(|(_, finding)| gone(finding, name_columns)));
        changes
    }
}

/// The finding about an object that is gone; `last` is its last finding.
fn gone(last: Finding, name_columns: usize) -> Finding {
    let Finding {
        name,
        mut cells,
        mut full,
    } = last;
    cells.truncate(name_columns);
    cells.push("(gone)".to_owned());
    if let Value::Object(fields) = &mut full {
        fields.insert("ready".to_owned(), json!(false));
        fields.insert("gone".to_owned(), json!(true));
    }
    Finding { name, cells, full }
}

/// A finding as `--watch` prints it: one line, or one YAML document.
fn text(finding: &Finding, format: Format) -> Result<String, Failure> {
    match format {
        Format::Table => Ok(row(&finding.cells)),
        Format::Json => Ok(finding.full.to_string()),
        Format::Yaml => yaml(&finding.full),
        Format::Name => Ok(finding.name.clone()),
    }
}

fn row(cells: &[String]) -> String {
    let cells: Vec<_> = cells
        .iter()
        .map(|cell| format!("{cell:<WATCH_WIDTH$}"))
        .collect();
    cells.join("  ").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use rstest::rstest;

    use super::*;
    use crate::{Kind, Projection};

    /// A row of an object in generation 2, whose Ready condition is about generation `observed`.
    fn status(name: &str, status: &str, observed: Option<i64>) -> StatusRow {
        let ready = json!({
            "type": "Ready", "status": status, "reason": "Deployed", "message": "it is there",
            "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": observed,
        });
        of(name, json!({"conditions": [ready]}))
    }

    fn of(name: &str, status: Value) -> StatusRow {
        let metadata = json!({"name": name, "namespace": "web", "generation": 2});
        let object = json!({"metadata": metadata, "status": status}).to_string();
        let kind = Kind::of::<ConfigMap>();
        let object = Stored::read(&kind, &object, &Projection::Full).unwrap();
        StatusRow::of("Ship", &object)
    }

    #[rstest]
    #[case::of_this_spec("True", Some(2), true)]
    #[case::without_a_generation("True", None, true)]
    #[case::of_an_older_spec("True", Some(1), false)]
    #[case::no("False", Some(2), false)]
    fn an_object_is_ready(#[case] is: &str, #[case] observed: Option<i64>, #[case] expected: bool) {
        let row = status("a", is, observed);
        assert_eq!(row.is_ready, expected);
        let ready = if expected { "yes" } else { "no" };
        let cells = ["Ship", "web/a", ready, "Deployed", "it is there"];
        assert_eq!(row.finding.cells, cells);
        assert_eq!(row.finding.full["ready"], expected);
    }

    #[rstest]
    #[case::no_conditions(json!({}))]
    #[case::malformed(json!({"conditions": 5}))]
    fn an_object_that_was_never_reconciled_is_not_ready(#[case] status: Value) {
        let row = of("a", status);
        assert!(!row.is_ready);
        assert_eq!(row.finding.full["reason"], "NotLookedAt");
    }

    #[rstest]
    #[case::all_ready(&["True", "True"], Outcome::Holds, "2 of 2 ships are Ready.")]
    #[case::one_is_not(&["True", "False"], Outcome::DoesNot, "1 of 2 ships are Ready.")]
    #[case::none_there(&[], Outcome::Holds, "There is no ship.")]
    fn status_holds_if_all_rows_are_ready(
        #[case] rows: &[&str],
        #[case] outcome: Outcome,
        #[case] remark: &str,
    ) {
        let rows = rows.iter().map(|is| status("a", is, None)).collect();
        let answer = listed(OBJECT_COLUMNS, rows, "ship", "There is no ship.".to_owned());
        assert_eq!(answer.outcome, outcome);
        assert_eq!(answer.remark.as_deref(), Some(remark));
    }

    #[test]
    fn a_row_is_printed_again_when_it_changes_or_is_gone() {
        let (a, b) = (status("a", "False", None), status("b", "True", None));
        let mut printed = Printed::default();
        let mut changes = |rows: &[&StatusRow]| {
            let rows = rows.iter().map(|row| (*row).clone()).collect();
            printed.changes(rows, 2)
        };
        assert_eq!(changes(&[&a, &b]), [a.finding.clone(), b.finding.clone()]);
        assert_eq!(changes(&[&a, &b]), []);
        let ready = status("a", "True", None);
        assert_eq!(changes(&[&ready, &b]), std::slice::from_ref(&ready.finding));
        let gone = changes(&[&b]);
        assert_eq!(gone[0].cells, ["Ship", "web/a", "(gone)"]);
        assert_eq!(gone[0].full["gone"], true);
        assert_eq!(gone[0].full["ready"], false);
        assert_eq!(changes(&[&b]), []);
    }

    #[test]
    fn a_watch_prints_a_line_or_a_document_for_each_change() {
        let finding = status("a", "True", None).finding;
        let text = |format| text(&finding, format).unwrap();
        assert!(text(Format::Table).starts_with("Ship                web/a "));
        assert_eq!(text(Format::Name), "Ship/web/a");
        assert!(!text(Format::Json).contains('\n'));
        assert!(text(Format::Yaml).starts_with("---\n"));
    }
}
