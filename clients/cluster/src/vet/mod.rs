//! Decides whether a kubeconfig may be used. Pure: it reads its argument and nothing else.

mod credentials;
mod document;
mod fields;
#[cfg(test)]
mod properties;
mod section;
mod server;
#[cfg(test)]
mod tests;

use section::Section;

use crate::{RefusedKubeconfig, VettedKubeconfig};

/// The largest kubeconfig that is read, in bytes.
pub const SIZE_LIMIT: usize = 64 * 1024;

/// What else a kubeconfig must fulfil.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct VettingRules {
    /// Whether the current context must name a namespace.
    pub requires_namespace: bool,
}

/// Reads a kubeconfig that somebody else wrote, and accepts it only if its use is harmless: an https
/// server with an inline authority, and an inline token or client certificate.
///
/// Fields that would run a program, open a file, act as somebody else or weaken TLS are refused in every
/// entry of the document, also in those that the current context does not use: else an edit of one word
/// would bring them into effect. So are fields that no kubeconfig has today. What must be there is
/// asked of the current context alone.
///
/// # Errors
/// The first field that is refused. No value of the kubeconfig is in it.
///
/// # When not to use it
/// For the kubeconfig of the person who calls a verb: that one may log in by a program.
pub fn vet(kubeconfig: &[u8], rules: VettingRules) -> Result<VettedKubeconfig, RefusedKubeconfig> {
    let document = document::read(kubeconfig)?;
    let document = Section::new(String::new(), &document, fields::DOCUMENT)?;
    for (name, only) in [("apiVersion", "v1"), ("kind", "Config")] {
        if document.text(name)?.is_some_and(|text| text != only) {
            let instead = "write apiVersion: v1 and kind: Config";
            return Err(document.refused(name, "is not that of a kubeconfig", instead));
        }
    }
    let clusters = document.entries(
        "clusters",
        fields::NAMED_CLUSTER,
        "cluster",
        fields::CLUSTER,
    )?;
    let users = document.entries("users", fields::NAMED_USER, "user", fields::USER)?;
    let contexts = document.entries(
        "contexts",
        fields::NAMED_CONTEXT,
        "context",
        fields::CONTEXT,
    )?;
    for cluster in &clusters {
        server::server(&cluster.section)?;
    }

    let context = document.named("current-context", &contexts)?;
    let cluster = context.named("cluster", &clusters)?;
    let user = context.named("user", &users)?;
    let Some(server) = server::server(&cluster)? else {
        let instead = "write the address as https://host:port";
        return Err(cluster.refused("server", "is missing", instead));
    };
    Ok(VettedKubeconfig::new(
        server,
        credentials::authorities(&cluster)?,
        server::tls_server_name(&cluster)?,
        namespace(&context, rules)?,
        credentials::login(&user)?,
    ))
}

/// The namespace of `context`. It becomes a part of paths, so it must be a valid name.
fn namespace(
    context: &Section<'_>,
    rules: VettingRules,
) -> Result<Option<String>, RefusedKubeconfig> {
    const FIELD: &str = "namespace";
    const INSTEAD: &str = "write the name of a namespace of that cluster";
    let namespace = if rules.requires_namespace {
        Some(context.required(FIELD, INSTEAD)?)
    } else {
        context.text(FIELD)?
    };
    if namespace.is_some_and(|name| !is_label(name)) {
        return Err(context.refused(FIELD, "is not the name of a namespace", INSTEAD));
    }
    Ok(namespace.map(str::to_owned))
}

/// Whether `name` is a DNS-1123 label.
fn is_label(name: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=63).contains(&name.len())
        && name.bytes().all(legal)
        && !name.starts_with('-')
        && !name.ends_with('-')
}
