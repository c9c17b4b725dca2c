//! JSON schemas of the files of parts, for editors that complete and check while one types.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::cluster::Cluster;
use crate::part::{
    Cable, Congestion, Cpu, Decisions, Drive, FileSystem, Gpu, Interconnect, Kernel, Kind, LinkSpeed, Manager, Model, Nic, NodeFiles,
    NodePart, Pcie, PowerFigures, Software, Switch,
};

/// The schema of the files of one kind.
pub fn part_schema(kind: Kind) -> Value {
    match kind {
        Kind::Link => with_base::<LinkSpeed>(),
        Kind::Cable => with_base::<Cable>(),
        Kind::Nic => with_base::<Nic>(),
        Kind::Switch => with_base::<Switch>(),
        Kind::Cpu => with_base::<Cpu>(),
        Kind::Gpu => with_base::<Gpu>(),
        Kind::Interconnect => with_base::<Interconnect>(),
        Kind::Node => with_base::<NodePart>(),
        Kind::NodeFiles => with_base::<NodeFiles>(),
        Kind::Pcie => with_base::<Pcie>(),
        Kind::Software => with_base::<Software>(),
        Kind::Decisions => with_base::<Decisions>(),
        Kind::Congestion => with_base::<Congestion>(),
        Kind::Manager => with_base::<Manager>(),
        Kind::Kernel => with_base::<Kernel>(),
        Kind::Model => with_base::<Model>(),
        Kind::Drive => with_base::<Drive>(),
        Kind::FileSystem => with_base::<FileSystem>(),
        Kind::Power => with_base::<PowerFigures>(),
        Kind::Cluster => with_base::<Cluster>(),
    }
}

fn with_base<T: JsonSchema>() -> Value {
    let mut schema: Value = Schema::to_value(SchemaGenerator::default().into_root_schema_for::<T>());
    add_base(&mut schema);
    schema
}

/// Adds the key `base` to the schema of a part.
pub fn add_base(schema: &mut Value) {
    property(
        schema,
        "base",
        json!({
            "type": "string",
            "description": "Another part of the same kind that this one rests on: only what differs is written here."
        }),
    );
    require_unless(schema, "base");
}

/// Adds a property to the schema of a table.
pub fn property(schema: &mut Value, key: &str, of: Value) {
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.insert(key.to_owned(), of);
    }
}

/// The required keys are required only where `key` is absent; the name always is.
pub fn require_unless(schema: &mut Value, key: &str) {
    let Value::Object(table) = schema else { return };
    let Some(required) = table.remove("required") else { return };
    let mut condition = Map::new();
    condition.insert("not".to_owned(), json!({ "required": [key] }));
    table.insert("if".to_owned(), Value::Object(condition));
    table.insert("then".to_owned(), json!({ "required": required }));
}
