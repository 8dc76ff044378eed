//! Reads a table, wherever it is.

use api::tenants::{
    ConfigMapSource, DynamoDbSource, PostgresSource, SourceProvider, TenantSourceSpec, names,
};
use engine::ApiError;
use kernel::Redacted;

use super::by_name::{SecretKeys, config_text};
use super::rows::Row;
use super::{csv, dynamodb, postgres};
use crate::ctx::Ctx;

/// Why a table could not be read. Nothing follows from a part of it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unread {
    /// Somebody has to do something; the text says what.
    #[error("{0}")]
    Table(String),
    /// AWS did not give it.
    #[error("{0}")]
    Aws(#[from] aws::Error),
    /// The API server did not give what is needed to read it.
    #[error("{0}")]
    Api(#[from] ApiError),
}

/// Where a table is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reader<'a> {
    Postgres(&'a PostgresSource),
    DynamoDb(&'a DynamoDbSource),
    ConfigMap(&'a ConfigMapSource),
}

impl<'a> Reader<'a> {
    /// As the spec says.
    pub(crate) fn of(spec: &'a TenantSourceSpec) -> Result<Self, Unread> {
        let (reader, block) = match spec.provider {
            SourceProvider::Postgres => (spec.postgres.as_ref().map(Self::Postgres), "postgres"),
            SourceProvider::DynamoDb => (spec.dynamodb.as_ref().map(Self::DynamoDb), "dynamodb"),
            SourceProvider::ConfigMap => {
                (spec.config_map.as_ref().map(Self::ConfigMap), "configMap")
            }
        };
        // The CRD asks for it; an older object may lack it.
        reader.ok_or_else(|| {
            Unread::Table(format!("spec.{block} is missing; say where the table is"))
        })
    }

    /// All rows, if they are at most `max`. `namespace` is the source's, and `external_id` what the
    /// policy has for its role.
    pub(crate) async fn rows(
        self,
        ctx: &Ctx,
        namespace: &str,
        external_id: Option<&str>,
        max: usize,
    ) -> Result<Vec<Row>, Unread> {
        match self {
            // In boxes: what drivers keep while they wait is large.
            Self::Postgres(source) => Box::pin(of_postgres(source, ctx, namespace, max)).await,
            Self::DynamoDb(source) => {
                Box::pin(dynamodb::rows(source, ctx, namespace, external_id, max)).await
            }
            Self::ConfigMap(ConfigMapSource { name, key }) => {
                let text = config_text(&ctx.deck.client, namespace, name, key).await?;
                csv::rows(&text, max).map_err(|why| {
                    Unread::Table(format!("ConfigMap {namespace}/{name}, key {key}: {why}"))
                })
            }
        }
    }
}

async fn of_postgres(
    source: &PostgresSource,
    ctx: &Ctx,
    namespace: &str,
    max: usize,
) -> Result<Vec<Row>, Unread> {
    let name = &source.connection_secret_ref.name;
    let secret = SecretKeys::read(&ctx.deck.client, namespace, name).await?;
    let of_secret = |why: String| Unread::Table(format!("Secret {namespace}/{name}: {why}"));
    let connection = secret
        .text(names::CONNECTION_STRING_KEY)
        .map_err(of_secret)?;
    let connection = connection.ok_or_else(|| {
        let key = names::CONNECTION_STRING_KEY;
        of_secret(format!(
            "it has no key {key}; store the connection string there"
        ))
    })?;
    let connection = Redacted::new(connection.to_owned());
    let authority = secret.text(names::CA_KEY).map_err(of_secret)?;
    postgres::read(&connection, authority, &source.query, max)
        .await
        .map_err(|why| Unread::Table(format!("the database of Secret {namespace}/{name}: {why}")))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn spec(more: Value) -> TenantSourceSpec {
        let mut spec = json!({"distributionId": "E1"});
        for (field, value) in more.as_object().unwrap() {
            spec[field] = value.clone();
        }
        serde_json::from_value(spec).unwrap()
    }

    #[test]
    fn the_provider_chooses_the_block() {
        let map = json!({"name": "t"});
        let table = json!({"tableName": "t"});
        let both = spec(json!({"provider": "configMap", "configMap": map, "dynamodb": table}));
        assert!(matches!(Reader::of(&both), Ok(Reader::ConfigMap(_))));
        let other = TenantSourceSpec {
            provider: SourceProvider::DynamoDb,
            ..both
        };
        assert!(matches!(Reader::of(&other), Ok(Reader::DynamoDb(_))));
        let none = TenantSourceSpec {
            provider: SourceProvider::Postgres,
            ..other
        };
        let why = Reader::of(&none).unwrap_err().to_string();
        assert_eq!(why, "spec.postgres is missing; say where the table is");
    }
}
