//! Where tables are, with the same rows in each.

use api::tenants::names;
use serde_json::{Value, json};
use testkit::{Postgres, Result};

use super::writes;
use crate::stories::Site;

/// Three rows, two of them of one tenant.
pub(crate) const ROWS: [&str; 3] = [
    "acme,a.example.com",
    "acme,b.example.com",
    "shop,c.example.com",
];

/// Where a story's table is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    ConfigMap,
    DynamoDb,
    Postgres,
}

/// A table, and the database it is in if it needs one.
pub(crate) struct Table {
    place: Place,
    database: Option<Postgres>,
}

/// Gives a namespace the Secret of a database.
pub(crate) async fn keeps_address(site: &Site, database: &Postgres, address: String) -> Result<()> {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "database"},
        "stringData": {
            names::CONNECTION_STRING_KEY: address, names::CA_KEY: database.authority(),
        },
    });
    site.apply(&format!("---\n{secret}\n")).await.map(drop)
}

impl Table {
    pub(crate) async fn at(place: Place) -> Result<Self> {
        let database = match place {
            Place::Postgres => Some(Postgres::start().await?),
            Place::ConfigMap | Place::DynamoDb => None,
        };
        Ok(Self { place, database })
    }

    fn database(&self) -> &Postgres {
        self.database.as_ref().expect("one was started")
    }

    /// Puts the rows there; the spec of a source that reads them.
    pub(crate) async fn furnish(&self, site: &Site) -> Result<Value> {
        match self.place {
            Place::ConfigMap => {
                writes(site, "name,domain", &ROWS).await?;
                Ok(json!({}))
            }
            Place::DynamoDb => {
                // Three pages, a domain of each kind.
                site.switch("dynamodb", json!({"pageSize": 1}))?;
                let rows = json!([
                    {"id": 1, "site": "acme", "host": {"SS": ["a.example.com", "b.example.com"]}},
                    {"id": 2, "site": "shop", "host": "c.example.com"},
                    {"id": 3, "site": "shop", "host": ["c.example.com"]},
                ]);
                let table = json!({"name": "sites", "key": ["id"], "rows": rows});
                site.console("dynamodb", json!({"table": table}))?;
                Ok(json!({"provider": "dynamodb", "dynamodb": {
                    "tableName": "sites", "region": "us-east-1",
                    "nameAttribute": "site", "domainAttribute": "host",
                }}))
            }
            Place::Postgres => {
                let rows: Vec<_> = ROWS
                    .iter()
                    .map(|row| format!("('{}')", row.replace(',', "', '")))
                    .collect();
                let rows = rows.join(", ");
                let statements = format!(
                    "CREATE TABLE sites (name text, domain text); INSERT INTO sites VALUES {rows};"
                );
                let database = self.database();
                database.run(&statements).await?;
                keeps_address(site, database, database.connection_string()).await?;
                Ok(json!({"provider": "postgres", "postgres": {
                    "connectionSecretRef": {"name": "database"},
                    "query": "SELECT name, domain FROM sites",
                }}))
            }
        }
    }

    /// Gives `shop` another domain.
    pub(crate) async fn moves_shop(&self, site: &Site) -> Result<()> {
        match self.place {
            Place::ConfigMap => {
                let rows = [ROWS[0], ROWS[1], "shop,d.example.com"];
                writes(site, "name,domain", &rows).await
            }
            Place::DynamoDb => {
                let put = json!([
                    {"id": 2, "site": "shop", "host": "d.example.com"},
                    {"id": 3, "site": "shop", "host": ["d.example.com"]},
                ]);
                let rows = json!({"table": "sites", "put": put});
                site.console("dynamodb", json!({"rows": rows})).map(drop)
            }
            Place::Postgres => {
                let edit = "UPDATE sites SET domain = 'd.example.com' WHERE name = 'shop'";
                self.database().run(edit).await
            }
        }
    }
}
