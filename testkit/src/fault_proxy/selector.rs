//! Which requests a rule applies to.

use http::{Method, Request, header};
use regex_lite::Regex;

/// The part of a request that rules compare.
#[derive(Debug, Clone)]
pub(super) struct Head {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) query: String,
    pub(super) agent: String,
}

impl Head {
    pub(super) fn of<B>(request: &Request<B>) -> Self {
        let agent = request.headers().get(header::USER_AGENT);
        let agent = agent.and_then(|agent| agent.to_str().ok());
        Self {
            method: request.method().clone(),
            path: request.uri().path().to_owned(),
            query: request.uri().query().unwrap_or_default().to_owned(),
            agent: agent.unwrap_or_default().to_owned(),
        }
    }

    /// Whether it asks for changes until the connection ends.
    pub(super) fn is_watch(&self) -> bool {
        let mut parts = self.query.split('&');
        parts.any(|part| ["watch=true", "watch=1", "watch"].contains(&part))
    }
}

/// A method, a pattern of the path and a part of the user agent; each may be any.
#[derive(Debug, Clone)]
pub(super) struct Selector {
    pub(super) method: Option<Method>,
    pub(super) pattern: Pattern,
    pub(super) agent: Option<String>,
}

/// How a path is compared.
#[derive(Debug, Clone)]
pub(super) enum Pattern {
    /// `*` is any run of characters; the query counts only if the pattern has `?`.
    Glob(String),
    /// Found anywhere in the path with its query.
    Regex(Regex),
}

impl Selector {
    pub(super) fn fits(&self, head: &Head) -> bool {
        let is_method = self.method.as_ref().is_none_or(|own| *own == head.method);
        let agent = self.agent.as_ref();
        is_method
            && agent.is_none_or(|part| head.agent.contains(part))
            && self.pattern.fits(&head.path, &head.query)
    }
}

impl Pattern {
    fn fits(&self, path: &str, query: &str) -> bool {
        match self {
            Self::Glob(glob) if glob.contains('?') => fits_glob(glob, &format!("{path}?{query}")),
            Self::Glob(glob) => fits_glob(glob, path),
            Self::Regex(regex) if query.is_empty() => regex.is_match(path),
            Self::Regex(regex) => regex.is_match(&format!("{path}?{query}")),
        }
    }

    pub(super) fn as_str(&self) -> &str {
        match self {
            Self::Glob(glob) => glob,
            Self::Regex(regex) => regex.as_str(),
        }
    }
}

fn fits_glob(pattern: &str, text: &str) -> bool {
    let Some((head, tail)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(rest) = text.strip_prefix(head) else {
        return false;
    };
    rest.char_indices()
        .map(|(at, _)| at)
        .chain([rest.len()])
        .any(|at| fits_glob(tail, &rest[at..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(method: Method, path: &str, query: &str) -> Head {
        Head {
            method,
            path: path.to_owned(),
            query: query.to_owned(),
            agent: "pontoon/1.0 (bind) a-2".to_owned(),
        }
    }

    fn glob(method: Option<Method>, pattern: &str) -> Selector {
        Selector {
            method,
            pattern: Pattern::Glob(pattern.to_owned()),
            agent: None,
        }
    }

    #[test]
    fn a_pattern_with_a_question_mark_includes_the_query() {
        let watch = glob(None, "/api/*?*watch=true*");
        let pods = |query| head(Method::GET, "/api/v1/pods", query);
        assert!(watch.fits(&pods("limit=1&watch=true")));
        assert!(!watch.fits(&pods("limit=1")));
        assert!(glob(None, "/api/*").fits(&pods("limit=1")));
    }

    #[test]
    fn without_a_star_the_whole_path_must_be_equal() {
        let put = glob(Some(Method::PUT), "/a");
        assert!(put.fits(&head(Method::PUT, "/a", "")));
        assert!(!put.fits(&head(Method::PUT, "/a/b", "")));
        assert!(!put.fits(&head(Method::GET, "/a", "")));
    }

    #[test]
    fn a_regular_expression_is_found_in_path_and_query() {
        let selector = |regex| Selector {
            method: None,
            pattern: Pattern::Regex(Regex::new(regex).expect("it is one")),
            agent: None,
        };
        let pods = head(Method::GET, "/api/v1/pods", "limit=1");
        assert!(selector("pods").fits(&pods));
        assert!(selector(r"/pods\?limit=\d$").fits(&pods));
        assert!(!selector("^/pods").fits(&pods));
        assert!(selector("/pods$").fits(&head(Method::GET, "/api/v1/pods", "")));
    }

    #[test]
    fn a_part_of_the_user_agent_selects_a_client() {
        let by = |agent: &str| Selector {
            agent: Some(agent.to_owned()),
            ..glob(None, "*")
        };
        let request = head(Method::GET, "/a", "");
        assert!(by("a-2").fits(&request));
        assert!(!by("a-3").fits(&request));
    }

    #[test]
    fn a_watch_is_recognised_by_its_query() {
        let is_watch = |query| head(Method::GET, "/api/v1/pods", query).is_watch();
        assert!(is_watch("limit=1&watch=true") && is_watch("watch=1"));
        assert!(!is_watch("limit=1") && !is_watch("watch=false") && !is_watch(""));
    }
}
