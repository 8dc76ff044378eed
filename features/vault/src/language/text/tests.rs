use proptest::prelude::*;

use super::*;

fn header(resource: &str, kind: &str) -> Header {
    Header {
        auth_mount: Some("kubernetes".to_owned()),
        cluster: None,
        resource: resource.to_owned(),
        kind: kind.to_owned(),
    }
}

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(ToString::to_string).collect()
}

const APP: Names<'static> = Names {
    namespace: "team-a",
    name: "app",
};

#[test]
fn rules_print_byte_for_byte_as_before() {
    let rules = [
        Rule {
            path: "secret/data/{{namespace}}/*".to_owned(),
            capabilities: strings(&["read", "list"]),
            ..Rule::default()
        },
        Rule {
            path: "secret/metadata/{{namespace}}/*".to_owned(),
            capabilities: strings(&["list"]),
            allowed_parameters: BTreeMap::from([("*".to_owned(), strings(&["a", "b"]))]),
            required_parameters: strings(&["v"]),
            ..Rule::default()
        },
    ];
    let expected = r#"# managed-by: vault-access-operator
# auth-mount: kubernetes
# k8s-resource: team-a/app
# k8s-kind: VaultPolicy

path "secret/data/team-a/*" {
  capabilities = ["read", "list"]
}

path "secret/metadata/team-a/*" {
  capabilities = ["list"]

  allowed_parameters = {
    "*" = ["a", "b"]
  }
  required_parameters = ["v"]
}
"#;
    let printed = from_rules(&header("team-a/app", "VaultPolicy"), &rules, APP);
    assert_eq!(printed, expected);
}

#[test]
fn a_cluster_policy_prints_byte_for_byte_as_before() {
    let rule = Rule {
        path: "secret/data/shared/*".to_owned(),
        capabilities: strings(&["read"]),
        ..Rule::default()
    };
    let names = Names {
        namespace: "",
        name: "shared",
    };
    let expected = r#"# managed-by: vault-access-operator
# auth-mount: kubernetes
# k8s-resource: shared
# k8s-kind: VaultClusterPolicy

path "secret/data/shared/*" {
  capabilities = ["read"]
}
"#;
    let printed = from_rules(&header("shared", "VaultClusterPolicy"), &[rule], names);
    assert_eq!(printed, expected);
}

#[test]
fn every_field_has_its_place_and_strings_are_escaped() {
    let rule = Rule {
        path: "a/{{namespace}}/{{name}}-{{namespace}}/{{identity.entity.id}}".to_owned(),
        capabilities: strings(&["update", "patch", "subscribe"]),
        allowed_parameters: BTreeMap::from([
            ("b".to_owned(), strings(&[])),
            ("a".to_owned(), strings(&["say \"x\"", "\\"])),
        ]),
        denied_parameters: BTreeMap::from([("*".to_owned(), strings(&["1"]))]),
        required_parameters: strings(&["v", "w"]),
        min_wrapping_ttl: Some(Duration::from_secs(90)),
        max_wrapping_ttl: Some(Duration::from_millis(3_600_500)),
        subscribe_event_types: strings(&["kv*"]),
    };
    let header = Header {
        auth_mount: None,
        cluster: Some("uid:1".to_owned()),
        ..header("team-a/app", "VaultPolicy")
    };
    let expected = r#"# managed-by: vault-access-operator
# cluster: uid:1
# k8s-resource: team-a/app
# k8s-kind: VaultPolicy

path "a/team-a/app-team-a/{{identity.entity.id}}" {
  capabilities = ["update", "patch", "subscribe"]

  allowed_parameters = {
    "a" = ["say \"x\"", "\\"]
    "b" = []
  }
  denied_parameters = {
    "*" = ["1"]
  }
  required_parameters = ["v", "w"]
  min_wrapping_ttl = "90s"
  max_wrapping_ttl = "3600.5s"
  subscribe_event_types = ["kv*"]
}
"#;
    let printed = from_rules(&header, &[rule], APP);
    assert_eq!(printed, expected);
    Policy::parse(&printed).expect("a policy");
}

#[test]
fn raw_text_changes_in_its_path_labels_only() {
    let raw = r#"# for {{namespace}}
path "kv/{{namespace}}/{{name}}" { # {{name}}
  comment = "{{name}}"
  capabilities = ["read"]
  allowed_parameters = { "{{name}}" = ["{{namespace}}"] }
}
path "\u007b{namespace}}/\"" { policy = "read" }"#;
    let printed = from_raw(&header("team-a/app", "VaultPolicy"), raw, APP).expect("a policy");
    let expected = r#"# managed-by: vault-access-operator
# auth-mount: kubernetes
# k8s-resource: team-a/app
# k8s-kind: VaultPolicy

# for {{namespace}}
path "kv/team-a/app" { # {{name}}
  comment = "{{name}}"
  capabilities = ["read"]
  allowed_parameters = { "{{name}}" = ["{{namespace}}"] }
}
path "team-a/\"" { policy = "read" }"#;
    assert_eq!(printed, expected);
}

#[test]
fn raw_text_must_be_a_policy_in_hcl() {
    let refused = |raw: &str| {
        let header = header("team-a/app", "VaultPolicy");
        from_raw(&header, raw, APP)
            .expect_err("refused")
            .to_string()
    };
    assert!(refused("path {").contains("line 1, column 7"));
    assert!(refused("path \"a\" { capabilities = [\"all\"] }").contains("capability all"));
    assert!(refused("{\"path\": {}}").contains("write it as HCL"));
    assert!(refused(&"#".repeat(MAX_RAW_BYTES + 1)).contains("more than 65536"));
}

#[test]
fn a_line_break_does_not_end_the_marker() {
    let mut header = header("team-a/app", "VaultPolicy");
    header.auth_mount = Some("x\npath \"*\" { policy = \"sudo\" }".to_owned());
    let printed = from_rules(&header, &[], APP);
    assert_eq!(Policy::parse(&printed), Ok(Policy::default()));
}

#[test]
fn the_first_of_a_key_in_the_leading_block_counts() {
    let marker = parse_header(
        "# managed-by: vault-access-operator\n#cluster: one\n# cluster: two\n# note\n\
         # k8s-resource: a/b\n\n# k8s-kind: VaultPolicy\n",
    );
    let expected = Marker {
        auth_mount: None,
        cluster: Some("one".to_owned()),
        resource: Some("a/b".to_owned()),
        kind: None,
    };
    assert_eq!(marker, Some(expected));
}

#[test]
fn what_is_not_at_the_head_is_no_marker() {
    let sentinel = "# managed-by: vault-access-operator\n";
    assert_eq!(parse_header(""), None);
    assert_eq!(parse_header(&format!("\n{sentinel}")), None);
    assert_eq!(parse_header(&format!("path \"a\" {{}}\n{sentinel}")), None);
    assert_eq!(
        parse_header(&format!("# managed-by: terraform\n{sentinel}")),
        None
    );
    assert_eq!(parse_header("// managed-by: vault-access-operator"), None);
}

proptest! {
    #[test]
    fn a_printed_header_is_found_again(
        auth_mount in proptest::option::of("[a-z/-]{1,8}"),
        cluster in proptest::option::of("[a-z]{1,8}|uid:[0-9a-f-]{4}"),
        resource in "[a-z]{1,4}(/[a-z]{1,4})?",
    ) {
        let header = Header { auth_mount, cluster, resource, kind: "VaultPolicy".to_owned() };
        let Header { auth_mount, cluster, resource, kind } = header.clone();
        let marker = Marker { auth_mount, cluster, resource: Some(resource), kind: Some(kind) };
        prop_assert_eq!(parse_header(&from_rules(&header, &[], APP)), Some(marker));
    }
}
