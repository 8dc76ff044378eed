//! TenantSource: a table with a row for each domain of each tenant.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schema::{ROLE_ARN, is_default, never_null, none_required, rule};
use super::{Interval, TenantTemplate};
use crate::stored::understood;

/// A table with a row for each domain of each tenant, from which DistributionTenants are made.
#[derive(CustomResource, Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cloudfront-tenant-operator.io",
    version = "v1alpha1",
    kind = "TenantSource",
    doc = "A table with a row for each domain of each tenant, from which DistributionTenants are made.",
    plural = "tenantsources",
    shortname = "ts",
    category = "cloudfront",
    namespaced,
    status = "TenantSourceStatus",
    printcolumn = r#"{"name":"Provider","type":"string","jsonPath":".spec.provider"}"#,
    printcolumn = r#"{"name":"Discovered","type":"integer","jsonPath":".status.tenantsDiscovered"}"#,
    printcolumn = r#"{"name":"DryRun","type":"boolean","jsonPath":".spec.dryRun"}"#,
    printcolumn = r#"{"name":"LastPoll","type":"date","jsonPath":".status.lastPollTime"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(
    transform = never_null,
    extend("x-kubernetes-validations" = [
        rule(
            "self.provider != 'postgres' || has(self.postgres)",
            "postgres is required when provider is postgres"
        ),
        rule(
            "self.provider != 'dynamodb' || has(self.dynamodb)",
            "dynamodb is required when provider is dynamodb"
        ),
        rule(
            "self.provider != 'configMap' || has(self.configMap)",
            "configMap is required when provider is configMap"
        ),
    ])
)]
pub struct TenantSourceSpec {
    /// Where the table is.
    pub provider: SourceProvider,
    /// How often it is read, such as 90s or 5m; at least 30s.
    #[serde(default)]
    pub poll_interval: Interval,
    /// The table in PostgreSQL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub postgres: Option<PostgresSource>,
    /// The table in DynamoDB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dynamodb: Option<DynamoDbSource>,
    /// The table in a ConfigMap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_map: Option<ConfigMapSource>,
    /// The distribution of tenants whose rows name none.
    #[schemars(length(min = 1))]
    pub distribution_id: String,
    /// The namespace the objects are made in; unset: the source's own. Another has to accept it by
    /// the annotation `cloudfront-tenant-operator.io/accept-sources`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_namespace: Option<String>,
    /// Whether the plan is only shown in the status.
    #[serde(default)]
    pub dry_run: bool,
    /// What every tenant has besides its row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<TenantTemplate>,
    /// What becomes of objects whose rows are gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prune: Option<Prune>,
    /// How many rows are read at most; if there are more, nothing is changed.
    #[serde(default = "many_rows")]
    #[schemars(range(min = 1))]
    pub max_rows: i64,
    /// Whether the table is left unread.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(extend("default" = false))]
    pub suspend: bool,
}

/// Where a table is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum SourceProvider {
    /// In PostgreSQL.
    Postgres,
    /// In DynamoDB.
    #[serde(rename = "dynamodb")]
    DynamoDb,
    /// In a ConfigMap, as CSV.
    ConfigMap,
}

/// A table in PostgreSQL.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PostgresSource {
    /// The Secret in this namespace whose key `connectionString` says where the database is; with
    /// a key `ca.crt`, the server has to show a certificate of that authority.
    pub connection_secret_ref: SecretName,
    /// The query that gives the rows. It runs in a read-only transaction.
    pub query: String,
}

/// A Secret in the source's namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SecretName {
    /// Its name.
    pub name: String,
}

/// A table in DynamoDB.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = never_null)]
pub struct DynamoDbSource {
    /// The table's name.
    pub table_name: String,
    /// Its region; unset: the operator's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// The attribute that names the tenant.
    #[serde(default = "name")]
    pub name_attribute: String,
    /// The attribute that holds the domain, or a list or set of them.
    #[serde(default = "domain")]
    pub domain_attribute: String,
    /// The IAM role that may read it, where it belongs to another account.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = ROLE_ARN))]
    pub assume_role_arn: Option<String>,
}

/// A table in a ConfigMap, as CSV with a header line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConfigMapSource {
    /// The ConfigMap in this namespace.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The key in it.
    #[serde(default = "csv_key")]
    #[schemars(length(min = 1, max = 253))]
    pub key: String,
}

/// What becomes of objects whose rows are gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Prune {
    /// Whether they are deleted.
    pub enabled: bool,
    /// How many of the source's objects may go at once, in percent; more need approval by the
    /// annotation `cloudfront-tenant-operator.io/approve-prune`.
    #[schemars(range(min = 0, max = 100))]
    pub max_delete_percent: i64,
    /// How many readings in a row have to miss a row.
    #[schemars(range(min = 1, max = 100))]
    pub confirm_polls: i64,
}

impl Default for Prune {
    fn default() -> Self {
        Self {
            enabled: false,
            max_delete_percent: 10,
            confirm_polls: 2,
        }
    }
}

/// What is known of a table.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = never_null)]
pub struct TenantSourceStatus {
    /// When it was last read; written when something came of it, else hourly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_poll_time: Option<Time>,
    /// How many tenants it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenants_discovered: Option<i64>,
    /// How many objects were made from it so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenants_created: Option<i64>,
    /// How many changes were made to them so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenants_updated: Option<i64>,
    /// How many of them were deleted so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenants_pruned: Option<i64>,
    /// What is still to be done, at most 100 entries.
    #[serde(
        default,
        deserialize_with = "understood",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub pending_changes: Vec<PendingChange>,
    /// Names the set of objects that wait for approval to be deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan_hash: Option<String>,
    /// What is wrong with rows, at most 20 lines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub row_errors: Vec<String>,
    /// Standard conditions.
    #[serde(
        default,
        deserialize_with = "understood",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub conditions: Vec<Condition>,
}

/// One thing that is still to be done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = never_null, transform = none_required)]
pub struct PendingChange {
    /// What.
    pub action: ChangeAction,
    /// To which object.
    pub tenant_name: String,
    /// In words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// What is still to be done to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ChangeAction {
    /// It is to be made.
    Create,
    /// It is to be changed.
    Update,
    /// It is to be deleted.
    Delete,
    /// Nothing: an object of that name is not the source's.
    Conflict,
}

fn name() -> String {
    "name".into()
}

fn domain() -> String {
    "domain".into()
}

fn csv_key() -> String {
    "tenants.csv".into()
}

fn many_rows() -> i64 {
    20_000
}
