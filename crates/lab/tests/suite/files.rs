//! Files that a lab names are seen from the lab, wherever the program is started.

use fabriscope_catalog::Catalog;
use fabriscope_lab::load;

#[test]
fn a_cluster_in_a_file_lies_beside_the_lab() {
    let catalog = Catalog::embedded().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("mine.toml", "name = \"mine\"\nbase = \"ri2\"\n");
    write("lab.toml", "cluster = \"mine.toml:4\"\n[workload.shift]\nby = 1\nsize = \"1 KiB\"\n");
    let lab = load(&catalog, &folder.path().join("lab.toml")).unwrap();
    assert_eq!((lab.cluster.name.as_str(), lab.cluster.nodes()), ("mine", 4));
}

#[test]
fn a_cluster_that_is_not_there_is_told_with_the_path_that_was_tried() {
    let catalog = Catalog::embedded().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let lab = folder.path().join("lab.toml");
    std::fs::write(&lab, "cluster = \"other/mine.toml\"\n[workload.shift]\nby = 1\nsize = \"1 KiB\"\n").unwrap();
    let error = load(&catalog, &lab).unwrap_err().to_string();
    assert!(error.contains(folder.path().join("other/mine.toml").to_str().unwrap()), "{error}");
}
