//! `plan` and `diff`: what the operator would do for the selected objects, by its own code.

use kernel::ObjectKey;
use serde::Serialize;

use super::{Answer, Finding, ObjectRef, Outcome, Session, counted};

/// One row of a plan: a step, or a note that there is none. `-o json` prints the serialised row with
/// kind, namespace and name of the object.
pub trait PlanRow: Serialize {
    /// The headings of `plan`; the first two are `kind` and `name`.
    const PLAN_COLUMNS: &'static [&'static str];
    /// The headings of `diff`; the first two are `kind` and `name`.
    const DIFF_COLUMNS: &'static [&'static str];

    /// `Holds`: no change is needed. `DoesNot`: the step removes a difference. `Unknown`: it could not
    /// be determined.
    fn outcome(&self) -> Outcome;

    /// The cells of `plan`, after kind and name.
    fn plan_cells(&self) -> Vec<String>;

    /// The cells of `diff`, after kind and name.
    fn diff_cells(&self) -> Vec<String>;
}

/// The rows of all selected objects.
pub struct PlanTable<R> {
    rows: Vec<(String, ObjectKey, R)>,
    objects: usize,
    feature: String,
    /// The remark if no object was selected.
    empty_remark: String,
}

impl<R: PlanRow> PlanTable<R> {
    /// A plan without objects.
    pub fn new(session: &Session) -> Self {
        Self::of(&session.deck.feature, session.scope.empty_remark("object"))
    }

    fn of(feature: &str, empty_remark: String) -> Self {
        Self {
            rows: Vec::new(),
            objects: 0,
            feature: feature.to_owned(),
            empty_remark,
        }
    }

    /// Adds the rows of the feature's preview of an object.
    pub fn add<T>(&mut self, target: &ObjectRef<T>, rows: impl IntoIterator<Item = R>) {
        self.add_rows(&target.kind().kind, &target.key, rows);
    }

    fn add_rows(&mut self, kind: &str, key: &ObjectKey, rows: impl IntoIterator<Item = R>) {
        self.objects += 1;
        let rows = rows.into_iter();
        self.rows
            .extend(rows.map(|row| (kind.to_owned(), key.clone(), row)));
    }

    /// The answer of `plan`: every row. Exit 1 if there is a step.
    pub fn plan(self) -> Answer {
        let steps = self.count(Outcome::DoesNot);
        let (steps, objects) = (counted(steps, "step"), counted(self.objects, "object"));
        let remark = self.remark(format!("{steps} for {objects}; nothing was written."));
        let all = self.rows.iter();
        let findings = all.map(|row| finding(row, row.2.plan_cells())).collect();
        Answer::table(R::PLAN_COLUMNS, findings, self.outcome()).with_remark(remark)
    }

    /// The answer of `diff`: only rows whose outcome is `DoesNot` or `Unknown`. Exit 1 if there is a
    /// difference.
    pub fn diff(self) -> Answer {
        let differs = |row: &&(String, ObjectKey, R)| row.2.outcome() == Outcome::DoesNot;
        let differing = self.rows.iter().filter(differs);
        let mut differing: Vec<_> = differing.map(|(kind, key, _)| (kind, key)).collect();
        differing.dedup(); // the rows of an object are adjacent
        let (differing, objects) = (differing.len(), counted(self.objects, "object"));
        let remark = self.remark(format!(
            "{differing} of {objects} differ; nothing was written."
        ));
        let shown = self.rows.iter();
        let shown = shown.filter(|row| row.2.outcome() != Outcome::Holds);
        let findings = shown.map(|row| finding(row, row.2.diff_cells())).collect();
        Answer::table(R::DIFF_COLUMNS, findings, self.outcome()).with_remark(remark)
    }

    fn outcome(&self) -> Outcome {
        Outcome::of_all(self.rows.iter().map(|row| row.2.outcome()))
    }

    fn count(&self, outcome: Outcome) -> usize {
        let rows = self.rows.iter();
        rows.filter(|row| row.2.outcome() == outcome).count()
    }

    fn remark(&self, result: String) -> String {
        match (self.objects, self.count(Outcome::Unknown)) {
            (0, _) => self.empty_remark.clone(),
            (_, 0) => result,
            (_, unknown) => format!(
                "{result} {} could not be planned; pontoon doctor --feature {} checks what can be \
                 reached from here.",
                counted(unknown, "object"),
                self.feature
            ),
        }
    }
}

fn finding<R: PlanRow>((kind, key, row): &(String, ObjectKey, R), cells: Vec<String>) -> Finding {
    let head = [kind.clone(), key.to_string()];
    let cells = head.into_iter().chain(cells).collect();
    let full = serde_json::to_value(row).unwrap_or_default();
    Finding::about(kind, key, cells, full)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(Serialize)]
    struct Row {
        step: &'static str,
        #[serde(skip)]
        outcome: Outcome,
    }

    impl PlanRow for Row {
        const PLAN_COLUMNS: &'static [&'static str] = &["kind", "name", "step"];
        const DIFF_COLUMNS: &'static [&'static str] = &["kind", "name", "difference"];

        fn outcome(&self) -> Outcome {
            self.outcome
        }

        fn plan_cells(&self) -> Vec<String> {
            vec![self.step.to_owned()]
        }

        fn diff_cells(&self) -> Vec<String> {
            vec![format!("{}!", self.step)]
        }
    }

    fn row(step: &'static str, outcome: Outcome) -> Row {
        Row { step, outcome }
    }

    /// A plan for the objects `a`, `b`, … with these rows.
    fn plan(objects: Vec<Vec<Row>>) -> PlanTable<Row> {
        let mut plan = PlanTable::of("ships", "There is no object.".to_owned());
        for (rows, name) in objects.into_iter().zip(["a", "b", "c"]) {
            plan.add_rows("Ship", &ObjectKey::namespaced("web", name), rows);
        }
        plan
    }

    fn cells(answer: &Answer) -> Vec<String> {
        let findings = answer.findings.iter();
        findings.map(|one| one.cells.join(" ")).collect()
    }

    #[test]
    fn a_plan_has_every_row_and_counts_steps() {
        let steady = vec![row("-", Outcome::Holds)];
        let edited = vec![
            row("update", Outcome::DoesNot),
            row("tag", Outcome::DoesNot),
        ];
        let answer = plan(vec![steady, edited]).plan();
        assert_eq!(answer.outcome, Outcome::DoesNot);
        let expected = ["Ship web/a -", "Ship web/b update", "Ship web/b tag"];
        assert_eq!(cells(&answer), expected);
        let remark = "2 steps for 2 objects; nothing was written.";
        assert_eq!(answer.remark.as_deref(), Some(remark));
        assert_eq!(answer.columns, Row::PLAN_COLUMNS);
        let full = json!({"kind": "Ship", "namespace": "web", "name": "b", "step": "tag"});
        assert_eq!(answer.findings[2].full, full);
        assert_eq!(answer.findings[2].name, "Ship/web/b");
    }

    #[test]
    fn a_diff_has_only_rows_that_differ_and_counts_objects() {
        let steady = vec![row("-", Outcome::Holds)];
        let edited = vec![
            row("update", Outcome::DoesNot),
            row("tag", Outcome::DoesNot),
        ];
        let answer = plan(vec![steady, edited]).diff();
        assert_eq!(answer.outcome, Outcome::DoesNot);
        assert_eq!(cells(&answer), ["Ship web/b update!", "Ship web/b tag!"]);
        let remark = "1 of 2 objects differ; nothing was written.";
        assert_eq!(answer.remark.as_deref(), Some(remark));
    }

    #[test]
    fn an_object_that_cannot_be_planned_makes_the_answer_unknown() {
        let objects = || {
            vec![
                vec![row("update", Outcome::DoesNot)],
                vec![row("?", Outcome::Unknown)],
            ]
        };
        for answer in [plan(objects()).plan(), plan(objects()).diff()] {
            assert_eq!(answer.outcome, Outcome::Unknown);
            assert_eq!(answer.findings.len(), 2);
            let remark = answer.remark.unwrap();
            assert!(remark.contains("1 object could not be planned"), "{remark}");
            assert!(remark.contains("doctor --feature ships"), "{remark}");
        }
    }

    #[test]
    fn without_objects_there_is_another_remark() {
        let answer = plan(Vec::new()).plan();
        assert_eq!(answer.outcome, Outcome::Holds);
        assert_eq!(answer.remark.as_deref(), Some("There is no object."));
    }
}
