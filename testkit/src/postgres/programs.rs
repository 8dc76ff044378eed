//! PostgreSQL's programs: those of the system, or those of its package, which is downloaded and
//! unpacked without installing it.
//!
//! Unlike the [tools](crate::tools) we do not build it: it comes from the signed packages of Debian,
//! Ubuntu and similar systems. `apt-get` uses separate folders here, so it needs no root and does not
//! change the system.

use std::{
    ffi::OsString,
    fs::{self, File},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use anyhow::{Context, Result, bail};
use nix::unistd::geteuid;
use parking_lot::Mutex;

use crate::tools;

/// Where systems install several versions side by side: the folder, and the prefix of a version.
const VERSIONED: [(&str, &str); 4] = [
    ("/usr/lib/postgresql", ""),
    ("/usr", "pgsql-"),
    ("/opt/homebrew/opt", "postgresql@"),
    ("/usr/local/opt", "postgresql@"),
];
/// A cache that the account of the server can access, unlike root's own.
const OPEN_CACHE: &str = "/var/cache/pontoon";

/// The two programs that a server needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Programs {
    pub(super) initdb: PathBuf,
    pub(super) postgres: PathBuf,
    /// Environment variables for libraries outside the system.
    pub(super) env: Vec<(String, OsString)>,
}

impl Programs {
    fn in_folder(folder: &Path) -> Option<Self> {
        let found = |name: &str| Some(folder.join(name)).filter(|path| path.is_file());
        Some(Self {
            initdb: found("initdb")?,
            postgres: found("postgres")?,
            env: Vec::new(),
        })
    }

    /// The programs of packages that were unpacked below `root`.
    fn unpacked(root: &Path) -> Option<Self> {
        let folders = versions(&root.join("usr/lib/postgresql"), "");
        let programs = folders.iter().find_map(|folder| Self::in_folder(folder))?;
        let libraries = [root.join("usr/lib"), root.join("lib")];
        let libraries = libraries.iter().flat_map(|folder| entries(folder));
        let libraries = std::env::join_paths(libraries.filter(|path| path.is_dir())).ok()?;
        Some(Self {
            env: vec![("LD_LIBRARY_PATH".into(), libraries)],
            ..programs
        })
    }
}

/// Finds them, or fetches them once per machine.
pub(super) fn ensure() -> Result<Programs> {
    static FOUND: OnceLock<Programs> = OnceLock::new();
    static SEARCH: Mutex<()> = Mutex::new(());
    let _search = SEARCH.lock(); // one search per process is enough
    if let Some(found) = FOUND.get() {
        return Ok(found.clone());
    }
    let found = match of_system() {
        Some(programs) => programs,
        None => fetched(&cache()).context(
            "there is no PostgreSQL server on this machine, and its package cannot be fetched; \
             run: apt-get install postgresql",
        )?,
    };
    Ok(FOUND.get_or_init(|| found).clone())
}

fn of_system() -> Option<Programs> {
    let found = Command::new("pg_config").arg("--bindir").output().ok();
    let found = found.and_then(|output| String::from_utf8(output.stdout).ok());
    let found = found.map(|folder| PathBuf::from(folder.trim()));
    let versioned = VERSIONED.iter();
    let versioned = versioned.flat_map(|(root, begin)| versions(Path::new(root), begin));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let listed: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let plain = [PathBuf::from("/usr/local/pgsql/bin")];
    let all = found
        .into_iter()
        .chain(versioned)
        .chain(plain)
        .chain(listed);
    all.filter(|folder| folder.is_absolute())
        .find_map(|folder| Programs::in_folder(&folder))
}

/// The folders `root/<begin><version>/bin`, the newest version first.
fn versions(root: &Path, begin: &str) -> Vec<PathBuf> {
    let version = |path: &PathBuf| -> Option<u32> {
        let name = path.file_name()?.to_str()?;
        name.strip_prefix(begin)?.parse().ok()
    };
    let mut found: Vec<PathBuf> = entries(root)
        .into_iter()
        .filter(|path| version(path).is_some())
        .collect();
    found.sort_by_key(|path| std::cmp::Reverse(version(path)));
    found.iter().map(|path| path.join("bin")).collect()
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let Ok(all) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut paths: Vec<PathBuf> = all.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// The cache of tools, if the account of the server can access it.
fn cache() -> PathBuf {
    let usual = tools::cache();
    if !geteuid().is_root() || is_open(&usual) {
        return usual.join("tools");
    }
    PathBuf::from(OPEN_CACHE)
}

/// Whether all users may traverse the folders above `path`; folders that do not exist yet will allow
/// it.
fn is_open(path: &Path) -> bool {
    let passes = |folder: &Path| match fs::metadata(folder) {
        Ok(found) => found.permissions().mode() & 0o001 != 0,
        Err(_) => true,
    };
    path.ancestors().all(passes)
}

/// Downloads PostgreSQL's package, with the libraries that the system lacks, into `cache`, unless it
/// is there. Two processes never do this at once, and an interrupted download is never used.
fn fetched(cache: &Path) -> Result<Programs> {
    let folder = cache.join("postgresql");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let lock = File::create(folder.join("lock"))?;
    lock.lock()
        .context("cannot lock the folder of PostgreSQL in the cache")?;
    let ready = folder.join("root");
    if let Some(programs) = Programs::unpacked(&ready) {
        return Ok(programs);
    }
    eprintln!("fetching PostgreSQL's package into {}", folder.display());
    let work = folder.join("partial");
    let _ = fs::remove_dir_all(&work);
    download(&work)?;
    let root = work.join("root");
    fs::create_dir(&root)?;
    for package in entries(&work.join("cache/archives")) {
        if package.extension().is_some_and(|kind| kind == "deb") {
            run(Command::new("dpkg").arg("-x").arg(&package).arg(&root))?;
        }
    }
    let _ = fs::remove_dir_all(&ready);
    fs::rename(&root, &ready)?;
    fs::remove_dir_all(&work)?;
    Programs::unpacked(&ready).context("the package holds no server")
}

/// Lets `apt-get` download below `work` what is missing to install PostgreSQL.
fn download(work: &Path) -> Result<()> {
    for folder in ["lists/partial", "cache/archives/partial"] {
        fs::create_dir_all(work.join(folder))?;
    }
    let config = work.join("apt.conf");
    fs::write(&config, settings(work))?;
    let apt = || {
        let mut apt = Command::new("apt-get");
        apt.arg("-c")
            .arg(&config)
            .env("DEBIAN_FRONTEND", "noninteractive");
        apt
    };
    run(apt().arg("update"))?;
    run(apt().args(["--yes", "--download-only", "install", "postgresql"]))
}

/// The system's sources and keys, with folders of our own and without hooks.
fn settings(work: &Path) -> String {
    let work = work.display();
    format!(
        r#"#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear APT::Update::Pre-Invoke;
Dir::State::lists "{work}/lists";
Dir::Cache "{work}/cache";
Dir::Cache::pkgcache "";
Dir::Cache::srcpkgcache "";
Debug::NoLocking "true";
APT::Sandbox::User "root";
APT::Install-Recommends "false";
Acquire::Languages "none";
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled "false";
"#
    )
}

fn run(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let ran = command
        .output()
        .with_context(|| format!("cannot run {program}"))?;
    if ran.status.success() {
        return Ok(());
    }
    let output = String::from_utf8_lossy(&ran.stderr);
    bail!("{program} failed ({}): {}", ran.status, output.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touch(path: &Path) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }

    #[test]
    fn the_newest_version_is_first() {
        let root = tempfile::tempdir().unwrap();
        for version in ["9", "15", "common"] {
            fs::create_dir(root.path().join(version)).unwrap();
        }
        let found = versions(root.path(), "");
        let wanted = ["15/bin", "9/bin"].map(|one| root.path().join(one));
        assert_eq!(found, wanted);
        assert!(versions(&root.path().join("none"), "").is_empty());
    }

    #[test]
    fn unpacked_programs_have_their_libraries() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(Programs::unpacked(root.path()), None);
        let bin = root.path().join("usr/lib/postgresql/15/bin");
        touch(&bin.join("initdb"));
        assert_eq!(Programs::unpacked(root.path()), None);
        touch(&bin.join("postgres"));
        touch(&root.path().join("usr/lib/x86_64-linux-gnu/libpq.so.5"));
        let found = Programs::unpacked(root.path()).unwrap();
        assert_eq!(found.postgres, bin.join("postgres"));
        let libraries = found.env[0].1.to_string_lossy().into_owned();
        assert!(libraries.contains("x86_64-linux-gnu"), "{libraries}");
    }

    #[test]
    fn a_private_folder_makes_the_folders_below_private() {
        let root = tempfile::tempdir().unwrap();
        fs::set_permissions(root.path(), fs::Permissions::from_mode(0o700)).unwrap();
        assert!(!is_open(&root.path().join("a/b")));
        assert!(is_open(Path::new("/usr/not-there/yet")));
    }

    #[test]
    fn apt_uses_separate_folders() {
        let settings = settings(Path::new("/x"));
        assert!(settings.contains(r#"Dir::State::lists "/x/lists";"#));
        assert!(settings.contains(r#"Dir::Cache "/x/cache";"#));
    }
}
