//! The acceptance table of a cluster: what the usual tools should show on it, and what passes.

use fabriscope_catalog::Catalog;
use fabriscope_lab::expect::{ExpectRequest, Expectations, Expected};
use fabriscope_lab::published;
use fabriscope_report::{Cell, Column, Grid, Outcome};

use crate::ask::catalog;
use crate::error::Error;

/// What the usual tools should show on this cluster.
#[must_use]
pub fn expect(cluster: &str) -> Expect<'static> {
    Expect { catalog: None, cluster: cluster.to_owned(), nodes: None, ranks_per_node: None, tools: Vec::new(), seed: 1, progress: None }
}

/// An acceptance table to be made; made by [`expect()`].
pub struct Expect<'a> {
    catalog: Option<&'a Catalog>,
    cluster: String,
    nodes: Option<u32>,
    ranks_per_node: Option<u32>,
    tools: Vec<String>,
    seed: u64,
    progress: Option<Box<dyn Fn(usize, usize) + Sync + 'a>>,
}

impl<'a> Expect<'a> {
    /// Nodes of collective operations; those of `CLUSTER:N`, or 4.
    #[must_use]
    pub fn nodes(mut self, nodes: u32) -> Expect<'a> {
        self.nodes = Some(nodes);
        self
    }
    /// Ranks of these on each node; 4 by default, or one for each GPU.
    #[must_use]
    pub fn ranks_per_node(mut self, ranks: u32) -> Expect<'a> {
        self.ranks_per_node = Some(ranks);
        self
    }
    /// Only these tools.
    #[must_use]
    pub fn tools<S: Into<String>>(mut self, tools: impl IntoIterator<Item = S>) -> Expect<'a> {
        self.tools = tools.into_iter().map(Into::into).collect();
        self
    }
    /// Seed of everything random; 1 by default.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Expect<'a> {
        self.seed = seed;
        self
    }
    /// Hears how many runs of all are done.
    #[must_use]
    pub fn progress(mut self, progress: impl Fn(usize, usize) + Sync + 'a) -> Expect<'a> {
        self.progress = Some(Box::new(progress));
        self
    }
    /// Parts and clusters of this catalogue.
    #[must_use]
    pub fn catalog(mut self, catalog: &'a Catalog) -> Expect<'a> {
        self.catalog = Some(catalog);
        self
    }

    /// Makes it.
    ///
    /// # Errors
    /// No such cluster, one of unlike nodes, a tool that is not of the table.
    pub fn outcome(self) -> Result<Outcome, Error> {
        let catalog = catalog(self.catalog)?;
        let of_target = self.cluster.rsplit_once(':').and_then(|(_, nodes)| nodes.parse().ok());
        let asked = ExpectRequest {
            on: &self.cluster,
            nodes: self.nodes.or(of_target),
            ranks_per_node: self.ranks_per_node,
            tools: self.tools,
            seed: self.seed,
        };
        let heard = |done: usize, all: usize| {
            if let Some(progress) = &self.progress {
                progress(done, all);
            }
        };
        let found = fabriscope_lab::expect::expect(catalog, &published::tables()?, &asked, &heard)?;
        Ok(shown(&found))
    }
}

fn shown(found: &Expectations) -> Outcome {
    let mut grid = Grid::new([
        Column::words("tool", "tool"),
        Column::number("nodes", "nodes"),
        Column::number("ranks", "ranks"),
        Column::number("bytes", "bytes"),
        Column::words("metric", "metric"),
        Column::words("unit", "unit"),
        Column::number("expected", "expected"),
        Column::number("from", "low"),
        Column::number("to", "high"),
        Column::words("passes", "passes"),
        Column::number("bound", "bound"),
        Column::words("by", "bound_by"),
        Column::number("points", "points"),
        Column::words("like", "like"),
        Column::data("limit"),
        Column::data("tables"),
    ]);
    let mut kinds: Vec<&[String]> = Vec::new();
    for row in &found.rows {
        let like = kinds.iter().position(|tables| *tables == row.tables).unwrap_or_else(|| {
            kinds.push(&row.tables);
            kinds.len() - 1
        });
        grid.push(cells(row, like + 1));
    }
    let mut outcome = Outcome::new();
    outcome.keyed_table("expected", grid).text("\n");
    for (number, tables) in kinds.iter().enumerate() {
        let told = if tables.is_empty() { "no published table of the kind".to_owned() } else { tables.join(", ") };
        outcome.note(format!("[{}] {told}", number + 1));
    }
    for (tool, reason) in &found.refused {
        outcome.note(format!("{tool}: {reason}"));
    }
    outcome.note("from and to: the value by the ratios of measured to predicted values of these tables, the 10th to the 90th of a hundred");
    outcome.note("compare your own: fabriscope validate --measured run.log --on CLUSTER");
    outcome
}

fn cells(row: &Expected, like: usize) -> [Cell; 16] {
    let number = |value: f64| Cell::number(value, if value < 1000.0 { 2 } else { 0 });
    let or_none = |value: Option<f64>| value.map_or_else(Cell::none, number);
    let sign = if row.metric == "latency" { "<=" } else { ">=" };
    let text = |value: f64| if value < 1000.0 { format!("{value:.2}") } else { format!("{value:.0}") };
    [
        Cell::word(row.tool),
        Cell::count(row.shape.0 as usize),
        Cell::count(row.shape.1 as usize),
        row.bytes.map_or_else(Cell::none, |bytes| Cell::count(bytes as usize)),
        Cell::word(row.metric),
        Cell::word(row.unit),
        number(row.value),
        or_none(row.interval.map(|(low, _)| low)),
        or_none(row.interval.map(|(_, high)| high)),
        row.limit().map_or_else(Cell::none, |limit| Cell::word(format!("{sign} {}", text(limit)))),
        or_none(row.bound.map(|(bound, _)| bound)),
        row.bound.map_or_else(Cell::blank, |(_, because)| Cell::word(because)),
        Cell::count(row.points),
        Cell::word(format!("[{like}]")),
        row.limit().map_or_else(|| Cell::data(()), Cell::data),
        Cell::data(row.tables.clone()),
    ]
}
