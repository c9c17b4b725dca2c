//! What points of a study run on: the catalogue with numbers changed, and clusters wired once for many points.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use fabriscope_catalog::{Alteration, Catalog, CatalogError, ResolvedCluster};
use fabriscope_engine::Cluster;

use crate::key::Key;

/// Catalogues and clusters that points share.
pub struct Machines {
    catalog: Catalog,
    /// The catalogue with numbers changed, made when first asked for.
    altered: Mutex<BTreeMap<String, Arc<Altered>>>,
    /// Clusters that many points run on; the last few.
    wired: Mutex<Vec<(Key, Arc<Cluster>)>>,
}

/// A catalogue with numbers changed, made by whoever asks first.
type Altered = OnceLock<Result<Arc<Catalog>, CatalogError>>;

/// A number of a part that has another value.
#[derive(Debug, Clone, PartialEq)]
pub struct Changed {
    pub alteration: Alteration,
}

impl Changed {
    /// What tells it from others.
    pub fn name(&self) -> String {
        let Alteration { kind, part, field, value, .. } = &self.alteration;
        format!("{}/{part}.{field}={value}", kind.folder())
    }
}

impl Machines {
    /// Those of a catalogue.
    pub fn new(catalog: &Catalog) -> Machines {
        Machines { catalog: catalog.clone(), altered: Mutex::default(), wired: Mutex::default() }
    }

    /// The catalogue as it is.
    pub fn plain(&self) -> &Catalog {
        &self.catalog
    }

    /// The catalogue with these numbers changed.
    pub fn catalog(&self, changed: &[Changed]) -> Result<Arc<Catalog>, CatalogError> {
        let name = changed.iter().map(Changed::name).collect::<Vec<_>>().join(";");
        let place = {
            let mut altered = self.altered.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(altered.entry(name).or_default())
        };
        let made = place.get_or_init(|| {
            let alterations: Vec<_> = changed.iter().map(|changed| changed.alteration.clone()).collect();
            self.catalog.altered(&alterations).map(Arc::new)
        });
        made.clone()
    }

    /// The cluster of these parts, wired; several points share it.
    pub fn wired(&self, parts: &ResolvedCluster) -> Option<Arc<Cluster>> {
        let key = Key::of(parts);
        let find = |wired: &[(Key, Arc<Cluster>)]| wired.iter().find(|(known, _)| *known == key).map(|(_, cluster)| Arc::clone(cluster));
        if let Some(cluster) = find(&self.wired.lock().unwrap_or_else(PoisonError::into_inner)) {
            return Some(cluster);
        }
        // Two points may wire the same one at the same time, with the same result.
        let cluster = Arc::new(Cluster::new(parts.clone()).ok()?);
        let mut wired = self.wired.lock().unwrap_or_else(PoisonError::into_inner);
        if wired.len() >= SHARED {
            wired.remove(0);
        }
        wired.push((key, Arc::clone(&cluster)));
        Some(cluster)
    }
}

/// Wired clusters that are held at a time. Basis: assumed; as many as cores of a workstation run side by side would mostly share one.
const SHARED: usize = 4;
