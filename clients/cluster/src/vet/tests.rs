//! Each row of each table.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rstest::rstest;
use serde_json::{Value, json};

use super::{SIZE_LIMIT, VettingRules, vet};
use crate::{Login, RefusedKubeconfig, VettedKubeconfig};

pub(super) const TOKEN: &str = "eyJhbGciOiJSUzI1NiJ9.Zm9yLXRoZS10ZXN0cw.c2lnbmF0dXJl";

/// Certificates and keys for the tests, all PEM.
pub(super) struct Pems {
    pub(super) authority: String,
    pub(super) other_authority: String,
    pub(super) certificate: String,
    pub(super) key: String,
}

pub(super) static PEMS: LazyLock<Pems> = LazyLock::new(|| {
    let authority = || {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
    };
    let issuer = authority();
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::default()
        .signed_by(&key, &issuer)
        .unwrap();
    Pems {
        authority: issuer.pem(),
        other_authority: authority().pem(),
        certificate: certificate.pem(),
        key: key.serialize_pem(),
    }
});

pub(super) fn base64(text: &str) -> String {
    STANDARD.encode(text)
}

/// A kubeconfig that is accepted.
pub(super) fn kubeconfig() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "preferences": { "colors": true },
        "clusters": [{ "name": "dest", "cluster": {
            "server": "https://api.example.org:6443",
            "certificate-authority-data": base64(&PEMS.authority),
        } }],
        "users": [{ "name": "mover", "user": { "token": TOKEN } }],
        "contexts": [{ "name": "here", "context": {
            "cluster": "dest", "user": "mover", "namespace": "payments",
        } }],
        "current-context": "here",
    })
}

/// The same with `value` at `path`, as of a JSON pointer, instead of what is there. Null removes it.
fn with(path: &str, value: impl Into<Value>) -> Value {
    let mut config = kubeconfig();
    set(&mut config, path, value.into());
    config
}

pub(super) fn set(config: &mut Value, path: &str, value: Value) {
    let (parent, field) = path.rsplit_once('/').unwrap();
    let parent = config.pointer_mut(parent).unwrap();
    match parent {
        Value::Array(entries) => entries.push(value),
        parent if value.is_null() => drop(parent.as_object_mut().unwrap().remove(field)),
        parent => parent[field] = value,
    }
}

fn by_certificate() -> Value {
    with(
        "/users/0/user",
        json!({
            "client-certificate-data": base64(&PEMS.certificate),
            "client-key-data": base64(&PEMS.key),
        }),
    )
}

fn vetted(config: &Value) -> Result<VettedKubeconfig, RefusedKubeconfig> {
    vet(config.to_string().as_bytes(), VettingRules::default())
}

fn refusal(config: &Value) -> RefusedKubeconfig {
    vetted(config).unwrap_err()
}

#[test]
fn an_inline_token_is_accepted() {
    let vetted = vetted(&kubeconfig()).unwrap();
    assert_eq!(vetted.server(), "https://api.example.org:6443/");
    assert_eq!(vetted.namespace(), Some("payments"));
    assert_eq!(*vetted.login(), Login::Token(TOKEN.to_owned().into()));
}

#[test]
fn an_inline_certificate_is_accepted() {
    let vetted = vetted(&by_certificate()).unwrap();
    let login = Login::Certificate {
        chain: PEMS.certificate.clone().into_bytes().into(),
        key: PEMS.key.clone().into_bytes().into(),
    };
    assert_eq!(*vetted.login(), login);
}

#[test]
fn block_style_with_comments_and_wrapped_base64_is_accepted() {
    let authority = base64(&PEMS.authority);
    let (first, last) = authority.split_at(60);
    let yaml = format!(
        "# from the platform team\napiVersion: v1\nkind: Config\ncurrent-context: here\nclusters:\n\
         - name: dest\n  cluster:\n    server: https://api.example.org\n    \
         certificate-authority-data: |\n      {first}\n      {last}\ncontexts:\n- name: here\n  \
         context: {{cluster: dest, user: mover}}\nusers:\n- name: mover\n  user:\n    token: {TOKEN}\n"
    );
    let vetted = vet(yaml.as_bytes(), VettingRules::default()).unwrap();
    assert_eq!(vetted.namespace(), None);
    assert_eq!(vetted.config().default_namespace, "default");
}

#[rstest]
#[case::exec("users", "user", "exec", json!({ "command": "aws", "apiVersion": "v1" }), "run a program")]
#[case::auth_provider("users", "user", "auth-provider", json!({ "name": "gcp" }), "run a program")]
#[case::token_file("users", "user", "tokenFile", json!("/token"), "open a file")]
#[case::client_certificate("users", "user", "client-certificate", json!("/tls.crt"), "open a file")]
#[case::client_key("users", "user", "client-key", json!("/tls.key"), "open a file")]
#[case::username("users", "user", "username", json!("admin"), "password")]
#[case::password("users", "user", "password", json!("admin"), "password")]
#[case::as_user("users", "user", "as", json!("admin"), "another user")]
#[case::as_uid("users", "user", "as-uid", json!("1"), "another user")]
#[case::as_groups("users", "user", "as-groups", json!(["system:masters"]), "another user")]
#[case::as_user_extra("users", "user", "as-user-extra", json!({ "a": ["b"] }), "another user")]
#[case::empty_text("users", "user", "tokenFile", json!(""), "open a file")]
#[case::unfamiliar_in_user("users", "user", "token-command", json!("x"), "not a field")]
#[case::other_letters("users", "user", "Exec", json!({}), "not a field")]
#[case::authority_file("clusters", "cluster", "certificate-authority", json!("/ca"), "open a file")]
#[case::insecure("clusters", "cluster", "insecure-skip-tls-verify", json!(true), "any server")]
#[case::insecure_as_text("clusters", "cluster", "insecure-skip-tls-verify", json!("false"), "any server")]
#[case::proxy("clusters", "cluster", "proxy-url", json!("http://proxy"), "proxy")]
#[case::unfamiliar_in_cluster("clusters", "cluster", "tls-command", json!("x"), "not a field")]
#[case::unfamiliar_in_context("contexts", "context", "impersonate", json!("x"), "not a field")]
fn a_dangerous_field_is_refused_by_its_path(
    #[case] list: &str,
    #[case] inner: &str,
    #[case] field: &str,
    #[case] value: Value,
    #[case] why: &str,
) {
    let used = with(&format!("/{list}/0/{inner}/{field}"), value.clone());
    let error = refusal(&used);
    assert_eq!(error.field(), format!("{list}[0].{inner}.{field}"));
    assert!(error.to_string().contains(why), "{error}");

    // Also in an entry that the current context does not use.
    let unused = with(
        &format!("/{list}/-"),
        json!({ "name": "unused", inner: { field: value } }),
    );
    assert_eq!(
        refusal(&unused).field(),
        format!("{list}[1].{inner}.{field}")
    );
}

#[rstest]
#[case::in_the_document("/plugins", "plugins")]
#[case::in_an_entry("/users/0/exec", "users[0].exec")]
#[case::long_enough_for_a_secret(
    "/users/0/user/abcdefghijklmnopqrstuvwxyzabcdefg",
    "users[0].user.***"
)]
#[case::with_digits_of_a_secret("/users/0/user/a1b2", "users[0].user.***")]
fn a_field_of_no_kubeconfig_is_refused(#[case] path: &str, #[case] field: &str) {
    assert_eq!(refusal(&with(path, "x")).field(), field);
}

#[rstest]
#[case::extensions_of_the_document("/extensions", json!([{ "name": "a", "extension": { "exec": {} } }]))]
#[case::extensions_of_a_cluster("/clusters/0/cluster/extensions", json!([]))]
#[case::extensions_of_a_context("/contexts/0/context/extensions", json!([]))]
#[case::extensions_of_a_user("/users/0/user/extensions", json!([]))]
#[case::compression("/clusters/0/cluster/disable-compression", json!(true))]
#[case::verified_tls("/clusters/0/cluster/insecure-skip-tls-verify", json!(false))]
#[case::other_name_in_the_certificate("/clusters/0/cluster/tls-server-name", json!("kubernetes.default"))]
#[case::no_version("/apiVersion", Value::Null)]
#[case::unused_cluster("/clusters/-", json!({ "name": "unused", "cluster": { "server": "https://a" } }))]
#[case::unused_user("/users/-", json!({ "name": "unused" }))]
#[case::unused_context("/contexts/-", json!({ "name": "unused", "context": { "cluster": "gone" } }))]
fn a_harmless_field_is_accepted(#[case] path: &str, #[case] value: Value) {
    vetted(&with(path, value)).unwrap();
}

#[test]
fn null_is_no_value() {
    let mut config = kubeconfig();
    config["users"][0]["user"]["exec"] = Value::Null;
    config["contexts"][0]["context"]["namespace"] = Value::Null;
    assert_eq!(vetted(&config).unwrap().namespace(), None);
}

#[rstest]
#[case::no_current_context("/current-context", Value::Null, "current-context")]
#[case::empty_current_context("/current-context", json!(""), "current-context")]
#[case::two_current_contexts("/current-context", json!(["here", "there"]), "current-context")]
#[case::unfamiliar_current_context("/current-context", json!("there"), "current-context")]
#[case::no_contexts("/contexts", Value::Null, "current-context")]
#[case::a_context_without_a_name("/contexts/-", json!({ "context": {} }), "contexts[1].name")]
#[case::two_contexts_of_a_name("/contexts/-", json!({ "name": "here" }), "contexts[1].name")]
#[case::two_clusters_of_a_name("/clusters/-", json!({ "name": "dest" }), "clusters[1].name")]
#[case::two_users_of_a_name("/users/-", json!({ "name": "mover" }), "users[1].name")]
#[case::a_number_as_name("/users/-", json!({ "name": 7 }), "users[1].name")]
#[case::no_cluster(
    "/contexts/0/context/cluster",
    Value::Null,
    "contexts[0].context.cluster"
)]
#[case::unfamiliar_cluster("/contexts/0/context/cluster", json!("x"), "contexts[0].context.cluster")]
#[case::no_user("/contexts/0/context/user", Value::Null, "contexts[0].context.user")]
#[case::unfamiliar_user("/contexts/0/context/user", json!("x"), "contexts[0].context.user")]
#[case::another_kind("/kind", json!("Secret"), "kind")]
#[case::another_version("/apiVersion", json!("v2"), "apiVersion")]
#[case::users_as_mapping("/users", json!({}), "users")]
#[case::a_user_as_text("/users/0/user", json!("x"), "users[0].user")]
#[case::an_entry_as_text("/users/-", json!("x"), "users[1]")]
fn a_kubeconfig_without_one_clear_context_is_refused(
    #[case] path: &str,
    #[case] value: Value,
    #[case] field: &str,
) {
    assert_eq!(refusal(&with(path, value)).field(), field);
}

#[rstest]
#[case::missing(Value::Null, "is missing")]
#[case::empty(json!(""), "is missing")]
#[case::number(json!(443), "is not text")]
#[case::plain_http(json!("http://api.example.org"), "is not an https address")]
#[case::no_scheme(json!("api.example.org:6443"), "is not an https address")]
#[case::file(json!("file:///etc/passwd"), "is not an")]
#[case::no_host(json!("https://"), "is not an address")]
#[case::only_a_port(json!("https://:6443"), "host")]
#[case::user(json!("https://admin@api.example.org"), "a user or a password")]
#[case::password(json!("https://admin:secret@api.example.org"), "a user or a password")]
#[case::query(json!("https://api.example.org/?x=1"), "a query or a fragment")]
#[case::fragment(json!("https://api.example.org/#x"), "a query or a fragment")]
#[case::space(json!("https://api example.org"), "is not an address")]
#[case::port_too_large(json!("https://api.example.org:65536"), "no valid port")]
#[case::no_port_after_the_colon(json!("https://api.example.org:"), "no valid port")]
#[case::port_zero(json!("https://api.example.org:0"), "no valid port")]
#[case::odd_host(json!("https://a_.-b"), "host")]
#[case::unclosed_bracket(json!("https://[::1"), "is not an address")]
fn a_server_without_a_plain_https_address_is_refused(#[case] server: Value, #[case] why: &str) {
    let error = refusal(&with("/clusters/0/cluster/server", server));
    assert_eq!(error.field(), "clusters[0].cluster.server");
    assert!(error.to_string().contains(why), "{error}");
}

#[test]
fn plain_http_is_refused_in_unused_clusters_too() {
    let unused = json!({ "name": "unused", "cluster": { "server": "http://a" } });
    let error = refusal(&with("/clusters/-", unused));
    assert_eq!(error.field(), "clusters[1].cluster.server");
}

#[rstest]
#[case::as_written("https://api.example.org:6443", "https://api.example.org:6443/")]
#[case::default_port("https://api.example.org:443", "https://api.example.org/")]
#[case::last_slash("https://api.example.org/", "https://api.example.org/")]
#[case::letters("HTTPS://API.Example.org", "https://api.example.org/")]
#[case::path(
    "https://a.example.org/k8s/clusters/c-1/",
    "https://a.example.org/k8s/clusters/c-1"
)]
#[case::ipv4("https://10.0.0.1", "https://10.0.0.1/")]
#[case::ipv6("https://[2001:DB8::1]:443", "https://[2001:db8::1]/")]
fn equal_addresses_become_equal_texts(#[case] server: &str, #[case] expected: &str) {
    let vetted = vetted(&with("/clusters/0/cluster/server", server)).unwrap();
    assert_eq!(vetted.server().to_string(), expected);
}

#[rstest]
#[case::missing(Value::Null, "is missing")]
#[case::not_text(json!({ "pem": "x" }), "is not text")]
#[case::not_base64(json!("%%%"), "is not base64")]
#[case::pem_without_base64(json!(PEMS.authority), "is not base64")]
#[case::not_pem(json!(base64("hello")), "has no certificate")]
#[case::torn_pem(json!(base64(&PEMS.authority[..80])), "is not PEM")]
#[case::key(json!(base64(&PEMS.key)), "other than certificates")]
#[case::not_der(
    json!(base64("-----BEGIN CERTIFICATE-----\naGVsbG8=\n-----END CERTIFICATE-----\n")),
    "invalid certificate"
)]
fn an_authority_that_is_no_certificate_is_refused(#[case] authority: Value, #[case] why: &str) {
    let error = refusal(&with(
        "/clusters/0/cluster/certificate-authority-data",
        authority,
    ));
    assert_eq!(
        error.field(),
        "clusters[0].cluster.certificate-authority-data"
    );
    assert!(error.to_string().contains(why), "{error}");
}

#[test]
fn a_server_name_that_is_none_is_refused() {
    let error = refusal(&with("/clusters/0/cluster/tls-server-name", "a b"));
    assert_eq!(error.field(), "clusters[0].cluster.tls-server-name");
}

const CERTIFICATE: &str = "client-certificate-data";
const KEY: &str = "client-key-data";

#[rstest]
#[case::none(json!({}), "", "has no login")]
#[case::empty_token(json!({ "token": "" }), "", "has no login")]
#[case::token_with_line_break(json!({ "token": "abc\n" }), "token", "a line break")]
#[case::token_as_number(json!({ "token": 12 }), "token", "is not text")]
#[case::no_key(json!({ CERTIFICATE: base64(&PEMS.certificate) }), KEY, "is missing")]
#[case::no_certificate(json!({ KEY: base64(&PEMS.key) }), CERTIFICATE, "is missing")]
#[case::token_and_certificate(
    json!({ "token": TOKEN, CERTIFICATE: base64(&PEMS.certificate), KEY: base64(&PEMS.key) }),
    "token",
    "besides a client certificate"
)]
#[case::token_and_key(json!({ "token": TOKEN, KEY: "x" }), "token", "besides a client certificate")]
#[case::certificate_that_is_a_key(
    json!({ CERTIFICATE: base64(&PEMS.key), KEY: base64(&PEMS.key) }),
    CERTIFICATE,
    "other than certificates"
)]
#[case::key_that_is_a_certificate(
    json!({ CERTIFICATE: base64(&PEMS.certificate), KEY: base64(&PEMS.certificate) }),
    KEY,
    "exactly one private key"
)]
#[case::two_keys(
    json!({ CERTIFICATE: base64(&PEMS.certificate), KEY: base64(&PEMS.key.repeat(2)) }),
    KEY,
    "exactly one private key"
)]
#[case::key_of_another(
    json!({ CERTIFICATE: base64(&PEMS.authority), KEY: base64(&PEMS.key) }),
    KEY,
    "a usable key"
)]
#[case::key_not_base64(json!({ CERTIFICATE: base64(&PEMS.certificate), KEY: "%" }), KEY, "base64")]
fn a_user_without_one_usable_login_is_refused(
    #[case] user: Value,
    #[case] field: &str,
    #[case] why: &str,
) {
    let error = refusal(&with("/users/0/user", user));
    let path = if field.is_empty() {
        "users[0].user".to_owned()
    } else {
        format!("users[0].user.{field}")
    };
    assert_eq!(error.field(), path);
    assert!(error.to_string().contains(why), "{error}");
}

#[rstest]
#[case::named(json!("payments"), true, None)]
#[case::missing_and_not_needed(Value::Null, false, None)]
#[case::missing(Value::Null, true, Some("is missing"))]
#[case::empty(json!(""), true, Some("is missing"))]
#[case::a_path(json!("../secrets"), false, Some("is not the name"))]
#[case::a_part_of_a_path(json!("a/b"), true, Some("is not the name"))]
#[case::upper_case(json!("Payments"), false, Some("is not the name"))]
#[case::last_dash(json!("payments-"), false, Some("is not the name"))]
#[case::too_long(json!("n".repeat(64)), false, Some("is not the name"))]
fn a_namespace_is_a_name_and_may_be_required(
    #[case] namespace: Value,
    #[case] requires_namespace: bool,
    #[case] why: Option<&str>,
) {
    let config = with("/contexts/0/context/namespace", namespace);
    let rules = VettingRules { requires_namespace };
    let error = vet(config.to_string().as_bytes(), rules).err();
    let text = error.as_ref().map(ToString::to_string);
    assert_eq!(text.is_some(), why.is_some(), "{text:?}");
    assert!(text.unwrap_or_default().contains(why.unwrap_or_default()));
    let field = error.as_ref().map(RefusedKubeconfig::field);
    assert!(field.is_none_or(|field| field == "contexts[0].context.namespace"));
}

#[rstest]
#[case::empty(b"", "the kubeconfig", "is empty")]
#[case::only_a_comment(b"# later\n", "the kubeconfig", "is empty")]
#[case::text(b"hello", "the kubeconfig", "is not a mapping")]
#[case::list(b"- a", "the kubeconfig", "is not a mapping")]
#[case::not_utf8(b"\xff\xfe", "the kubeconfig", "is not UTF-8")]
#[case::two_documents(b"kind: Config\n---\nkind: Config\n", "line 3", "a second document")]
#[case::not_yaml(b"kind: Config\nusers: [\n", "line 2", "is not valid YAML")]
#[case::twice(
    b"kind: Config\nusers: []\nusers: []\n",
    "line 3",
    "for the second time"
)]
#[case::anchor(b"users: &a []\n", "line 1", "an anchor")]
#[case::alias(b"users: *a\n", "line 1", "an anchor")]
#[case::merge(b"users:\n- <<: {}\n", "line 2", "a merge key")]
#[case::strange_tag(b"users: !run []\n", "line 1", "is not valid YAML")]
fn a_text_that_is_no_single_document_is_refused(
    #[case] text: &[u8],
    #[case] field: &str,
    #[case] why: &str,
) {
    let error = vet(text, VettingRules::default()).unwrap_err();
    assert!(error.to_string().contains(why), "{error}");
    assert_eq!(error.field(), field);
}

#[test]
fn a_kubeconfig_is_read_up_to_its_limit() {
    let text = kubeconfig().to_string();
    let padded = |length: usize| format!("{text}{}", " ".repeat(length - text.len()));
    vet(padded(SIZE_LIMIT).as_bytes(), VettingRules::default()).unwrap();
    let error = vet(padded(SIZE_LIMIT + 1).as_bytes(), VettingRules::default()).unwrap_err();
    assert!(error.to_string().contains("more than 64 KiB"), "{error}");
}

#[rstest]
#[case::flow("[", "]")]
#[case::block("- ", "")]
fn deep_nesting_is_refused(#[case] open: &str, #[case] close: &str) {
    let text = format!(
        "extensions:\n {}{}",
        open.repeat(10_000),
        close.repeat(10_000)
    );
    assert!(vet(text.as_bytes(), VettingRules::default()).is_err());
}

#[test]
fn a_refusal_says_what_to_write_instead() {
    let error = refusal(&with("/users/0/user/exec", json!({ "command": "aws" })));
    assert_eq!(
        error.to_string(),
        "users[0].user.exec would run a program here; write an inline token, or \
         client-certificate-data with client-key-data"
    );
}

#[test]
fn a_configuration_has_only_what_was_vetted() {
    let mut config = by_certificate();
    set(
        &mut config,
        "/clusters/0/cluster/tls-server-name",
        json!("Kubernetes.default"),
    );
    let config = vetted(&config).unwrap().config();
    assert_eq!(config.cluster_url, "https://api.example.org:6443/");
    assert_eq!(config.default_namespace, "payments");
    assert_eq!(
        config.tls_server_name.as_deref(),
        Some("kubernetes.default")
    );
    assert_eq!(
        config.root_cert.map(|certificates| certificates.len()),
        Some(1)
    );
    assert!(!config.accept_invalid_certs);
    assert!(config.root_cert_file.is_none() && config.proxy_url.is_none());
    let auth = config.auth_info;
    assert!(auth.exec.is_none() && auth.auth_provider.is_none() && auth.token_file.is_none());
    assert!(auth.client_certificate.is_none() && auth.client_key.is_none());
    assert!(auth.token.is_none() && auth.password.is_none() && auth.impersonate.is_none());
    assert_eq!(
        auth.client_certificate_data,
        Some(base64(&PEMS.certificate))
    );
}

#[rstest]
#[case::the_same("/preferences", Value::Null, true, true)]
#[case::another_token("/users/0/user/token", json!("another"), true, true)]
#[case::the_address_written_otherwise("/clusters/0/cluster/server", json!("https://API.example.org:6443/"), true, true)]
#[case::another_namespace("/contexts/0/context/namespace", json!("x"), true, false)]
#[case::no_namespace("/contexts/0/context/namespace", Value::Null, true, false)]
#[case::another_port("/clusters/0/cluster/server", json!("https://api.example.org"), false, false)]
#[case::another_authority(
    "/clusters/0/cluster/certificate-authority-data",
    json!(base64(&PEMS.other_authority)),
    false,
    false
)]
#[case::another_name("/clusters/0/cluster/tls-server-name", json!("a"), false, false)]
fn a_connection_is_shared_by_server_trust_and_namespace(
    #[case] path: &str,
    #[case] value: Value,
    #[case] same_server: bool,
    #[case] same_key: bool,
) {
    let before = vetted(&kubeconfig()).unwrap();
    let after = vetted(&with(path, value)).unwrap();
    assert_eq!(before.same_server(&after), same_server);
    assert_eq!(before.connection_key() == after.connection_key(), same_key);
}

#[test]
fn the_order_of_authorities_is_of_no_meaning() {
    let key = |first: &str, last: &str| {
        let both = base64(&format!("{first}{last}"));
        let config = with("/clusters/0/cluster/certificate-authority-data", both);
        vetted(&config).unwrap().connection_key()
    };
    let (one, two) = (&PEMS.authority, &PEMS.other_authority);
    assert_eq!(key(one, two), key(two, one));
    assert_eq!(
        key(one, one),
        vetted(&kubeconfig()).unwrap().connection_key()
    );
    assert_ne!(key(one, one), key(one, two));
}

#[test]
fn a_connection_is_named_by_server_and_namespace() {
    let key = vetted(&kubeconfig()).unwrap().connection_key();
    assert_eq!(
        key.to_string(),
        "https://api.example.org:6443, namespace payments"
    );
}
