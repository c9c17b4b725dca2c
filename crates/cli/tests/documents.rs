//! What the documents say holds: links lead somewhere, every page can be reached, outputs are what the program prints, indices and tables of results
//! are those of the files they list, and lines are short.
//!
//! - A fenced block with lines `$ fabriscope …` shows commands and what they print on standard output; a line `…` stands for any lines. A command that
//!   tests/golden/cases.txt pins is compared with its golden and not run: that is the place for what takes more than a second.
//! - A block whose first line is `# NAME.EXTENSION` is a file that the commands of the same page may name. Their folder has the `labs`, `fabrics`,
//!   `validation` and `catalog` of the repository.
//! - Regions between `<!-- name: … -->` and `<!-- end -->` are computed.
//!
//! With UPDATE_GOLDEN=1 outputs and regions are written anew.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn update() -> bool {
    std::env::var_os("UPDATE_GOLDEN").is_some()
}

/// All Markdown files of the repository, as paths from its root.
fn documents() -> Vec<String> {
    let root = root();
    let mut found = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap().map(Result::unwrap) {
            let (path, name) = (entry.path(), entry.file_name().into_string().unwrap());
            if entry.file_type().unwrap().is_dir() {
                if !name.starts_with('.') && !["target", "corpus", "artifacts"].contains(&name.as_str()) {
                    folders.push(path);
                }
            } else if name.ends_with(".md") {
                found.push(path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    found.sort();
    found
}

fn read(document: &str) -> String {
    fs::read_to_string(root().join(document)).unwrap_or_else(|error| panic!("{document}: {error}"))
}

/// Lines outside fenced blocks, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().zip(1..).filter_map(move |(line, number)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        (!fence && !fenced).then_some((number, line))
    })
}

/// Targets of the links of a page that lead to files: (path from the root, anchor).
fn links(document: &str) -> Vec<(String, Option<String>)> {
    let text = read(document);
    let folder = Path::new(document).parent().unwrap();
    let mut found = Vec::new();
    for (_, line) in prose(&text) {
        for link in line.split("](").skip(1).filter_map(|rest| rest.split(')').next()).filter(|link| !link.contains("://")) {
            let (path, anchor) = link.split_once('#').map_or((link, None), |(path, anchor)| (path, Some(anchor.to_owned())));
            let path = if path.is_empty() { PathBuf::from(document) } else { folder.join(path) };
            found.push((normal(&path), anchor));
        }
    }
    found
}

/// A path without `.` and `..`.
fn normal(path: &Path) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.to_str().unwrap().split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// The anchors of a page's headings, as Markdown viewers make them.
fn anchors(document: &str) -> BTreeSet<String> {
    let text = read(document);
    let heading = |line: &str| {
        let kept = line.trim_start_matches('#').trim().to_lowercase();
        kept.chars()
            .filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter))
            .map(|letter| if letter == ' ' { '-' } else { letter })
            .collect()
    };
    prose(&text).filter(|(_, line)| line.starts_with('#')).map(|(_, line)| heading(line)).collect()
}

#[test]
fn links_lead_somewhere() {
    for document in documents() {
        for (path, anchor) in links(&document) {
            assert!(root().join(&path).exists(), "{document} links to {path}");
            if let Some(anchor) = anchor {
                assert!(anchors(&path).contains(&anchor), "{document} links to #{anchor} of {path}, which has {:?}", anchors(&path));
            }
        }
    }
}

#[test]
fn every_page_is_reached_from_the_readme() {
    let mut reached = BTreeSet::from(["README.md".to_owned()]);
    let mut next = vec!["README.md".to_owned()];
    while let Some(document) = next.pop() {
        for (path, _) in links(&document) {
            if path.ends_with(".md") && reached.insert(path.clone()) {
                next.push(path);
            }
        }
    }
    let orphans: Vec<String> = documents().into_iter().filter(|document| !reached.contains(document)).collect();
    assert!(orphans.is_empty(), "no page leads to {orphans:?}");
}

/// `a/{b,c}/d` as `a/b/d` and `a/c/d`.
fn expanded(path: &str) -> Vec<String> {
    let Some((before, rest)) = path.split_once('{') else { return vec![path.to_owned()] };
    let (choices, after) = rest.split_once('}').unwrap_or_else(|| panic!("`{path}` has no closing brace"));
    choices.split(',').flat_map(|choice| expanded(&format!("{before}{}{after}", choice.trim()))).collect()
}

/// Where a page says in which file something is, there is such a file.
#[test]
fn code_is_where_pages_say() {
    let mut wrong = Vec::new();
    for document in documents().into_iter().filter(|document| document != "CHANGELOG.md") {
        let text = read(&document);
        let lines: Vec<&str> = prose(&text).map(|(_, line)| line).collect();
        let spans = lines.join(" ");
        for span in spans.split('`').skip(1).step_by(2).filter(|span| span.starts_with("crates/")) {
            let named = !span.contains(['<', '…', '*', ':']);
            wrong.extend(
                expanded(span).into_iter().filter(|path| named && !root().join(path).exists()).map(|path| format!("{document}: {path}")),
            );
        }
    }
    assert!(wrong.is_empty(), "not there:\n{}", wrong.join("\n"));
}

#[test]
fn lines_are_short() {
    let mut long = Vec::new();
    // The changelog and the table of crates are written by everybody; they are wrapped when a release is made.
    for document in documents().into_iter().filter(|document| !["CHANGELOG.md", "ARCHITECTURE.md"].contains(&document.as_str())) {
        let text = read(&document);
        let wide = prose(&text).filter(|(_, line)| !["|", "    ", "![", "<!--"].iter().any(|start| line.starts_with(start)));
        long.extend(wide.filter(|(_, line)| line.chars().count() > 120).map(|(number, _)| format!("{document}:{number}")));
    }
    assert!(long.is_empty(), "lines above 120 characters outside tables:\n{}", long.join("\n"));
}

/// The golden of each pinned command.
fn goldens() -> BTreeMap<String, PathBuf> {
    let folder = root().join("tests/golden");
    let mut found = BTreeMap::new();
    let cases = fs::read_to_string(folder.join("cases.txt")).unwrap();
    for line in cases.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (file, command) = line.split_once(' ').unwrap();
        for (mark, source, extension) in [("@LAB", "labs", ".toml"), ("@TABLE", "validation", ".csv")] {
            for name in fs::read_dir(root().join(source)).unwrap().filter(|_| file.contains(mark)) {
                let name = name.unwrap().file_name().into_string().unwrap();
                if let Some(name) = name.strip_suffix(extension) {
                    found.insert(words(command).replace(mark, name), folder.join(file.replace(mark, name)));
                }
            }
        }
        found.insert(words(command), folder.join(file));
    }
    found
}

fn words(command: &str) -> String {
    command.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A folder in which commands of documents run.
struct Bench(PathBuf);

impl Bench {
    fn new(document: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("fabriscope-documents-{}-{}", std::process::id(), document.replace('/', "-")));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        for name in ["labs", "fabrics", "validation", "catalog"] {
            std::os::unix::fs::symlink(root().join(name), folder.join(name)).unwrap();
        }
        for block in read(document).split("```").skip(1).step_by(2) {
            let Some((name, content)) = block.split_once("\n# ").and_then(|(_, rest)| rest.split_once('\n')) else { continue };
            if block.lines().nth(1).is_some_and(|line| line.starts_with("# ")) && !name.contains(' ') && name.contains('.') {
                fs::write(folder.join(name), content).unwrap();
            }
        }
        Self(folder)
    }

    fn run(&self, command: &str) -> String {
        let output = Command::new(env!("CARGO_BIN_EXE_fabriscope")).current_dir(&self.0).args(command.split_whitespace()).output().unwrap();
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Whether `printed` is `shown`, in which a line `…` stands for any lines.
fn shows(shown: &str, printed: &str) -> bool {
    let mut pieces = shown.split("…\n");
    let Some(mut rest) = printed.strip_prefix(pieces.next().unwrap_or_default()) else { return false };
    let pieces: Vec<&str> = pieces.collect();
    let Some((last, middle)) = pieces.split_last() else { return rest.is_empty() };
    for piece in middle {
        let Some(at) = rest.find(piece) else { return false };
        rest = &rest[at + piece.len()..];
    }
    rest.ends_with(last)
}

/// The commands of a page and what it shows of their output.
fn shown(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for block in text.split("```").skip(1).step_by(2) {
        let mut lines = block.split_inclusive('\n').skip(1).peekable();
        while let Some(line) = lines.next() {
            let Some(command) = line.strip_prefix("$ fabriscope ") else { continue };
            let mut output = String::new();
            while let Some(line) = lines.next_if(|line| !line.starts_with("$ ")) {
                output.push_str(line);
            }
            // An empty line before the next command is not of the output.
            let blank = lines.peek().is_some() && output.ends_with("\n\n");
            output.truncate(output.len() - usize::from(blank));
            found.push((command.trim_end().to_owned(), output));
        }
    }
    found
}

#[test]
fn outputs_are_as_shown() {
    let goldens = goldens();
    let documents = documents();
    let examined = std::sync::atomic::AtomicUsize::new(0);
    let next = std::sync::atomic::AtomicUsize::new(0);
    let order = std::sync::atomic::Ordering::Relaxed;
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(document) = documents.get(next.fetch_add(1, order)) {
                    examined.fetch_add(check_outputs(document, &goldens), order);
                }
            });
        }
    });
    assert!(examined.into_inner() >= 30);
}

/// Compares the outputs of one page; how many there were.
fn check_outputs(document: &str, goldens: &BTreeMap<String, PathBuf>) -> usize {
    let mut text = read(document);
    let examples = shown(&text);
    if examples.is_empty() {
        return 0;
    }
    let bench = Bench::new(document);
    for (command, shown) in &examples {
        let printed = goldens.get(&words(command)).map_or_else(|| bench.run(command), |golden| fs::read_to_string(golden).unwrap());
        if shows(shown, &printed) {
            continue;
        }
        assert!(update(), "{document}: UPDATE_GOLDEN=1 writes it anew; `fabriscope {command}` prints\n{printed}");
        let (before, after) = (format!("$ fabriscope {command}\n{shown}"), format!("$ fabriscope {command}\n{printed}"));
        text = text.replacen(&before, &after, 1);
    }
    if update() {
        fs::write(root().join(document), text).unwrap();
    }
    examples.len()
}

/// The first words of the lines that the program prints, from a line that begins with `from` on.
fn listed(args: &[&str], from: &str) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO_BIN_EXE_fabriscope")).args(args).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().skip_while(|line| !line.starts_with(from)).skip(1);
    let lines = lines.take_while(|line| !line.is_empty()).filter(|line| !line.starts_with("    "));
    lines.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

/// Commands in blocks and in the text name subcommands, benchmarks and clusters that there are, also where no output is shown.
#[test]
fn commands_name_what_there_is() {
    let commands = listed(&["--help"], "Commands:");
    let tools = listed(&["bench"], "tool");
    let clusters = listed(&["clusters"], "cluster");
    let placeholder = |word: &str| !word.chars().any(char::is_lowercase) || word.contains(['<', '…']);
    let mut wrong = Vec::new();
    for document in documents().into_iter().filter(|document| document != "CHANGELOG.md") {
        let text = read(&document);
        let blocks = text.lines().map(|line| line.trim_start().trim_start_matches("$ "));
        let spans = text.split('`').skip(1).step_by(2);
        for command in blocks.chain(spans).filter_map(|line| line.strip_prefix("fabriscope ")) {
            let words: Vec<&str> = command.split_whitespace().collect();
            let Some(name) = words.first().filter(|name| !placeholder(name) && !name.starts_with('-')) else { continue };
            let mut known = commands.contains(*name);
            if let (&"bench" | &"explain", Some(tool)) = (name, words.get(1)) {
                known &= placeholder(tool) || tool.starts_with('-') || tools.contains(*tool);
            }
            if let Some(cluster) = words.iter().skip_while(|word| **word != "--on").nth(1) {
                let (cluster, _) = cluster.split_once(':').unwrap_or((cluster, ""));
                known &= placeholder(cluster) || cluster.ends_with(".toml") || clusters.contains(cluster);
            }
            if !known {
                wrong.push(format!("{document}: fabriscope {command}"));
            }
        }
    }
    assert!(wrong.is_empty(), "no such command, benchmark or cluster:\n{}", wrong.join("\n"));
}

/// docs/commands.md names every command, and every option that `bench` adds to those of the tools.
#[test]
fn every_command_is_explained() {
    let text = read("docs/commands.md");
    let commands = listed(&["--help"], "Commands:").into_iter().filter(|command| command != "help");
    let help = Command::new(env!("CARGO_BIN_EXE_fabriscope")).args(["bench", "--help"]).output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let options =
        help.lines().filter_map(|line| line.strip_prefix("      --")?.split([' ', '[', '<']).next()).map(|option| format!("--{option}"));
    let missing: Vec<String> = commands.chain(options).filter(|name| !text.contains(&format!("`{name}"))).collect();
    assert!(missing.is_empty(), "docs/commands.md does not name {missing:?}");
}

/// docs/labs.md names every key of a lab and every workload.
#[test]
fn every_key_of_a_lab_is_explained() {
    let output = Command::new(env!("CARGO_BIN_EXE_fabriscope")).args(["schema", "lab"]).output().unwrap();
    let schema: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let keys = schema["properties"].as_object().unwrap().keys();
    let variants = schema["$defs"]["Workload"]["oneOf"].as_array().unwrap().iter();
    let workloads = variants.filter_map(|variant| variant["properties"].as_object()?.keys().next());
    let text = read("docs/labs.md");
    let missing: Vec<&String> = keys.chain(workloads).filter(|key| !text.contains(&format!("`{key}`"))).collect();
    assert!(missing.is_empty(), "docs/labs.md does not name {missing:?}");
}

/// Replaces what stands in each region `<!-- name: … -->` of a page by `content(…)`, or says that it is something else.
fn regions(document: &str, name: &str, content: impl Fn(&str) -> String) -> usize {
    let text = read(document);
    let start = format!("<!-- {name}: ");
    let mut pieces = text.split(&start);
    let mut written = pieces.next().unwrap().to_owned();
    let mut count = 0;
    for piece in pieces {
        let (argument, rest) = piece.split_once(" -->\n").unwrap();
        let (present, rest) = rest.split_once("<!-- end -->").unwrap_or_else(|| panic!("{document}: a region `{name}` without an end"));
        let wanted = content(argument);
        assert!(update() || present == wanted, "{document}: UPDATE_GOLDEN=1 writes it anew; `{name}: {argument}` is\n{wanted}");
        written += &format!("{start}{argument} -->\n{wanted}<!-- end -->{rest}");
        count += 1;
    }
    if update() && written != text {
        fs::write(root().join(document), written).unwrap();
    }
    count
}

/// The first sentence of a page's first paragraph.
fn summary(document: &str) -> (String, String) {
    let text = read(document);
    let title =
        text.lines().next().and_then(|line| line.strip_prefix("# ")).unwrap_or_else(|| panic!("{document} has no title")).to_owned();
    let paragraph: Vec<&str> = text.lines().skip(1).skip_while(|line| line.is_empty()).take_while(|line| !line.is_empty()).collect();
    let paragraph = paragraph.join(" ");
    let sentence = paragraph.split_inclusive(". ").next().unwrap_or_default().trim_end().to_owned();
    assert!(sentence.ends_with('.') && !sentence.contains("]("), "{document}: the first sentence says what the page is about: {sentence}");
    (title, sentence)
}

/// docs/README.md lists every page of docs/models under a subject, with its title and its first sentence.
#[test]
fn the_index_has_every_model() {
    let listed = std::cell::RefCell::new(BTreeSet::new());
    regions("docs/README.md", "models", |names| {
        let mut list = String::new();
        for name in names.split(' ') {
            assert!(listed.borrow_mut().insert(name.to_owned()), "{name} is listed twice");
            let (title, sentence) = summary(&format!("docs/models/{name}.md"));
            list += &format!("- [{title}](models/{name}.md): {sentence}\n");
        }
        wrapped(&list)
    });
    let present = documents().iter().filter_map(|path| Some(path.strip_prefix("docs/models/")?.strip_suffix(".md")?.to_owned())).collect();
    assert_eq!(listed.into_inner(), present, "docs/README.md lists the pages of docs/models");
}

/// labs/README.md lists every lab with its workload and its title, and catalog/README.md every folder of parts.
#[test]
fn the_lists_of_labs_and_parts_are_complete() {
    let names = |folder: &str| -> BTreeSet<String> {
        fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    };
    let rows = |_: &str| {
        let mut table = "| lab | workload | what it shows |\n|---|---|---|\n".to_owned();
        for lab in names("labs").iter().filter_map(|name| name.strip_suffix(".toml")) {
            let text = read(&format!("labs/{lab}.toml"));
            let title = text
                .lines()
                .find_map(|line| line.strip_prefix("title = \"")?.strip_suffix('"'))
                .unwrap_or_else(|| panic!("{lab} has no title"));
            let workload = text.lines().find_map(|line| line.trim_start_matches('[').strip_prefix("workload.")?.split(['.', ']']).next());
            table += &format!("| [{lab}]({lab}.toml) | `{}` | {title} |\n", workload.unwrap_or_else(|| panic!("{lab} has no workload")));
        }
        table
    };
    assert_eq!(regions("labs/README.md", "labs", rows), 1);
    let catalogue = read("catalog/README.md");
    let folders = names("catalog").into_iter().filter(|name| !name.contains('.'));
    let missing: Vec<String> = folders.filter(|folder| !catalogue.contains(&format!("| `{folder}/` |"))).collect();
    assert!(missing.is_empty(), "catalog/README.md does not list {missing:?}");
}

/// List items in lines of at most 120 characters.
fn wrapped(list: &str) -> String {
    let mut text = String::new();
    for item in list.lines() {
        let mut line = String::new();
        for word in item.split(' ') {
            if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > 120 {
                text += &format!("{line}\n");
                line = format!("  {word}");
            } else {
                line = if line.is_empty() { word.to_owned() } else { format!("{line} {word}") };
            }
        }
        text += &format!("{line}\n");
    }
    text
}

/// One published table: the words of its row, and the absolute errors of its points in percent.
struct Table {
    row: String,
    errors: Vec<f64>,
}

/// What `fabriscope validate --points TABLE` prints of every published table, as tests/golden pins it.
fn results() -> BTreeMap<String, Table> {
    let mut found = BTreeMap::new();
    for (command, file) in goldens() {
        let Some(table) = command.strip_prefix("validate --points ").filter(|table| !table.starts_with('@')) else { continue };
        let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let (points, rest) = text.split_once("\ntable ").unwrap();
        let row = rest.lines().nth(1).unwrap().to_owned();
        let errors = points.lines().skip(2).filter_map(|line| line.split_whitespace().last()?.parse::<f64>().ok()).map(f64::abs).collect();
        found.insert(table.to_owned(), Table { row, errors });
    }
    found
}

const FAMILIES: [&str; 5] = ["perftest", "MPI between two nodes", "MPI collectives", "NCCL all-reduce", "inside GPU nodes, and others"];

fn family(table: &str) -> &'static str {
    let has = |words: &[&str]| words.iter().any(|word| table.contains(word));
    match () {
        () if has(&["-ib_"]) => FAMILIES[0],
        () if has(&["all_reduce_perf"]) => FAMILIES[3],
        () if has(&["alltoall", "allreduce"]) => FAMILIES[2],
        () if has(&["gpu-aware", "gdrcopy", "nvbandwidth", "babelstream", "opa100", "mcast", "krylov", "efa-generations"]) => FAMILIES[4],
        () => FAMILIES[1],
    }
}

/// How far points lie from their measurements, family by family: the part of validation/results.md that the README has, too.
fn hit_rates() -> String {
    let results = results();
    let mut text = "| | tables | points | median (%) | within 10 % | within 25 % |\n|---|---:|---:|---:|---:|---:|\n".to_owned();
    let all = |_: &str| true;
    let mut line = |name: &str, wanted: &dyn Fn(&str) -> bool| {
        let tables: Vec<&Table> =
            results.iter().filter(|(table, result)| wanted(table) && !result.errors.is_empty()).map(|(_, result)| result).collect();
        let mut errors: Vec<f64> = tables.iter().flat_map(|result| result.errors.iter().copied()).collect();
        errors.sort_by(f64::total_cmp);
        let median = (errors[(errors.len() - 1) / 2] + errors[errors.len() / 2]) / 2.0;
        let share = |limit: f64| 100 * errors.iter().filter(|error| **error <= limit).count() / errors.len();
        let row = format!("| {name} | {} | {} | {median:.1} | {} % | {} % |\n", tables.len(), errors.len(), share(10.0), share(25.0));
        text += &row;
    };
    for name in FAMILIES {
        line(name, &|table| family(table) == name);
    }
    line("all", &all);
    text
}

#[test]
fn the_results_are_those_of_the_goldens() {
    let rows = |_: &str| {
        let mut text = "```text\n".to_owned();
        let mut table = vec![
            "table points skipped median(%) p90(%) max(%) bias(%) limits(%) verdict".split(' ').map(str::to_owned).collect::<Vec<_>>(),
        ];
        for result in results().values() {
            // A limit of two numbers is `10 / 20`.
            table.push(result.row.replace(" / ", "/").split_whitespace().map(str::to_owned).collect());
        }
        let width =
            |column: usize| table.iter().filter_map(|row| row.get(column)).map(|word| word.chars().count()).max().unwrap_or_default();
        for row in &table {
            let mut line = format!("{:1$}", row[0], width(0));
            for (column, word) in row.iter().enumerate().skip(1) {
                let width = width(column);
                line += &if column == 8 { format!("  {word}") } else { format!("  {word:>width$}") };
            }
            text += &format!("{line}\n");
        }
        text + "```\n"
    };
    assert_eq!(regions("validation/results.md", "results", rows), 1);
    assert_eq!(regions("validation/results.md", "hit rates", |_| hit_rates()), 1);
    assert_eq!(regions("README.md", "hit rates", |_| hit_rates()), 1);
}
