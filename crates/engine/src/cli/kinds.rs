//! The kinds of a feature's verbs, and the selection of objects by name, file or namespace.

use std::fmt;
use std::sync::Arc;

use clap::ArgMatches;
use kernel::ObjectKey;
use serde::de::DeserializeOwned;

use super::{Failure, Scope, files, flags};
use crate::{Cache, Kind, Malformed, Stored};

/// A kind of a feature's verbs. `T` identifies the kind within the feature.
pub struct ObjectKind<T> {
    id: T,
    cache: Cache,
    short_names: &'static [&'static str],
    parse: fn(&Stored, &Kind) -> Result<(), Malformed>,
}

impl<T: Copy> ObjectKind<T> {
    /// The kind `K`, whose objects are in `cache`. Users name it by kind, plural or any of `short_names`.
    /// Messages show the first short name.
    pub fn of<K: DeserializeOwned>(
        id: T,
        cache: &Cache,
        short_names: &'static [&'static str],
    ) -> Self {
        Self {
            id,
            cache: cache.clone(),
            short_names,
            parse: |object, kind| object.parse::<K>(kind).map(drop),
        }
    }

    pub(super) fn kind(&self) -> &Kind {
        &self.cache.key().kind
    }

    pub(super) fn target(&self, key: ObjectKey) -> ObjectRef<T> {
        ObjectRef {
            id: self.id,
            cache: self.cache.clone(),
            key,
        }
    }

    /// Whether an object fits the schema of the kind.
    pub(super) fn check(&self, object: &Stored) -> Result<(), Malformed> {
        (self.parse)(object, self.kind())
    }

    fn has_name(&self, name: &str) -> bool {
        let kind = self.kind();
        let names = [&*kind.kind, &*kind.plural];
        let mut names = names.iter().chain(self.short_names);
        names.any(|one| one.eq_ignore_ascii_case(name))
    }

    fn short_name(&self) -> &str {
        let first = self.short_names.first().copied();
        first.unwrap_or(&self.kind().plural)
    }
}

/// A reference to an object, which may not exist.
pub struct ObjectRef<T> {
    /// Its kind within the feature.
    pub id: T,
    /// The cache of its kind.
    pub cache: Cache,
    /// Namespace and name.
    pub key: ObjectKey,
}

/// An object to plan: as it is in the cluster, or as it would be after a file is applied.
pub type Selected<T> = (ObjectRef<T>, Arc<Stored>);

impl<T> ObjectRef<T> {
    /// Its kind.
    pub fn kind(&self) -> &Kind {
        &self.cache.key().kind
    }

    /// The argument of a verb that names it, such as `VaultPolicy/team-a/app`.
    pub fn argument(&self) -> String {
        format!("{}/{}", self.kind().kind, self.key)
    }

    /// The object in the cluster, if it exists.
    pub fn find(&self) -> Option<Arc<Stored>> {
        self.cache.store().get(&self.key)
    }

    /// The object in the cluster.
    ///
    /// # Errors
    /// It does not exist; what to check.
    pub fn object(&self) -> Result<Arc<Stored>, Failure> {
        self.find().ok_or_else(|| self.missing().into())
    }

    /// The message for an object that is not in the cluster.
    pub fn missing(&self) -> String {
        let hint = if self.kind().namespaced {
            ", or give its namespace with -n"
        } else {
            ""
        };
        format!("there is no {self}; check the name{hint}")
    }
}

impl<T> fmt::Display for ObjectRef<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind().kind, self.key)
    }
}

/// All kinds of a feature's verbs, in the order in which they are listed.
pub struct Kinds<T> {
    pub(super) all: Vec<ObjectKind<T>>,
    /// Kinds of the same API group without a plan. A file may contain them, too.
    pub(super) without_plan: &'static [&'static str],
    /// A name without a kind means an object of the first kind.
    has_default_kind: bool,
}

impl<T: Copy> Kinds<T> {
    /// These kinds, all of one API group. Objects of the kinds `without_plan` in a file are skipped.
    pub fn new(all: Vec<ObjectKind<T>>, without_plan: &'static [&'static str]) -> Self {
        Self {
            all,
            without_plan,
            has_default_kind: false,
        }
    }

    /// The same kinds, but a name without a kind means an object of the first kind.
    #[must_use]
    pub fn with_default_kind(self) -> Self {
        Self {
            has_default_kind: true,
            ..self
        }
    }

    /// The objects that the arguments of `plan` or `diff` select: one by name, those of a file, or
    /// all in `scope`.
    ///
    /// # Errors
    /// The name or the file is wrong; what to write instead.
    pub fn select(&self, scope: &Scope, args: &ArgMatches) -> Result<Vec<Selected<T>>, Failure> {
        let file = flags::value(args, flags::FILENAME);
        match (flags::value(args, flags::OBJECT), file) {
            (Some(name), _) => {
                let target = self.parse(name, &scope.namespace)?;
                let object = target.object()?;
                Ok(vec![(target, object)])
            }
            (None, Some(file)) => files::objects(self, file, &scope.namespace),
            (None, None) => Ok(self
                .all
                .iter()
                .flat_map(|kind| within(kind, scope))
                .collect()),
        }
    }

    /// The object of an argument: `kind/name` or `kind/namespace/name`. Without a namespace in the
    /// argument, `namespace` applies.
    ///
    /// # Errors
    /// The argument names no object; what to write instead.
    pub fn parse(&self, text: &str, namespace: &str) -> Result<ObjectRef<T>, Failure> {
        let parts: Vec<&str> = text.split('/').collect();
        let (kind, own, name) = match parts[..] {
            [name] if self.has_default_kind && !name.is_empty() => (&self.all[0], None, name),
            [kind, name] if !name.is_empty() => (self.kind(kind)?, None, name),
            [kind, own, name] if !own.is_empty() && !name.is_empty() => {
                (self.kind(kind)?, Some(own), name)
            }
            _ => {
                let example = self.all[0].short_name();
                return Err(format!(
                    "{text:?} names no object; write <kind>/<name>, such as {example}/app"
                )
                .into());
            }
        };
        let key = match (kind.kind().namespaced, own) {
            (true, own) => ObjectKey::namespaced(own.unwrap_or(namespace), name),
            (false, None) => ObjectKey::cluster(name),
            (false, Some(_)) => {
                let kind = &kind.kind().kind;
                return Err(format!("a {kind} is in no namespace; write {kind}/<name>").into());
            }
        };
        Ok(kind.target(key))
    }

    /// The kind of this name, plural or short name.
    pub(super) fn kind(&self, name: &str) -> Result<&ObjectKind<T>, Failure> {
        let found = self.all.iter().find(|kind| kind.has_name(name));
        found.ok_or_else(|| {
            let named = |kind: &ObjectKind<T>| match kind.short_names.first() {
                Some(short) => format!("{} ({short})", kind.kind().kind),
                None => kind.kind().kind.clone(),
            };
            let all: Vec<_> = self.all.iter().map(named).collect();
            let all = all.join(", ");
            format!("there is no kind {name:?} here; the kinds are: {all}").into()
        })
    }
}

/// The objects of a kind in `scope`, by namespace and name.
fn within<T: Copy>(kind: &ObjectKind<T>, scope: &Scope) -> Vec<Selected<T>> {
    let mut objects = kind.cache.store().all();
    objects.retain(|object| scope.includes(object.key()));
    objects.sort_by(|one, other| one.key().cmp(other.key()));
    let selected = |object: Arc<Stored>| (kind.target(object.key().clone()), object);
    objects.into_iter().map(selected).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use std::convert::Infallible;

    use http::{Request, Response};
    use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolume};
    use kube::client::Body;
    use rstest::rstest;

    use super::*;
    use crate::{Hub, Metrics, Tasks, WatchKey};

    /// The core group's ConfigMap and PersistentVolume, of which the cluster has none; Namespaces
    /// have no plan.
    pub(in crate::cli) fn kinds() -> Kinds<char> {
        let silent = tower::service_fn(|_: Request<Body>| {
            std::future::pending::<Result<Response<Body>, Infallible>>()
        });
        let client = kube::Client::new(silent, "a");
        let hub = Hub::new(client, Tasks::default(), Metrics::default());
        let maps = hub.cache(WatchKey::all(Kind::of::<ConfigMap>()));
        let volumes = hub.cache(WatchKey::all(Kind::of::<PersistentVolume>()));
        let all = vec![
            ObjectKind::of::<ConfigMap>('m', &maps, &["cm", "map"]),
            ObjectKind::of::<PersistentVolume>('v', &volumes, &["pv"]),
        ];
        Kinds::new(all, &["Namespace"])
    }

    #[rstest]
    #[case::short("cm/x", 'm', "team-a/x")]
    #[case::second_short_name("map/x", 'm', "team-a/x")]
    #[case::kind_and_namespace("ConfigMap/team-b/x", 'm', "team-b/x")]
    #[case::plural("configmaps/x", 'm', "team-a/x")]
    #[case::cluster_wide("pv/x", 'v', "x")]
    #[tokio::test]
    async fn objects_are_named_as_for_kubectl(
        #[case] text: &str,
        #[case] id: char,
        #[case] key: &str,
    ) {
        let target = kinds().parse(text, "team-a").unwrap();
        assert_eq!((target.id, &*target.key.to_string()), (id, key));
    }

    #[rstest]
    #[case::no_kind("x", "<kind>/<name>, such as cm/app")]
    #[case::no_name("cm/", "<kind>/<name>")]
    #[case::no_namespace("cm//x", "<kind>/<name>")]
    #[case::too_much("cm/a/b/c", "<kind>/<name>")]
    #[case::unknown("pod/x", "ConfigMap (cm), PersistentVolume (pv)")]
    #[case::in_no_namespace("pv/a/x", "PersistentVolume/<name>")]
    #[tokio::test]
    async fn a_wrong_name_is_refused_with_what_to_write(#[case] text: &str, #[case] hint: &str) {
        let error = kinds().parse(text, "team-a").err().unwrap().to_string();
        assert!(error.contains(hint), "{error}");
    }

    #[tokio::test]
    async fn a_name_without_a_kind_may_mean_the_first_kind() {
        let target = kinds().with_default_kind().parse("x", "team-a").unwrap();
        assert_eq!(target.argument(), "ConfigMap/team-a/x");
    }

    #[tokio::test]
    async fn a_missing_object_is_named_with_what_to_check() {
        let missing = |text: &str| {
            let target = kinds().parse(text, "team-a").unwrap();
            target.object().err().unwrap().to_string()
        };
        let map = "there is no ConfigMap team-a/x; check the name, or give its namespace with -n";
        assert_eq!(missing("cm/x"), map);
        let volume = "there is no PersistentVolume x; check the name";
        assert_eq!(missing("pv/x"), volume);
    }
}
