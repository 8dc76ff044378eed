//! The requests of botocore that unit tests compare ours with are those it makes.

use std::path::Path;
use std::process::Command;

use aws_emulator::boto3;

use crate::world::Result;

#[test]
fn the_requests_of_botocore_are_current() -> Result {
    let named = std::env::var_os("CARGO_MANIFEST_DIR");
    let package = named.unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let folder = Path::new(&package).join("tests/botocore");
    let python = boto3::python()?;
    // The user's own AWS settings are not used here.
    let output = Command::new(&python)
        .arg(folder.join("generate.py"))
        .env_clear()
        .env("AWS_CONFIG_FILE", "")
        .env("AWS_SHARED_CREDENTIALS_FILE", "")
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .env("PYTHONIOENCODING", "utf-8")
        .output()?;
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    let current = String::from_utf8(output.stdout)?;
    let expected = std::fs::read_to_string(folder.join("requests.json"))?;
    let remedy = "write the output of tests/botocore/generate.py to requests.json";
    assert!(
        current == expected,
        "botocore makes other requests; {remedy}"
    );
    Ok(())
}
