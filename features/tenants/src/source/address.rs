//! Where a database is, by its connection string: what PostgreSQL's own programs take, with TLS
//! unless it is switched off.

use std::time::Duration;

use kernel::{Redacted, tcp};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

/// The longest wait for one host.
const CONNECT: Duration = Duration::from_secs(10);
const SSLMODE: &str = "sslmode";
const SCHEMES: [&str; 2] = ["postgres://", "postgresql://"];
/// What we call ourselves if the string does not.
const PROGRAM: &str = "pontoon";

/// Options of PostgreSQL's own programs that have no meaning here, and what to do instead. Only
/// these are ever named: in a broken string anything else may be a part of the password.
const FOREIGN: [(&str, &str); 10] = [
    (
        "sslrootcert",
        "store the authority's certificate in the Secret under ca.crt instead",
    ),
    (
        "sslcert",
        "log in with a password; certificates of clients are not supported",
    ),
    (
        "sslkey",
        "log in with a password; certificates of clients are not supported",
    ),
    (
        "sslpassword",
        "log in with a password; certificates of clients are not supported",
    ),
    ("sslcrl", "it names a file, and there is none here"),
    ("passfile", "write the password into the string"),
    ("service", "write host, user and database into the string"),
    ("gssencmode", "use TLS; GSSAPI is not supported"),
    (
        "krbsrvname",
        "log in with a password; Kerberos is not supported",
    ),
    ("requiressl", "write sslmode instead"),
];

/// Where a database is and who we are there.
pub(super) struct Address {
    pub(super) config: Config,
    /// Whether the server has to show a certificate. Only `sslmode=disable` does without.
    pub(super) tls: bool,
    /// What no message may show.
    pub(super) secrets: Redacted<Vec<String>>,
}

impl Address {
    /// Reads a connection string, as a URL or as `key=value` pairs.
    ///
    /// # Errors
    /// What is wrong and what to do, without a word of the string.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let Some(mut parts) = Parts::of(text) else {
            return Err(nonsense());
        };
        let named = |key: &str| parts.options.iter().any(|one| one.key == key);
        if let Some((key, instead)) = FOREIGN.iter().find(|(key, _)| named(key)) {
            return Err(format!("the option {key} cannot be used here; {instead}"));
        }
        let mut modes = parts.options.iter().filter(|one| one.key == SSLMODE);
        let tls = modes.all(|one| one.value != "disable");
        parts.options.retain(|one| one.key != SSLMODE);

        let mut config: Config = parts.joined().parse().map_err(|_| nonsense())?;
        check(&config)?;
        config.ssl_mode(if tls {
            SslMode::Require
        } else {
            SslMode::Disable
        });
        let patience = config.get_connect_timeout().copied().unwrap_or(CONNECT);
        config.connect_timeout(patience.min(CONNECT));
        notice_dead_servers(&mut config);
        if config.get_application_name().is_none() {
            config.application_name(PROGRAM);
        }
        let password = config.get_password().map(String::from_utf8_lossy);
        let mut secrets = vec![text.to_owned()];
        secrets.extend(password.map(String::from));
        Ok(Self {
            config,
            tls,
            secrets: Redacted::new(secrets),
        })
    }
}

/// Sets keep-alive and user time-out as all our clients have them. A string may ask for less time,
/// never for more.
fn notice_dead_servers(config: &mut Config) {
    let idle = config.get_keepalives_idle().min(tcp::KEEPALIVE);
    let interval = config.get_keepalives_interval();
    let interval = interval.map_or(tcp::KEEPALIVE_INTERVAL, |given| {
        given.min(tcp::KEEPALIVE_INTERVAL)
    });
    let retries = config.get_keepalives_retries();
    let retries = retries.map_or(tcp::KEEPALIVE_RETRIES, |given| {
        given.min(tcp::KEEPALIVE_RETRIES)
    });
    let longest = tcp::user_timeout(&[]); // we only read, so there is no guard
    let unacknowledged = config.get_tcp_user_timeout();
    let unacknowledged = unacknowledged.map_or(longest, |given| longest.min(*given));
    config
        .keepalives(true)
        .keepalives_idle(idle)
        .keepalives_interval(interval)
        .keepalives_retries(retries)
        .tcp_user_timeout(unacknowledged);
}

fn nonsense() -> String {
    "it is no connection string; write postgres://user:password@host:5432/database (special \
     characters percent-encoded), or host=... user=... password=... dbname=... with options that \
     PostgreSQL knows"
        .to_owned()
}

fn check(config: &Config) -> Result<(), String> {
    let hosts = config.get_hosts();
    if hosts.is_empty() {
        return Err("it names no host; write the server's name".to_owned());
    }
    // A socket would be one inside the operator's own container.
    if hosts.iter().any(|host| matches!(host, Host::Unix(_))) {
        return Err("its host is a file; write the server's name".to_owned());
    }
    match config.get_user() {
        Some(_) => Ok(()),
        None => Err("it names no user; write whom to log in as".to_owned()),
    }
}

/// A connection string taken apart, as far as options go.
struct Parts<'a> {
    /// A URL up to its options; empty if it is none.
    head: &'a str,
    options: Vec<Given<'a>>,
}

struct Given<'a> {
    key: &'a str,
    value: String,
    /// Both, as they were written.
    whole: &'a str,
}

impl<'a> Parts<'a> {
    fn of(text: &'a str) -> Option<Self> {
        if SCHEMES.iter().any(|scheme| text.starts_with(scheme)) {
            return Some(Self::of_url(text));
        }
        let options = pairs(text)?;
        Some(Self { head: "", options })
    }

    /// A password may hold a `?`, so options are looked for behind the `@`.
    fn of_url(text: &'a str) -> Self {
        let behind = text.find('@').unwrap_or_default();
        let begin = text[behind..].find('?').map(|at| behind + at);
        let (head, options) = match begin {
            Some(at) => (&text[..at], &text[at + 1..]),
            None => (text, ""),
        };
        let options = options.split('&').filter(|one| !one.is_empty());
        let given = |whole: &'a str| {
            let (key, value) = whole.split_once('=').unwrap_or((whole, ""));
            let value = value.to_owned();
            Given { key, value, whole }
        };
        Self {
            head,
            options: options.map(given).collect(),
        }
    }

    fn joined(&self) -> String {
        let options: Vec<&str> = self.options.iter().map(|one| one.whole).collect();
        match (self.head, options.is_empty()) {
            ("", _) => options.join(" "),
            (head, true) => head.to_owned(),
            (head, false) => format!("{head}?{}", options.join("&")),
        }
    }
}

/// `key = value` pairs by blanks; a value may be in single quotes, and a backslash takes the
/// character behind it as it is.
fn pairs(text: &str) -> Option<Vec<Given<'_>>> {
    let mut found = Vec::new();
    let mut left = text.trim_start();
    while !left.is_empty() {
        let whole = left;
        let (key, rest) = whole.split_once('=')?;
        let key = key.trim_end();
        if key.is_empty() || key.contains(char::is_whitespace) {
            return None;
        }
        let (value, rest) = value(rest.trim_start())?;
        let length = whole.len() - rest.len();
        found.push(Given {
            key,
            value,
            whole: &whole[..length],
        });
        left = rest.trim_start();
    }
    Some(found)
}

/// The value that `text` begins with, and what follows it.
fn value(text: &str) -> Option<(String, &str)> {
    let quoted = text.starts_with('\'');
    let mut value = String::new();
    let mut all = text.char_indices().skip(usize::from(quoted));
    while let Some((at, next)) = all.next() {
        match next {
            '\\' => value.extend(all.next().map(|(_, taken)| taken)),
            '\'' if quoted => return Some((value, &text[at + 1..])),
            blank if !quoted && blank.is_whitespace() => return Some((value, &text[at..])),
            other => value.push(other),
        }
    }
    (!quoted).then_some((value, ""))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    fn parsed(text: &str) -> Address {
        Address::parse(text).unwrap_or_else(|why| panic!("{text}: {why}"))
    }

    #[rstest]
    #[case::unsaid("postgres://u:p@db/x", true)]
    #[case::disable("postgres://u:p@db/x?sslmode=disable", false)]
    #[case::prefer("postgres://u:p@db/x?sslmode=prefer", true)]
    #[case::require("postgresql://u:p@db/x?sslmode=require&application_name=a", true)]
    #[case::verify_full("postgres://u:p@db/x?application_name=a&sslmode=verify-full", true)]
    #[case::verify_ca("host=db user=u password=p sslmode=verify-ca", true)]
    #[case::pairs_disable("host=db user=u sslmode = 'disable' password=p", false)]
    #[case::pairs_unsaid("host=db user=u password=p", true)]
    #[case::twice_is_safe("postgres://u:p@db/x?sslmode=require&sslmode=verify-full", true)]
    fn only_disable_does_without_tls(#[case] text: &str, #[case] tls: bool) {
        let address = parsed(text);
        assert_eq!(address.tls, tls);
        let mode = if tls {
            SslMode::Require
        } else {
            SslMode::Disable
        };
        assert_eq!(address.config.get_ssl_mode(), mode);
        assert_eq!(address.config.get_hosts(), [Host::Tcp("db".into())]);
        assert_eq!(address.config.get_user(), Some("u"));
        assert_eq!(address.config.get_password(), Some(&b"p"[..]));
    }

    #[test]
    fn a_password_may_hold_anything() {
        let address = parsed("postgres://u:a?sslmode=disable@db/x");
        assert!(address.tls);
        assert_eq!(
            address.config.get_password(),
            Some(&b"a?sslmode=disable"[..])
        );
        let address = parsed(r"host=db user=u password='it\'s sslmode=disable'");
        assert!(address.tls);
        assert_eq!(
            address.config.get_password(),
            Some(&b"it's sslmode=disable"[..])
        );
    }

    #[test]
    fn waiting_is_bounded_and_we_say_who_we_are() {
        let unsaid = parsed("postgres://u:p@db/x").config;
        assert_eq!(unsaid.get_connect_timeout(), Some(&CONNECT));
        assert_eq!(unsaid.get_application_name(), Some("pontoon"));
        let said = parsed("postgres://u:p@db/x?connect_timeout=3&application_name=me").config;
        assert_eq!(said.get_connect_timeout(), Some(&Duration::from_secs(3)));
        assert_eq!(said.get_application_name(), Some("me"));
        let long = parsed("postgres://u:p@db/x?connect_timeout=600").config;
        assert_eq!(long.get_connect_timeout(), Some(&CONNECT));
    }

    #[rstest]
    #[case::unsaid("", 15, 5, 15)]
    #[case::less("keepalives_idle=4&keepalives_interval=2&tcp_user_timeout=3", 4, 2, 3)]
    #[case::more(
        "keepalives=0&keepalives_idle=60&keepalives_interval=60&tcp_user_timeout=60",
        15,
        5,
        15
    )]
    fn a_dead_server_is_noticed(
        #[case] options: &str,
        #[case] idle: u64,
        #[case] interval: u64,
        #[case] unacknowledged: u64,
    ) {
        let config = parsed(&format!("postgres://u:p@db/x?{options}")).config;
        assert!(config.get_keepalives());
        assert_eq!(config.get_keepalives_idle(), Duration::from_secs(idle));
        let interval = Duration::from_secs(interval);
        assert_eq!(config.get_keepalives_interval(), Some(interval));
        assert_eq!(config.get_keepalives_retries(), Some(3));
        let unacknowledged = Duration::from_secs(unacknowledged);
        assert_eq!(config.get_tcp_user_timeout(), Some(&unacknowledged));
    }

    #[rstest]
    #[case::empty("", "names no host")]
    #[case::no_user("postgres://db/x", "names no user")]
    #[case::no_host("user=u password=hush-hush", "names no host")]
    #[case::a_socket(
        "host=/var/run/postgresql user=u password=hush-hush",
        "its host is a file"
    )]
    #[case::a_socket_in_a_url("postgres://u:hush-hush@%2Ftmp/x", "its host is a file")]
    #[case::no_string("hush-hush", "no connection string")]
    #[case::unknown_option("host=db user=u hush-hush=1", "no connection string")]
    #[case::unknown_option_in_a_url(
        "postgres://u:hush-hush@db/x?hush-hush=1",
        "no connection string"
    )]
    #[case::open_quote("host=db user=u password='hush-hush", "no connection string")]
    #[case::a_file(
        "postgres://u:hush-hush@db/x?sslrootcert=/hush-hush",
        "the option sslrootcert cannot be used here; store"
    )]
    fn what_is_wrong_is_told_without_the_string(#[case] text: &str, #[case] said: &str) {
        let why = Address::parse(text).err().unwrap();
        assert!(why.contains(said), "{why}");
        assert!(!why.contains("hush"), "{why}");
    }

    #[test]
    fn the_password_is_among_the_secrets() {
        let address = parsed("postgres://u:p%40ss-word@db/x");
        assert!(address.secrets.expose().contains(&"p@ss-word".to_owned()));
        assert_eq!(format!("{:?}", address.secrets), "***");
    }

    proptest! {
        #[test]
        fn a_password_survives_pairs_and_never_decides_on_tls(password in "[ -~]{1,20}") {
            let escaped = password.replace('\\', "\\\\").replace('\'', "\\'");
            let address = parsed(&format!("host=db user=u password='{escaped}' sslmode=allow"));
            prop_assert!(address.tls);
            prop_assert_eq!(address.config.get_password(), Some(password.as_bytes()));
        }

        #[test]
        fn any_text_is_read_or_refused_without_quoting_it(text in "[ -~]{0,60}") {
            if let Err(why) = Address::parse(&text) {
                prop_assert!(text.len() < 12 || !why.contains(&text));
            }
        }
    }
}
