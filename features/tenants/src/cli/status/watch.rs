//! `status --watch`: every tenant, and again when it changes, until somebody ends it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{ErrorKind, Write};
use std::time::Duration;

use clap::ArgMatches;
use engine::{Answer, Change, Outcome};
use kernel::ObjectKey;
use serde_json::{Value, json};

use super::{COLUMNS, Line, lines};
use crate::cli::Failure;
use crate::cli::site::{Held, Site};

/// How often it is looked whether the cluster still answers.
const PAUSE: Duration = Duration::from_millis(500);

/// How news are printed, by `-o`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// A row each, below a heading.
    Table,
    /// A document a line.
    Json,
    /// A document each.
    Yaml,
    /// A name a line.
    Name,
}

impl Form {
    /// What was asked for. The flag is not ours: whoever prints all other answers reads it.
    pub(super) fn of(args: &ArgMatches) -> Self {
        let given = args.try_get_raw("output").ok().flatten();
        let word = given.and_then(|mut words| words.next());
        match word.and_then(|word| word.to_str()) {
            Some("json") => Self::Json,
            Some("yaml") => Self::Yaml,
            Some("name") => Self::Name,
            Some(_) | None => Self::Table,
        }
    }
}

/// Prints until it is ended, or nobody reads any more.
pub(super) async fn watch(site: &Site, form: Form) -> Result<Answer, Failure> {
    let tenants = site.ctx.caches.tenants.key().clone();
    let mut changes = site.ctx.deck.hub.follow(tenants);
    let (mut shown, mut trouble) = (Shown::default(), None);
    let mut open = form != Form::Table || print(&row(&COLUMNS.map(str::to_uppercase)))?;
    let mut news = shown.all(lines(site)?);
    while open {
        for one in &news {
            open &= print(&one.text(form)?)?;
        }
        let now = site.trouble();
        if let Some(why) = now.as_ref().filter(|_| now != trouble) {
            eprintln!("The cluster cannot be watched for now: {why}; it is tried again.");
        }
        trouble = now;
        news = tokio::select! {
            change = changes.next() => shown.change(change, site)?,
            () = tokio::time::sleep(PAUSE) => Vec::new(),
        };
    }
    Ok(Answer {
        columns: &COLUMNS,
        findings: Vec::new(),
        outcome: Outcome::Holds,
        documents: true, // nothing more is printed, not even a heading
        remark: None,
    })
}

/// Whether there is still somebody who reads.
fn print(text: &str) -> Result<bool, Failure> {
    let mut out = std::io::stdout();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// One row; its columns are as wide as the rows to come most likely need.
fn row(cells: &[String]) -> String {
    let cells: Vec<_> = cells.iter().map(|cell| format!("{cell:<18}")).collect();
    cells.join("  ").trim_end().to_owned()
}

/// What has changed of a tenant.
#[derive(Debug, PartialEq, Eq)]
enum News {
    Is(Line),
    Gone(ObjectKey),
}

/// What was printed last of each tenant.
#[derive(Default)]
struct Shown(BTreeMap<ObjectKey, Line>);

impl Shown {
    fn change(&mut self, change: Change, site: &Site) -> Result<Vec<News>, Failure> {
        let news = match change {
            Change::Apply(object) if site.is_asked_for(object.key()) => {
                let held = Held::read(object)?;
                self.is(Line::of(held.key(), &held.object))
            }
            Change::Delete(object) => self.gone(object.key()),
            Change::Apply(_) | Change::Synced => None,
            Change::Resync => return Ok(self.all(lines(site)?)),
        };
        Ok(news.into_iter().collect())
    }

    fn is(&mut self, line: Line) -> Option<News> {
        let before = self.0.insert(line.key.clone(), line.clone());
        (before.as_ref() != Some(&line)).then_some(News::Is(line))
    }

    fn gone(&mut self, key: &ObjectKey) -> Option<News> {
        self.0.remove(key).map(|line| News::Gone(line.key))
    }

    /// These are all there are.
    fn all(&mut self, lines: Vec<Line>) -> Vec<News> {
        let there: BTreeSet<_> = lines.iter().map(|line| line.key.clone()).collect();
        let mut lost: Vec<_> = self.0.keys().cloned().collect();
        lost.retain(|key| !there.contains(key));
        let mut news: Vec<_> = lines.into_iter().filter_map(|line| self.is(line)).collect();
        news.extend(lost.iter().filter_map(|key| self.gone(key)));
        news
    }
}

impl News {
    fn text(&self, form: Form) -> Result<String, Failure> {
        Ok(match form {
            Form::Table => row(&self.cells()),
            Form::Json => self.full().to_string(),
            Form::Yaml => format!("---\n{}", serde_saphyr::to_string(&self.full())?.trim_end()),
            Form::Name => format!("DistributionTenant/{}", self.key()),
        })
    }

    fn key(&self) -> &ObjectKey {
        match self {
            Self::Is(line) => &line.key,
            Self::Gone(key) => key,
        }
    }

    fn cells(&self) -> Vec<String> {
        match self {
            Self::Is(line) => line.cells(),
            Self::Gone(key) => {
                let namespace = key.namespace.as_deref().unwrap_or_default();
                [namespace, &*key.name, "(gone)"].map(str::to_owned).into()
            }
        }
    }

    fn full(&self) -> Value {
        match self {
            Self::Is(line) => line.full(),
            Self::Gone(key) => {
                json!({"namespace": key.namespace.as_deref(), "name": &*key.name, "gone": true})
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(name: &str, reason: &str) -> Line {
        Line {
            key: ObjectKey::namespaced("web", name),
            ready: reason == "Deployed",
            message: String::new(),
            reasons: [reason, "", "", ""].map(str::to_owned),
            id: None,
            target: None,
        }
    }

    #[test]
    fn a_tenant_is_told_once_and_again_when_it_changes_or_goes() {
        let (a, b) = (line("a", "Creating"), line("b", "Deployed"));
        let mut shown = Shown::default();
        let first = shown.all(vec![a.clone(), b.clone()]);
        assert_eq!(first, [News::Is(a.clone()), News::Is(b.clone())]);
        assert_eq!(shown.is(a), None);
        let ready = line("a", "Deployed");
        assert_eq!(shown.is(ready.clone()), Some(News::Is(ready)));
        let gone = |name: &str| News::Gone(ObjectKey::namespaced("web", name));
        // Whether it was seen to go or is found missing.
        assert_eq!(shown.all(vec![b.clone()]), [gone("a")]);
        assert_eq!(shown.gone(&b.key), Some(gone("b")));
        assert_eq!(shown.gone(&b.key), None);
    }

    #[test]
    fn each_form_of_news_is_one_thing_to_read() {
        let told = |news: News, form| news.text(form).unwrap();
        let gone = || News::Gone(ObjectKey::namespaced("web", "a"));
        let is = || News::Is(line("a", "Deployed"));
        assert!(told(gone(), Form::Table).ends_with("(gone)"));
        assert_eq!(told(is(), Form::Name), "DistributionTenant/web/a");
        let json: Value = serde_json::from_str(&told(is(), Form::Json)).unwrap();
        assert_eq!((&json["name"], &json["ready"]), (&json!("a"), &json!(true)));
        assert!(told(gone(), Form::Yaml).starts_with("---\n"));
        assert!(!told(is(), Form::Json).contains('\n'));
    }
}
