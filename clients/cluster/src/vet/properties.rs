//! No secret of a kubeconfig is in any text.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::tests::{PEMS, base64, kubeconfig, set};
use super::{VettingRules, vet};

/// A part of a secret of this length would be recognised in a text.
const PART: usize = 8;

/// Where a secret is put, as JSON pointers.
const PATHS: [&str; 22] = [
    "/users/0/user/token",
    "/users/0/user/password",
    "/users/0/user/username",
    "/users/0/user/exec",
    "/users/0/user/auth-provider",
    "/users/0/user/tokenFile",
    "/users/0/user/as",
    "/users/0/user/as-groups",
    "/users/0/user/client-certificate-data",
    "/users/0/user/client-key-data",
    "/users/0/user/client-key",
    "/users/0/user",
    "/users/0/name",
    "/users/-",
    "/clusters/0/cluster/server",
    "/clusters/0/cluster/proxy-url",
    "/clusters/0/cluster/certificate-authority-data",
    "/clusters/0/cluster/tls-server-name",
    "/contexts/0/context/namespace",
    "/contexts/0/context/user",
    "/current-context",
    "/kind",
];

/// A secret as the values of a kubeconfig can contain it.
fn value(secret: &str, shape: u8) -> Value {
    match shape {
        0 => json!(secret),
        1 => json!([secret]),
        2 => json!({ "name": secret, "command": secret, "env": [{ "value": secret }] }),
        3 => json!(base64(secret)),
        4 => json!({ secret: secret }),
        5 => json!(format!("https://admin:{secret}@example.org")),
        _ => json!(format!("{secret}\n")),
    }
}

/// Whether `text` contains a part of `secret`, also of its base64.
fn leaks(text: &str, secret: &str) -> bool {
    let forms = [secret.to_owned(), base64(secret)];
    forms.iter().any(|form| {
        let mut parts = form.as_bytes().windows(PART);
        parts.any(|part| text.as_bytes().windows(PART).any(|seen| seen == part))
    })
}

/// All that is printed of a kubeconfig, accepted or not.
fn printed(text: &[u8]) -> String {
    match vet(text, VettingRules::default()) {
        Ok(vetted) => {
            let (login, key) = (vetted.login(), vetted.connection_key());
            format!("{vetted:?} {vetted:#?} {login:?} {key:?} {key}")
        }
        Err(error) => format!("{error} {error:?} {}", error.field()),
    }
}

proptest! {
    #[test]
    fn no_secret_is_in_a_refusal(
        secret in "[A-Z0-9]{12,40}",
        at in 0..PATHS.len(),
        shape in 0..7_u8,
        cut in proptest::option::of(any::<proptest::sample::Index>()),
        noise in proptest::option::of((any::<proptest::sample::Index>(), "[:{}&*!%@`\n\t #|>-]{1,3}")),
    ) {
        let mut config = kubeconfig();
        set(&mut config, "/users/0/user/token", json!(secret));
        // These are public: Debug of an accepted kubeconfig prints them.
        let public = ["/contexts/0/context/namespace", "/clusters/0/cluster/server", "/clusters/0/cluster/tls-server-name"];
        let is_public = public.contains(&PATHS[at]) && (0..=3).contains(&shape);
        if !is_public {
            set(&mut config, PATHS[at], value(&secret, shape));
        }
        let mut text = config.to_string();
        if let Some((index, noise)) = noise {
            text.insert_str(index.index(text.len()), &noise);
        }
        if let Some(cut) = cut {
            text.truncate(cut.index(text.len()));
        }
        let printed = printed(text.as_bytes());
        prop_assert!(!leaks(&printed, &secret), "{printed}");
    }

    #[test]
    fn any_bytes_are_refused_or_accepted(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        printed(&bytes);
    }

    #[test]
    fn any_line_may_be_anything(line in "[ -~]{0,40}", at in any::<proptest::sample::Index>()) {
        let text = format!("{:#}", kubeconfig());
        let mut lines: Vec<_> = text.lines().collect();
        let at = at.index(lines.len());
        lines[at] = &line;
        printed(lines.join("\n").as_bytes());
    }
}

#[test]
fn debug_of_an_accepted_kubeconfig_has_no_credentials() {
    let mut config = kubeconfig();
    let user = json!({
        "client-certificate-data": base64(&PEMS.certificate),
        "client-key-data": base64(&PEMS.key),
    });
    set(&mut config, "/users/0/user", user);
    let printed = printed(config.to_string().as_bytes());
    assert!(printed.contains("key: ***"), "{printed}");
    assert!(!leaks(&printed, &PEMS.key), "{printed}");
    let bytes = format!("{:?}", PEMS.key.as_bytes());
    assert!(!printed.contains(&bytes[1..60]), "{printed}");
}
