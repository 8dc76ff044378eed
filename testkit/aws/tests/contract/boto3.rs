//! The wire format checked with another client: boto3 calls every operation, and a script compares the
//! parsed answers.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use aws_emulator::{Emulator, boto3};

#[tokio::test]
async fn boto3_finds_every_operation_as_aws_has_it() {
    check("boto3_check.py").await;
}

/// Runs a script of these tests with the URL of an emulator with all services.
pub(crate) async fn check(script: &str) {
    let python = boto3::python().unwrap_or_else(|wrong| panic!("{wrong}"));
    let emulator = Emulator::builder().every_service().start().await;
    let emulator = emulator.expect("the emulator starts");

    let script = tests().join(script);
    let mut check = Command::new(python);
    check.arg(script).arg(emulator.url());
    // The user's own AWS settings and proxies are not used here.
    for name in ["AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_ENDPOINT_URL"] {
        check.env_remove(name);
    }
    check
        .env("AWS_CONFIG_FILE", "")
        .env("AWS_SHARED_CREDENTIALS_FILE", "")
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .env("NO_PROXY", "*")
        // A script that imports another one leaves no file beside it.
        .env("PYTHONDONTWRITEBYTECODE", "1");
    let output = check.output().expect("python runs");
    assert!(output.status.success(), "{}", text(&output));
}

/// The folder of these tests in the tested checkout. Cargo and `cargo xtask test` name the package;
/// without them the folder of the build is used, because checkouts may share a target folder.
fn tests() -> PathBuf {
    let named = std::env::var_os("CARGO_MANIFEST_DIR");
    let package = named.unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&package).join("tests")
}

fn text(output: &Output) -> String {
    let [out, error] = [&output.stdout, &output.stderr].map(|part| String::from_utf8_lossy(part));
    format!("{}\n{out}{error}", output.status)
}
