//! The body of a request in the query protocol, and in EC2's variant of it.

use super::escaped_except;

/// An operation and its parameters, in the order in which they were added.
#[derive(Clone, PartialEq, Eq)]
pub struct Form {
    fields: Vec<(String, String)>,
}

impl Form {
    /// A call of this operation in this version of the service's API.
    pub fn new(operation: &str, version: &str) -> Self {
        let form = Self { fields: Vec::new() };
        form.text("Action", operation).text("Version", version)
    }

    /// A parameter; also one in a structure (`Outer.Inner`).
    #[must_use]
    pub fn text(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.fields.push((name.into(), value.into()));
        self
    }

    /// A list whose entries have this name: `member` in most services, one of its own in some
    /// (`Tag` in RDS). An empty list is sent as an empty text.
    #[must_use]
    pub fn list<V: Into<String>>(
        self,
        name: &str,
        entry: &str,
        values: impl IntoIterator<Item = V>,
    ) -> Self {
        let fields = values.into_iter().zip(1..);
        let fields = fields.map(|(value, n)| (format!("{name}.{entry}.{n}"), value.into()));
        self.filled(name, fields.collect())
    }

    /// A list whose entries have no name, as all lists in EC2: `InstanceId.1`. An empty list is not
    /// sent.
    #[must_use]
    pub fn flat_list<V: Into<String>>(
        mut self,
        name: &str,
        values: impl IntoIterator<Item = V>,
    ) -> Self {
        let fields = values.into_iter().zip(1..);
        let fields = fields.map(|(value, n)| (format!("{name}.{n}"), value.into()));
        self.fields.extend(fields);
        self
    }

    /// A list of structures, each made of names and values: `Tags.member.1.Key`. The entries of
    /// `name` are what stands before the number: `Tags.member`, or `Filter` in EC2.
    #[must_use]
    pub fn structures<'a>(
        mut self,
        name: &str,
        values: impl IntoIterator<Item = Vec<(&'a str, String)>>,
    ) -> Self {
        for (n, fields) in (1..).zip(values) {
            let fields = fields.into_iter();
            let named = fields.map(|(field, value)| (format!("{name}.{n}.{field}"), value));
            self.fields.extend(named);
        }
        self
    }

    /// A map: `Attributes.entry.1.key`. An empty one is sent as an empty text.
    #[must_use]
    pub fn map<'a>(self, name: &str, values: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut fields = Vec::new();
        for (n, (key, value)) in (1..).zip(values) {
            fields.push((format!("{name}.entry.{n}.key"), key.to_owned()));
            fields.push((format!("{name}.entry.{n}.value"), value.to_owned()));
        }
        self.filled(name, fields)
    }

    fn filled(mut self, name: &str, fields: Vec<(String, String)>) -> Self {
        if fields.is_empty() {
            return self.text(name, "");
        }
        self.fields.extend(fields);
        self
    }

    /// As the body of a request: a space is `+`.
    pub(super) fn encoded(&self) -> String {
        let coded = |text: &str| escaped_except(text, " ").replace(' ', "+");
        let pairs = self.fields.iter();
        let pairs = pairs.map(|(name, value)| format!("{}={}", coded(name), coded(value)));
        pairs.collect::<Vec<_>>().join("&")
    }
}
