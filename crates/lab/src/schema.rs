//! The JSON schema of lab files, for editors that complete and check while one types.

use fabriscope_catalog::{Kind, add_base, part_schema, property, require_unless};
use schemars::SchemaGenerator;
use serde_json::{Value, json};

use crate::lab::Lab;

/// The schema of lab files.
pub fn lab_schema() -> Value {
    let mut schema = SchemaGenerator::default().into_root_schema_for::<Lab>().to_value();
    // What the loader takes out before the types see it.
    property(
        &mut schema,
        "include",
        json!({
            "type": "array", "items": { "type": "string" },
            "description": "Other TOML files whose tables lie under this one, as seen from this file."
        }),
    );
    // An included file may hold any of the keys.
    require_unless(&mut schema, "include");
    if let Some(cluster) = schema.pointer_mut("/$defs/Cluster") {
        add_base(cluster);
    }
    schema
}

/// All schemas with the names of their files.
pub fn schemas() -> Vec<(String, Value)> {
    let parts = Kind::ALL.into_iter().map(|kind| (format!("{}.schema.json", kind.folder()), part_schema(kind)));
    parts.chain([("labs.schema.json".to_owned(), lab_schema())]).collect()
}
