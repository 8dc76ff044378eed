//! Any text as a Vault policy.

#![no_main]

use libfuzzer_sys::fuzz_target;
use vault::language::{
    Policy,
    policy::{diff, expressible},
    text::{self, Header, Names},
};

fuzz_target!(|text: &str| {
    let _ = text::parse_header(text);
    let Ok(policy) = Policy::parse(text) else {
        return;
    };
    let canonical = policy.to_string();
    assert_eq!(Policy::parse(&canonical).as_ref(), Ok(&policy), "{canonical}");
    assert_eq!(diff(&policy, &policy, 10), "");

    let header = Header {
        auth_mount: None,
        cluster: None,
        resource: "a/b".to_owned(),
        kind: "VaultPolicy".to_owned(),
    };
    let names = Names {
        namespace: "a",
        name: "b",
    };
    if let Some(rules) = expressible(&policy) {
        let printed = text::from_rules(&header, &rules, names);
        assert_eq!(Policy::parse(&printed), Ok(policy), "{printed}");
    }
    if let Ok(printed) = text::from_raw(&header, text, names) {
        Policy::parse(&printed).expect("what is written is a policy");
    }
});
