//! A node as tables: its devices, the classes of paths from GPUs to adapters.

use fabriscope_machine::import::{bundle, nearest};
use fabriscope_machine::{Access, LinkKind, Machine, Purpose, VertexId, VertexKind};
use fabriscope_report::{Cell, Column, Grid, Outcome};

/// The devices of a node and the classes of paths between them.
pub fn tell(machine: &Machine, outcome: &mut Outcome) {
    outcome.table(devices(machine)).text("\n");
    tell_classes(machine, outcome);
}

/// The classes of paths, where there are any.
pub fn tell_classes(machine: &Machine, outcome: &mut Outcome) {
    if let Some(classes) = classes(machine) {
        outcome.table(classes).text("\n");
    }
}

/// GPUs, adapters and other devices, with the domain they are at, their slot and the adapters nearest to a GPU.
pub fn devices(machine: &Machine) -> Grid {
    let mut table = Grid::new([
        Column::words("device", "device"),
        Column::words("what", "what"),
        Column::words("bus", "bus"),
        Column::words("at", "at"),
        Column::words("slot", "slot"),
        Column::number("links", "links"),
        Column::number("data (GB/s)", "data_gb_per_s"),
        Column::words("nearest adapter", "nearest_adapter"),
    ]);
    for id in machine.of(|kind| matches!(kind, VertexKind::Gpu | VertexKind::Nic | VertexKind::Dpu | VertexKind::Device | VertexKind::Tile))
    {
        let vertex = machine.vertex(id);
        let links = machine.around(id).iter().map(|link| machine.link(*link));
        let slot = links.clone().find(|link| link.b == id && matches!(link.kind, LinkKind::Pcie { .. }));
        let own: u32 = links.filter_map(|link| bundle(link.kind)).sum();
        let domain = nearest_domain(machine, id).map_or_else(String::new, |numa| machine.vertex(numa).name.clone());
        let rate = slot.map_or_else(Cell::blank, |slot| {
            let rate = slot.framing.write.weight().payload_of(slot.rate[1]);
            Cell::number(rate.as_bytes_per_s_f64() / 1e9, 1)
        });
        let near = if vertex.kind == VertexKind::Gpu && !machine.nics().is_empty() {
            let (class, nics) = nearest(machine, id);
            let names: Vec<&str> = nics.iter().map(|nic| machine.vertex(*nic).name.as_str()).collect();
            format!("{} ({class})", some(&names, MOST_NAMES))
        } else {
            String::new()
        };
        table.push([
            Cell::word(vertex.name.clone()),
            Cell::word(vertex.title.clone()),
            Cell::word(vertex.bus.clone()),
            Cell::word(domain),
            slot.map_or_else(Cell::blank, |slot| Cell::word(slot.title.clone())),
            if own == 0 { Cell::blank() } else { Cell::count(own) },
            rate,
            Cell::word(near),
        ]);
    }
    table.named("devices")
}

/// The classes of paths from each GPU to each adapter and to the other GPUs; none where there is nothing to compare or too much.
fn classes(machine: &Machine) -> Option<Grid> {
    let (gpus, nics) = (machine.gpus(), machine.nics());
    let columns: Vec<VertexId> = gpus.iter().chain(&nics).copied().collect();
    if gpus.is_empty() || columns.len() < 2 || columns.len() > MOST_COLUMNS {
        return None;
    }
    let name = |id: &VertexId| machine.vertex(*id).name.clone();
    let column = |id: &VertexId| Column::number(&name(id), &name(id));
    let mut table = Grid::new(std::iter::once(Column::words("class", "gpu")).chain(columns.iter().map(column)));
    for gpu in &gpus {
        let cells = columns.iter().map(|to| if to == gpu { "-".to_owned() } else { machine.class(*gpu, *to).to_string() });
        table.push(std::iter::once(name(gpu)).chain(cells).map(Cell::word));
    }
    Some(table.named("classes"))
}

/// The NUMA domain from which a device is reached soonest.
pub fn nearest_domain(machine: &Machine, id: VertexId) -> Option<VertexId> {
    let paths = machine.numas().into_iter().filter_map(|numa| machine.path(numa, id, Purpose::Dma));
    let nearest = paths.min_by_key(|path| (path.latency(machine), path.steps.len()))?;
    nearest.rate(machine, Access::Write).as_bps().gt(&0).then_some(nearest.from)
}

/// The first of several names.
pub fn some(names: &[&str], most: usize) -> String {
    let shown = names.iter().take(most).copied().collect::<Vec<_>>().join(", ");
    if names.len() > most { format!("{shown}, …") } else { shown }
}

const MOST_NAMES: usize = 4;
/// A wider table is not read.
const MOST_COLUMNS: usize = 40;
