//! `fabriscope parts`: every part, and every number with what it rests on.

use fabriscope_catalog::{AnyPart, Basis, Catalog, Kind, LinkSpeed, Row};
use fabriscope_report::{Cell, Column, Grid, Outcome};

use crate::context::Context;
use crate::error::{self, Failure, Verdict};
use crate::output::{Output, OutputArgs};

/// Lists the parts of the catalogue and the numbers in them.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Parts to list the numbers of; without a name, the parts are listed
    names: Vec<String>,
    /// List the parts of this kind only, such as nics, or links: a table of their speeds by year
    #[arg(long, value_name = "KIND", conflicts_with_all = ["names", "basis", "from_tables", "check"])]
    kind: Option<String>,
    /// List the numbers with this basis only: datasheet, standard, measured, published, fitted, estimated, assumed
    #[arg(long, value_name = "BASIS")]
    basis: Option<String>,
    /// List the numbers that name a published table of validate, whatever their basis: what was taken from it
    #[arg(long)]
    from_tables: bool,
    /// Check every file and every cluster
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "\
Examples:
  fabriscope parts                        the parts
  fabriscope parts connectx-5             its numbers, with unit, basis and source
  fabriscope parts --kind links           speeds of links, the oldest first
  fabriscope parts --basis fitted         every fitted number there is
  fabriscope parts --from-tables          every number that rests on a published table
  fabriscope parts --check                whether all files are right and all clusters can be built
  fabriscope parts --check --catalog my-parts/";

/// Runs the command.
pub fn run(args: &Args, context: &Context, output: &mut Output) -> Result<Verdict, Failure> {
    let catalog = context.catalog()?;
    if args.check {
        return args.output.write(&check(catalog)?, output);
    }
    let mut parts: Vec<&AnyPart> = catalog.parts().collect();
    if !args.names.is_empty() {
        parts.clear();
        for name in &args.names {
            parts.extend(catalog.show(name).map_err(Failure::of)?);
        }
    }
    if let Some(kind) = &args.kind {
        let known: Vec<Kind> = Kind::ALL.into_iter().collect();
        let Some(kind) = known.iter().find(|known| known.folder() == kind) else {
            let folders: Vec<&str> = known.iter().map(|kind| kind.folder()).collect();
            return Err(Failure::told(format!("there is no kind of part `{kind}`"), format!("use one of {}", folders.join(", "))));
        };
        parts.retain(|part| part.kind() == *kind);
        let mut outcome = Outcome::new();
        outcome.table(if *kind == Kind::Link { links(&parts) } else { list(&parts) });
        return args.output.write(&outcome, output);
    }
    let mut numbers: Vec<Row> = parts.iter().flat_map(|part| part.numbers()).collect();
    if args.from_tables {
        let cited = fabriscope::cited(catalog).map_err(Failure::of)?;
        // Of a number that other parts take over, that of the part that writes it.
        numbers.retain(|number| cited.contains(number));
    }
    if let Some(name) = &args.basis {
        let basis = basis(name)?;
        numbers.retain(|n| n.basis == basis);
    }
    let mut outcome = Outcome::new();
    if args.names.is_empty() && args.basis.is_none() && !args.from_tables {
        outcome.table(list(&parts)).text("\n");
        outcome.note("fabriscope parts NAME lists the numbers of a part; fabriscope show NAME shows its file");
    } else {
        outcome.table(self::numbers(&numbers));
    }
    outcome.whole(serde_json::to_value(&numbers).unwrap_or_default());
    args.output.write(&outcome, output)
}

/// The numbers of parts, each with its origin.
pub(super) fn numbers(numbers: &[Row]) -> Grid {
    let mut grid = Grid::new([
        Column::words("part", "part"),
        Column::words("number", "field"),
        Column::number("value", "value"),
        Column::words("basis", "basis"),
        Column::words("source", "source"),
    ]);
    for n in numbers {
        let source = [n.source.as_str(), &n.note].into_iter().filter(|t| !t.is_empty()).collect::<Vec<_>>().join("; ");
        // What is a list of rules is no number that a line could hold.
        let value = if n.value.starts_with(['[', '{']) { Cell::told("(rules)", n.value.as_str()) } else { Cell::word(n.value.as_str()) };
        grid.push([Cell::word(n.part.as_str()), Cell::word(n.field.as_str()), value, Cell::word(n.basis.name()), Cell::word(source)]);
    }
    grid.named("numbers")
}

fn list(parts: &[&AnyPart]) -> Grid {
    let mut grid = Grid::new([
        Column::words("kind", "kind"),
        Column::words("part", "part"),
        Column::number("numbers", "numbers"),
        Column::number("fitted", "fitted"),
        Column::words("what it is", "title"),
    ]);
    for part in parts {
        let numbers = part.numbers();
        let fitted = numbers.iter().filter(|n| n.basis == Basis::Fitted).count();
        let (kind, name, title) = (Cell::word(part.kind().noun()), Cell::word(part.name()), Cell::word(part.title()));
        grid.push([kind, name, Cell::count(numbers.len()), Cell::count(fitted), title]);
    }
    grid.named("parts")
}

/// Speeds of links, the oldest first.
fn links(parts: &[&AnyPart]) -> Grid {
    let mut grid = Grid::new([
        Column::number("year", "year"),
        Column::words("link", "link"),
        Column::words("of", "layer"),
        Column::number("lanes", "lanes"),
        Column::number("of a lane", "lane_rate"),
        Column::words("code", "encoding"),
        Column::words("correction", "correction"),
        Column::number("for packets", "data_rate"),
        Column::number("short message", "published_latency"),
        Column::words("what it is", "title"),
    ]);
    let mut speeds: Vec<&LinkSpeed> =
        parts.iter().filter_map(|part| if let AnyPart::Link(link) = part { Some(&**link) } else { None }).collect();
    speeds.sort_by_key(|link| (link.year, link.layer.to_string(), link.data_rate()));
    for link in speeds {
        let said = |text: Option<String>| Cell::word(text.unwrap_or_else(|| "-".to_owned()));
        grid.push([
            said(link.year.map(|year| year.to_string())),
            Cell::word(link.name.as_str()),
            Cell::word(link.layer.to_string()),
            Cell::count(link.lanes as usize),
            Cell::word(link.lane_rate.to_string()),
            Cell::word(link.encoding.to_string()),
            said(Some(link.correction.clone()).filter(|code| !code.is_empty())),
            Cell::word(link.data_rate().to_string()),
            said(link.published_latency.as_ref().map(|latency| latency.to_string())),
            Cell::word(link.title.as_str()),
        ]);
    }
    grid.named("links")
}

/// The basis of that name.
pub(super) fn basis(name: &str) -> Result<Basis, Failure> {
    Basis::ALL.into_iter().find(|basis| basis.name() == name).ok_or_else(|| {
        let known: Vec<&str> = Basis::ALL.iter().map(|basis| basis.name()).collect();
        Failure::told(format!("there is no basis `{name}`"), format!("use one of {}", known.join(", ")))
    })
}

/// Loading has checked every part by itself; what is left is whether they fit together.
fn check(catalog: &Catalog) -> Result<Outcome, Failure> {
    let faults = catalog.check();
    if let Some(last) = faults.len().checked_sub(1) {
        for (index, fault) in faults.into_iter().enumerate() {
            if index == last {
                return Err(Failure::of(fault));
            }
            error::print(&miette::Report::new(fault));
        }
    }
    let (parts, clusters) = (catalog.parts().count(), catalog.names(Kind::Cluster).len());
    let numbers = catalog.parts_table();
    let fitted = numbers.iter().filter(|n| n.basis == Basis::Fitted).count();
    let mut counts = Grid::new(["parts", "clusters", "numbers", "fitted"].map(Column::data));
    counts.push([parts, clusters, numbers.len(), fitted].map(Cell::data));
    let mut outcome = Outcome::new();
    outcome.text(format!("{parts} parts with {} numbers ({fitted} fitted), {clusters} of them clusters: all right\n", numbers.len()));
    outcome.data_table("counts", counts);
    Ok(outcome)
}
