//! The READMEs match the repository.

use std::{fs, path::Path};

use testkit::checkout;

#[test]
fn each_example_in_the_readme_is_a_part_of_examples() {
    let root = checkout();
    let readme = fs::read_to_string(root.join("README.md")).unwrap();
    let examples = examples(&root.join("examples"));
    let shown: Vec<_> = readme.split("```yaml\n").skip(1).collect();
    assert_eq!(shown.len(), 3, "one a feature");
    for block in shown {
        let (yaml, _) = block.split_once("```").unwrap();
        assert!(examples.contains(yaml), "not in examples/:\n{yaml}");
    }
}

#[test]
fn the_readme_of_docs_lists_each_page() {
    let docs = checkout().join("docs");
    let readme = fs::read_to_string(docs.join("README.md")).unwrap();
    let pages = fs::read_dir(docs).unwrap().map(|entry| entry.unwrap());
    for page in pages.filter(|page| page.file_type().unwrap().is_file()) {
        let page = page.file_name().into_string().unwrap();
        let listed = readme.contains(&format!("]({page})"));
        assert!(listed || page == "README.md", "not listed: {page}");
    }
}

/// All files below `folder`, joined.
fn examples(folder: &Path) -> String {
    let features = fs::read_dir(folder).unwrap();
    let files = features.flat_map(|feature| fs::read_dir(feature.unwrap().path()).unwrap());
    files
        .map(|file| fs::read_to_string(file.unwrap().path()).unwrap())
        .collect()
}
