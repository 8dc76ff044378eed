//! All examples, file by file, and what uses them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use kube::Client;

use super::app::App;
use super::example_files::{files, groups, text};
use super::examples::{self, Example, Row};
use super::moving_set::MovingSet;
use super::surroundings::Surroundings;
use super::website;
use crate::cargo;
use crate::operator::Operator;
use crate::progress::Progress;
use crate::verdict::{Error, While};

/// The feature whose files are applied in turn, each once those before it are Ready: a StatefulSet can only
/// leave a cluster in which it runs.
const IN_TURN: &str = "migrate";
/// The file of that feature for the old cluster.
const OF_OLD_CLUSTER: &str = "02-old-cluster.yaml";

/// The examples of a world, of which some are applied later.
pub(crate) struct Board<'w> {
    world: &'w Surroundings,
    /// The API groups of Pontoon's own kinds.
    ours: BTreeSet<String>,
    parts: Vec<Part>,
    /// What uses the applied examples.
    users: Vec<Example>,
}

/// A file of examples.
struct Part {
    file: PathBuf,
    yaml: String,
    examples: Vec<Example>,
    is_applied: bool,
}

impl<'w> Board<'w> {
    /// Reads the examples. Those that need two clusters are left out where there is one.
    pub(crate) fn read(
        world: &'w Surroundings,
        operator: &Operator,
        progress: &Progress,
    ) -> Result<Self, Error> {
        let mut files = files(&cargo::root().join("examples"))?;
        if world.old.is_none() {
            files.retain(|file| feature(file) != Some(IN_TURN));
            progress.note(&format!(
                "examples/{IN_TURN} is left out: it needs a second cluster, which --kubeconfig does not give"
            ));
        }
        let settings = world.placeholders();
        let parts = files.into_iter().map(|file| Part::read(file, &settings));
        let websites = website::all(&world.aws.url())?;
        let mut users = vec![Example::app(App::new(
            world.client.clone(),
            world.vault.address(),
        )?)];
        users.extend(websites.into_iter().map(Example::website));
        Ok(Self {
            ours: groups(&operator.print(&["crds"])?)?,
            parts: parts.collect::<Result<_, _>>()?,
            users,
            world,
        })
    }

    /// Applies the files whose turn it is, each after a call of `announce`, and returns all examples as
    /// they are now.
    pub(crate) async fn refresh(&mut self, announce: impl Fn(&str)) -> Result<Vec<Row>, Error> {
        let mut rows = Vec::new();
        let mut is_due = true;
        for part in &mut self.parts {
            let is_in_turn = feature(&part.file) == Some(IN_TURN);
            if !part.is_applied && (is_due || !is_in_turn) {
                announce(&format!("applying {}", part.label()));
                part.apply(self.world, &self.ours).await?;
            }
            let own = rows_of(&part.examples).await?;
            if is_in_turn {
                // What an earlier file has made may be gone again by a later one.
                is_due = own.iter().all(Row::is_fine);
            }
            add(&mut rows, own, part.is_applied);
        }
        rows.extend(rows_of(&self.users).await?);
        Ok(rows)
    }
}

/// A file may edit an object of an earlier one. Once it is applied, its row replaces the earlier one.
fn add(rows: &mut Vec<Row>, more: Vec<Row>, is_applied: bool) {
    for row in more {
        let earlier = rows.iter_mut().find(|one| one.label() == row.label());
        match earlier {
            Some(earlier) if is_applied => *earlier = row,
            Some(_) => {}
            None => rows.push(row),
        }
    }
}

impl Part {
    fn read(file: PathBuf, settings: &[(&str, String)]) -> Result<Self, Error> {
        let yaml = text(&file, settings)?;
        Ok(Self {
            examples: examples::later(&yaml).doing(file.display())?,
            file,
            yaml,
            is_applied: false,
        })
    }

    fn label(&self) -> String {
        let file = self.file.strip_prefix(cargo::root());
        file.unwrap_or(&self.file).display().to_string()
    }

    async fn apply(&mut self, world: &Surroundings, ours: &BTreeSet<String>) -> Result<(), Error> {
        let apply = async |client: &Client| {
            let applied = examples::apply(client, &self.yaml, ours).await;
            applied.doing(self.file.display())
        };
        self.examples = match &world.old {
            Some(old) if self.file.ends_with(OF_OLD_CLUSTER) => {
                let old = old.plane.admin();
                let applied = apply(&old).await?.into_iter();
                let set = MovingSet::new(old, world.client.clone(), &world.aws.url())?;
                let applied = applied.map(|example| example.of_cluster("old"));
                applied.chain([Example::set(set)]).collect()
            }
            _ => apply(&world.client).await?,
        };
        self.is_applied = true;
        Ok(())
    }
}

/// The feature of an example file, which is the name of its folder.
fn feature(file: &Path) -> Option<&str> {
    file.parent()?.file_name()?.to_str()
}

async fn rows_of(examples: &[Example]) -> Result<Vec<Row>, Error> {
    let mut rows = Vec::new();
    for example in examples {
        rows.push(example.row().await?);
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::{IN_TURN, OF_OLD_CLUSTER, Row, add, feature};
    use crate::cargo;
    use crate::live::example_files::files;
    use crate::live::examples::ExampleState;

    #[test]
    fn the_set_is_made_before_it_moves() {
        let all = files(&cargo::root().join("examples")).unwrap();
        let in_turn = all.iter().filter(|file| feature(file) == Some(IN_TURN));
        let mut in_turn = in_turn.skip_while(|file| !file.ends_with(OF_OLD_CLUSTER));
        assert!(in_turn.next().is_some(), "{OF_OLD_CLUSTER} exists");
        assert_eq!(in_turn.count(), 2, "there, and back");
    }

    #[rstest]
    #[case::applied(true, [ExampleState::Gone, ExampleState::There, ExampleState::Gone])]
    #[case::not_yet(false, [ExampleState::There, ExampleState::There, ExampleState::Gone])]
    fn an_edit_is_shown_once_it_is_applied(
        #[case] is_applied: bool,
        #[case] expected: [ExampleState; 3],
    ) {
        let row = |name: &str, state| Row {
            kind: "A".to_owned(),
            name: name.to_owned(),
            state,
        };
        let earlier = ["a", "b"].map(|name| row(name, ExampleState::There));
        let more = ["a", "c"].map(|name| row(name, ExampleState::Gone));
        let mut shown = earlier.to_vec();
        add(&mut shown, more.to_vec(), is_applied);
        let states: Vec<_> = shown.into_iter().map(|row| row.state).collect();
        assert_eq!(states, expected);
    }
}
