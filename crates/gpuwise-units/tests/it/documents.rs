//! Links between the pages of the documentation lead somewhere.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .expect("the workspace's root")
}

/// Every page: Markdown at the root, under `docs`, and beside what it explains.
fn pages() -> Vec<PathBuf> {
    let root = root();
    let mut open = vec![
        root.join("docs"),
        root.join("fuzz"),
        root.join("benches"),
        root.join("catalogue"),
    ];
    let mut found: Vec<PathBuf> = markdown(&root).collect();
    while let Some(folder) = open.pop() {
        found.extend(markdown(&folder));
        open.extend(entries(&folder).filter(|path| path.is_dir() && !path.ends_with("corpus")));
    }
    found.sort();
    found
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
}

fn markdown(folder: &Path) -> impl Iterator<Item = PathBuf> {
    entries(folder).filter(|path| path.extension().is_some_and(|extension| extension == "md"))
}

/// Lines outside of code.
fn prose(text: &str) -> Vec<&str> {
    let mut inside = false;
    text.lines()
        .filter(|line| {
            let fence = line.trim_start().starts_with("```");
            inside ^= fence;
            !fence && !inside
        })
        .collect()
}

/// Targets of `[text](target)` in a line.
fn targets(line: &str) -> Vec<&str> {
    let rest = line.split("](").skip(1);
    rest.filter_map(|rest| rest.split(')').next()).collect()
}

/// The anchors of a page's headings, as hosts of repositories make them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = prose(text).into_iter().filter(|line| line.starts_with('#'));
    headings
        .map(|line| {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            let kept = title
                .chars()
                .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
            kept.map(|c| if c == ' ' { '-' } else { c }).collect()
        })
        .collect()
}

#[test]
fn links_lead_somewhere() {
    let mut broken = Vec::new();
    for page in pages() {
        let text = fs::read_to_string(&page).expect("a readable page");
        let folder = page.parent().expect("a page lies in a folder");
        for target in prose(&text).into_iter().flat_map(targets) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let file = if path.is_empty() {
                page.clone()
            } else {
                folder.join(path)
            };
            let known = if anchor.is_empty() {
                file.exists()
            } else {
                fs::read_to_string(&file).is_ok_and(|text| anchors(&text).contains(anchor))
            };
            if !known {
                broken.push(format!("{}: {target}", page.display()));
            }
        }
    }
    assert!(
        broken.is_empty(),
        "links that lead nowhere:\n{}\n",
        broken.join("\n")
    );
}

#[test]
fn every_page_is_reached() {
    // A page that no other page links to is not found by its readers.
    let linked: BTreeSet<PathBuf> = pages()
        .iter()
        .flat_map(|page| {
            let text = fs::read_to_string(page).expect("a readable page");
            let folder = page
                .parent()
                .expect("a page lies in a folder")
                .to_path_buf();
            let targets: Vec<PathBuf> = prose(&text)
                .into_iter()
                .flat_map(targets)
                .filter_map(|target| folder.join(target.split('#').next()?).canonicalize().ok())
                .collect();
            targets
        })
        .collect();
    let docs = root().join("docs");
    let lost: Vec<String> = pages()
        .iter()
        .filter(|page| page.starts_with(&docs) && !linked.contains(*page))
        .filter(|page| **page != docs.join("README.md"))
        .map(|page| page.display().to_string())
        .collect();
    assert!(
        lost.is_empty(),
        "pages that no page links to:\n{}\n",
        lost.join("\n")
    );
}
