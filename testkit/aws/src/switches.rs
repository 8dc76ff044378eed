//! Switches: settings of a service's behaviour for tests.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::span::span;

/// The switches of every service beside its own: `rate`, the calls per second of one account above
/// which it throttles.
pub const EVERYWHERE: &[Switch] = &[Switch {
    name: "rate",
    accepts: Accepts::Rate(0.0),
}];

/// A switch of a service.
#[derive(Debug, Clone, Copy)]
pub struct Switch {
    /// Its name in control requests.
    pub name: &'static str,
    /// Its possible settings, and the default.
    pub accepts: Accepts,
}

/// The settings of a switch.
#[derive(Debug, Clone, Copy)]
pub enum Accepts {
    /// One of these texts; the first is the default.
    OneOf(&'static [&'static str]),
    /// A span of time on the emulator's clock.
    Span(Duration),
    /// A whole number.
    Count(u64),
    /// On or off.
    Flag(bool),
    /// A number of times per second; 0 is no limit.
    Rate(f64),
}

#[derive(Debug, Clone, PartialEq)]
enum Setting {
    Choice(&'static str),
    Span(Duration),
    Count(u64),
    Flag(bool),
    Rate(f64),
}

/// The switches of one service and their settings.
#[derive(Debug, Clone)]
pub struct Switches {
    offered: Vec<Switch>,
    set: BTreeMap<&'static str, Setting>,
}

impl Switches {
    /// All `offered` switches and those [`EVERYWHERE`], with their defaults.
    pub fn new(offered: &'static [Switch]) -> Self {
        let offered: Vec<_> = offered.iter().chain(EVERYWHERE).copied().collect();
        let set = offered
            .iter()
            .map(|switch| (switch.name, switch.accepts.first()))
            .collect();
        Self { offered, set }
    }

    /// Sets those named in `wanted`; if one is invalid, none is set and the error says what is valid.
    pub fn set(&mut self, service: &str, wanted: &Map<String, Value>) -> Result<(), String> {
        let mut set = self.set.clone();
        for (name, value) in wanted {
            let Some(switch) = self.offered.iter().find(|switch| switch.name == name) else {
                let names: Vec<_> = self.offered.iter().map(|switch| switch.name).collect();
                let names = names.join(", ");
                return Err(format!("{service} has no switch {name:?}; it has: {names}"));
            };
            let setting = switch
                .accepts
                .read(value)
                .map_err(|wrong| format!("{service} switch {name:?}: {wrong}"))?;
            set.insert(switch.name, setting);
        }
        self.set = set;
        Ok(())
    }

    /// All settings.
    pub fn shown(&self) -> Value {
        let shown = self
            .set
            .iter()
            .map(|(name, setting)| ((*name).to_owned(), setting.shown()));
        Value::Object(shown.collect())
    }

    /// The setting of a [`Accepts::Span`] switch.
    pub fn span(&self, name: &str) -> Duration {
        match self.set.get(name) {
            Some(Setting::Span(span)) => *span,
            other => panic!(
                "switch {name:?} is no span but {other:?}; the service declares it otherwise"
            ),
        }
    }

    /// The setting of a [`Accepts::OneOf`] switch.
    pub fn choice(&self, name: &str) -> &'static str {
        match self.set.get(name) {
            Some(Setting::Choice(choice)) => choice,
            other => panic!(
                "switch {name:?} is no choice but {other:?}; the service declares it otherwise"
            ),
        }
    }

    /// The setting of a [`Accepts::Count`] switch.
    pub fn count(&self, name: &str) -> u64 {
        match self.set.get(name) {
            Some(Setting::Count(count)) => *count,
            other => panic!(
                "switch {name:?} is no count but {other:?}; the service declares it otherwise"
            ),
        }
    }

    /// The setting of a [`Accepts::Rate`] switch.
    pub fn rate(&self, name: &str) -> f64 {
        match self.set.get(name) {
            Some(Setting::Rate(rate)) => *rate,
            other => panic!(
                "switch {name:?} is no rate but {other:?}; the service declares it otherwise"
            ),
        }
    }

    /// The setting of a [`Accepts::Flag`] switch.
    pub fn flag(&self, name: &str) -> bool {
        match self.set.get(name) {
            Some(Setting::Flag(flag)) => *flag,
            other => panic!(
                "switch {name:?} is no flag but {other:?}; the service declares it otherwise"
            ),
        }
    }
}

impl Accepts {
    fn first(self) -> Setting {
        match self {
            Self::OneOf(words) => Setting::Choice(words.first().copied().unwrap_or_default()),
            Self::Span(span) => Setting::Span(span),
            Self::Count(count) => Setting::Count(count),
            Self::Flag(flag) => Setting::Flag(flag),
            Self::Rate(rate) => Setting::Rate(rate),
        }
    }

    fn read(self, value: &Value) -> Result<Setting, String> {
        match self {
            Self::OneOf(words) => {
                let choice = words.iter().find(|choice| value.as_str() == Some(choice));
                choice
                    .map(|choice| Setting::Choice(choice))
                    .ok_or_else(|| format!("{value} is none of {}", words.join(", ")))
            }
            Self::Span(_) => span(value).map(Setting::Span),
            Self::Count(_) => value
                .as_u64()
                .map(Setting::Count)
                .ok_or_else(|| format!("{value} is no whole number")),
            Self::Flag(_) => value
                .as_bool()
                .map(Setting::Flag)
                .ok_or_else(|| format!("{value} is neither true nor false")),
            Self::Rate(_) => value
                .as_f64()
                .filter(|rate| *rate >= 0.0)
                .map(Setting::Rate)
                .ok_or_else(|| format!("{value} is no number of times a second")),
        }
    }
}

impl Setting {
    fn shown(&self) -> Value {
        match self {
            Self::Choice(choice) => json!(choice),
            Self::Span(span) => json!(span.as_secs_f64()),
            Self::Count(count) => json!(count),
            Self::Flag(flag) => json!(flag),
            Self::Rate(rate) => json!(rate),
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const OFFERED: &[Switch] = &[
        Switch {
            name: "update",
            accepts: Accepts::OneOf(&["replace", "merge"]),
        },
        Switch {
            name: "deployDelay",
            accepts: Accepts::Span(Duration::ZERO),
        },
        Switch {
            name: "pageSize",
            accepts: Accepts::Count(100),
        },
        Switch {
            name: "tagsEchoed",
            accepts: Accepts::Flag(true),
        },
    ];

    fn wanted(value: &Value) -> Map<String, Value> {
        value.as_object().expect("an object").clone()
    }

    #[test]
    fn a_switch_has_its_default_until_it_is_set() {
        let mut switches = Switches::new(OFFERED);
        assert_eq!(
            (
                switches.choice("update"),
                switches.count("pageSize"),
                switches.flag("tagsEchoed")
            ),
            ("replace", 100, true)
        );
        switches.set("cdn", &wanted(&json!({ "update": "merge", "deployDelay": "2m", "pageSize": 2, "tagsEchoed": false }))).unwrap();
        assert_eq!(
            (
                switches.choice("update"),
                switches.count("pageSize"),
                switches.flag("tagsEchoed")
            ),
            ("merge", 2, false)
        );
        assert_eq!(switches.span("deployDelay"), Duration::from_mins(2));
    }

    #[rstest]
    #[case::unknown_name(json!({ "updates": "merge" }), "update, deployDelay, pageSize, tagsEchoed, rate")]
    #[case::negative_rate(json!({ "rate": -1 }), "times a second")]
    #[case::unknown_choice(json!({ "update": "mix" }), "replace, merge")]
    #[case::wrong_kind(json!({ "pageSize": "many" }), "no whole number")]
    fn an_invalid_setting_is_refused_with_the_valid_ones(
        #[case] wrong: Value,
        #[case] expected: &str,
    ) {
        let error = Switches::new(OFFERED)
            .set("cdn", &wanted(&wrong))
            .unwrap_err();
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn every_service_has_a_rate_without_a_limit_at_first() {
        let mut switches = Switches::new(&[]);
        assert!(switches.rate("rate").abs() < f64::EPSILON);
        switches
            .set("cdn", &wanted(&json!({ "rate": 0.5 })))
            .unwrap();
        assert!((switches.rate("rate") - 0.5).abs() < f64::EPSILON);
    }

    #[test]
    fn one_invalid_setting_leaves_all_others_unchanged() {
        let mut switches = Switches::new(OFFERED);
        switches
            .set("cdn", &wanted(&json!({ "pageSize": 2, "update": "mix" })))
            .unwrap_err();
        assert_eq!(switches.count("pageSize"), 100);
    }
}
